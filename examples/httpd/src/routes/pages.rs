//! What is where, and what it answers.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::convert::Infallible;

use firstpoll::arch::now;
use firstpoll::time::{Duration, interval, sleep};
use picoserve::ResponseSent;
use picoserve::extract::{FromRequestParts, JsonWithUnescapeBufferSize, Query};
use picoserve::io::{Read, Write};
use picoserve::request::RequestParts;
use picoserve::response::chunked::{ChunkWriter, ChunkedResponse, Chunks, ChunksWritten};
use picoserve::response::sse::{EventSource, EventWriter};
use picoserve::response::{
    Body, Connection, Content, EventStream, File, HeadersIter, IntoResponse, Json, Response,
    ResponseWriter, StatusCode, WebSocketUpgrade,
};
use picoserve::routing::{Layer, Next, PathRouter, Router, get, get_service};
use serde::{Deserialize, Serialize};

use super::echo::Echo;
use crate::answer::{GREETING, Pages};

const PAGE: File = File::html(include_str!("site/page.html"));
const SCRIPT: File = File::javascript(include_str!("site/page.js"));
const STYLE: File = File::css(include_str!("site/page.css"));

/// The pieces that `/stream` comes in, and the pause after each.
const PIECES: usize = 8;
const PIECE_PAUSE: Duration = Duration::from_millis(50);

/// How often `/events` tells the count.
const EVENT_PERIOD: Duration = Duration::from_millis(200);

/// What escapes in a JSON string may come to.
const MAX_UNESCAPED_BYTES: usize = 256;

/// Where everything is; see [`routes`](super::routes).
pub(super) fn router(pages: impl Pages + 'static) -> Router<impl PathRouter> {
    let start = now();
    let facts = async move || {
        Json(Facts {
            name: "firstpoll",
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: (now() - start).as_millis() as u64,
        })
    };
    let events = async || {
        // Only the end of the connection ends them.
        let events = EventStream(Counting).into_response();
        events.with_header("Connection", "close")
    };
    let echo = async |upgrade: WebSocketUpgrade| upgrade.on_upgrade(Echo);
    Router::new()
        .route("/", get_service(PAGE).layer(READ))
        .route("/page.js", get_service(SCRIPT).layer(READ))
        .route("/page.css", get_service(STYLE).layer(READ))
        .route("/hello", get(async || GREETING).layer(READ))
        .route(
            "/stats",
            get(async move || pages.stats().to_string()).layer(READ),
        )
        .route("/json", get(facts).post(add).layer(READ_AND_POST))
        .route("/query", get(greet).layer(READ))
        .route("/stream", get(stream).layer(READ))
        .route("/events", get(events).layer(READ))
        .route("/echo", get(echo).layer(READ))
}

#[derive(Serialize)]
struct Facts {
    name: &'static str,
    version: &'static str,
    uptime_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    name: String,
    values: Vec<i64>,
}

#[derive(Serialize)]
struct Sum {
    name: String,
    count: usize,
    sum: i64,
}

type JsonBody<T> = JsonWithUnescapeBufferSize<T, MAX_UNESCAPED_BYTES>;

