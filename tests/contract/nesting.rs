//! Rule 6, first half: calls nest in the poll of the blocked future.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use firstpoll::arch::host::advance;
use firstpoll::block_on;
use firstpoll::executor::{MAX_NESTING, blocking};

use crate::trace::{D, FOREVER, Signal, Trace, deferral, on_core, panic_of};

#[test]
fn an_inner_call_runs_to_its_end_in_the_poll_of_the_outer_future() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        let value = block_on(trace.does("outer", move || {
            block_on(inner.yields("inner", 2));
            7
        }));
        assert_eq!(value, 7);
        assert_eq!(trace.take(), ["outer", "inner", "inner"]);
    });
}

#[test]
fn an_inner_call_runs_the_tasks_while_it_waits() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", FOREVER);
        let inner = trace.clone();
        block_on(trace.does("outer", move || block_on(inner.yields("inner", 2))));
        assert_eq!(trace.take(), ["outer", "inner", "task", "inner"]);
    });
}

#[test]
fn an_inner_call_parks_until_its_own_waker_fires() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        trace.at_halts([Box::new(|| {}), signal.setting()]);
        let inner = signal.wait(&trace, "inner");
        block_on(trace.does("outer", move || block_on(inner)));
        assert_eq!(trace.take(), ["outer", "inner", "halt", "halt", "inner"]);
    });
}

/// A future that at its first poll blocks on `inner`, is pending then, and
/// completes at its second; it logs `name` each time.
fn blocks_in_its_first_poll(
    trace: &Trace,
    signal: &Signal,
    name: &'static str,
    inner: impl Future<Output = ()>,
) -> impl Future<Output = ()> {
    let log = trace.clone();
    let mut wait = Box::pin(signal.wait(trace, name));
    let mut inner = Some(inner);
    poll_fn(move |context| {
        let poll = wait.as_mut().poll(context);
        if let Some(inner) = inner.take() {
            block_on(inner);
            log.log(format!("{name} goes on"));
        }
        poll
    })
}

#[test]
fn a_wake_of_the_outer_future_during_the_inner_call_is_kept_for_it() {
    on_core(|| {
        let trace = Trace::new();
        let (outer, inner) = (Signal::new(), Signal::new());
        // Both wakes come while the inner call is parked, the outer one first.
        trace.at_halts([outer.setting(), inner.setting()]);
        let inner = inner.wait(&trace, "inner");
        block_on(blocks_in_its_first_poll(&trace, &outer, "outer", inner));
        assert_eq!(
            trace.take(),
            [
                "outer",
                "inner",
                "halt",
                "halt",
                "inner",
                "outer goes on",
                "outer"
            ]
        );
    });
}

#[test]
fn a_wake_of_the_outer_future_does_not_poll_the_inner_one() {
    on_core(|| {
        let trace = Trace::new();
        let (outer, inner) = (Signal::new(), Signal::new());
        let (wakes_outer, wakes_inner) = (outer.clone(), inner.clone());
        trace.spawn_doing("wakes outer", move || wakes_outer.set());
        trace.at_halts([Box::new(move || wakes_inner.set())]);
        let inner = inner.wait(&trace, "inner");
        block_on(blocks_in_its_first_poll(&trace, &outer, "outer", inner));
        assert_eq!(
            trace.take(),
            [
                "outer",
                "inner",
                "wakes outer",
                "halt",
                "inner",
                "outer goes on",
                "outer"
            ]
        );
    });
}

#[test]
fn a_wake_of_the_inner_future_is_not_taken_for_one_of_the_outer() {
    on_core(|| {
        let trace = Trace::new();
        let (outer, inner) = (Signal::new(), Signal::new());
        trace.at_halts([inner.setting(), outer.setting()]);
        let inner = inner.wait(&trace, "inner");
        block_on(blocks_in_its_first_poll(&trace, &outer, "outer", inner));
        assert_eq!(
            trace.take(),
            [
                "outer",
                "inner",
                "halt",
                "inner",
                "outer goes on",
                "halt",
                "outer"
            ]
        );
    });
}

#[test]
fn the_waker_of_an_inner_call_that_is_over_wakes_nobody() {
    on_core(|| {
        let trace = Trace::new();
        let (outer, inner) = (Signal::new(), Signal::new());
        trace.at_halts([inner.setting(), inner.waking(), outer.setting()]);
        let inner = inner.wait(&trace, "inner");
        block_on(blocks_in_its_first_poll(&trace, &outer, "outer", inner));
        assert_eq!(
            trace.take(),
            [
                "outer",
                "inner",
                "halt",
                "inner",
                "outer goes on",
                "halt",
                "halt",
                "outer"
            ]
        );
    });
}

#[test]
fn overdue_tasks_run_in_the_inner_call_and_not_again_in_the_outer() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", FOREVER);
        advance(D);
        let inner = trace.clone();
        block_on(trace.does("outer", move || block_on(inner.ready("inner"))));
        assert_eq!(trace.take(), ["outer", "inner", "task"]);
        assert_eq!(deferral(), Some(2 * D));
    });
}

fn nest(depth: usize) -> usize {
    match depth {
        0 => 0,
        _ => block_on(async { nest(depth - 1) + 1 }),
    }
}

#[test]
fn calls_nest_as_deep_as_documented() {
    on_core(|| assert_eq!(nest(MAX_NESTING), MAX_NESTING));
}

#[test]
fn calls_that_nest_deeper_panic_and_say_so_and_the_core_stays_usable() {
    on_core(|| {
        let message = panic_of(|| nest(MAX_NESTING + 1));
        assert!(message.contains("nested more than"), "{message}");
        assert_eq!(nest(MAX_NESTING), MAX_NESTING);
    });
}

#[test]
fn a_call_that_panics_gives_its_level_and_its_wakes_back() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        trace.at_halts([signal.setting()]);
        let inner = trace.clone();
        let mut panics = true;
        let mut wait = Box::pin(signal.wait(&trace, "outer"));
        block_on(poll_fn(move |context| {
            if std::mem::take(&mut panics) {
                let message = panic_of(|| {
                    block_on(poll_fn(|context| -> Poll<()> {
                        context.waker().wake_by_ref();
                        inner.log("inner");
                        panic!("as told")
                    }))
                });
                assert_eq!(message, "as told");
            }
            wait.as_mut().poll(context)
        }));
        assert_eq!(trace.take(), ["inner", "outer", "halt", "outer"]);
    });
}

#[test]
fn a_call_of_another_order_nests_as_well() {
    on_core(|| {
        blocking(|outer| {
            outer.waker().wake_by_ref();
            blocking(|inner| assert!(!inner.take_woken()));
            block_on(async {});
            assert!(outer.take_woken());
        });
    });
}

#[test]
fn a_future_moves_between_calls_and_is_woken_in_the_last() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        let mut wait = pin!(signal.wait(&trace, "f"));
        // Polled once in a call that ends, so its waker there is stale.
        block_on(poll_fn(|context| {
            assert!(wait.as_mut().poll(context).is_pending());
            Poll::Ready(())
        }));
        trace.at_halts([signal.setting()]);
        block_on(wait);
        assert_eq!(trace.take(), ["f", "f", "halt", "f"]);
    });
}
