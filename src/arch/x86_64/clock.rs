//! The monotonic clock: the time-stamp counter, and how fast it is.
//!
//! The processor or the hypervisor may tell its frequency. Otherwise it is
//! measured against the programmable interval timer, within about a
//! millisecond: every look at the clocks is taken at a tick of the reference
//! and bracketed by two readings of the time-stamp counter, so a look that the
//! host disturbed shows by its width. The same window measures the local APIC's
//! timer. The boot goes on while it is open.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use log::debug;

use super::apic_registers::DIVISOR;
use super::calibration::{Limits, Measured, Sample, Window};
use super::cpu::{self, Frequencies};
use super::pit::{self, Pit};
use super::scale::{NANOS_HZ, Scale};
use super::timer;
use crate::arch::Instant;

/// A window is about 1 ms long, which depends on how fast looks are, and longer
/// as long as its ends are disturbed.
const LIMITS: Limits = Limits {
    reference_hz: pit::HZ,
    shortest: (pit::HZ / 2_000) as u16,
    longest: (pit::HZ / 100) as u16,
    accepted_ppm: 300,
};
/// Windows are tried until one is undisturbed.
const WINDOWS: usize = 4;
/// A reference that does not tick within so many readings, each of which takes
/// longer than half a tick, is not there.
const PATIENCE: usize = 1_000;

const NO_REFERENCE: &str = "no interval timer to measure the processor's clock by";

/// The time-stamp counter at the kernel's first instruction, which stores it.
pub(super) static START: AtomicU64 = AtomicU64::new(0);
/// The multiplier of the scale to nanoseconds; zero until it is known, which
/// lets the clock stand still.
static TO_NANOS: AtomicU64 = AtomicU64::new(0);

/// The time-stamp counter, which counts from before the kernel was entered.
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: every 64-bit processor has the instruction.
    unsafe { _rdtsc() }
}

/// The time-stamp counter at the kernel's first instruction.
pub fn ticks_at_entry() -> u64 {
    START.load(Relaxed)
}

/// The time on the core's clock, which stands still until its frequency is
/// known.
#[inline]
pub fn now() -> Instant {
    time_of(ticks())
}

/// The time at which the time-stamp counter was at `ticks`.
#[inline]
pub fn time_of(ticks: u64) -> Instant {
    let ticks = ticks.wrapping_sub(START.load(Relaxed));
    Instant::from_nanos(Scale::from_multiplier(TO_NANOS.load(Relaxed)).floor(ticks))
}

/// A clock that has begun to be measured, if that is needed.
#[derive(Debug)]
pub struct ClockStart {
    told: Frequencies,
    measuring: Option<Measuring>,
}

/// The first window; the machine can do something else until it is over.
#[derive(Debug)]
struct Measuring {
    window: Window,
    pit: Pit,
    _counting: timer::Counting,
}

/// Begins to find out how fast the clock and the deadline timer are, for
/// [`start_clock`]. The local APIC is on.
///
/// # Panics
///
/// Panics if the machine has nothing to measure them by.
pub fn begin_clock() -> ClockStart {
    let told = cpu::frequencies();
    let needs_apic_timer = !cpu::has_tsc_deadline();
    let is_needed = told.tsc == 0 || needs_apic_timer && told.apic_timer == 0;
    let measuring = is_needed.then(|| Measuring::begin().expect(NO_REFERENCE));
    ClockStart { told, measuring }
}

/// Finds out how fast the clock and the deadline timer are, and starts both.
///
/// # Panics
///
/// As [`begin_clock`].
pub fn start_clock(ClockStart { told, measuring }: ClockStart) {
    let measured = measuring.map(|measuring| measuring.end().expect(NO_REFERENCE));
    let tsc_hz = match measured {
        Some(measured) if told.tsc == 0 => measured.tsc,
        _ => told.tsc,
    };
    let apic_timer_hz = match measured {
        Some(measured) => measured.apic_timer,
        None => told.apic_timer / DIVISOR,
    };
    assert!(tsc_hz > 0, "the processor's clock stands still");
    debug!("clock: {tsc_hz} Hz, timer: {apic_timer_hz} Hz, told {told:?}, {measured:?}");
    TO_NANOS.store(Scale::new(tsc_hz, NANOS_HZ).multiplier(), Relaxed);
    timer::start(tsc_hz, apic_timer_hz);
}

impl Measuring {
    fn begin() -> Option<Self> {
        let counting = timer::count_freely();
        let mut pit = Pit::start();
        Some(Self {
            window: Window::new(look(&mut pit)?, LIMITS),
            pit,
            _counting: counting,
        })
    }

    /// Measures until a window is undisturbed. If none is, the slowest clock is
    /// the right one: a reference that went round makes the others seem too fast.
    fn end(mut self) -> Option<Measured> {
        let mut slowest: Option<Measured> = None;
        for _ in 0..WINDOWS {
            while !self.window.add(look(&mut self.pit)?) {}
            if let Some(measured) = self.window.measured() {
                let is_good = measured.uncertainty_ppm <= LIMITS.accepted_ppm;
                if is_good && !self.window.may_have_wrapped() {
                    return Some(measured);
                }
                if slowest.is_none_or(|slowest| measured.tsc < slowest.tsc) {
                    slowest = Some(measured);
                }
            }
            self.window = Window::new(look(&mut self.pit)?, LIMITS);
        }
        slowest
    }
}

/// A look at the next tick of the reference: it ticked after the clock said
/// `before` and before that said `after`.
fn look(pit: &mut Pit) -> Option<Sample> {
    let (mut before, mut old) = (0, None);
    for _ in 0..PATIENCE {
        let this = ticks();
        pit.latch();
        let apic_timer = timer::current_count();
        let after = ticks();
        let reference = pit.latched();
        if old.is_some_and(|old| old != reference) {
            return Some(Sample {
                before,
                after,
                reference,
                apic_timer,
            });
        }
        (before, old) = (this, Some(reference));
    }
    None
}
