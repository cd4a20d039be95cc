//! Rule 1: the future first, and if it is ready, nothing else.

use firstpoll::executor::{DEFAULT_BUDGET, pass};
use firstpoll::{block_on, spawn};

use crate::trace::{D, Signal, Trace, deferral, on_core, stats};

#[test]
fn the_output_of_the_future_is_returned() {
    on_core(|| assert_eq!(block_on(async { 6 * 7 }), 42));
}

#[test]
fn a_ready_future_is_polled_once_and_no_task_is() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("ordinary", 1);
        trace.spawn_safe("interrupt-safe", 1);
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f"]);
    });
}

#[test]
fn a_ready_future_runs_no_pass_and_halts_nothing() {
    on_core(|| {
        Trace::new().spawn("task", 1);
        let before = stats();
        block_on(async {});
        assert_eq!(stats(), before);
    });
}

#[test]
fn a_ready_future_leaves_the_queue_and_the_deferral_as_they_are() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("a", 1);
        trace.spawn("b", 1);
        block_on(async {});
        assert_eq!(deferral(), Some(D));
        let pass = pass(DEFAULT_BUDGET);
        assert_eq!(pass.polled, 2);
        assert_eq!(trace.take(), ["a", "b"]);
    });
}

#[test]
fn a_ready_future_that_wakes_itself_is_not_polled_again() {
    on_core(|| {
        let trace = Trace::new();
        let polls = trace.clone();
        block_on(std::future::poll_fn(move |context| {
            polls.log("f");
            context.waker().wake_by_ref();
            std::task::Poll::Ready(())
        }));
        assert_eq!(trace.take(), ["f"]);
    });
}

#[test]
fn what_the_future_spawns_waits_if_the_future_is_ready() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        block_on(trace.does("f", move || inner.spawn("task", 1)));
        assert_eq!(trace.take(), ["f"]);
    });
}

#[test]
fn a_pending_future_too_is_polled_before_any_task() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        let done = signal.clone();
        trace.spawn_doing("task", move || done.set());
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take(), ["f", "task", "f"]);
    });
}

#[test]
fn a_joined_task_is_polled_by_the_pass_that_follows_the_poll_of_its_handle() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        let task = spawn(async move {
            inner.log("task");
            7
        });
        assert_eq!(block_on(task), 7);
        assert_eq!(trace.take(), ["task"]);
    });
}
