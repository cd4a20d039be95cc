//! The form of the server that is made of routes: picoserve behind the same
//! guard as the other forms.
//!
//! ```text
//! bytes in → intake (a whole request, checked) → exchange (picoserve) → bytes out
//!            └── what cannot be one: session, which refuses it
//! ```
//!
//! picoserve routes requests, takes them apart and puts answers together. It is
//! lax about what a request is: it knows no chunked bodies, answers 400 where
//! there is a better word, and believes whichever length comes first. So
//! [`intake`] reads requests by the rules of the other forms, and picoserve sees
//! only what passed, rewritten plainly.
//!
//! While a connection waits for a request it holds little more than in the other
//! forms: its task takes 1.3 KiB, its input 1 KiB. What picoserve needs, 16 KiB
//! and twice the request, is allocated for one request and its answer; so events
//! and WebSockets keep it.

mod budget;
mod echo;
mod exchange;
mod head;
mod intake;
mod pages;
mod segment;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use firstpoll::arch::now;
use firstpoll::time::{Duration, Elapsed, timeout, timeout_at};
use picoserve::io;
use picoserve::routing::{PathRouter, Router};

use self::budget::Budget;
use self::exchange::{After, answer};
use self::intake::{Intake, Need};
use crate::answer::{Answer, CONTINUE, Pages, Status};
use crate::serve::{ByteStream, serve};
use crate::session::Session;

/// A byte stream that can be read and written at the same time.
pub trait SplitStream: ByteStream<Error: io::Error + 'static> {
    /// The half that reads.
    type ReadHalf<'a>: io::Read<Error = Self::Error>
    where
        Self: 'a;

    /// The half that writes. What is written needs no flushing.
    type WriteHalf<'a>: io::BaseWrite<Error = Self::Error>
    where
        Self: 'a;

    /// The two halves.
    fn split(&mut self) -> (Self::ReadHalf<'_>, Self::WriteHalf<'_>);
}

/// A router, and what its connections share.
pub struct Routes<P: PathRouter> {
    router: Router<P>,
    bodies: Budget,
}

impl<P: PathRouter> fmt::Debug for Routes<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").finish_non_exhaustive()
    }
}

/// The routes:
///
/// | path | methods | answer |
/// |---|---|---|
/// | `/` | GET | a page that tries all others; `/page.js` and `/page.css` belong to it |
/// | `/hello` | GET | the greeting of the other forms |
/// | `/stats` | GET | the counters of `pages` |
/// | `/json` | GET | what is running, as JSON |
/// | `/json` | POST | the sum of `{"name": …, "values": […]}`, as JSON |
/// | `/query?name=…` | GET | a greeting for that name |
/// | `/stream` | GET | eight lines, each when it is ready |
/// | `/events` | GET | server-sent events: a count, five times a second |
/// | `/echo` | GET | a WebSocket that returns its messages |
///
/// What answers GET answers HEAD.
pub fn routes(pages: impl Pages + 'static) -> Routes<impl PathRouter> {
    Routes {
        router: pages::router(pages),
        bodies: Budget::new(),
    }
}

/// Serves one connection by `routes`.
///
/// `patience` is how long a request may take to arrive, counted from the last
/// answer, and a piece of an answer to leave.
///
/// # Errors
///
/// If the stream broke.
pub async fn serve_routes<S: SplitStream, P: PathRouter>(
    mut stream: S,
    routes: &Routes<P>,
    pages: &impl Pages,
    patience: Duration,
) -> Result<(), S::Error> {
    let mut intake = Intake::new(&routes.bodies);
    let mut deadline = now() + patience;
    loop {
        let refusal = match intake.next() {
            Need::Input(buffer) => match timeout_at(deadline, stream.read(buffer)).await {
                Ok(count) => match count? {
                    // A request that was cut short has nobody who waits for its
                    // answer.
                    0 => break,
                    count => {
                        intake.received(count);
                        continue;
                    }
                },
                Err(Elapsed) if intake.is_idle() => break,
                Err(Elapsed) => Answer::last(Status::RequestTimeout),
            },
            Need::Leave => {
                let leave = stream.write_all(CONTINUE.as_bytes());
                let Ok(result) = timeout(patience, leave).await else {
                    return Ok(());
                };
                result?;
                continue;
            }
            Need::Refusal(answer) => answer,
            Need::Router(request) => {
                let mut buffer = Vec::new();
                if buffer.try_reserve_exact(request.len()).is_err() {
                    Answer::last(Status::ServiceUnavailable)
                } else {
                    buffer.resize(request.len(), 0);
                    let rest = intake.rest();
                    let router = &routes.router;
                    let answer = answer(&mut stream, &request, rest, router, &mut buffer, patience);
                    // In a box, so that an idle connection is without it.
                    match Box::pin(answer).await? {
                        After::Request => {
                            deadline = now() + patience;
                            continue;
                        }
                        After::End => break,
                        After::Nothing => return Ok(()),
                    }
                }
            }
        };
        return serve(stream, Session::answering(refusal), pages, patience).await;
    }
    stream.shutdown().await
}
