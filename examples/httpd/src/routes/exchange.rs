//! One request and its answer, by picoserve.

use core::cell::Cell;

use firstpoll::time::sleep;
use picoserve::io::{self, BaseWrite, ErrorType, Read};
use picoserve::mem::BorrowedCursor;
use picoserve::routing::{PathRouter, Router};
use picoserve::time::Duration;
use picoserve::{Config, Error, KeepAlive, Server, Timeouts, Timer};

use super::SplitStream;
use super::head::AnswerHead;
use super::intake::Message;
use super::segment::Segment;

/// A request is complete when picoserve sees it.
const NEVER: Duration = Duration::from_millis(u64::MAX);

/// What follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The next request.
    Request,
    /// The end of the stream.
    End,
    /// Nothing: the client did not take the answer.
    Nothing,
}

/// The parts of the input that picoserve has not read: head and body of the
/// request, and what came after it.
type Unread<'a> = [&'a [u8]; 3];

/// Has a request answered by `router`.
///
/// `rest` is what came after the request on `stream`, and `buffer` is as long
/// as the request.
///
/// # Errors
///
/// If the stream broke.
pub(super) async fn answer<S: SplitStream, P: PathRouter>(
    stream: &mut S,
    request: &Message<'_>,
    rest: &[u8],
    router: &Router<P>,
    buffer: &mut [u8],
    patience: core::time::Duration,
) -> Result<After, S::Error> {
    let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    let config = Config {
        timeouts: Timeouts {
            start_read_request: NEVER,
            persistent_start_read_request: NEVER,
            read_request: NEVER,
            write: Duration::from_millis(patience),
        },
        connection: KeepAlive::KeepAlive,
    };
    let [head, body] = request.parts();
    let keeps_open = Cell::new(false);
    // Not in the socket, which is moved a few times.
    let mut segment = Segment::new();
    let socket = Socket {
        stream,
        request: [head, body, rest],
        segment: &mut segment,
        head: AnswerHead::default(),
        keeps_open: &keeps_open,
    };
    let served = Server::custom(router, Clock, &config, buffer).serve(socket);
    match served.await {
        Ok(_) if keeps_open.get() => Ok(After::Request),
        Ok(_) => Ok(After::End),
        Err(Error::Read(error) | Error::Write(error)) => Err(error),
        // What the intake lets through is no bad request.
        Err(Error::BadRequest) => Ok(After::End),
        Err(Error::ReadTimeout(_) | Error::WriteTimeout(_)) => Ok(After::Nothing),
    }
}

/// The kernel's time, for picoserve.
struct Clock;

/// Names the kernel to picoserve as what runs it.
struct Kernel;

impl Timer<Kernel> for Clock {
    /// Reads the clock only when it is first polled: what is ready at once
    /// needs no deadline.
    async fn delay(&self, duration: Duration) {
        sleep(core::time::Duration::from_millis(duration.as_millis())).await;
    }
}

/// A connection as picoserve has it: one request is read from it, and the
/// answer leaves in as few segments as it can.
struct Socket<'a, S> {
    stream: &'a mut S,
    request: Unread<'a>,
    segment: &'a mut Segment,
    head: AnswerHead,
    /// Whether the answer has said that the connection stays open.
    keeps_open: &'a Cell<bool>,
}

impl<'s, S: SplitStream> io::Socket<Kernel> for Socket<'s, S> {
    type Error = S::Error;
    type ReadHalf<'a>
        = Reader<'a, 's, S>
    where
        Self: 'a;
    type WriteHalf<'a>
        = Writer<'a, S>
    where
        Self: 'a;

    fn split(&mut self) -> (Self::ReadHalf<'_>, Self::WriteHalf<'_>) {
        let (reading, writing) = self.stream.split();
        let reader = Reader {
            stream: reading,
            request: &mut self.request,
            keeps_open: self.keeps_open,
        };
        let writer = Writer {
            stream: writing,
            segment: self.segment,
            head: &mut self.head,
            keeps_open: self.keeps_open,
        };
        (reader, writer)
    }

