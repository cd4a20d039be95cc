//! The executor's models: loom tries every order in which cores and interrupts
//! can meet.
//!
//! Run them with
//!
//! ```text
//! RUSTFLAGS="--cfg firstpoll_loom" cargo test --release --lib --target-dir target/loom model
//! ```
//!
//! A wake that is lost shows in one of three ways: loom reports a deadlock
//! since core 0 stays halted, [`assert_deferral`] fails, or [`Log`] is
//! short of a job. See [`arch::model`] for the machine.

#![allow(unsafe_code)] // A model's `Job`.

use core::panic::Location;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use core::task::Waker;
use std::boxed::Box;
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::vec;
use std::vec::Vec;

use loom::sync::atomic::{AtomicBool, AtomicU32};
use loom::thread;

use super::attention::{IN_INTERRUPT, OVERDUE};
use super::per_core::{CORES, Core, Kind};
use super::run_queue::{Job, Link};
use crate::arch::model as machine;
use crate::arch::{self, Handlers, Instant, Slot};
use crate::sync::{WakerSlot, bottom_half};

use Kind::{InterruptSafe, Ordinary};

// ---- the parts of a model -------------------------------------------------

static HANDLERS: Handlers = Handlers {
    enter: || core().attention.set(IN_INTERRUPT),
    leave: |before| core().attention.clear(IN_INTERRUPT & !before),
    timer: |due| core().on_timer(due),
    bottom_half: || core().bottom_half::<TestJob>(),
};

/// The core under test.
fn core() -> &'static Core {
    &CORES[0]
}

/// Checks every execution of `model`, whose first thread is core 0.
fn check(model: impl Fn() + Sync + Send + 'static) {
    loom::model(move || {
        machine::start(&HANDLERS);
        model();
    });
}

/// Like [`check`], but only executions with at most `bound` preemptions: for
/// models where all would take minutes.
///
/// An interrupt that comes while core 0 runs takes one preemption, so for two
/// interrupts and no other core a bound of 2 leaves nothing out.
fn check_bounded(bound: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(move || {
        machine::start(&HANDLERS);
        model();
    });
}

/// The names of the jobs that were polled, in order.
#[derive(Clone, Debug, Default)]
struct Log {
    names: Arc<Mutex<Vec<u32>>>,
}

impl Log {
    fn note(&self, name: u32) {
        self.names.lock().unwrap().push(name);
    }

    fn names(&self) -> Vec<u32> {
        self.names.lock().unwrap().clone()
    }

    fn sorted(&self) -> Vec<u32> {
        let mut names = self.names();
        names.sort_unstable();
        names
    }
}

/// A job that runs once.
struct TestJob(Box<Inner>);

struct Inner {
    name: u32,
    link: Link,
    run: Box<dyn FnOnce(u32)>,
}

impl TestJob {
    fn new(name: u32, run: impl FnOnce(u32) + 'static) -> Self {
        Self(Box::new(Inner {
            name,
            link: Link::new(),
            run: Box::new(run),
        }))
    }

    /// A job that only notes that it ran.
    fn noting(name: u32, log: &Log) -> Self {
        let log = log.clone();
        Self::new(name, move |name| log.note(name))
    }
}

// SAFETY: the pointer is that of the box, so it is the job's own, and the link
// is a field of what it points to.
unsafe impl Job for TestJob {
    fn into_raw(self) -> NonNull<()> {
        NonNull::from(Box::leak(self.0)).cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: it comes from `into_raw`, which leaked a box.
        Self(unsafe { Box::from_raw(raw.cast().as_ptr()) })
    }

    unsafe fn link<'a>(raw: NonNull<()>) -> &'a Link {
        // SAFETY: the box lives until `from_raw`; only its link is borrowed.
        unsafe { &(*raw.cast::<Inner>().as_ptr()).link }
    }

    unsafe fn spawned_at(_: NonNull<()>) -> Option<&'static Location<'static>> {
        None
    }

    fn run(self) {
        let Inner { name, run, .. } = *self.0;
        run(name);
    }
}

