//! futures-timer, which expires its timers in a thread of its own, under
//! futures' `block_on`.

use std::time::{Duration, Instant};

use ::futures_timer::Delay;

use crate::system::{BlockOn, System, Timers};

pub(crate) struct FuturesTimer;

impl System for FuturesTimer {
    fn new() -> Self {
        Self
    }
}

impl BlockOn for FuturesTimer {
    #[inline]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        ::futures::executor::block_on(future)
    }
}

impl Timers for FuturesTimer {
    type Instant = Instant;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, start: Instant, offset: Duration) -> impl Future<Output = ()> {
        Delay::new((start + offset).saturating_duration_since(Instant::now()))
    }
}
