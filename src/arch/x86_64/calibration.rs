//! Measuring frequencies against a clock whose frequency is known.
//!
//! Pure arithmetic, so that it is tested on the host.

use super::scale::NANOS_HZ;

/// No 64-bit processor's time-stamp counter is slower.
const SLOWEST_TSC_HZ: u64 = 500_000_000;

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
///
/// Disturbed looks make the window no worse, but longer: another may start or
/// end it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    start: Sample,
    last: Sample,
    /// What the best end so far gives.
    best: Option<Measured>,
    /// The longest time between two looks, in ticks of the time-stamp counter.
    longest_gap: u64,
    limits: Limits,
}

/// When a window is over. Lengths are in ticks of the reference clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The frequency of the reference clock.
    pub(super) reference_hz: u64,
    pub(super) shortest: u16,
    /// Here it ends, however far off it may be.
    pub(super) longest: u16,
    /// From `shortest` on it ends when it is not further off.
    pub(super) accepted_ppm: u64,
}

impl Window {
    /// A window that starts at a look.
    pub(super) fn new(start: Sample, limits: Limits) -> Self {
        Self {
            start,
            last: start,
            best: None,
            longest_gap: 0,
            limits,
        }
    }

    /// Adds a look. Whether the window is over.
    pub(super) fn add(&mut self, look: Sample) -> bool {
        let gap = look.time().saturating_sub(self.last.time());
        self.longest_gap = self.longest_gap.max(gap);
        self.last = look;
        if self.best.is_none() && self.end_from(look) < self.end_from(self.start) {
            self.start = look;
        }
        let length = look.reference_since(self.start);
        if length < self.limits.shortest {
            return false;
        }
        if let Some(measured) = measure(self.start, look, self.limits.reference_hz)
            && self
                .best
                .is_none_or(|best| measured.uncertainty_ppm < best.uncertainty_ppm)
        {
            self.best = Some(measured);
        }
        let is_good = |best: Measured| best.uncertainty_ppm <= self.limits.accepted_ppm;
        length >= self.limits.longest || self.best.is_some_and(is_good)
    }

    /// When a window that starts with `start` would be long enough, as far as
    /// that depends on the start, in ticks of the time-stamp counter.
    fn end_from(&self, start: Sample) -> u64 {
        let doubt = start.width() / 2;
        let length = doubt.saturating_mul(1_000_000) / self.limits.accepted_ppm;
        start.time().saturating_add(length)
    }

    /// The frequencies; `None` if the window is of no use.
    pub(super) fn measured(&self) -> Option<Measured> {
        self.best
    }

    /// Whether the reference clock can have gone round unseen, between two
    /// looks: the host had something else to do meanwhile.
    pub(super) fn may_have_wrapped(&self) -> bool {
        let round = (1 << 16) * SLOWEST_TSC_HZ / self.limits.reference_hz;
        self.longest_gap >= round
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

    const LIMITS: Limits = Limits {
        reference_hz: REFERENCE_HZ,
        shortest: 1_200,
        longest: 12_000,
        accepted_ppm: 300,
    };

    /// A window with looks at these times, in microseconds.
    fn window(looks: impl IntoIterator<Item = u64>) -> Window {
        let mut looks = looks.into_iter().map(|micros| at(micros, 2_000));
        let start = looks.next().expect("a window has a start");
        let mut window = Window::new(start, LIMITS);
        for look in looks {
            window.add(look);
        }
        window
    }

    #[test]
    fn a_window_ends_when_it_is_long_enough() {
        let mut window = Window::new(at(0, 10), LIMITS);
        assert!(!window.add(at(900, 10)));
        assert_eq!(window.measured(), None);
        assert!(window.add(at(1_100, 10)));
        assert!(window.measured().is_some());
    }

    #[test]
    fn a_disturbed_look_does_not_end_it() {
        let mut window = Window::new(at(0, 10), LIMITS);
        assert!(!window.add(at(1_100, 1_000_000)));
        assert!(!window.add(at(2_000, 1_000_000)));
        assert!(window.add(at(2_010, 10)));
        let measured = window.measured().expect("it is long enough");
        assert_eq!(measured.uncertainty_ppm, 2, "the best end counts");
    }

    #[test]
    fn a_disturbed_start_gives_way() {
        let mut window = Window::new(at(0, 1_000_000), LIMITS);
        assert!(!window.add(at(500, 10)));
        assert!(!window.add(at(1_400, 10)));
        assert!(window.add(at(1_600, 10)));
        let measured = window.measured().expect("it is long enough");
        assert_eq!(measured.uncertainty_ppm, 3, "the better start counts");
    }

    #[test]
    fn a_window_that_is_disturbed_throughout_ends() {
        let mut window = Window::new(at(0, 1_000_000), LIMITS);
        assert!(!window.add(at(1_100, 1_000_000)));
        assert!(window.add(at(10_200, 1_000_000)));
        assert!(window.measured().is_some());
    }

    #[test]
    fn an_interruption_matters_only_if_the_reference_can_go_round() {
        assert!(!window((0..=2_000).step_by(2)).may_have_wrapped());
        assert!(!window((0..=200).chain(8_000..=8_100)).may_have_wrapped());
        // The reference clock goes round in 54.9 ms.
        let interrupted = window((0..=20).chain(56_000..=58_000));
        assert!(interrupted.may_have_wrapped());
        let measured = interrupted.measured().expect("it is long enough");
        assert!(
            measured.tsc > 2 * TSC_HZ,
            "which makes the others seem too fast"
        );
    }
}
