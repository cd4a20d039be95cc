//! Faults that were reported against other systems of this kind.

use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;
use std::{panic, thread};

use firstpoll::arch::host::{self};
use firstpoll::executor::current_task;
use firstpoll::runtime;
use firstpoll::{block_on, spawn};

use crate::trace::{FOREVER, Signal, Trace, on_core, panic_of, stats, timer_interrupts};

/// X2: with no interrupt source but the deferral, every task gets all its polls,
/// and only then does the core halt.
#[test]
fn sixty_four_tasks_that_yield_ten_times_all_finish_before_the_halt() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        for _ in 0..64 {
            trace.spawn("task", 10);
        }
        trace.at_halts([signal.setting()]);
        block_on(signal.wait(&trace, "f"));
        let events = trace.take();
        assert_eq!(events.len(), 1 + 640 + 2);
        assert_eq!(events[641..], ["halt", "f"]);
        assert_eq!(stats().polls, 640);
    });
}

/// X3: a task that wakes itself for ever takes no turn from tasks that yield.
#[test]
fn a_task_that_wakes_itself_gets_no_more_polls_than_those_that_yield() {
    on_core(|| {
        let trace = Trace::new();
        let names = ["wakes itself", "a", "b", "c"];
        for name in names {
            trace.spawn(name, FOREVER);
        }
        block_on(trace.yields("f", 100));
        assert_eq!(trace.take_counts(names), [99; 4]);
    });
}

/// X4: a wake from another core that lands anywhere between the poll and the
/// halt is never lost.
#[test]
fn a_wake_between_the_poll_and_the_halt_is_never_lost() {
    const ROUNDS: usize = 100_000;
    const LIMIT: Duration = Duration::from_secs(20);

    let (finished, finish) = mpsc::channel();
    let body = move || {
        runtime::init();
        // The round that the future waits for, and the one that it may end.
        let polled = Arc::new(AtomicUsize::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        let waker = Arc::new(Mutex::new(None::<Waker>));

        let waking = thread::spawn({
            let (polled, done, waker) = (polled.clone(), done.clone(), waker.clone());
            move || {
                for round in 1..=ROUNDS {
                    while polled.load(SeqCst) != round {
                        std::hint::spin_loop();
                    }
                    // From at once to about the time that the way to the halt takes.
                    for _ in 0..round % 64 {
                        std::hint::spin_loop();
                    }
                    done.store(round, SeqCst);
                    let waker = waker.lock().expect("not poisoned").clone();
                    waker.expect("registered before the poll").wake();
                }
            }
        });

        for round in 1..=ROUNDS {
            block_on(std::future::poll_fn(|context| {
                *waker.lock().expect("not poisoned") = Some(context.waker().clone());
                let ready = done.load(SeqCst) == round;
                polled.store(round, SeqCst);
                if ready {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }));
        }
        waking.join().expect("it only spins and wakes");
        finished.send(()).expect("the test waits");
    };
    thread::spawn(body);
    finish
        .recv_timeout(LIMIT)
        .expect("a wake was lost, or the rounds take too long");
}

/// X5: a `block_on` in a task is refused by name, not by silence.
#[test]
fn a_block_on_inside_a_task_panics_and_names_the_way_out() {
    on_core(|| {
        let task = spawn(async { block_on(async { 1 }) });
        let message = panic_of(|| block_on(task));
        assert!(message.contains("`.await` instead"), "{message}");
    });
}

/// X7: the blocked future is polled when its waker fires, not when tasks run.
#[test]
fn a_thousand_background_passes_poll_the_blocked_future_no_more() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        trace.spawn("task", 1000);
        trace.at_halts([signal.setting()]);
        let passes = stats().passes;
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take_counts(["f", "task", "halt"]), [2, 1000, 1]);
        assert!(stats().passes - passes >= 1000);
    });
}

/// X9: the report of a panic can name the task, and the executor goes on.
#[test]
fn the_panic_hook_sees_which_task_panicked() {
    static SEEN: Mutex<Vec<(String, &'static Location<'static>)>> = Mutex::new(Vec::new());

    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if let (Some(message), Some(task)) = (info.payload().downcast_ref::<&str>(), current_task())
        {
            let mut seen = SEEN.lock().expect("not poisoned");
            seen.push((String::from(*message), task));
        }
        previous(info);
    }));
    on_core(|| {
        let trace = Trace::new();
        let task = spawn(async { panic!("the one that X9 is about") });
        let spawned_at = task.spawned_at();
        assert_eq!(spawned_at.file(), file!());
        task.detach();
        panic_of(|| block_on(firstpoll::yield_now()));
        let seen = SEEN.lock().expect("not poisoned");
        let named = seen
            .iter()
            .find(|(message, _)| message == "the one that X9 is about");
        assert_eq!(named.expect("the hook saw it").1, spawned_at);

        assert_eq!(current_task(), None);
        trace.spawn("task", 1);
        block_on(trace.yields("f", 2));
        assert_eq!(trace.take(), ["f", "task", "f"]);
    });
}

/// T5 for the executor: an hour without events costs no interrupt.
#[test]
fn an_idle_hour_costs_no_interrupt() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        let set = signal.clone();
        host::on_halt(move |programmed| {
            assert_eq!(programmed, None);
            host::advance(Duration::from_secs(3600));
            set.set();
            true
        });
        block_on(signal.wait(&trace, "f"));
        assert_eq!(timer_interrupts(), 0);
    });
}
