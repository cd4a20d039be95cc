//! Rule 7: timeouts end on time, and a timeout of zero still lets others run.

use std::future::{pending, poll_fn};
use std::task::Poll;
use std::time::Duration;

use firstpoll::arch::host::advance;
use firstpoll::time::{Elapsed, timeout};
use firstpoll::{arch, block_on, spawn};

use crate::trace::{D, START, Signal, Trace, on_core, stats, timer_interrupts};

#[test]
fn a_timeout_of_zero_polls_the_future_once() {
    on_core(|| {
        let trace = Trace::new();
        let f = Signal::new().wait(&trace, "f");
        assert_eq!(block_on(timeout(Duration::ZERO, f)), Err(Elapsed));
        assert_eq!(trace.take(), ["f"]);
        assert_eq!(arch::now(), START);
        assert_eq!(stats().halts, 0);
    });
}

#[test]
fn a_timeout_of_zero_returns_the_output_of_a_ready_future() {
    on_core(|| {
        assert_eq!(block_on(timeout(Duration::ZERO, async { 7 })), Ok(7));
    });
}

#[test]
fn a_timeout_of_zero_lets_overdue_tasks_run() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", 1);
        advance(D);
        let f = Signal::new().wait(&trace, "f");
        assert_eq!(block_on(timeout(Duration::ZERO, f)), Err(Elapsed));
        assert_eq!(trace.take(), ["f", "task"]);
    });
}

/// X1: polling with a timeout of zero in a loop sees what a task brings.
#[test]
fn a_loop_of_timeouts_of_zero_sees_the_work_of_tasks_within_the_bound() {
    on_core(|| {
        let trace = Trace::new();
        let data = Signal::new();
        let arrives = data.clone();
        trace.spawn_doing("task", move || arrives.set());
        let mut polls = 0;
        while block_on(timeout(Duration::ZERO, data.wait(&trace, "f"))).is_err() {
            polls += 1;
            assert!(polls <= 11, "starved");
            advance(D / 10);
        }
        // Overdue after ten rounds of D / 10; the task runs after that poll.
        assert_eq!(trace.take_counts(["f", "task"]), [12, 1]);
        assert_eq!(arch::now(), START + D * 11 / 10);
    });
}

#[test]
fn a_timeout_ends_on_time_without_any_other_event() {
    on_core(|| {
        let limit = Duration::from_secs(5);
        assert_eq!(block_on(timeout(limit, pending::<()>())), Err(Elapsed));
        assert_eq!(arch::now(), START + limit);
        assert_eq!(timer_interrupts(), 1);
    });
}

#[test]
fn a_timeout_ends_on_time_while_tasks_never_stop() {
    on_core(|| {
        spawn(poll_fn(|context| {
            advance(D / 10);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        }))
        .detach();
        let limit = 20 * D;
        assert_eq!(block_on(timeout(limit, pending::<()>())), Err(Elapsed));
        // The deadline passes at the end of a poll; the pass ends with it.
        let late = arch::now() - (START + limit);
        assert!(late <= D / 10, "{late:?}");
    });
}

#[test]
fn a_timeout_ends_on_time_while_its_future_is_woken_all_the_time() {
    on_core(|| {
        let busy = poll_fn(|context| {
            advance(D / 10);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let limit = 20 * D;
        assert_eq!(block_on(timeout(limit, busy)), Err(Elapsed));
        let late = arch::now() - (START + limit);
        assert!(late <= D / 10, "{late:?}");
    });
}

#[test]
fn a_timeout_that_did_not_expire_leaves_no_deadline() {
    on_core(|| {
        let limit = Duration::from_secs(5);
        let f = firstpoll::yield_now();
        assert_eq!(block_on(timeout(limit, f)), Ok(()));
        assert_eq!(arch::deadline(arch::Slot::TimerQueue), None);
        advance(2 * limit);
        assert!(timer_interrupts() <= 1, "a cancelled deadline fired on");
    });
}