async fn add(
    JsonWithUnescapeBufferSize(Values { name, values }): JsonBody<Values>,
) -> Result<Json<Sum>, (StatusCode, &'static str)> {
    let mut values_left = values.iter();
    match values_left.try_fold(0_i64, |sum, &value| sum.checked_add(value)) {
        Some(sum) => Ok(Json(Sum {
            name,
            count: values.len(),
            sum,
        })),
        None => Err((StatusCode::BAD_REQUEST, "The sum is too large.\n")),
    }
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

async fn greet(Query(Name { name }): Query<Name>) -> String {
    alloc::format!("Hello, {name}!\n")
}

/// Whether the client speaks HTTP/1.0, which has no chunks.
struct KnowsNoChunks(bool);

impl<'r, State> FromRequestParts<'r, State> for KnowsNoChunks {
    type Rejection = Infallible;

    async fn from_request_parts(
        _state: &'r State,
        parts: &RequestParts<'r>,
    ) -> Result<Self, Infallible> {
        Ok(Self(parts.http_version() == "HTTP/1.0"))
    }
}

async fn stream(KnowsNoChunks(in_one): KnowsNoChunks) -> Stream {
    if in_one {
        Stream::InOne
    } else {
        Stream::Chunked
    }
}

/// Lines that are sent one after the other.
enum Stream {
    /// Each as a chunk.
    Chunked,
    /// As content whose length is known before.
    InOne,
}

impl IntoResponse for Stream {
    async fn write_to<R: Read, W: ResponseWriter<Error = R::Error>>(
        self,
        connection: Connection<'_, R>,
        writer: W,
    ) -> Result<ResponseSent, W::Error> {
        match self {
            Self::Chunked => {
                ChunkedResponse::new(Lines)
                    .write_to(connection, writer)
                    .await
            }
            Self::InOne => Response::ok(Lines).write_to(connection, writer).await,
        }
    }
}

struct Lines;

impl Lines {
    fn line(index: usize) -> String {
        alloc::format!("line {} of {PIECES}\n", index + 1)
    }
}

impl Chunks for Lines {
    fn content_type(&self) -> &'static str {
        "text/plain; charset=utf-8"
    }

    async fn write_chunks<W: Write>(
        self,
        mut writer: ChunkWriter<W>,
    ) -> Result<ChunksWritten, W::Error> {
        for index in 0..PIECES {
            writer.write_chunk(Self::line(index).as_bytes()).await?;
            writer.flush().await?;
            sleep(PIECE_PAUSE).await;
        }
        writer.finalize().await
    }
}

impl Content for Lines {
    fn content_type(&self) -> &'static str {
        Chunks::content_type(self)
    }

    fn content_length(&self) -> usize {
        (0..PIECES).map(|index| Self::line(index).len()).sum()
    }

    async fn write_content<W: Write>(self, mut writer: W) -> Result<(), W::Error> {
        for index in 0..PIECES {
            writer.write_all(Self::line(index).as_bytes()).await?;
            writer.flush().await?;
            sleep(PIECE_PAUSE).await;
        }
        Ok(())
    }
}

/// Events of the type `count`: 1, 2, 3, …
struct Counting;

impl EventSource for Counting {
    async fn write_events<W: Write>(self, mut writer: EventWriter<'_, W>) -> Result<(), W::Error> {
        let mut ticks = interval(EVENT_PERIOD);
        for count in 1_u64.. {
            ticks.tick().await;
            writer.write_event("count", format_args!("{count}")).await?;
            writer.flush().await?;
        }
        Ok(())
    }
}

/// Names the methods of a route where another is refused (RFC 9110 §15.5.6).
struct Allow(&'static str);

const READ: Allow = Allow("GET, HEAD");
const READ_AND_POST: Allow = Allow("GET, HEAD, POST");

impl<State, PathParameters> Layer<State, PathParameters> for Allow {
    type NextState = State;
    type NextPathParameters = PathParameters;

    async fn call_layer<
        'a,
        R: Read + 'a,
        N: Next<'a, R, State, PathParameters>,
        W: ResponseWriter<Error = R::Error>,
    >(
        &self,
        next: N,
        state: &State,
        path_parameters: PathParameters,
        _parts: RequestParts<'_>,
        writer: W,
    ) -> Result<ResponseSent, W::Error> {
        let writer = Naming {
            methods: self.0,
            writer,
        };
        next.run(state, path_parameters, writer).await
    }
}

struct Naming<W> {
    methods: &'static str,
    writer: W,
}

impl<W: ResponseWriter> ResponseWriter for Naming<W> {
    type Error = W::Error;

    async fn write_response<R: Read<Error = W::Error>, H: HeadersIter, B: Body>(
        self,
        connection: Connection<'_, R>,
        response: Response<H, B>,
    ) -> Result<ResponseSent, W::Error> {
        let refused = response.status_code() == StatusCode::METHOD_NOT_ALLOWED;
        let allow = refused.then_some(("Allow", self.methods));
        self.writer
            .write_response(connection, response.with_headers(allow))
            .await
    }
}
