//! Monotonic time: instants, sleeps, timeouts, intervals.
//!
//! ```text
//! timer interrupt → expiry task (interrupt-safe) → timer queue → wakers
//! ```
//!
//! There is no tick. The timer queue of a core programs its deadline slot for
//! the earliest sleep; the interrupt wakes the expiry task, which wakes whoever
//! is due. Being interrupt-safe, that task runs while the program computes.
//!
//! Time comes from the core's monotonic clock alone, so steps of the wall clock,
//! which [`wall_clock`] reads, change nothing.

#![deny(unsafe_code)]

mod expiry;
mod interval;
mod sleep;
mod timeout;
mod timer_queue;
mod wall_clock;

pub use core::time::Duration;

pub use crate::arch::Instant;
pub(crate) use expiry::{on_deadline, start};
pub use interval::{Interval, interval};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Elapsed, timeout, timeout_at, timeout_by};
pub use wall_clock::wall_clock;
