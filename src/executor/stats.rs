//! What the executor has done, readable at any time.

use core::panic::Location;
use core::time::Duration;

#[cfg(not(firstpoll_loom))]
use super::per_core::Core;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed, const_fn};

/// A core's counters since it started.
///
/// They cost the ready path of `block_on` nothing: passes, bottom halves and
/// halts count themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Polls of tasks, in passes and bottom halves.
    pub polls: u64,
    /// Wakes (the first schedule at spawn included) of tasks that a pass or a
    /// bottom half has since found.
    pub wakes: u64,
    /// Passes over the run queues.
    pub passes: u64,
    /// Bottom halves that ran over the interrupt-safe queue.
    pub bottom_halves: u64,
    /// Passes that started with tasks overdue.
    pub overdue_passes: u64,
    /// Halts of the core.
    pub halts: u64,
    /// Timer interrupts that found nothing due.
    pub idle_timer_interrupts: u64,
    /// The longest that an interrupt-safe task was ready before the pass or
    /// bottom half that polled it.
    pub interrupt_safe_lateness: Lateness,
    /// The longest that an ordinary task was ready before the pass that polled it.
    pub ordinary_lateness: Lateness,
}

/// How late a task was polled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// From the wake to the start of the pass that found it.
    pub longest: Duration,
    /// Where the task was spawned that had waited that long.
    pub task: Option<&'static Location<'static>>,
}

/// The counters as a core keeps them.
///
/// A bottom half runs on top of a pass that it interrupted, so each has its
/// own.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) in_passes: JobCounters,
    pub(super) in_bottom_halves: JobCounters,
    pub(super) passes: Counter,
    pub(super) bottom_halves: Counter,
    pub(super) overdue_passes: Counter,
    pub(super) halts: Counter,
    pub(super) idle_timer_interrupts: Counter,
    pub(super) interrupt_safe_lateness: LatenessCounter,
    pub(super) ordinary_lateness: LatenessCounter,
}

#[derive(Debug)]
pub(super) struct JobCounters {
    pub(super) polls: Counter,
    pub(super) wakes: Counter,
}

/// Written in one place of the core's own code, which never interrupts itself:
/// plain loads and stores are enough.
#[derive(Debug)]
pub(super) struct Counter {
    value: AtomicU64,
}

#[derive(Debug)]
pub(super) struct LatenessCounter {
    longest_ns: AtomicU64,
    task: AtomicPtr<Location<'static>>,
}

impl Counters {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                in_passes: JobCounters::new(),
                in_bottom_halves: JobCounters::new(),
                passes: Counter::new(),
                bottom_halves: Counter::new(),
                overdue_passes: Counter::new(),
                halts: Counter::new(),
                idle_timer_interrupts: Counter::new(),
                interrupt_safe_lateness: LatenessCounter::new(),
                ordinary_lateness: LatenessCounter::new(),
            }
        }
    }
}

impl JobCounters {
    const_fn! {
        const fn new() -> Self {
            Self {
                polls: Counter::new(),
                wakes: Counter::new(),
            }
        }
    }
}

impl Counter {
    const_fn! {
        const fn new() -> Self {
            Self {
                value: AtomicU64::new(0),
            }
        }
    }

    pub(super) fn add(&self, count: u64) {
        let value = self.value.load(Relaxed);
        self.value.store(value + count, Relaxed);
    }

    #[cfg(not(firstpoll_loom))]
    fn get(&self) -> u64 {
        self.value.load(Relaxed)
    }
}

impl LatenessCounter {
    const_fn! {
        const fn new() -> Self {
            Self {
                longest_ns: AtomicU64::new(0),
                task: AtomicPtr::new(core::ptr::null_mut()),
            }
        }
    }

    /// Notes that a task, the oldest of its queue, was ready for `nanos`. Which
    /// one is asked for only if that is the longest yet.
    pub(super) fn note(
        &self,
        nanos: u64,
        task: impl FnOnce() -> Option<&'static Location<'static>>,
    ) {
        if nanos > self.longest_ns.load(Relaxed) {
            self.longest_ns.store(nanos, Relaxed);
            let task = task().map_or(core::ptr::null_mut(), |task| {
                core::ptr::from_ref(task).cast_mut()
            });
            self.task.store(task, Relaxed);
        }
    }

    #[cfg(not(firstpoll_loom))]
    fn get(&self) -> Lateness {
        Lateness {
            longest: Duration::from_nanos(self.longest_ns.load(Relaxed)),
            task: super::task::location(self.task.load(Relaxed)),
        }
    }
}

/// The calling core's counters.
#[cfg(not(firstpoll_loom))]
pub fn stats() -> Stats {
    let counters = &Core::current().counters;
    Stats {
        polls: counters.in_passes.polls.get() + counters.in_bottom_halves.polls.get(),
        wakes: counters.in_passes.wakes.get() + counters.in_bottom_halves.wakes.get(),
        passes: counters.passes.get(),
        bottom_halves: counters.bottom_halves.get(),
        overdue_passes: counters.overdue_passes.get(),
        halts: counters.halts.get(),
        idle_timer_interrupts: counters.idle_timer_interrupts.get(),
        interrupt_safe_lateness: counters.interrupt_safe_lateness.get(),
        ordinary_lateness: counters.ordinary_lateness.get(),
    }
}
