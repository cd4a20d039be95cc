//! Running a case some number of times.

use std::time::{Duration, Instant};

/// A case on a system: runs that many times and returns how long it took,
/// preparations excluded.
pub type Run = Box<dyn FnMut(u64) -> Duration>;

/// The time that `times` calls of `call` take.
#[inline(always)]
pub(crate) fn timed(times: u64, mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        call();
    }
    start.elapsed()
}
