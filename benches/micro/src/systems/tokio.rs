//! tokio's two runtimes.

use std::marker::PhantomData;
use std::time::Duration;

use ::tokio::runtime::{Builder, Runtime};
use ::tokio::time::{Instant, sleep_until};

use crate::cases::Gate;
use crate::system::{BlockOn, Spawn, System, Tasks, Timers};

pub(crate) type CurrentThread = Tokio<OneThread>;
/// As many workers as the machine has processors, which is tokio's default.
pub(crate) type MultiThread = Tokio<Workers>;
/// The clock costs a little, so the cases without timers go without it.
pub(crate) type CurrentThreadWithTime = Tokio<OneThreadWithTime>;

pub(crate) struct Tokio<K> {
    runtime: Runtime,
    _kind: PhantomData<K>,
}

pub(crate) trait Kind {
    fn builder() -> Builder;
}

pub(crate) struct OneThread;
pub(crate) struct Workers;
pub(crate) struct OneThreadWithTime;

impl Kind for OneThread {
    fn builder() -> Builder {
        Builder::new_current_thread()
    }
}

impl Kind for Workers {
    fn builder() -> Builder {
        Builder::new_multi_thread()
    }
}

impl Kind for OneThreadWithTime {
    fn builder() -> Builder {
        let mut builder = Builder::new_current_thread();
        builder.enable_time();
        builder
    }
}

impl<K: Kind> System for Tokio<K> {
    fn new() -> Self {
        Self {
            runtime: K::builder().build().expect("threads can be started"),
            _kind: PhantomData,
        }
    }
}

impl<K: Kind> BlockOn for Tokio<K> {
    #[inline]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

impl<K: Kind> Spawn for Tokio<K> {
    #[inline]
    fn spawn<F>(&self, future: F) -> impl Future<Output = F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let handle = self.runtime.spawn(future);
        async { handle.await.expect("the task does not panic") }
    }
}

impl<K: Kind> Tasks for Tokio<K> {
    fn spawn_detached(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(future);
    }

    fn run_until(&self, gate: &Gate) {
        super::block_on_gate(self, gate);
    }
}

impl Timers for CurrentThreadWithTime {
    type Instant = Instant;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, start: Instant, offset: Duration) -> impl Future<Output = ()> {
        let _runtime = self.runtime.enter();
        sleep_until(start + offset)
    }
}
