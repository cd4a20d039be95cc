//! A point in monotonic time.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A point in monotonic time, in nanoseconds since the clock started.
///
/// 64 bits of nanoseconds last for 584 years, so the clock never wraps.
/// Arithmetic saturates: a deadline beyond the end of time is
/// [`Instant::MAX`], which never comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    nanos: u64,
}

impl Instant {
    /// The start of the clock.
    pub const ZERO: Self = Self { nanos: 0 };
    /// The end of time; as a deadline it never expires.
    pub const MAX: Self = Self { nanos: u64::MAX };

    /// The time on the calling core's clock.
    #[cfg(not(firstpoll_loom))]
    #[inline]
    pub fn now() -> Self {
        super::now()
    }

    /// The time since this instant, or zero if it lies ahead.
    #[cfg(not(firstpoll_loom))]
    #[inline]
    pub fn elapsed(self) -> Duration {
        Self::now() - self
    }

    /// The instant that lies `nanos` nanoseconds after the start of the clock.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// Nanoseconds since the start of the clock.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.nanos
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    #[inline]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }

    /// This instant plus `duration`, or [`Instant::MAX`] where that lies beyond it.
    #[inline]
    pub const fn saturating_add(self, duration: Duration) -> Self {
        let nanos = duration.as_nanos();
        if nanos > u64::MAX as u128 {
            return Self::MAX;
        }
        Self {
            nanos: self.nanos.saturating_add(nanos as u64),
        }
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::MAX`].
    #[inline]
    fn add(self, duration: Duration) -> Self {
        self.saturating_add(duration)
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Saturates at zero.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Duration::from_nanos(self.nanos), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_saturates_at_the_end_of_time() {
        let near_the_end = Instant::from_nanos(u64::MAX - 1);
        assert_eq!(near_the_end + Duration::from_nanos(1), Instant::MAX);
        assert_eq!(near_the_end + Duration::from_secs(1), Instant::MAX);
        assert_eq!(Instant::ZERO + Duration::MAX, Instant::MAX);
    }

    #[test]
    fn difference_saturates_at_zero() {
        let one = Instant::from_nanos(1);
        assert_eq!(Instant::ZERO - one, Duration::ZERO);
        assert_eq!(one - Instant::ZERO, Duration::from_nanos(1));
    }
}
