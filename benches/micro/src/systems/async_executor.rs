//! async-executor's executor for one thread, run by futures-lite's `block_on`.

use ::async_executor::LocalExecutor;
use ::futures_lite::future;

use crate::cases::Gate;
use crate::system::{BlockOn, Spawn, System, Tasks};

pub(crate) struct AsyncExecutor {
    executor: LocalExecutor<'static>,
}

impl System for AsyncExecutor {
    fn new() -> Self {
        Self {
            executor: LocalExecutor::new(),
        }
    }
}

impl BlockOn for AsyncExecutor {
    #[inline]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        future::block_on(self.executor.run(future))
    }
}

impl Spawn for AsyncExecutor {
    #[inline]
    fn spawn<F>(&self, future: F) -> impl Future<Output = F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.executor.spawn(future)
    }
}

impl Tasks for AsyncExecutor {
    fn spawn_detached(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(future).detach();
    }

    fn run_until(&self, gate: &Gate) {
        super::block_on_gate(self, gate);
    }
}