/// Fails unless a queued task is sure to be polled: the deferral is armed, or
/// the next `block_on` or the end of a section is going to poll it.
///
/// The other cores are quiet, and an interrupt is not let in between.
fn assert_deferral() {
    let _mask = arch::mask_interrupts();
    let armed = arch::deadline(Slot::Deferral).is_some();
    let overdue = core().attention.get() & OVERDUE != 0;
    assert!(core().ordinary.is_empty() || armed || overdue);
    let held_off = bottom_half::is_disabled() && bottom_half::is_pending_on(0);
    assert!(core().interrupt_safe.is_empty() || armed || held_off);
}

/// Runs passes until nothing is ready.
fn drain() {
    while core().has_work() {
        let _ = core().pass::<TestJob>(2);
    }
}

/// A waker that counts.
#[derive(Default)]
struct Count {
    wakes: AtomicU32,
}

impl Count {
    fn wakes(&self) -> u32 {
        self.wakes.load(Relaxed)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wakes.fetch_add(1, Relaxed);
    }
}

// ---- the run queue --------------------------------------------------------

/// Two cores push while core 0 takes: nothing is lost or doubled, and each
/// core's jobs come in its order.
#[test]
fn model_run_queue_keeps_every_job_once_and_in_order() {
    check_bounded(3, || {
        let log = Log::default();
        let producers = [vec![1, 2], vec![11]].map(|names| {
            let log = log.clone();
            thread::spawn(move || {
                for name in names {
                    core().ordinary.push(TestJob::noting(name, &log), arch::now);
                }
            })
        });
        let take_all = || {
            let consumer = core().ordinary.consume();
            let found = consumer.collect::<TestJob>(1).all();
            for _ in 0..found {
                consumer.pop::<TestJob>().unwrap().run();
            }
            assert!(consumer.pop::<TestJob>().is_none());
        };
        take_all();
        for producer in producers {
            producer.join().unwrap();
        }
        take_all();
        assert!(core().ordinary.is_empty());
        assert_eq!(log.sorted(), [1, 2, 11]);
        let names = log.names();
        let place = |name| names.iter().position(|noted| *noted == name);
        assert!(place(1) < place(2));
    });
}

/// Of two cores that push at the same time one is told that the queue was
/// empty, and the oldest job's stamp is not older than its push.
#[test]
fn model_run_queue_tells_one_producer_that_it_was_empty() {
    check(|| {
        machine::set_clock(Instant::from_nanos(7));
        let log = Log::default();
        let [first, second] = [1, 2].map(|name| {
            let log = log.clone();
            thread::spawn(move || core().ordinary.push(TestJob::noting(name, &log), arch::now))
        });
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert!(first != second);
        assert_eq!(core().ordinary.oldest(), Some(Instant::from_nanos(7)));
        drain();
    });
}

/// An interrupt pushes at every point of a push and of a collection.
#[test]
fn model_run_queue_push_is_interruptible() {
    check(|| {
        let log = Log::default();
        let in_interrupt = log.clone();
        let device = machine::interrupt(move || {
            core().schedule(Ordinary, TestJob::noting(2, &in_interrupt));
        });
        core().schedule(Ordinary, TestJob::noting(1, &log));
        drain();
        device.join().unwrap();
        machine::interruption_point();
        assert_deferral();
        drain();
        assert_eq!(log.sorted(), [1, 2]);
    });
}

// ---- park -----------------------------------------------------------------

/// Core 0 waits for a call that a job wakes, which `schedule` brings.
fn park_until_task(schedule: impl FnOnce(TestJob) -> thread::JoinHandle<()>) {
    let log = Log::default();
    let call = core().calls.begin();
    let waker = Waker::clone(&call.waker());
    let in_job = log.clone();
    let job = TestJob::new(1, move |name| {
        in_job.note(name);
        waker.wake_by_ref();
    });
    let scheduler = schedule(job);
    core().wait_until_woken::<TestJob>(&call.slot());
    scheduler.join().unwrap();
    assert_eq!(log.names(), [1]);
    assert!(!core().parked.load(Relaxed));
}

