//! Percentiles.

use std::fmt;
use std::time::Duration;

/// How long something took, of all the times that it was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many times there were.
    pub samples: usize,
    /// The median.
    pub p50: Duration,
    /// Nine of ten took no longer.
    pub p90: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

impl Distribution {
    /// That of `samples`, in any order; all zero if there are none.
    pub fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        // The nearest rank: the least that so many percent do not exceed.
        let percentile = |percent: usize| {
            let rank = (samples.len() * percent).div_ceil(100).max(1);
            samples.get(rank - 1).copied().unwrap_or_default()
        };
        Self {
            samples: samples.len(),
            p50: percentile(50),
            p90: percentile(90),
            p99: percentile(99),
            max: percentile(100),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p90, p99, .. } = self;
        write!(
            f,
            "p50 {p50:.1?}, p90 {p90:.1?}, p99 {p99:.1?}, max {:.1?}",
            self.max
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: impl Iterator<Item = u64>) -> [u64; 4] {
        let distribution = Distribution::of(samples.map(Duration::from_nanos).collect());
        let Distribution {
            p50, p90, p99, max, ..
        } = distribution;
        [p50, p90, p99, max].map(|time| time.as_nanos() as u64)
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        assert_eq!(of((1..=100).rev()), [50, 90, 99, 100]);
        assert_eq!(of(1..=200), [100, 180, 198, 200]);
        assert_eq!(of([3, 1, 2].into_iter()), [2, 3, 3, 3]);
        assert_eq!(of([7].into_iter()), [7; 4]);
        assert_eq!(of([].into_iter()), [0; 4]);
    }
}
