//! The two deadlines that share a core's one timer.
//!
//! Both arches keep one [`Deadlines`] per core and program their timer for the
//! sooner of the two slots. Nothing else may touch the timer.

use super::Instant;
use super::atomic::{AtomicU64, Ordering::Relaxed, const_fn};

/// Who a deadline belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The executor's deferral: when queued tasks become overdue.
    Deferral,
    /// The earliest deadline of the timer queue.
    TimerQueue,
}

/// Which slots a timer interrupt found due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// The deferral deadline has passed.
    pub deferral: bool,
    /// The timer queue's deadline has passed.
    pub timer_queue: bool,
}

/// What arming a deadline led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// The timer will interrupt by then.
    Yes,
    /// There is no timer yet. The deadline is kept for its start; until then
    /// nothing will interrupt.
    NoTimer,
}

const DISARMED: u64 = u64::MAX;

/// The deadlines of one core, and what its timer is programmed for.
///
/// Changed only by the owning core with interrupts masked (or, on the host,
/// under the core's lock), so relaxed loads and stores are enough; readable
/// from anywhere.
#[derive(Debug)]
pub(super) struct Deadlines {
    slots: [AtomicU64; 2],
    /// What the timer was last programmed for; it fires once.
    programmed: AtomicU64,
}

impl Deadlines {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                slots: [AtomicU64::new(DISARMED), AtomicU64::new(DISARMED)],
                programmed: AtomicU64::new(DISARMED),
            }
        }
    }

    /// The deadline in `slot`, if one is armed.
    pub(super) fn get(&self, slot: Slot) -> Option<Instant> {
        armed(self.slots[slot as usize].load(Relaxed))
    }

    /// Whether `slot` is armed for `deadline` or sooner.
    #[inline]
    pub(super) fn is_armed_by(&self, slot: Slot, deadline: Instant) -> bool {
        self.get(slot).is_some_and(|armed| armed <= deadline)
    }

    /// Puts `deadline` into `slot`, `None` or [`Instant::MAX`] to disarm it.
    ///
    /// Returns what the timer has to be programmed for, if that is sooner than
    /// what it already is. A timer left programmed too soon fires once for
    /// nothing, which costs less than reprogramming it at every change.
    #[must_use]
    pub(super) fn set(&self, slot: Slot, deadline: Option<Instant>) -> Option<Instant> {
        let nanos = deadline.map_or(DISARMED, Instant::as_nanos);
        self.slots[slot as usize].store(nanos, Relaxed);
        if nanos < self.programmed.load(Relaxed) {
            self.programmed.store(nanos, Relaxed);
            return deadline;
        }
        None
    }

    /// Takes the slots that are due at `now`, for the timer interrupt.
    ///
    /// The timer is no longer programmed after this: the caller follows up
    /// with [`Deadlines::reprogram`].
    pub(super) fn expire(&self, now: Instant) -> Due {
        self.programmed.store(DISARMED, Relaxed);
        Due {
            deferral: self.expire_slot(Slot::Deferral, now),
            timer_queue: self.expire_slot(Slot::TimerQueue, now),
        }
    }

    fn expire_slot(&self, slot: Slot, now: Instant) -> bool {
        let due = self.get(slot).is_some_and(|deadline| deadline <= now);
        if due {
            self.slots[slot as usize].store(DISARMED, Relaxed);
        }
        due
    }

    /// What the timer has to be programmed for after an interrupt, if anything
    /// is armed that it is not already programmed for.
    #[must_use]
    pub(super) fn reprogram(&self) -> Option<Instant> {
        let sooner = self.slots[0].load(Relaxed).min(self.slots[1].load(Relaxed));
        if sooner < self.programmed.load(Relaxed) {
            self.programmed.store(sooner, Relaxed);
            return armed(sooner);
        }
        None
    }

    /// What the timer is programmed for.
    pub(super) fn programmed(&self) -> Option<Instant> {
        armed(self.programmed.load(Relaxed))
    }
}

fn armed(nanos: u64) -> Option<Instant> {
    (nanos != DISARMED).then(|| Instant::from_nanos(nanos))
}

#[cfg(all(test, not(firstpoll_loom)))]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn the_sooner_slot_is_programmed() {
        let deadlines = Deadlines::new();
        assert_eq!(deadlines.set(Slot::TimerQueue, Some(at(50))), Some(at(50)));
        assert_eq!(deadlines.set(Slot::Deferral, Some(at(70))), None);
        assert_eq!(deadlines.set(Slot::Deferral, Some(at(20))), Some(at(20)));
    }

    #[test]
    fn an_interrupt_takes_what_is_due_and_reprograms_the_rest() {
        let deadlines = Deadlines::new();
        let _ = deadlines.set(Slot::TimerQueue, Some(at(50)));
        let _ = deadlines.set(Slot::Deferral, Some(at(20)));
        let due = deadlines.expire(at(20));
        assert_eq!(
            due,
            Due {
                deferral: true,
                timer_queue: false
            }
        );
        assert_eq!(deadlines.reprogram(), Some(at(50)));
        assert_eq!(deadlines.reprogram(), None);
    }

    #[test]
    fn a_disarmed_slot_is_never_due() {
        let deadlines = Deadlines::new();
        let _ = deadlines.set(Slot::TimerQueue, Some(at(50)));
        assert_eq!(deadlines.set(Slot::TimerQueue, None), None);
        assert_eq!(deadlines.expire(at(60)), Due::default());
        assert_eq!(deadlines.reprogram(), None);
    }

    #[test]
    fn the_end_of_time_is_not_a_deadline() {
        let deadlines = Deadlines::new();
        assert_eq!(deadlines.set(Slot::TimerQueue, Some(Instant::MAX)), None);
        assert_eq!(deadlines.expire(Instant::MAX), Due::default());
    }
}
