//! The executor: ready first, with a deferral that nothing starves.
//!
//! The contract stands in the docs of [`block_on`]. Where it is kept:
//!
//! | file | what it holds |
//! |---|---|
//! | `block_on` | the order: the future first, then passes, then the halt |
//! | `pass` | one poll of everything that is ready |
//! | `park` | the halt, and how a wake ends it |
//! | `deferral` | the invariant that keeps the timer armed, the bottom half |
//! | `run_queue` | ready tasks, linked through themselves |
//! | `task` | spawn, join, cancel |
//! | `waker` | the blocked future's waker |
//! | `attention` | the one word that the ready path looks at |
//! | `per_core` | a core's state |

#![deny(unsafe_code)]
// The models drive the parts below `block_on`.
#![cfg_attr(firstpoll_loom, allow(dead_code))]

use core::time::Duration;

mod attention;
#[cfg(not(firstpoll_loom))]
mod block_on;
mod deferral;
mod misuse;
#[cfg(all(test, firstpoll_loom))]
mod model;
mod park;
mod pass;
mod per_core;
mod run_queue;
mod stats;
#[cfg(not(firstpoll_loom))]
mod task;
mod waker;

#[cfg(not(firstpoll_loom))]
pub use block_on::{Blocked, block_on, blocking, pass};
pub use park::Park;
#[cfg(not(firstpoll_loom))]
pub use park::park;
pub use pass::{Pass, Work};
#[cfg(not(firstpoll_loom))]
pub use stats::stats;
pub use stats::{Lateness, Stats};
#[cfg(not(firstpoll_loom))]
pub use task::{JoinHandle, YieldNow, current_task, spawn, spawn_interrupt_safe, yield_now};
pub use waker::MAX_NESTING;

/// The most polls of one pass in `block_on` and in the bottom half.
pub const DEFAULT_BUDGET: usize = 64;

/// The deferral bound D, unless [`set_deferral_bound`] changes it.
pub const DEFERRAL_BOUND: Duration = Duration::from_millis(1);

/// Sets the calling core's deferral bound D for what is woken from now on.
#[cfg(not(firstpoll_loom))]
pub fn set_deferral_bound(bound: Duration) {
    use crate::sync::atomic::Ordering::Relaxed;
    let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    per_core::Core::current().bound_ns.store(nanos, Relaxed);
}

/// What the runtime registers for the arch to call.
#[cfg(not(firstpoll_loom))]
pub(crate) mod interrupt {
    use super::attention::IN_INTERRUPT;
    use super::per_core::Core;
    use super::task::Task;
    use crate::arch::Due;

    /// Before an interrupt's own handler.
    pub(crate) fn enter() -> u32 {
        Core::current().attention.set(IN_INTERRUPT)
    }

    /// After an interrupt's own handler, with what [`enter`] returned.
    pub(crate) fn leave(attention: u32) {
        if attention & IN_INTERRUPT == 0 {
            Core::current().attention.clear(IN_INTERRUPT);
        }
    }

    /// The timer interrupt; whether the bottom half shall run.
    pub(crate) fn timer(due: Due) -> bool {
        Core::current().on_timer(due)
    }

    /// The bottom half.
    pub(crate) fn bottom_half() {
        Core::current().bottom_half::<Task>();
    }
}
