//! The deferral: what guarantees that queued tasks are polled although
//! `block_on` prefers a ready future.
//!
//! One invariant carries the guarantee. Whenever code runs outside a pass over
//! a queue and that queue is not empty, the deferral deadline is armed for
//! when its oldest task will have been ready for the bound D — or, for the
//! ordinary queue, that has passed and OVERDUE is set. (Before the timer exists
//! it is set for both.) It is upheld at the places where it could break: where a
//! task is scheduled, at the end of a pass over a queue, at the end of the
//! bottom half, and where a park ends.
//!
//! The timer interrupt turns the deadline into progress: it sets OVERDUE, which
//! the next `block_on` sees, and runs the bottom half over the interrupt-safe
//! queue, on top of the code that it interrupted.

use super::DEFAULT_BUDGET;
use super::attention::{IN_INTERRUPT, OVERDUE};
use super::per_core::{Core, Kind};
use super::run_queue::Job;
use crate::arch::{self, Armed, Due, Instant, Slot};
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::bottom_half;

impl Core {
    /// Queues a task that was woken.
    ///
    /// # Interrupt safety
    ///
    /// May be called from anywhere.
    pub(super) fn schedule<J: Job>(&self, kind: Kind, job: J) {
        let queue = self.queue(kind);
        let mut stamp = None;
        let was_empty = queue.push(job, || *stamp.insert(arch::now_on(self.id)));
        if self.parked.load(SeqCst) {
            self.unhalt();
        } else if was_empty && !queue.is_consuming() {
            // Whoever made the queue non-empty upholds the invariant; in a pass
            // over the queue, its end does.
            self.uphold_new(kind, stamp);
        }
    }

    /// Upholds the invariant for a queue that was empty until a wake at `stamp`.
    ///
    /// Where wakes are frequent, an earlier one has armed the timer, and that
    /// covers this one: it cannot be armed for later.
    #[inline]
    fn uphold_new(&self, kind: Kind, stamp: Option<Instant>) {
        let is_armed =
            |stamp: Instant| arch::is_armed_by(self.id, Slot::Deferral, self.bound_after(stamp));
        if !stamp.is_some_and(is_armed) {
            self.uphold_at(kind, stamp);
        }
    }

    /// Upholds the invariant for one queue.
    pub(super) fn uphold(&self, kind: Kind) {
        self.uphold_at(kind, None);
    }

    /// Upholds the invariant for one queue, as of `now` if that is given. One
    /// that is a little past may arm what is overdue, which then interrupts at
    /// once.
    #[inline(never)] // It is rarely needed where it is called most.
    fn uphold_at(&self, kind: Kind, now: Option<Instant>) {
        let covered = match kind {
            Kind::Ordinary => self.attention.get() & OVERDUE != 0,
            Kind::InterruptSafe => bottom_half::is_pending_on(self.id),
        };
        if covered {
            return;
        }
        let Some(oldest) = self.queue(kind).oldest() else {
            return;
        };
        // Arming for what the last interrupt found ready would make for two
        // interrupts within one bound. It counts as overdue since then.
        let last_interrupt = Instant::from_nanos(self.deferred_at_ns.load(Relaxed));
        let deadline = self.bound_after(oldest.max(last_interrupt));
        let overdue =
            || oldest < last_interrupt || deadline <= now.unwrap_or_else(|| arch::now_on(self.id));
        if kind == Kind::Ordinary && overdue() {
            self.attention.set(OVERDUE);
        } else {
            let armed = arch::arm_by(self.id, Slot::Deferral, deadline);
            if armed == Armed::NoTimer {
                // Nothing will interrupt: the next `block_on` sees to it.
                self.attention.set(OVERDUE);
            }
        }
    }

    /// What the timer interrupt does for the executor: marks ordinary tasks
    /// overdue. Returns whether the bottom half shall run.
    pub(super) fn on_timer(&self, due: Due) -> bool {
        if !due.deferral && !due.timer_queue {
            self.counters.idle_timer_interrupts.add(1);
        }
        if due.deferral {
            let now = arch::now().as_nanos();
            self.deferred_at_ns.store(now, Relaxed);
        }
        if self.parked.load(SeqCst) {
            return false; // The loop is about to run.
        }
        if due.deferral && !self.ordinary.is_empty() {
            // Also if the oldest is not that old yet, or a pass is under way:
            // arming the rest of its time would be a second interrupt per D.
            self.attention.set(OVERDUE);
        }
        if self.interrupt_safe.is_empty() {
            false
        } else if bottom_half::is_disabled() {
            bottom_half::set_pending();
            false
        } else {
            true
        }
    }

    /// The bottom half: one pass over the interrupt-safe queue, on top of
    /// whatever was interrupted.
    ///
    /// What it leaves waits for the next one: under a flood the interrupted
    /// code still gets the rest of each D.
    pub(super) fn bottom_half<J: Job>(&self) {
        if self.parked.load(SeqCst) || self.interrupt_safe.is_empty() {
            return;
        }
        // Dropped in the reverse of this order, also by unwinding.
        let _disabled = bottom_half::disable();
        let _end = EndOfBottomHalf { core: self };
        let _attention = self.attention.scope(IN_INTERRUPT);
        self.counters.bottom_halves.add(1);
        let now = arch::now();
        let consumer = self.interrupt_safe.consume();
        // It may be on top of a pass, for which these tasks come too late.
        let next_pass = self.last_pass.load(Relaxed) + 1;
        let found = self.collect::<J>(&consumer, Kind::InterruptSafe, next_pass, now);
        let counts = &self.counters.in_bottom_halves;
        counts.wakes.add(found.new as u64);
        let count = found.all().min(DEFAULT_BUDGET);
        let polled = self.poll_section::<J>(&consumer, count, next_pass);
        counts.polls.add(polled as u64);
        consumer.restamp(found, count);
    }
}

/// Upholds the invariant at the end of a bottom half.
struct EndOfBottomHalf<'a> {
    core: &'a Core,
}

impl Drop for EndOfBottomHalf<'_> {
    fn drop(&mut self) {
        // A timer interrupt in the bottom half does not make it drain. It is
        // forgotten before the last look at the queue: a wake or an interrupt
        // after that look has to find that nothing covers it.
        bottom_half::clear_pending();
        if !self.core.interrupt_safe.is_empty() {
            let deadline = self.core.bound_after(arch::now());
            arch::arm_by(self.core.id, Slot::Deferral, deadline);
        }
    }
}
