//! Running the bottom half on its own stack.
//!
//! The timer's interrupt entry switches to that stack and calls [`run`], which
//! enables interrupts. A timer interrupt meanwhile may want the bottom half
//! again; it then runs another round, on the same stack, when the round under
//! way ends, so the stack never holds two.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use x86_64::instructions::interrupts;

use super::interrupts::handlers;

/// Whether the stack is in use.
static RUNNING: AtomicBool = AtomicBool::new(false);
/// Whether another round is wanted.
static AGAIN: AtomicBool = AtomicBool::new(false);

/// Whether the interrupt entry shall switch stacks and call [`run`]. Called
/// with interrupts masked by whoever wants the bottom half.
pub(super) fn claim() -> bool {
    if RUNNING.load(Relaxed) {
        AGAIN.store(true, Relaxed);
        return false;
    }
    RUNNING.store(true, Relaxed);
    true
}

/// Runs the bottom half until no more rounds are wanted. Entered and left with
/// interrupts masked, on the bottom half's stack.
pub(super) extern "C" fn run() {
    loop {
        interrupts::enable();
        run_bottom_half();
        interrupts::disable();
        if !AGAIN.load(Relaxed) {
            break;
        }
        AGAIN.store(false, Relaxed);
    }
    RUNNING.store(false, Relaxed);
}

/// Runs the registered bottom half right here, at the end of a section that
/// held it off.
pub fn run_bottom_half() {
    if let Some(handlers) = handlers() {
        (handlers.bottom_half)();
    }
}
