//! Rules 3, 6 and 8 for wakers: where they may be called, and what outlives what.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::thread;

use firstpoll::arch::host::{self, advance};
use firstpoll::arch::{self, Slot};
use firstpoll::block_on;
use firstpoll::executor::{DEFAULT_BUDGET, blocking, pass};
use firstpoll::sync::WakerSlot;

use crate::trace::{D, Signal, Trace, deferral, on_core, spawn_safe};

// ---- the waker of block_on ------------------------------------------------

#[test]
fn a_waker_outlives_its_call_and_then_wakes_nobody() {
    on_core(|| {
        let trace = Trace::new();
        let (first, second) = (Signal::new(), Signal::new());
        trace.at_halts([first.setting(), first.waking(), second.setting()]);
        block_on(first.wait(&trace, "first"));
        block_on(second.wait(&trace, "second"));
        assert_eq!(
            trace.take(),
            ["first", "halt", "first", "second", "halt", "halt", "second"]
        );
    });
}

#[test]
fn a_waker_woken_after_its_call_does_not_wake_the_next() {
    on_core(|| {
        let stale = blocking(|blocked| blocked.waker().clone());
        blocking(|blocked| {
            stale.wake_by_ref();
            assert!(!blocked.take_woken());
        });
    });
}

#[test]
fn a_waker_woken_between_two_calls_does_not_wake_the_next() {
    on_core(|| {
        let stale = blocking(|blocked| blocked.waker().clone());
        stale.wake_by_ref();
        blocking(|blocked| assert!(!blocked.take_woken()));
    });
}

#[test]
fn a_wake_that_the_call_did_not_take_is_not_left_to_the_next() {
    on_core(|| {
        blocking(|blocked| blocked.waker().wake_by_ref());
        blocking(|blocked| assert!(!blocked.take_woken()));
    });
}

#[test]
fn a_waker_of_a_call_that_never_waited_costs_the_next_one_poll_at_most() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        let stale = block_on(poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::Ready(context.waker().clone())
        }));
        stale.wake_by_ref();
        trace.at_halts([Box::new(|| {}), signal.setting()]);
        block_on(signal.wait(&trace, "f"));
        let [polls, halts] = trace.take_counts(["f", "halt"]);
        assert!(polls == 2 || polls == 3, "polled {polls} times");
        assert_eq!(halts, 2);
    });
}

#[test]
fn clones_wake_the_same_call_and_wakers_of_different_calls_differ() {
    on_core(|| {
        let first = blocking(|blocked| {
            let clone = blocked.waker().clone();
            assert!(clone.will_wake(blocked.waker()));
            clone.wake();
            assert!(blocked.take_woken());
            blocked.waker().clone()
        });
        blocking(|blocked| {
            assert!(!first.will_wake(blocked.waker()));
            blocking(|inner| assert!(!inner.waker().will_wake(blocked.waker())));
        });
    });
}

#[test]
fn wakers_of_different_cores_differ_and_wake_their_own() {
    on_core(|| {
        let other = on_core(|| blocking(|blocked| blocked.waker().clone()));
        blocking(|blocked| {
            assert!(!other.will_wake(blocked.waker()));
            other.wake();
            assert!(!blocked.take_woken());
        });
    });
}

// ---- where they may be called ---------------------------------------------

#[test]
fn the_blocked_future_is_woken_by_an_interrupt() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        trace.at_halts([signal.setting()]);
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take(), ["f", "halt", "f"]);
    });
}

#[test]
fn a_task_is_woken_in_the_bottom_half_and_armed_for_there() {
    on_core(|| {
        let trace = Trace::new();
        let ordinary = Signal::new();
        firstpoll::spawn(ordinary.wait(&trace, "ordinary")).detach();
        let _ = pass(DEFAULT_BUDGET);
        arch::set_deadline(Slot::Deferral, None);
        let wake = ordinary.clone();
        trace.spawn_safe_doing("net", move || wake.wake());
        advance(D);
        assert_eq!(trace.take(), ["ordinary", "net"]);
        assert_eq!(deferral(), Some(2 * D));
    });
}

#[test]
fn a_task_is_woken_by_another_core() {
    on_core(|| {
        let trace = Trace::new();
        let (task, signal) = (Signal::new(), Signal::new());
        let (waits, done) = (task.wait(&trace, "task"), signal.clone());
        firstpoll::spawn(async move {
            waits.await;
            done.set();
        })
        .detach();
        let remote = thread::spawn({
            let trace = trace.clone();
            move || {
                while !trace.peek("task") {
                    thread::yield_now();
                }
                task.set();
            }
        });
        block_on(signal.wait(&trace, "f"));
        remote.join().expect("it only waits and wakes");
        assert_eq!(trace.take(), ["f", "task", "task", "f"]);
    });
}

