//! The date.

use core::time::Duration;

use crate::arch;

/// The time since the beginning of 1970 in UTC, from the machine's real-time
/// clock: to the second, for certificates and records. `None` if there is no
/// such clock, or no date in it between 2000 and 2099.
///
/// It may step in either direction; intervals are measured with
/// [`Instant`](super::Instant). The clock is asked each time, which may take some
/// milliseconds.
///
/// # Interrupt safety
///
/// Not for interrupt handlers, which it would keep waiting.
///
/// # Examples
///
/// ```
/// let since_1970 = firstpoll::time::wall_clock();
/// assert!(since_1970.is_some_and(|time| time.as_secs() > 1_700_000_000));
/// ```
pub fn wall_clock() -> Option<Duration> {
    arch::wall_clock()
}
