//! Two forms of the server around one session.

use core::error::Error;

use firstpoll::arch::now;
use firstpoll::time::{Duration, Elapsed, sleep, timeout_by};

use crate::answer::Pages;
use crate::session::{Session, Step};

/// Where a connection's bytes come from and go to.
pub trait ByteStream {
    /// Why it broke.
    type Error: Error;

    /// Reads some bytes into `buffer`, at least one; 0 is the end of the stream.
    ///
    /// If the future is dropped, nothing is lost.
    fn read(&mut self, buffer: &mut [u8]) -> impl Future<Output = Result<usize, Self::Error>>;

    /// Writes all of `bytes`.
    fn write_all(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), Self::Error>>;

    /// Sends the end of the stream; reading goes on.
    fn shutdown(&mut self) -> impl Future<Output = Result<(), Self::Error>>;
}

/// What waits for a future's end: a `block_on`, of which there can be others
/// than the kernel's.
pub trait BlockOn {
    /// Runs `future` to its end.
    fn block_on<F: Future>(&self, future: F) -> F::Output;
}

/// The kernel's own [`block_on`](firstpoll::block_on).
#[derive(Clone, Copy, Debug)]
pub struct ReadyFirst;

impl BlockOn for ReadyFirst {
    #[inline]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        firstpoll::block_on(future)
    }
}

/// Serves one connection: a future, for a task of its own.
///
/// `patience` is how long a request may take to arrive, counted from the last
/// answer, and an answer to leave.
///
/// # Errors
///
/// If the stream broke.
pub async fn serve<S: ByteStream>(
    mut stream: S,
    mut session: Session,
    pages: &impl Pages,
    patience: Duration,
) -> Result<(), S::Error> {
    let mut limit = sleep(patience);
    loop {
        match session.step(pages) {
            Step::Read(buffer) => match timeout_by(&mut limit, stream.read(buffer)).await {
                Ok(count) => session.received(count?),
                Err(Elapsed) => session.timed_out(),
            },
            Step::Write(bytes) => {
                limit.reset(now() + patience);
                let Ok(result) = timeout_by(&mut limit, stream.write_all(bytes)).await else {
                    return Ok(());
                };
                result?;
                session.written();
                limit.reset(now() + patience);
            }
            Step::ShutDown => {
                stream.shutdown().await?;
                session.shut_down();
            }
            Step::Close => return Ok(()),
        }
    }
}

/// Serves one connection to its end, with a call of `executor` for every
/// operation.
///
/// The same steps as [`serve`], so that the cost of `block_on` is all that
/// differs.
///
/// # Errors
///
/// If the stream broke.
pub fn serve_blocking<S: ByteStream>(
    executor: impl BlockOn,
    mut stream: S,
    mut session: Session,
    pages: &impl Pages,
    patience: Duration,
) -> Result<(), S::Error> {
    let mut limit = sleep(patience);
    loop {
        match session.step(pages) {
            Step::Read(buffer) => {
                match executor.block_on(timeout_by(&mut limit, stream.read(buffer))) {
                    Ok(count) => session.received(count?),
                    Err(Elapsed) => session.timed_out(),
                }
            }
            Step::Write(bytes) => {
                limit.reset(now() + patience);
                let writing = timeout_by(&mut limit, stream.write_all(bytes));
                let Ok(result) = executor.block_on(writing) else {
                    return Ok(());
                };
                result?;
                session.written();
                limit.reset(now() + patience);
            }
            Step::ShutDown => {
                executor.block_on(stream.shutdown())?;
                session.shut_down();
            }
            Step::Close => return Ok(()),
        }
    }
}
