//! async-io's timers, which a thread of its own may expire, under its own
//! `block_on`.

use std::time::{Duration, Instant};

use ::async_io::Timer;

use crate::system::{BlockOn, System, Timers};

pub(crate) struct AsyncIo;

impl System for AsyncIo {
    fn new() -> Self {
        Self
    }
}

impl BlockOn for AsyncIo {
    #[inline]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        ::async_io::block_on(future)
    }
}

impl Timers for AsyncIo {
    type Instant = Instant;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, start: Instant, offset: Duration) -> impl Future<Output = ()> {
        let timer = Timer::at(start + offset);
        async {
            timer.await;
        }
    }
}
