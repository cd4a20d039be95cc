//! Expiring deadlines: the timer queues, and the task that empties them.

#![allow(unsafe_code)] // One `spawn_interrupt_safe`.

use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::task::{Poll, Waker};

use super::timer_queue::{Key, TimerQueue};
use crate::arch::{self, Instant, MAX_CORES, Slot};
use crate::executor;
use crate::sync::{BottomHalfLock, WakerSlot};

/// How many wakers are taken out of the queue at a time, to be woken with the
/// queue unlocked.
const BATCH: usize = 32;

/// The timers of one core.
#[derive(Debug)]
struct Timers {
    started: AtomicBool,
    queue: BottomHalfLock<TimerQueue>,
    /// The expiry task's.
    waker: WakerSlot,
}

static CORES: [Timers; MAX_CORES] = [const {
    Timers {
        started: AtomicBool::new(false),
        queue: BottomHalfLock::new(TimerQueue::new()),
        waker: WakerSlot::new(),
    }
}; MAX_CORES];

/// Starts the timers of the calling core, once.
pub(crate) fn start() {
    let timers = &CORES[arch::core_id()];
    if timers.started.swap(true, Relaxed) {
        return;
    }
    let task = async move {
        poll_fn(|context| {
            timers.waker.register(context.waker());
            timers.expire();
            Poll::<()>::Pending
        })
        .await;
    };
    // SAFETY: the task touches the timer queue through its bottom-half lock,
    // the waker slot, and the wakers that it wakes, with nothing locked.
    unsafe { executor::spawn_interrupt_safe(task) }.detach();
}

/// The timer interrupt found the timer queue's deadline due.
pub(crate) fn on_deadline() {
    CORES[arch::core_id()].waker.wake();
}

impl Timers {
    /// Wakes whoever is due, in the order of their deadlines, and programs the
    /// next deadline.
    fn expire(&self) {
        loop {
            let mut batch = [const { None::<Waker> }; BATCH];
            let now = arch::now();
            let mut queue = self.queue.lock();
            for place in &mut batch {
                *place = queue.pop_due(now);
                if place.is_none() {
                    break;
                }
            }
            let more = batch[BATCH - 1].is_some();
            if !more {
                arch::set_deadline(Slot::TimerQueue, queue.earliest());
            }
            drop(queue);
            for waker in batch.into_iter().flatten() {
                waker.wake();
            }
            if !more {
                return;
            }
        }
    }
}

/// A deadline in the timer queue of the core that registered it; removed from
/// there when this is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    core: usize,
    key: Key,
}

impl Registration {
    /// Registers `deadline` with the calling core's timers.
    ///
    /// # Panics
    ///
    /// Panics if those have not been started.
    pub(super) fn new(deadline: Instant, waker: &Waker) -> Self {
        let core = arch::core_id();
        let timers = &CORES[core];
        assert!(
            timers.started.load(Relaxed),
            "the timers of this core have not been started: call `runtime::init` first"
        );
        let waker = waker.clone();
        let mut queue = timers.queue.lock();
        let key = queue.insert(deadline, waker);
        if queue.earliest() == Some(deadline) {
            arch::set_deadline(Slot::TimerQueue, Some(deadline));
        }
        drop(queue);
        Self { core, key }
    }

    /// The deadline.
    pub(super) fn deadline(&self) -> Instant {
        self.key.deadline()
    }

    /// Makes `waker` the one that is woken; whether the deadline has not come
    /// yet.
    pub(super) fn update(&self, waker: &Waker) -> bool {
        let timers = &CORES[self.core];
        let mut queue = timers.queue.lock();
        match queue.waker_mut(self.key) {
            Some(registered) if !registered.will_wake(waker) => {}
            registered => return registered.is_some(),
        }
        drop(queue);
        // Cloned and dropped outside of the lock: both may run foreign code.
        let mut waker = waker.clone();
        queue = timers.queue.lock();
        let registered = queue.waker_mut(self.key);
        let is_queued = registered.is_some();
        if let Some(registered) = registered {
            core::mem::swap(registered, &mut waker);
        }
        drop(queue);
        drop(waker);
        is_queued
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let timers = &CORES[self.core];
        let mut queue = timers.queue.lock();
        let was_earliest = queue.earliest() == Some(self.key.deadline());
        let waker = queue.remove(self.key);
        if was_earliest && waker.is_some() && arch::is_current_core(self.core) {
            arch::set_deadline(Slot::TimerQueue, queue.earliest());
        }
        drop(queue);
        drop(waker);
    }
}