/// The wake of a task from another core ends the halt.
#[test]
fn model_park_ends_when_another_core_wakes_a_task() {
    check(|| park_until_task(|job| thread::spawn(|| core().schedule(Ordinary, job))));
}

/// The wake of a task from an interrupt ends the halt, without a notification.
#[test]
fn model_park_ends_when_an_interrupt_wakes_a_task() {
    check(|| park_until_task(|job| machine::interrupt(|| core().schedule(InterruptSafe, job))));
}

/// The wake of the call from another core ends the halt.
#[test]
fn model_park_ends_when_another_core_wakes_the_call() {
    check(|| {
        let call = core().calls.begin();
        let waker = Waker::clone(&call.waker());
        let other = thread::spawn(move || waker.wake());
        core().wait_until_woken::<TestJob>(&call.slot());
        other.join().unwrap();
    });
}

/// The wake of the call from an interrupt ends the halt.
#[test]
fn model_park_ends_when_an_interrupt_wakes_the_call() {
    check(|| {
        let call = core().calls.begin();
        let waker = Waker::clone(&call.waker());
        let device = machine::interrupt(move || waker.wake());
        core().wait_until_woken::<TestJob>(&call.slot());
        device.join().unwrap();
    });
}

/// A task that is woken while the park ends without a pass is covered.
#[test]
fn model_park_end_upholds_the_deferral() {
    check(|| {
        let log = Log::default();
        let call = core().calls.begin();
        let waker = Waker::clone(&call.waker());
        let in_other = log.clone();
        let other = thread::spawn(move || {
            waker.wake();
            core().schedule(Ordinary, TestJob::noting(1, &in_other));
        });
        core().wait_until_woken::<TestJob>(&call.slot());
        other.join().unwrap();
        assert_deferral();
        drain();
        assert_eq!(log.names(), [1]);
    });
}

/// The same from an interrupt, for both kinds of task.
#[test]
fn model_park_end_upholds_the_deferral_after_an_interrupt() {
    for kind in [Ordinary, InterruptSafe] {
        check(move || {
            let log = Log::default();
            let call = core().calls.begin();
            let waker = Waker::clone(&call.waker());
            let in_interrupt = log.clone();
            let device = machine::interrupt(move || {
                waker.wake();
                core().schedule(kind, TestJob::noting(1, &in_interrupt));
            });
            core().wait_until_woken::<TestJob>(&call.slot());
            device.join().unwrap();
            assert_deferral();
            drain();
            assert_eq!(log.names(), [1]);
        });
    }
}

/// A task woken by another core, and the call woken by an interrupt, at once.
#[test]
fn model_park_ends_whichever_wake_comes_first() {
    check_bounded(3, || {
        let log = Log::default();
        let call = core().calls.begin();
        let waker = Waker::clone(&call.waker());
        let device = machine::interrupt(move || waker.wake());
        let job = TestJob::noting(1, &log);
        let other = thread::spawn(|| core().schedule(Ordinary, job));
        core().wait_until_woken::<TestJob>(&call.slot());
        other.join().unwrap();
        device.join().unwrap();
        assert_deferral();
        drain();
        assert_eq!(log.names(), [1]);
    });
}

// ---- the calls' slots -----------------------------------------------------

/// A waker of an earlier call wakes no later one, also if it comes while one
/// ends and the other begins.
#[test]
fn model_call_ignores_stale_wakers() {
    check(|| {
        let first = core().calls.begin();
        let stale = Waker::clone(&first.waker());
        let device = machine::interrupt(move || stale.wake());
        first.slot().retire_wakers();
        drop(first);
        let second = core().calls.begin();
        device.join().unwrap();
        machine::interruption_point();
        assert!(!second.slot().take_woken());
        second.waker().wake_by_ref();
        assert!(second.slot().take_woken());
    });
}

/// A stale waker on one core takes no wake from a later call on another.
#[test]
fn model_call_wake_survives_a_stale_waker() {
    check(|| {
        let first = core().calls.begin();
        let stale = Waker::clone(&first.waker());
        first.slot().retire_wakers();
        drop(first);
        let second = core().calls.begin();
        let waker = Waker::clone(&second.waker());
        let others = [stale, waker].map(|waker| thread::spawn(move || waker.wake()));
        core().wait_until_woken::<TestJob>(&second.slot());
        for other in others {
            other.join().unwrap();
        }
        assert!(!second.slot().take_woken());
    });
}

