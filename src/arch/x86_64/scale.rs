//! Converting between clocks of different frequencies.
//!
//! Pure arithmetic, so that it is tested on the host.

/// A conversion by one multiplication and a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    multiplier: u64,
}

const SHIFT: u32 = 32;

/// The frequency of a clock of nanoseconds.
pub(super) const NANOS_HZ: u64 = 1_000_000_000;

impl Scale {
    /// From ticks of a clock of `from_hz` to ticks of one of `to_hz`.
    ///
    /// # Panics
    ///
    /// Panics if `from_hz` is zero, or the frequencies are too far apart.
    pub(super) const fn new(from_hz: u64, to_hz: u64) -> Self {
        let multiplier = ((to_hz as u128) << SHIFT) / from_hz as u128;
        assert!(
            multiplier <= u64::MAX as u128,
            "the frequencies are too far apart"
        );
        Self {
            multiplier: multiplier as u64,
        }
    }

    /// The multiplier, to be kept in an atomic.
    pub(super) const fn multiplier(self) -> u64 {
        self.multiplier
    }

    /// The scale with this multiplier.
    pub(super) const fn from_multiplier(multiplier: u64) -> Self {
        Self { multiplier }
    }

    /// Converts, rounding down, and saturates.
    #[inline]
    pub(super) const fn floor(self, ticks: u64) -> u64 {
        saturated((ticks as u128 * self.multiplier as u128) >> SHIFT)
    }

    /// Converts, rounding up, and saturates.
    #[inline]
    pub(super) const fn ceil(self, ticks: u64) -> u64 {
        let product = ticks as u128 * self.multiplier as u128;
        saturated(product.div_ceil(1 << SHIFT))
    }
}

#[inline]
const fn saturated(value: u128) -> u64 {
    if value > u64::MAX as u128 {
        u64::MAX
    } else {
        value as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TSC_HZ: u64 = 2_095_008_000;

    #[test]
    fn a_day_of_ticks_is_a_day() {
        let to_nanos = Scale::new(TSC_HZ, NANOS_HZ);
        let day = 86_400 * NANOS_HZ;
        let converted = to_nanos.floor(86_400 * TSC_HZ);
        assert!(day - converted < 100_000, "{converted} is not {day}");
    }

    #[test]
    fn there_and_back_never_comes_out_early() {
        let (to_nanos, to_ticks) = (Scale::new(TSC_HZ, NANOS_HZ), Scale::new(NANOS_HZ, TSC_HZ));
        for nanos in [1, 2, 3, 999, 1_000_000, 123_456_789_012] {
            let back = to_nanos.floor(to_ticks.ceil(nanos) + 1);
            assert!(
                back.abs_diff(nanos) <= 1 + nanos / 1_000_000_000,
                "{nanos}: {back}"
            );
        }
    }

    #[test]
    fn rounding() {
        let third = Scale::new(3, 1);
        assert_eq!((third.floor(4), third.ceil(4)), (1, 2));
        assert_eq!((third.floor(0), third.ceil(0)), (0, 0));
        let same = Scale::new(7, 7);
        assert_eq!((same.floor(5), same.ceil(5)), (5, 5));
    }

    #[test]
    fn the_far_future_saturates() {
        let up = Scale::new(1, 1000);
        assert_eq!(up.floor(u64::MAX), u64::MAX);
        assert_eq!(up.ceil(u64::MAX), u64::MAX);
    }
}
