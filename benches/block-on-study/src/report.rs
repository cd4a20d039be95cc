//! What is printed: one figure a line.

use std::fmt::Display;
use std::time::Duration;

/// Prints one figure.
pub fn figure(case: &str, metric: &str, unit: &str, value: impl Display) {
    println!("{case}\t{metric}\t{unit}\t{value}");
}

/// Prints the percentiles of `latencies`.
///
/// # Panics
///
/// Panics if there are none.
pub fn percentiles(case: &str, latencies: &mut [Duration]) {
    latencies.sort_unstable();
    let rank = |percent: usize| {
        let rank = (latencies.len() * percent).div_ceil(100).max(1);
        micros(latencies[rank - 1])
    };
    figure(case, "p50", "µs", rank(50));
    figure(case, "p90", "µs", rank(90));
    figure(case, "p99", "µs", rank(99));
    figure(case, "max", "µs", rank(100));
}

/// `duration` in µs, with three places.
pub fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

/// The middle of `values`.
///
/// # Panics
///
/// Panics if there are none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