/// The wake of an outer call is kept while an inner one runs and ends.
#[test]
fn model_call_keeps_the_outer_wake() {
    check_bounded(3, || {
        let outer = core().calls.begin();
        let waker = Waker::clone(&outer.waker());
        let other = thread::spawn(move || waker.wake());
        let inner = core().calls.begin();
        let waker = Waker::clone(&inner.waker());
        let device = machine::interrupt(move || waker.wake());
        core().wait_until_woken::<TestJob>(&inner.slot());
        drop(inner);
        core().wait_until_woken::<TestJob>(&outer.slot());
        other.join().unwrap();
        device.join().unwrap();
    });
}

/// Whoever takes a wake sees what was done before it, also before a second
/// wake that found the first one not yet taken.
#[test]
fn model_call_wake_publishes_what_came_before() {
    check_bounded(3, || {
        let call = core().calls.begin();
        let waker = Waker::clone(&call.waker());
        let event = loom::sync::Arc::new(AtomicU32::new(0));
        let other = {
            let event = event.clone();
            thread::spawn(move || {
                event.store(1, Relaxed);
                waker.wake_by_ref();
                event.store(2, Relaxed);
                waker.wake_by_ref();
            })
        };
        while event.load(Relaxed) < 2 {
            core().wait_until_woken::<TestJob>(&call.slot());
        }
        other.join().unwrap();
    });
}

// ---- the deferral ---------------------------------------------------------

/// What happens at any moment while core 0 runs a pass that leaves a task.
fn defer(kind: Kind, disturb: impl FnOnce(TestJob) -> Vec<thread::JoinHandle<()>>) {
    let log = Log::default();
    core().schedule(kind, TestJob::noting(1, &log));
    core().schedule(kind, TestJob::noting(2, &log));
    let threads = disturb(TestJob::noting(3, &log));
    let _ = core().pass::<TestJob>(1);
    for thread in threads {
        thread.join().unwrap();
    }
    machine::interruption_point();
    assert_deferral();
    drain();
    assert_eq!(log.sorted(), [1, 2, 3]);
}

/// A timer interrupt and the wake of an ordinary task from another.
#[test]
fn model_deferral_of_ordinary_tasks_with_interrupts() {
    check_bounded(2, || {
        defer(Ordinary, |job| {
            let timer = machine::timer_interrupt();
            let device = machine::interrupt(|| core().schedule(Ordinary, job));
            vec![timer, device]
        });
    });
}

/// A timer interrupt, with its bottom half, and the wake of an interrupt-safe
/// task from another.
#[test]
fn model_deferral_of_interrupt_safe_tasks_with_interrupts() {
    check_bounded(2, || {
        defer(InterruptSafe, |job| {
            let timer = machine::timer_interrupt();
            let device = machine::interrupt(|| core().schedule(InterruptSafe, job));
            vec![timer, device]
        });
    });
}

/// A timer interrupt and the wake of a task from another core.
#[test]
fn model_deferral_with_another_core() {
    for kind in [Ordinary, InterruptSafe] {
        check_bounded(3, move || {
            defer(kind, |job| {
                let timer = machine::timer_interrupt();
                let other = thread::spawn(move || core().schedule(kind, job));
                vec![timer, other]
            });
        });
    }
}

/// A bottom half that a section holds off runs at the section's end.
#[test]
fn model_deferral_runs_a_held_off_bottom_half() {
    check_bounded(2, || {
        let log = Log::default();
        let in_interrupt = log.clone();
        let device = machine::interrupt(move || {
            core().schedule(InterruptSafe, TestJob::noting(1, &in_interrupt));
        });
        let timer = machine::timer_interrupt();
        drop(bottom_half::disable());
        assert_deferral();
        device.join().unwrap();
        timer.join().unwrap();
        machine::interruption_point();
        assert_deferral();
        drain();
        assert_eq!(log.names(), [1]);
    });
}

