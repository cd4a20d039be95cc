//! Ticks at a fixed rate.

use core::time::Duration;

use super::sleep::sleep_until;
use crate::arch::{self, Instant};

/// An endless series of ticks, the first of them now, then one every `period`.
///
/// # Panics
///
/// Panics if `period` is zero.
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval's period must not be zero");
    Interval {
        next: arch::now(),
        period,
    }
}

/// The series of ticks that [`interval`] makes.
///
/// Ticks keep to the times at which they were due at the start, so they do not
/// drift. Ticks that nobody waited for are made up for one after another.
#[derive(Debug)]
pub struct Interval {
    next: Instant,
    period: Duration,
}

impl Interval {
    /// Waits for the next tick; returns when it was due.
    ///
    /// Cancel-safe: a tick that was not returned is the next one still.
    pub async fn tick(&mut self) -> Instant {
        let due = self.next;
        sleep_until(due).await;
        self.next = due + self.period;
        due
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }
}
