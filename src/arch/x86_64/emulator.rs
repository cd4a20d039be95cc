//! What helps where the processor is QEMU's emulator (TCG).
//!
//! Its translation buffer begins with 256 places for pages of 4 KiB, whatever
//! the page tables say, and each miss walks them in software: some 0.3 µs, as
//! much as a hundred instructions. It doubles when it is flushed while most of
//! it is in use, and halves after a while of the contrary. Operating systems
//! flush it each time they change processes; this kernel never does, and would
//! stay with what 1 MiB needs. So a busy core, which has timer interrupts,
//! flushes it ten times a second. An idle one has none, and pays nothing.

#![allow(unsafe_code)] // The write of CR3.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use x86_64::registers::control::Cr3;

use super::cpu;
use crate::arch::Instant;

/// The emulator looks at how much is in use since so long.
const INTERVAL: Duration = Duration::from_millis(100);

static IS_EMULATED: AtomicBool = AtomicBool::new(false);
/// When the buffer is flushed next, in nanoseconds.
static FLUSH_AT: AtomicU64 = AtomicU64::new(0);

/// Looks what the processor is.
pub(super) fn start() {
    IS_EMULATED.store(cpu::is_emulated(), Relaxed);
}

/// Lets the emulator adapt its translation buffer, now and then; called by each
/// timer interrupt.
#[inline]
pub(super) fn on_timer(now: Instant) {
    if !IS_EMULATED.load(Relaxed) || now.as_nanos() < FLUSH_AT.load(Relaxed) {
        return;
    }
    FLUSH_AT.store((now + INTERVAL).as_nanos(), Relaxed);
    let (table, flags) = Cr3::read();
    // SAFETY: the page tables stay those that they are.
    unsafe { Cr3::write(table, flags) };
}