#[test]
fn the_blocked_future_is_woken_by_another_core() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        let remote = thread::spawn({
            let (trace, signal) = (trace.clone(), signal.clone());
            move || {
                while !trace.peek("f") {
                    thread::yield_now();
                }
                signal.set();
            }
        });
        block_on(signal.wait(&trace, "f"));
        remote.join().expect("it only waits and wakes");
        assert_eq!(trace.take(), ["f", "f"]);
    });
}

#[test]
fn a_wake_by_another_core_arms_the_deferral_of_the_tasks_core() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        firstpoll::spawn(signal.wait(&trace, "task")).detach();
        let _ = pass(DEFAULT_BUDGET);
        arch::set_deadline(Slot::Deferral, None);
        on_core(move || {
            signal.wake();
            assert_eq!(deferral(), None);
        });
        assert_eq!(deferral(), Some(D));
    });
}

// ---- the waker slot -------------------------------------------------------

/// A waker that counts, and looks whether a lock is held over it.
struct CountingWaker {
    wakes: AtomicUsize,
}

impl CountingWaker {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            wakes: AtomicUsize::new(0),
        })
    }

    fn wakes(&self) -> usize {
        self.wakes.load(SeqCst)
    }
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        // The slot's lock masks interrupts, as all of its class do.
        assert!(arch::interrupts_enabled(), "woken under a lock");
        self.wakes.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_slot_wakes_the_waker_that_was_registered_last() {
    on_core(|| {
        let slot = WakerSlot::new();
        let (a, b) = (CountingWaker::new(), CountingWaker::new());
        slot.register(&Waker::from(Arc::clone(&a)));
        slot.register(&Waker::from(Arc::clone(&b)));
        slot.wake();
        assert_eq!((a.wakes(), b.wakes()), (0, 1));
    });
}

#[test]
fn a_waker_stays_registered_when_it_was_woken() {
    on_core(|| {
        let slot = WakerSlot::new();
        let waker = CountingWaker::new();
        slot.wake();
        slot.register(&Waker::from(Arc::clone(&waker)));
        slot.wake();
        slot.wake();
        assert_eq!(waker.wakes(), 2);
    });
}

#[test]
fn a_slot_wakes_while_it_holds_no_lock() {
    on_core(|| {
        let slot = WakerSlot::new();
        let waker = CountingWaker::new();
        slot.register(&Waker::from(Arc::clone(&waker)));
        slot.wake();
        assert_eq!(waker.wakes(), 1);
    });
}

#[test]
fn a_slot_keeps_and_clones_no_waker_of_a_task_that_is_registered_already() {
    on_core(|| {
        let slot = WakerSlot::new();
        let waker = CountingWaker::new();
        let registered = Waker::from(Arc::clone(&waker));
        slot.register(&registered);
        slot.register(&registered);
        assert_eq!(Arc::strong_count(&waker), 3);
        drop(registered);
        drop(slot);
        assert_eq!(Arc::strong_count(&waker), 1);
    });
}

/// A waker that registers another one in the slot that wakes it.
struct Reregisters {
    slot: &'static WakerSlot,
    next: Mutex<Option<Waker>>,
}

impl Wake for Reregisters {
    fn wake(self: Arc<Self>) {
        let next = self.next.lock().expect("not poisoned").take();
        if let Some(next) = next {
            self.slot.register(&next);
        }
    }
}

#[test]
fn a_waker_that_registers_another_in_its_slot_is_replaced_by_it_and_retired() {
    static SLOT: WakerSlot = WakerSlot::new();
    on_core(|| {
        let next = CountingWaker::new();
        let first = Arc::new(Reregisters {
            slot: &SLOT,
            next: Mutex::new(Some(Waker::from(Arc::clone(&next)))),
        });
        SLOT.register(&Waker::from(Arc::clone(&first)));
        SLOT.wake();
        assert_eq!(next.wakes(), 0);
        // Nothing was freed in the wake, which may be an interrupt's.
        assert_eq!(Arc::strong_count(&first), 2);
        SLOT.wake();
        assert_eq!(next.wakes(), 1);
        // The next registration drops what was retired.
        SLOT.register(Waker::noop());
        assert_eq!(Arc::strong_count(&first), 1);
    });
}

#[test]
fn a_task_that_registers_in_each_poll_sees_every_interrupt() {
    static SLOT: WakerSlot = WakerSlot::new();
    on_core(|| {
        let trace = Trace::new();
        let events = Arc::new(AtomicUsize::new(0));
        let (log, seen) = (trace.clone(), Arc::clone(&events));
        spawn_safe(poll_fn(move |context| {
            SLOT.register(context.waker());
            log.log(format!("{} events", seen.load(SeqCst)));
            Poll::<()>::Pending
        }))
        .detach();
        let _ = pass(DEFAULT_BUDGET);
        for _ in 0..2 {
            let events = Arc::clone(&events);
            host::interrupt(move || {
                events.fetch_add(1, SeqCst);
                SLOT.wake();
            });
            let _ = pass(DEFAULT_BUDGET);
        }
        assert_eq!(trace.take(), ["0 events", "1 events", "2 events"]);
    });
}
