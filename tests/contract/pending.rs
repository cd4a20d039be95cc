//! Rule 3: what follows a poll that is pending.

use firstpoll::arch::host::{self, advance};
use firstpoll::executor::DEFAULT_BUDGET;
use firstpoll::{block_on, spawn};

use crate::trace::{D, FOREVER, Signal, Trace, on_core, stats};

#[test]
fn one_pass_follows_even_if_the_future_is_already_woken() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", FOREVER);
        block_on(trace.yields("f", 3));
        assert_eq!(trace.take(), ["f", "task", "f", "task", "f"]);
    });
}

#[test]
fn a_pass_follows_even_if_no_task_is_ready() {
    on_core(|| {
        let before = stats();
        block_on(firstpoll::yield_now());
        assert_eq!(stats().passes, before.passes + 1);
        assert_eq!(stats().halts, before.halts);
    });
}

#[test]
fn once_the_future_is_woken_leftovers_wait() {
    on_core(|| {
        let trace = Trace::new();
        for _ in 0..2 * DEFAULT_BUDGET {
            trace.spawn("task", 1);
        }
        block_on(trace.yields("f", 2));
        assert_eq!(trace.take_counts(["f", "task"]), [2, DEFAULT_BUDGET]);
    });
}

#[test]
fn once_the_future_is_woken_what_is_ready_again_waits() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        trace.spawn("task", FOREVER);
        let done = signal.clone();
        trace.spawn_doing("waker", move || done.set());
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take(), ["f", "task", "waker", "f"]);
    });
}

#[test]
fn passes_go_on_while_tasks_are_ready_and_the_future_is_not_woken() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        trace.spawn("task", 3);
        trace.at_halts([signal.setting()]);
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take(), ["f", "task", "task", "task", "halt", "f"]);
    });
}

#[test]
fn leftovers_alone_make_for_another_pass() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        for _ in 0..DEFAULT_BUDGET {
            trace.spawn("task", 1);
        }
        let done = signal.clone();
        trace.spawn_doing("last", move || done.set());
        trace.at_halts([]);
        block_on(signal.wait(&trace, "f"));
        assert_eq!(
            trace.take_counts(["f", "task", "last"]),
            [2, DEFAULT_BUDGET, 1]
        );
    });
}

#[test]
fn the_core_parks_when_no_task_is_ready() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        trace.at_halts([signal.setting()]);
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take(), ["f", "halt", "f"]);
    });
}

#[test]
fn a_task_woken_while_parked_is_polled_by_the_next_pass_and_the_future_is_not() {
    on_core(|| {
        let trace = Trace::new();
        let (task, signal) = (Signal::new(), Signal::new());
        spawn(task.wait(&trace, "task")).detach();
        trace.at_halts([task.waking(), signal.setting()]);
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take(), ["f", "task", "halt", "task", "halt", "f"]);
    });
}

#[test]
fn an_interrupt_that_wakes_nobody_polls_nobody() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        trace.at_halts([Box::new(|| {}), Box::new(|| {}), signal.setting()]);
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take(), ["f", "halt", "halt", "halt", "f"]);
    });
}

#[test]
fn a_spurious_wake_costs_one_poll_and_one_pass() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        trace.at_halts([signal.waking(), signal.setting()]);
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take(), ["f", "halt", "f", "halt", "f"]);
    });
}

#[test]
fn a_future_woken_by_an_interrupt_in_a_task_is_polled_after_that_pass() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        let done = signal.clone();
        trace.spawn_doing("computes", move || host::interrupt(move || done.set()));
        trace.spawn("task", FOREVER);
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take(), ["f", "computes", "task", "f"]);
    });
}

#[test]
fn the_wake_of_an_earlier_pending_poll_is_not_counted_again() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        let mut polls = 0;
        let (log, waiting) = (trace.clone(), signal.clone());
        let mut wait = Box::pin(signal.wait(&trace, "waits"));
        trace.at_halts([signal.setting()]);
        block_on(std::future::poll_fn(move |context| {
            polls += 1;
            log.log("f");
            let poll = wait.as_mut().poll(context);
            if polls == 1 {
                // Woken three times: one more poll.
                for _ in 0..3 {
                    waiting.wake();
                }
            }
            poll
        }));
        assert_eq!(
            trace.take(),
            ["f", "waits", "f", "waits", "halt", "f", "waits"]
        );
    });
}

#[test]
fn overdue_tasks_cost_a_pending_future_no_extra_pass() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", FOREVER);
        advance(D);
        block_on(trace.yields("f", 2));
        assert_eq!(trace.take(), ["f", "task", "f"]);
    });
}
