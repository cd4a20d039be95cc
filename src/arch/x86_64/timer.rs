//! The deadline timer: the local APIC's, one-shot or by the time-stamp counter.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use x86_64::instructions::interrupts::without_interrupts;
use x86_64::registers::model_specific::Msr;

use super::apic_registers::{DIVIDE_BY_16, MASKED, Register, TimerMode, lvt_timer};
use super::clock::{now, ticks};
use super::scale::{NANOS_HZ, Scale};
use super::{apic, cpu, emulator, vectors};
use crate::arch::deadlines::{Armed, Deadlines, Slot};
use crate::arch::{Handlers, Instant};

/// The deadline in terms of the time-stamp counter (SDM vol. 3, 11.5.4.1).
const TSC_DEADLINE: Msr = Msr::new(0x6e0);

static DEADLINES: Deadlines = Deadlines::new();
/// Whether the timer takes deadlines; else it counts down.
static BY_TSC: AtomicBool = AtomicBool::new(false);
/// The multiplier of the scale from nanoseconds to the timer's ticks; zero until
/// the timer starts.
static FROM_NANOS: AtomicU64 = AtomicU64::new(0);

/// Lets the timer count down from its highest count without interrupts, to be
/// measured, until the guard is dropped.
pub(super) fn count_freely() -> Counting {
    apic::write(Register::TimerDivide, DIVIDE_BY_16);
    apic::write(Register::LvtTimer, MASKED);
    apic::write(Register::TimerInitialCount, u32::MAX);
    Counting
}

/// See [`count_freely`].
#[derive(Debug)]
pub(super) struct Counting;

impl Drop for Counting {
    fn drop(&mut self) {
        apic::write(Register::TimerInitialCount, 0);
    }
}

/// What the timer has to count yet.
pub(super) fn current_count() -> u32 {
    apic::read(Register::TimerCurrentCount)
}

/// Starts the timer, with what has been armed so far. `apic_timer_hz` is its
/// frequency as it is divided.
pub(super) fn start(tsc_hz: u64, apic_timer_hz: u64) {
    let by_tsc = cpu::has_tsc_deadline();
    let (mode, hz) = match by_tsc {
        true => (TimerMode::TscDeadline, tsc_hz),
        false => (TimerMode::OneShot, apic_timer_hz),
    };
    assert!(hz > 0, "the local APIC's timer stands still");
    emulator::start();
    BY_TSC.store(by_tsc, Relaxed);
    FROM_NANOS.store(Scale::new(NANOS_HZ, hz).multiplier(), Relaxed);
    apic::write(Register::TimerDivide, DIVIDE_BY_16);
    apic::write(Register::LvtTimer, lvt_timer(vectors::TIMER, mode));
    // SAFETY: the instruction orders the write above before those of deadlines,
    // as the manual demands, and does nothing else.
    unsafe { core::arch::x86_64::_mm_mfence() };
    if let Some(deadline) = DEADLINES.programmed() {
        program(deadline);
    }
}

/// The timer interrupt. Returns whether the bottom half shall run.
pub(super) fn on_interrupt(handlers: Option<&Handlers>) -> bool {
    let now = now();
    emulator::on_timer(now);
    let due = DEADLINES.expire(now);
    let wants_bottom_half = handlers.is_some_and(|handlers| (handlers.timer)(due));
    if let Some(deadline) = DEADLINES.reprogram() {
        program(deadline);
    }
    wants_bottom_half
}

/// Arms `slot` of core `id` for `deadline` unless it is armed for sooner.
pub fn arm_by(_id: usize, slot: Slot, deadline: Instant) -> Armed {
    without_interrupts(|| {
        if !DEADLINES.is_armed_by(slot, deadline) {
            set(slot, Some(deadline));
        }
    });
    match FROM_NANOS.load(Relaxed) {
        0 => Armed::NoTimer,
        _ => Armed::Yes,
    }
}

/// Whether `slot` of core `id` is known to be armed for `deadline` or sooner.
#[inline]
pub fn is_armed_by(_id: usize, slot: Slot, deadline: Instant) -> bool {
    FROM_NANOS.load(Relaxed) != 0 && DEADLINES.is_armed_by(slot, deadline)
}

/// Arms `slot` of the calling core for exactly `deadline`, `None` disarms it.
pub fn set_deadline(slot: Slot, deadline: Option<Instant>) {
    without_interrupts(|| set(slot, deadline));
}

/// What `slot` of the calling core is armed for.
pub fn deadline(slot: Slot) -> Option<Instant> {
    DEADLINES.get(slot)
}

fn set(slot: Slot, deadline: Option<Instant>) {
    if let Some(deadline) = DEADLINES.set(slot, deadline) {
        program(deadline);
    }
}

/// Makes the timer interrupt at `deadline`, or as soon as it can where that is
/// past: zero would disarm it. What is further away than it can count
/// interrupts early, finds nothing due, and is programmed again.
fn program(deadline: Instant) {
    let from_nanos = FROM_NANOS.load(Relaxed);
    if from_nanos == 0 {
        return; // `start` makes up for it.
    }
    let left = deadline - now();
    let nanos = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    let count = Scale::from_multiplier(from_nanos).ceil(nanos);
    if BY_TSC.load(Relaxed) {
        let mut register = TSC_DEADLINE;
        let value = ticks().saturating_add(count).max(1);
        // SAFETY: the processor has the register, and the vector has an entry.
        unsafe { register.write(value) };
    } else {
        let count = count.clamp(1, u32::MAX.into());
        apic::write(Register::TimerInitialCount, count as u32);
    }
}
