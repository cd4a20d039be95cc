//! The `block_on`s, behind one match.

use std::future::Future;
use std::io;

use anyhow::{Result, bail};
use tokio::runtime::{Builder, Runtime};

use crate::options::ExecutorKind;

/// A `block_on`, with what it needs to be kept.
#[derive(Debug)]
pub enum Executor {
    Futures,
    FuturesLite,
    Pollster,
    AsyncIo,
    TokioCurrent(Runtime),
    TokioMulti(Runtime),
    TokioHandle(Runtime),
    Firstpoll,
}

impl Executor {
    /// Starts what `kind` needs, for the calling thread.
    ///
    /// # Errors
    ///
    /// If there is no such `block_on`, or its runtime does not start.
    pub fn new(kind: ExecutorKind, workers: usize) -> Result<Self> {
        Ok(match kind {
            ExecutorKind::None => bail!("the executor `none` has no block_on"),
            ExecutorKind::Futures => Self::Futures,
            ExecutorKind::FuturesLite => Self::FuturesLite,
            ExecutorKind::Pollster => Self::Pollster,
            ExecutorKind::AsyncIo => Self::AsyncIo,
            ExecutorKind::TokioCurrent => {
                Self::TokioCurrent(Builder::new_current_thread().enable_time().build()?)
            }
            ExecutorKind::TokioMulti => Self::TokioMulti(multi_thread(workers)?),
            ExecutorKind::TokioHandle => Self::TokioHandle(multi_thread(workers)?),
            ExecutorKind::Firstpoll => {
                firstpoll::runtime::init();
                Self::Firstpoll
            }
        })
    }

    /// Runs `future` to its end.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Futures => futures::executor::block_on(future),
            Self::FuturesLite => futures_lite::future::block_on(future),
            Self::Pollster => pollster::block_on(future),
            Self::AsyncIo => async_io::block_on(future),
            Self::TokioCurrent(runtime) | Self::TokioMulti(runtime) => runtime.block_on(future),
            Self::TokioHandle(runtime) => runtime.handle().block_on(future),
            Self::Firstpoll => firstpoll::block_on(future),
        }
    }
}

/// tokio's multi-thread runtime.
///
/// # Errors
///
/// If its threads do not start.
pub fn multi_thread(workers: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_time()
        .build()
}
