//! Ticks at a fixed rate.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use futures_core::Stream;

use super::sleep::{Sleep, sleep_until};
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
        sleep: None,
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
    /// The wait for `next`, while the stream waits.
    sleep: Option<Sleep>,
}

impl Interval {
    /// Waits for the next tick; returns when it was due.
    ///
    /// Cancel-safe: a tick that was not returned is the next one still.
    pub async fn tick(&mut self) -> Instant {
        sleep_until(self.next).await;
        self.advance()
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    fn advance(&mut self) -> Instant {
        self.sleep = None;
        let due = self.next;
        self.next = due + self.period;
        due
    }
}

/// [`tick`](Interval::tick) as a stream that never ends; as cancel-safe.
impl Stream for Interval {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        let next = self.next;
        let sleep = self.sleep.get_or_insert_with(|| sleep_until(next));
        ready!(Pin::new(sleep).poll(context));
        Poll::Ready(Some(self.advance()))
    }
}
