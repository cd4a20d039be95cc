//! A pass: every task that is ready, polled once.

use super::attention::{IN_TASK, OVERDUE};
use super::per_core::{Core, Kind};
use super::run_queue::{Collected, Consumer, Job};
use crate::arch::{self, Instant};
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::bottom_half::{self, Disabled};

/// What a pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Pass {
    /// The number of tasks that it polled.
    pub polled: usize,
    /// The number of tasks that were ready when it began and that its budget
    /// did not reach. They come first in the next pass.
    pub left: usize,
    /// Whether a task is ready after it: one that it left, or one that was
    /// woken meanwhile.
    pub work: Work,
}

/// Whether tasks are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// At least one task is ready.
    Ready,
    /// No task is ready.
    None,
}

impl Core {
    /// One pass of at most `budget` polls.
    ///
    /// Order: what the last pass left, then what was woken since; of each, the
    /// interrupt-safe tasks first. So the n-th ready task is polled by pass
    /// ⌈n / budget⌉, however often others wake themselves.
    pub(super) fn pass<J: Job>(&self, budget: usize) -> Pass {
        let now = arch::now();
        self.counters.passes.add(1);
        if self.parked.load(Relaxed) {
            self.parked.store(false, SeqCst);
        }
        if self.attention.get() & OVERDUE != 0 {
            self.attention.clear(OVERDUE);
            self.counters.overdue_passes.add(1);
        }

        let mut polled = 0;
        let mut left = 0;
        let ordinary = Section::begin(self, Kind::Ordinary);
        let found = self.collect::<J>(&ordinary.consumer, Kind::Ordinary, now);

        // With no ordinary leftovers to come in between, the interrupt-safe
        // tasks are one section.
        let mut late_interrupt_safe = 0;
        if !self.interrupt_safe.is_empty() {
            let section = Section::begin(self, Kind::InterruptSafe);
            let found_safe = self.collect::<J>(&section.consumer, Kind::InterruptSafe, now);
            let first = match found.leftover {
                0 => found_safe.all(),
                _ => found_safe.leftover,
            };
            let count = first.min(budget);
            polled += self.poll_section::<J>(&section.consumer, count);
            section.consumer.restamp(found_safe, count);
            late_interrupt_safe = found_safe.all() - first;
            left += first - count;
        }

        let leftover = found.leftover.min(budget - polled);
        polled += self.poll_section::<J>(&ordinary.consumer, leftover);

        if late_interrupt_safe > 0 {
            let count = late_interrupt_safe.min(budget - polled);
            if count > 0 {
                // A bottom half may have polled some of them meanwhile.
                let section = Section::begin(self, Kind::InterruptSafe);
                polled += self.poll_section::<J>(&section.consumer, count);
            }
            left += late_interrupt_safe - count;
        }

        let new = (found.all() - leftover).min(budget - polled);
        polled += self.poll_section::<J>(&ordinary.consumer, new);
        ordinary.consumer.restamp(found, leftover + new);
        left += found.all() - leftover - new;
        drop(ordinary);

        Pass {
            polled,
            left,
            work: if self.has_work() {
                Work::Ready
            } else {
                Work::None
            },
        }
    }

    /// Collects what was woken, and notes how late that is at `now`.
    pub(super) fn collect<J: Job>(
        &self,
        consumer: &Consumer<'_>,
        kind: Kind,
        now: Instant,
    ) -> Collected {
        let found = consumer.collect::<J>();
        self.counters.wakes.add(found.new as u64);
        if let Some(oldest) = consumer.ready_since() {
            let lateness = match kind {
                Kind::InterruptSafe => &self.counters.interrupt_safe_lateness,
                Kind::Ordinary => &self.counters.ordinary_lateness,
            };
            lateness.note(now - oldest, consumer.first_spawned_at::<J>());
        }
        found
    }

    /// Polls up to `count` jobs; returns how many there were.
    pub(super) fn poll_section<J: Job>(&self, consumer: &Consumer<'_>, count: usize) -> usize {
        if count == 0 {
            return 0;
        }
        let _in_task = self.attention.scope(IN_TASK);
        let mut polled = 0;
        while polled < count
            && let Some(job) = consumer.pop::<J>()
        {
            polled += 1;
            job.run();
        }
        self.counters.polls.add(polled as u64);
        polled
    }
}

/// A part of a pass over one queue.
struct Section<'a> {
    // Dropped in this order, also by unwinding.
    consumer: Consumer<'a>,
    _uphold: Uphold<'a>,
    /// An interrupt-safe section holds the bottom half off; the end of that
    /// runs a bottom half that came in between.
    _disabled: Option<Disabled>,
}

impl<'a> Section<'a> {
    fn begin(core: &'a Core, kind: Kind) -> Self {
        let disabled = (kind == Kind::InterruptSafe).then(bottom_half::disable);
        Self {
            consumer: core.queue(kind).consume(),
            _uphold: Uphold { core, kind },
            _disabled: disabled,
        }
    }
}

/// Upholds the deferral's invariant for one queue at the end of a section.
struct Uphold<'a> {
    core: &'a Core,
    kind: Kind,
}

impl Drop for Uphold<'_> {
    fn drop(&mut self) {
        self.core.uphold(self.kind);
    }
}
