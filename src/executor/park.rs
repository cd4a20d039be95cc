//! Parking: halting the core until an interrupt brings something to do.

use core::mem;

use super::DEFAULT_BUDGET;
#[cfg(not(firstpoll_loom))]
use super::misuse;
use super::pass::Work;
use super::per_core::{Core, Kind};
use super::run_queue::Job;
use super::waker::CallSlot;
use crate::arch;
use crate::sync::atomic::Ordering::SeqCst;

/// What a park did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Park {
    /// The core halted, and an interrupt ended that.
    Halted,
    /// There was something to do already.
    NotIdle,
}

impl Core {
    /// Runs passes until `call` is woken, at least one; parks while no task is
    /// ready.
    pub(super) fn wait_until_woken<J: Job>(&self, call: &CallSlot<'_>) {
        let mut pass = self.pass::<J>(DEFAULT_BUDGET);
        while !call.take_woken() {
            if pass.work == Work::None {
                self.begin_park();
                if call.take_woken() {
                    break;
                }
            }
            pass = self.pass::<J>(DEFAULT_BUDGET);
        }
        self.end_park();
    }

    /// Halts unless there is something to do. The core stays parked after this:
    /// the caller starts a pass or calls [`Core::end_park`].
    pub(super) fn begin_park(&self) -> Park {
        let mask = arch::mask_interrupts();
        // Parked before the last look: whoever queues or wakes after the look
        // finds the core parked and ends the halt.
        self.parked.store(true, SeqCst);
        if self.has_work() || self.calls.innermost_woken() {
            return Park::NotIdle;
        }
        self.counters.halts.add(1);
        let unpark = UnparkOnUnwind { core: self };
        arch::wait_for_interrupt(mask);
        mem::forget(unpark);
        Park::Halted
    }

    /// Ends a park that no pass has ended; from here on wakes arm the deferral
    /// again, and it is armed for those that came while parked.
    pub(super) fn end_park(&self) {
        if self.parked.load(SeqCst) {
            self.parked.store(false, SeqCst);
            self.uphold(Kind::InterruptSafe);
            self.uphold(Kind::Ordinary);
        }
    }

    /// Notes the wake of a call of `block_on`.
    pub(super) fn wake_call(&self, data: u64) {
        if self.calls.wake(data) && self.parked.load(SeqCst) {
            self.unhalt();
        }
    }

    /// Ends the halt of this parked core. An interrupt on the core itself has
    /// ended it already.
    pub(super) fn unhalt(&self) {
        if !arch::is_current_core(self.id) {
            arch::notify(self.id);
        }
    }
}

/// Ends the park if an interrupt handler unwinds out of the halt.
struct UnparkOnUnwind<'a> {
    core: &'a Core,
}

impl Drop for UnparkOnUnwind<'_> {
    fn drop(&mut self) {
        self.core.end_park();
    }
}

/// Halts the core until an interrupt, unless a task is ready or the future of
/// the innermost [`blocking`](super::blocking) call was woken.
///
/// This is the piece that [`block_on`](super::block_on) parks with. What became
/// ready meanwhile is queued; [`pass`](super::pass) polls it.
///
/// # Panics
///
/// Panics in a task's poll, in an interrupt, and with interrupts masked.
#[cfg(not(firstpoll_loom))]
#[track_caller]
pub fn park() -> Park {
    let core = Core::current();
    misuse::check(core, "park");
    let park = core.begin_park();
    core.end_park();
    park
}
