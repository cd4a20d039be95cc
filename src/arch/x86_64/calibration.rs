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

    /// The one of two looks that was less disturbed.
    pub(super) fn narrower(self, other: Self) -> Self {
        if other.width() < self.width() {
            other
        } else {
            self
        }
    }

    /// The middle of the look.
    fn time(self) -> u64 {
        self.before + self.width() / 2
    }

    /// Ticks of the reference clock from `earlier` to this.
    fn reference_since(self, earlier: Self) -> u16 {
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

/// Looks at the clocks over some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    start: Sample,
    last: Sample,
    /// The narrowest look since the window was long enough.
    end: Option<Sample>,
    /// The longest time between two looks, in ticks of the time-stamp counter.
    longest_gap: u64,
    /// The least length, in ticks of the reference clock.
    length: u16,
}

impl Window {
    /// A window that starts at a look and is `length` ticks of the reference
    /// clock long, or somewhat longer.
    pub(super) fn new(start: Sample, length: u16) -> Self {
        Self {
            start,
            last: start,
            end: None,
            longest_gap: 0,
            length,
        }
    }

    /// Adds a look. Whether the window is long enough.
    pub(super) fn add(&mut self, look: Sample) -> bool {
        let gap = look.time().saturating_sub(self.last.time());
        self.longest_gap = self.longest_gap.max(gap);
        self.last = look;
        if self.end.is_some() || look.reference_since(self.start) >= self.length {
            self.end = Some(match self.end {
                Some(end) => end.narrower(look),
                None => look,
            });
        }
        self.end.is_some()
    }

    /// The frequencies, given that of the reference clock; `None` if the window
    /// is of no use.
    pub(super) fn measure(&self, reference_hz: u64) -> Option<Measured> {
        measure(self.start, self.end?, reference_hz)
    }

    /// Whether one gap is most of the window: the host had something else to do
    /// meanwhile, perhaps for so long that the reference clock went round.
    pub(super) fn was_interrupted(&self) -> bool {
        let length = self.last.time().saturating_sub(self.start.time());
        self.longest_gap > length / 2
    }
}

/// The frequencies between two looks.
fn measure(start: Sample, end: Sample, reference_hz: u64) -> Option<Measured> {
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
        let tsc = (1 << 40) + micros * TSC_HZ / 1_000_000;
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
    /// A window with looks at these times, in microseconds.
    fn window(looks: impl IntoIterator<Item = u64>) -> Window {
        let mut looks = looks.into_iter().map(|micros| at(micros, 2_000));
        let start = looks.next().expect("a window has a start");
        let mut window = Window::new(start, 2_000);
        for look in looks {
            window.add(look);
        }
        window
    }

    #[test]
    fn a_window_ends_when_it_is_long_enough() {
        let mut window = Window::new(at(0, 10), 2_000);
        assert!(!window.add(at(1_000, 10)));
        assert_eq!(window.measure(REFERENCE_HZ), None);
        assert!(window.add(at(1_700, 1_000_000)));
        assert!(window.add(at(1_710, 10)));
        let measured = window.measure(REFERENCE_HZ).expect("it is long enough");
        assert_eq!(measured.uncertainty_ppm, 2, "the narrower look counts");
    }

    #[test]
    fn a_window_that_was_interrupted_shows() {
        assert!(!window((0..=2_000).step_by(2)).was_interrupted());
        assert!(!window((0..=2_000).step_by(2).chain(3_000..=3_500)).was_interrupted());
        // The reference clock goes round in 54.9 ms.
        let interrupted = window((0..=20).chain(56_000..=58_000));
        assert!(interrupted.was_interrupted());
        let measured = interrupted
            .measure(REFERENCE_HZ)
            .expect("it is long enough");
        assert!(
            measured.tsc > 2 * TSC_HZ,
            "which makes the others seem too fast"
        );
    }
}
