//! The checks for calls where they cannot work.

use super::attention::{IN_INTERRUPT, IN_TASK};
use super::per_core::Core;
use crate::arch;

/// Panics unless `what` may run queued tasks here.
#[inline]
#[track_caller]
pub(super) fn check(core: &Core, what: &str) {
    check_context(core, what);
    if !arch::interrupts_enabled() {
        masked(what);
    }
}

/// Panics in a task's poll and in an interrupt.
#[inline]
#[track_caller]
pub(super) fn check_context(core: &Core, what: &str) {
    let attention = core.attention.get();
    if attention & (IN_INTERRUPT | IN_TASK) != 0 {
        out_of_place(attention, what);
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn masked(what: &str) -> ! {
    panic!("{what} would wait with interrupts masked, when nothing can wake it");
}

#[cold]
#[inline(never)]
#[track_caller]
fn out_of_place(attention: u32, what: &str) -> ! {
    assert!(
        attention & IN_INTERRUPT == 0,
        "{what} was called in an interrupt or a bottom half, which must not wait"
    );
    panic!(
        "{what} was called in a task's poll: it would hold up every other task; `.await` instead"
    );
}