/// A bottom half that this core holds off covers no task of another core.
#[test]
fn model_deferral_knows_whose_bottom_half_is_held_off() {
    check(|| {
        let log = Log::default();
        let in_other = log.clone();
        let other = thread::spawn(move || {
            let disabled = bottom_half::disable();
            bottom_half::set_pending();
            core().schedule(InterruptSafe, TestJob::noting(1, &in_other));
            bottom_half::clear_pending();
            drop(disabled);
        });
        other.join().unwrap();
        assert_deferral();
        drain();
    });
}

// ---- the waker slot -------------------------------------------------------

/// A slot, the event that it announces, and what registers in it.
#[derive(Default)]
struct Announced {
    slot: WakerSlot,
    event: AtomicBool,
}

impl Announced {
    fn announce(&self) {
        self.event.store(true, Relaxed);
        self.slot.wake();
    }

    /// What a future does in its poll.
    fn poll(&self, waker: &Waker) -> bool {
        self.slot.register(waker);
        self.event.load(Relaxed)
    }
}

/// An event that the poll does not see wakes its waker, from another core.
#[test]
fn model_waker_slot_loses_no_wake_from_another_core() {
    check(|| {
        let announced = Arc::new(Announced::default());
        let count = Arc::new(Count::default());
        let other = {
            let announced = announced.clone();
            thread::spawn(move || announced.announce())
        };
        let seen = announced.poll(&count.clone().into());
        other.join().unwrap();
        assert!(seen || count.wakes() > 0);
    });
}

/// An event that the poll does not see wakes the waker of this poll, not that
/// of an earlier one, from an interrupt.
#[test]
fn model_waker_slot_loses_no_wake_from_an_interrupt() {
    check(|| {
        let announced = Arc::new(Announced::default());
        let (old, new) = (Arc::new(Count::default()), Arc::new(Count::default()));
        announced.slot.register(&old.clone().into());
        let device = {
            let announced = announced.clone();
            machine::interrupt(move || announced.announce())
        };
        let seen = announced.poll(&new.clone().into());
        device.join().unwrap();
        machine::interruption_point();
        assert!(seen || new.wakes() > 0);
    });
}

/// Two wakes at the same time around a registration: a third finds the waker
/// that was registered last.
#[test]
fn model_waker_slot_keeps_the_last_registration() {
    check_bounded(3, || {
        let announced = Arc::new(Announced::default());
        let (old, new) = (Arc::new(Count::default()), Arc::new(Count::default()));
        announced.slot.register(&old.clone().into());
        let others = [(); 2].map(|()| {
            let announced = announced.clone();
            thread::spawn(move || announced.slot.wake())
        });
        announced.slot.register(&new.clone().into());
        for other in others {
            other.join().unwrap();
        }
        let before = new.wakes();
        announced.slot.wake();
        assert_eq!(new.wakes(), before + 1);
    });
}

/// A waker that comes back to its slot when it is woken or dropped, which hangs
/// if that happens under the lock.
struct Returning {
    announced: Arc<Announced>,
}

impl Wake for Returning {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Another one, so that the slot held the last reference to this.
        self.announced.slot.register(Waker::noop());
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        assert!(
            core().attention.get() & IN_INTERRUPT == 0,
            "a waker was freed in an interrupt"
        );
        self.announced.slot.wake();
    }
}

/// Wakers are called and dropped with the slot unlocked, and not dropped in an
/// interrupt.
#[test]
fn model_waker_slot_is_unlocked_for_foreign_code() {
    check(|| {
        let announced = Arc::new(Announced::default());
        let returning = || {
            Waker::from(Arc::new(Returning {
                announced: announced.clone(),
            }))
        };
        announced.slot.register(&returning());
        let device = {
            let announced = announced.clone();
            machine::interrupt(move || announced.slot.wake())
        };
        announced.slot.register(&returning());
        announced.slot.register(Waker::noop());
        device.join().unwrap();
        machine::interruption_point();
        announced.slot.register(Waker::noop());
    });
}
