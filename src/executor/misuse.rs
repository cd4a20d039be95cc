//! The checks for calls where they cannot work.

use super::attention::{IN_INTERRUPT, IN_TASK};
use super::per_core::Core;
use crate::arch;

/// Panics unless `what` may run queued tasks here.
#[track_caller]
pub(super) fn check(core: &Core, what: &str) {
    check_context(core, what);
    assert!(
        arch::interrupts_enabled(),
        "{what} would wait with interrupts masked, when nothing can wake it"
    );
}

/// Panics in a task's poll and in an interrupt.
#[track_caller]
pub(super) fn check_context(core: &Core, what: &str) {
    let attention = core.attention.get();
    assert!(
        attention & IN_INTERRUPT == 0,
        "{what} was called in an interrupt or a bottom half, which must not wait"
    );
    assert!(
        attention & IN_TASK == 0,
        "{what} was called in a task's poll: it would hold up every other task; `.await` instead"
    );
}
