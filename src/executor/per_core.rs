//! The executor's state on one core.

use core::panic::Location;

use super::DEFERRAL_BOUND;
use super::attention::Attention;
use super::run_queue::RunQueue;
use super::stats::Counters;
use super::waker::Calls;
use crate::arch::{self, Instant};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed, const_fn};

/// Which of a core's two run queues a task belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// May run in the bottom half, on top of whatever code was interrupted.
    InterruptSafe,
    /// Runs only in the passes of the program's own thread of execution.
    Ordinary,
}

/// One core: its run queues, its calls of `block_on`, and what its interrupts
/// leave for them.
///
/// Everything is reachable from interrupts, so everything is atomic; what only
/// the core itself writes is written by plain loads and stores.
#[derive(Debug)]
pub(crate) struct Core {
    pub(super) id: usize,
    pub(super) attention: Attention,
    pub(super) calls: Calls,
    /// Set from the last look at the queues before the halt until a pass
    /// starts or the park ends: the loop is about to run, so a wake need not
    /// arm anything.
    pub(super) parked: AtomicBool,
    pub(super) interrupt_safe: RunQueue,
    pub(super) ordinary: RunQueue,
    /// The number of the last pass that started.
    pub(super) last_pass: AtomicU64,
    /// The deferral bound, in nanoseconds.
    pub(super) bound_ns: AtomicU64,
    /// When the last interrupt of the deferral came, in nanoseconds.
    pub(super) deferred_at_ns: AtomicU64,
    /// Where the task that is being polled was spawned.
    pub(super) running: AtomicPtr<Location<'static>>,
    pub(super) counters: Counters,
}

/// Every core that there can be.
#[cfg(not(firstpoll_loom))]
pub(crate) static CORES: [Core; arch::MAX_CORES] = {
    let mut cores = [const { Core::new(0) }; arch::MAX_CORES];
    let mut id = 1;
    while id < arch::MAX_CORES {
        cores[id] = Core::new(id);
        id += 1;
    }
    cores
};

#[cfg(firstpoll_loom)]
loom::lazy_static! {
    pub(crate) static ref CORES: [Core; arch::MAX_CORES] = core::array::from_fn(Core::new);
}

impl Core {
    const_fn! {
        pub(crate) const fn new(id: usize) -> Self {
            Self {
                id,
                attention: Attention::new(),
                calls: Calls::new(id),
                parked: AtomicBool::new(false),
                interrupt_safe: RunQueue::new(),
                ordinary: RunQueue::new(),
                last_pass: AtomicU64::new(0),
                bound_ns: AtomicU64::new(DEFERRAL_BOUND.as_nanos() as u64),
                deferred_at_ns: AtomicU64::new(0),
                running: AtomicPtr::new(core::ptr::null_mut()),
                counters: Counters::new(),
            }
        }
    }

    /// The calling core.
    #[inline]
    pub(crate) fn current() -> &'static Self {
        if arch::MAX_CORES == 1 {
            &CORES[0]
        } else {
            &CORES[arch::core_id()]
        }
    }

    #[inline]
    pub(super) fn queue(&self, kind: Kind) -> &RunQueue {
        match kind {
            Kind::InterruptSafe => &self.interrupt_safe,
            Kind::Ordinary => &self.ordinary,
        }
    }

    /// The deferral bound after `start`.
    pub(super) fn bound_after(&self, start: Instant) -> Instant {
        let bound_ns = self.bound_ns.load(Relaxed);
        Instant::from_nanos(start.as_nanos().saturating_add(bound_ns))
    }

    /// Whether a task is ready.
    pub(super) fn has_work(&self) -> bool {
        !(self.interrupt_safe.is_empty() && self.ordinary.is_empty())
    }
}
