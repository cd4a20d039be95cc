//! Measuring frequencies against a clock whose frequency is known.
//!
//! Pure arithmetic, so that it is tested on the host.

use super::scale::NANOS_HZ;

/// One look at all clocks at once, at a tick of the reference clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// The time-stamp counter before and after the look.
    pub(super) before: u64,
    pub(super) after: u64,
    /// The reference clock, which counts down and wraps.
    pub(super) reference: u16,
    /// The local APIC's timer, which counts down.
    pub(super) apic_timer: u32,
}

impl Sample {
    /// How long the look took, in ticks of the time-stamp counter: within this
    /// nobody knows when the other clocks were read.
    pub(super) fn width(self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    /// The middle of the look.
    fn time(self) -> u64 {
        self.before + self.width() / 2
    }

    /// Ticks of the reference clock from `earlier` to this.
    pub(super) fn reference_since(self, earlier: Self) -> u16 {
        earlier.reference.wrapping_sub(self.reference)
    }
}

/// What was measured, in Hz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) tsc: u64,
    /// Of the timer as it is divided.
    pub(super) apic_timer: u64,
    /// How far off this may be, in parts per million.
    pub(super) uncertainty_ppm: u64,
}

/// The frequencies between two samples of a reference clock of `reference_hz`;
/// `None` if the time between them is of no use.
pub(super) fn measure(start: Sample, end: Sample, reference_hz: u64) -> Option<Measured> {
    let reference = u64::from(end.reference_since(start));
    let tsc = end.time().checked_sub(start.time())?;
    let apic_timer = u64::from(start.apic_timer.wrapping_sub(end.apic_timer));
    if reference == 0 || tsc == 0 {
        return None;
    }
    let frequency = |ticks: u64| {
        let hz = u128::from(ticks) * u128::from(reference_hz) / u128::from(reference);
        u64::try_from(hz).ok().filter(|&hz| hz <= 100 * NANOS_HZ)
    };
    let doubt = (start.width() + end.width()) / 2;
    Some(Measured {
        tsc: frequency(tsc)?,
        apic_timer: frequency(apic_timer)?,
        uncertainty_ppm: doubt.saturating_mul(1_000_000) / tsc,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFERENCE_HZ: u64 = 1_193_182;
    const TSC_HZ: u64 = 2_400_000_000;
    const APIC_HZ: u64 = 62_500_000;

    /// The clocks `micros` after some start.
    fn at(micros: u64, width: u64) -> Sample {
        let tsc = 1 << 40 | micros * TSC_HZ / 1_000_000;
        Sample {
            before: tsc - width / 2,
            after: tsc + width / 2,
            reference: 100u16.wrapping_sub((micros * REFERENCE_HZ / 1_000_000) as u16),
            apic_timer: 500u32.wrapping_sub((micros * APIC_HZ / 1_000_000) as u32),
        }
    }

    #[test]
    fn the_clocks_are_measured_across_wraps() {
        let measured = measure(at(0, 2_000), at(4_000, 4_000), REFERENCE_HZ);
        let measured = measured.expect("4 ms are enough");
        assert!(measured.tsc.abs_diff(TSC_HZ) < TSC_HZ / 4_000);
        assert!(measured.apic_timer.abs_diff(APIC_HZ) < APIC_HZ / 4_000);
        assert_eq!(measured.uncertainty_ppm, 312);
    }

    #[test]
    fn a_look_that_was_disturbed_shows() {
        let measured = measure(at(0, 2_000), at(4_000, 2_400_000), REFERENCE_HZ);
        assert!(measured.expect("it is a measurement").uncertainty_ppm > 100_000);
    }

    #[test]
    fn a_clock_that_stands_still_measures_nothing() {
        assert_eq!(measure(at(0, 10), at(0, 10), REFERENCE_HZ), None);
        assert_eq!(measure(at(4_000, 10), at(0, 10), REFERENCE_HZ), None);
    }
}
