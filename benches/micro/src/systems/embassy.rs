//! embassy-executor, by its raw executor: the one for std wants to own the
//! thread and runs once.
//!
//! It has no `block_on` and no join. Its timers are left out: `embassy-time`
//! keeps one deadline per task, so that 100,000 are 100,000 tasks, and dropping
//! a timer takes no deadline out.

use std::ptr;

use embassy_executor::raw::{Executor, TaskStorage};

use crate::cases::Gate;
use crate::system::{System, Tasks};

/// What the executor calls when it has work: nothing to do, since it is polled
/// until the gate is open.
#[unsafe(export_name = "__pender")]
fn pend(_: *mut ()) {}

pub(crate) struct Embassy {
    executor: &'static Executor,
}

impl System for Embassy {
    fn new() -> Self {
        Self {
            executor: Box::leak(Box::new(Executor::new(ptr::null_mut()))),
        }
    }
}

impl Tasks for Embassy {
    /// A task's storage has to live for ever; it is leaked.
    fn spawn_detached(&self, future: impl Future<Output = ()> + Send + 'static) {
        let storage = Box::leak(Box::new(TaskStorage::new()));
        let task = storage.spawn(|| future).expect("the storage is new");
        self.executor.spawner().spawn(task);
    }

    fn run_until(&self, gate: &Gate) {
        while !gate.is_open() {
            // SAFETY: not reentrant: tasks do not get at the executor, and
            // `pend` does not call it.
            unsafe { self.executor.poll() };
        }
    }
}
