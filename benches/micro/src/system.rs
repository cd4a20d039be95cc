//! What a case asks of a system.

use std::time::Duration;

use crate::cases::Gate;

/// A system, set up for the calling thread.
pub(crate) trait System {
    fn new() -> Self;
}

/// Runs a future to its end on the calling thread.
pub(crate) trait BlockOn: System {
    fn block_on<F: Future>(&self, future: F) -> F::Output;
}

/// Runs tasks.
pub(crate) trait Tasks: System {
    /// Spawns a task that runs on its own.
    fn spawn_detached(&self, future: impl Future<Output = ()> + Send + 'static);

    /// Runs tasks until `gate` is open.
    fn run_until(&self, gate: &Gate);
}

/// Spawns tasks that can be waited for.
pub(crate) trait Spawn: BlockOn {
    fn spawn<F>(&self, future: F) -> impl Future<Output = F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;
}

/// Sleeps.
pub(crate) trait Timers: BlockOn {
    type Instant: Copy;

    fn now(&self) -> Self::Instant;

    /// A sleep until `offset` after `start`.
    fn sleep(&self, start: Self::Instant, offset: Duration) -> impl Future<Output = ()>;
}
