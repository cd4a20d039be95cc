//! firstpoll on its host stand-in, whose clock is the host's.

use std::time::Duration;

use firstpoll::runtime;
use firstpoll::time::{Instant, sleep_until};

use crate::cases::Gate;
use crate::system::{BlockOn, Spawn, System, Tasks, Timers};

pub(crate) struct Firstpoll;

impl System for Firstpoll {
    fn new() -> Self {
        runtime::init();
        firstpoll::block_on(firstpoll::yield_now()); // Its own tasks' first poll.
        Self
    }
}

impl BlockOn for Firstpoll {
    #[inline]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        firstpoll::block_on(future)
    }
}

impl Spawn for Firstpoll {
    #[inline]
    fn spawn<F>(&self, future: F) -> impl Future<Output = F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        firstpoll::spawn(future)
    }
}

impl Tasks for Firstpoll {
    fn spawn_detached(&self, future: impl Future<Output = ()> + Send + 'static) {
        firstpoll::spawn(future).detach();
    }

    fn run_until(&self, gate: &Gate) {
        super::block_on_gate(self, gate);
    }
}

impl Timers for Firstpoll {
    type Instant = Instant;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, start: Instant, offset: Duration) -> impl Future<Output = ()> {
        sleep_until(start + offset)
    }
}