    async fn abort<T: Timer<Kernel>>(
        self,
        _timeouts: &Timeouts,
        _timer: &T,
    ) -> Result<(), Error<S::Error>> {
        self.keeps_open.set(false);
        Ok(())
    }

    /// Sends what is left of the answer. The stream stays.
    async fn shutdown<T: Timer<Kernel>>(
        self,
        timeouts: &Timeouts,
        timer: &T,
    ) -> Result<(), Error<S::Error>> {
        if self.segment.is_empty() {
            return Ok(());
        }
        let written = self.stream.write_all(self.segment.bytes());
        timer
            .run_with_timeout(timeouts.write, written)
            .await
            .map_err(Error::WriteTimeout)?
            .map_err(Error::Write)
    }
}

/// Reads the request.
///
/// What comes after it belongs to the next, and is the end of the stream for
/// picoserve, unless the answer has said that none will be served: then it is a
/// WebSocket's, or only its end matters.
struct Reader<'a, 's, S: SplitStream + 'a> {
    stream: S::ReadHalf<'a>,
    request: &'a mut Unread<'s>,
    keeps_open: &'a Cell<bool>,
}

impl<'a, S: SplitStream + 'a> ErrorType for Reader<'a, '_, S> {
    type Error = S::Error;
}

impl<'a, S: SplitStream + 'a> Read for Reader<'a, '_, S> {
    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, S::Error> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let [head, body, rest] = self.request;
        let mut count = take(head, buffer);
        count += take(body, &mut buffer[count..]);
        if count > 0 || self.keeps_open.get() {
            return Ok(count);
        }
        match take(rest, buffer) {
            0 => self.stream.read(buffer).await,
            count => Ok(count),
        }
    }
}

/// Moves bytes from the front of `source` to that of `buffer`; returns how
/// many.
fn take(source: &mut &[u8], buffer: &mut [u8]) -> usize {
    let count = source.len().min(buffer.len());
    let (taken, left) = source.split_at(count);
    buffer[..count].copy_from_slice(taken);
    *source = left;
    count
}

/// Writes the answer.
struct Writer<'a, S: SplitStream + 'a> {
    stream: S::WriteHalf<'a>,
    segment: &'a mut Segment,
    head: &'a mut AnswerHead,
    keeps_open: &'a Cell<bool>,
}

impl<'a, S: SplitStream + 'a> Writer<'a, S> {
    async fn send(&mut self) -> Result<(), S::Error> {
        self.stream.write_all(self.segment.bytes()).await?;
        self.segment.clear();
        Ok(())
    }

    async fn make_room(&mut self) -> Result<(), S::Error> {
        if self.segment.is_full() {
            self.send().await?;
        }
        Ok(())
    }
}

impl<'a, S: SplitStream + 'a> ErrorType for Writer<'a, S> {
    type Error = S::Error;
}

impl<'a, S: SplitStream + 'a> BaseWrite for Writer<'a, S> {
    async fn write(&mut self, data: &[u8]) -> Result<usize, S::Error> {
        self.make_room().await?;
        let pushed = self.segment.push(data);
        self.head.pass(pushed);
        self.keeps_open.set(self.head.keeps_open());
        Ok(pushed.len())
    }

    /// A head whose content is known waits for it.
    async fn flush(&mut self) -> Result<(), S::Error> {
        if self.head.content_follows() {
            return Ok(());
        }
        self.send().await
    }
}

impl<'a, S: SplitStream + 'a> io::Write for Writer<'a, S> {
    async fn write_with<F: FnOnce(BorrowedCursor<'_>) -> R, R>(
        &mut self,
        f: F,
    ) -> Result<R, S::Error> {
        self.make_room().await?;
        let (pushed, result) = self.segment.push_with(|room| f(room.unfilled()));
        self.head.pass(pushed);
        self.keeps_open.set(self.head.keeps_open());
        Ok(result)
    }
}
