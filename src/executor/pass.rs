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
    /// Order: what the last pass left, in its order; then the interrupt-safe
    /// tasks that were woken since; then the ordinary ones. So the n-th ready
    /// task is polled by pass ⌈n / budget⌉, however often others wake themselves.
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

        let number = self.last_pass.load(Relaxed) + 1;
        self.last_pass.store(number, Relaxed);

        let ordinary = Section::begin(self, Kind::Ordinary);
        let found = self.collect::<J>(&ordinary.consumer, Kind::Ordinary, number, now);
        let mut ready = found.all();
        self.counters.in_passes.wakes.add(found.new as u64);
        let mut polled = 0;
        let mut polled_ordinary = 0;

        // Leftovers of both queues take turns in the order of the passes that
        // found them; of one pass, the interrupt-safe ones come first.
        let mut next_safe = None;
        if !self.interrupt_safe.is_empty() {
            let section = Section::begin(self, Kind::InterruptSafe);
            let found = self.collect::<J>(&section.consumer, Kind::InterruptSafe, number, now);
            ready += found.all();
            self.counters.in_passes.wakes.add(found.new as u64);
            let last = ordinary.consumer.first_found_by::<J>().unwrap_or(number);
            polled += self.poll_section::<J>(&section.consumer, budget, last);
            section.consumer.restamp(found, polled);
            next_safe = section.consumer.first_found_by::<J>();
        }
        loop {
            let last = next_safe.map_or(number, |pass| pass - 1);
            let count = self.poll_section::<J>(&ordinary.consumer, budget - polled, last);
            polled_ordinary += count;
            polled += count;
            if polled == budget || next_safe.is_none_or(|pass| pass > number) {
                break;
            }
            // A bottom half may have polled some of them meanwhile.
            let section = Section::begin(self, Kind::InterruptSafe);
            let last = ordinary.consumer.first_found_by::<J>().unwrap_or(number);
            polled += self.poll_section::<J>(&section.consumer, budget - polled, last);
            next_safe = section.consumer.first_found_by::<J>();
        }
        ordinary.consumer.restamp(found, polled_ordinary);
        drop(ordinary);
        self.counters.in_passes.polls.add(polled as u64);

        Pass {
            polled,
            left: if polled < budget { 0 } else { ready - polled },
            work: if self.has_work() {
                Work::Ready
            } else {
                Work::None
            },
        }
    }

    /// Collects what was woken for the pass of number `pass`, and notes how late
    /// that is at `now`.
    pub(super) fn collect<J: Job>(
        &self,
        consumer: &Consumer<'_>,
        kind: Kind,
        pass: u64,
        now: Instant,
    ) -> Collected {
        let found = consumer.collect::<J>(pass);
        if let Some(oldest) = consumer.ready_since() {
            let lateness = match kind {
                Kind::InterruptSafe => &self.counters.interrupt_safe_lateness,
                Kind::Ordinary => &self.counters.ordinary_lateness,
            };
            let nanos = now.as_nanos().saturating_sub(oldest.as_nanos());
            lateness.note(nanos, || consumer.first_spawned_at::<J>());
        }
        found
    }

    /// Polls up to `count` of the jobs that passes up to number `last` found;
    /// returns how many there were.
    pub(super) fn poll_section<J: Job>(
        &self,
        consumer: &Consumer<'_>,
        count: usize,
        last: u64,
    ) -> usize {
        if consumer.is_done() {
            return 0;
        }
        let _in_task = self.attention.scope(IN_TASK);
        let mut polled = 0;
        while polled < count
            && consumer
                .first_found_by::<J>()
                .is_some_and(|pass| pass <= last)
            && let Some(job) = consumer.pop::<J>()
        {
            polled += 1;
            job.run();
        }
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
    #[inline]
    fn drop(&mut self) {
        if !self.core.queue(self.kind).is_empty() {
            self.core.uphold(self.kind);
        }
    }
}
