//! Rule 2: a ready future lets overdue tasks run before its value is returned.

use firstpoll::arch::host::advance;
use firstpoll::arch::{self, host};
use firstpoll::block_on;
use firstpoll::executor::{DEFAULT_BUDGET, pass};
use std::time::Duration;

use crate::trace::{D, FOREVER, Trace, deferral, on_core, stats};

const TICK: Duration = Duration::from_nanos(1);

#[test]
fn an_overdue_task_is_polled_after_the_future_and_before_the_return() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", 1);
        advance(D);
        block_on(trace.ready("f"));
        trace.log("returned");
        assert_eq!(trace.take(), ["f", "task", "returned"]);
    });
}

#[test]
fn a_task_is_not_overdue_before_the_bound() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", 1);
        advance(D - TICK);
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f"]);
        advance(TICK);
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f", "task"]);
    });
}

#[test]
fn exactly_one_pass_runs() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("a", FOREVER);
        trace.spawn("b", FOREVER);
        advance(D);
        let passes = stats().passes;
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f", "a", "b"]);
        assert_eq!(stats().passes, passes + 1);
    });
}

#[test]
fn the_pass_is_over_both_queues_the_interrupt_safe_one_first() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("ordinary", 1);
        advance(D);
        trace.spawn_safe("interrupt-safe", 1);
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f", "interrupt-safe", "ordinary"]);
    });
}

#[test]
fn overdue_clears_with_the_pass() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", FOREVER);
        advance(D);
        block_on(trace.ready("f"));
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f", "task", "f"]);
        assert_eq!(deferral(), Some(2 * D));
    });
}

#[test]
fn overdue_clears_when_the_pass_starts_so_that_an_interrupt_in_it_counts() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("overdue", 1);
        trace.spawn("slow", 1);
        advance(D);
        // Its poll takes D, in which the interrupt-safe task, woken by it, arms
        // the deferral, and the ordinary queue still holds one more.
        let inner = trace.clone();
        trace.spawn_doing("computes", move || {
            inner.spawn_safe("interrupt-safe", 1);
            inner.spawn("woken meanwhile", 1);
            advance(D);
        });
        trace.spawn("last", 1);
        block_on(trace.ready("f"));
        assert_eq!(
            trace.take(),
            ["f", "overdue", "slow", "computes", "interrupt-safe", "last"]
        );
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f", "woken meanwhile"]);
    });
}

#[test]
fn the_nth_of_many_overdue_tasks_runs_by_the_nth_over_budget_call() {
    on_core(|| {
        let trace = Trace::new();
        for _ in 0..3 * DEFAULT_BUDGET + 8 {
            trace.spawn("task", 1);
        }
        advance(D);
        let polled: Vec<_> = (0..5)
            .map(|_| {
                block_on(async {});
                trace.take_counts(["task"])[0]
            })
            .collect();
        assert_eq!(
            polled,
            [DEFAULT_BUDGET, DEFAULT_BUDGET, DEFAULT_BUDGET, 8, 0]
        );
    });
}

#[test]
fn overdue_leftovers_are_not_multiplied_by_tasks_that_wake_themselves() {
    on_core(|| {
        let trace = Trace::new();
        for _ in 0..DEFAULT_BUDGET + 1 {
            trace.spawn("task", FOREVER);
        }
        advance(D);
        let polled: Vec<_> = (0..4)
            .map(|_| {
                block_on(async {});
                trace.take_counts(["task"])[0]
            })
            .collect();
        // The second call polls the leftover; who woke itself since the first
        // is not overdue yet.
        assert_eq!(polled, [DEFAULT_BUDGET, DEFAULT_BUDGET, 0, 0]);
        assert!(deferral().is_some());
    });
}

#[test]
fn tasks_that_become_overdue_while_a_future_waits_run_before_the_return() {
    on_core(|| {
        let trace = Trace::new();
        let log = trace.clone();
        block_on(async move {
            log.yields("f", 2).await;
            log.spawn("late", 1);
            advance(D);
        });
        assert_eq!(trace.take(), ["f", "f", "late"]);
    });
}

#[test]
fn a_pass_of_the_programs_own_clears_overdue_too() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", FOREVER);
        advance(D);
        let _ = pass(1);
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["task", "f"]);
    });
}

/// Nothing would interrupt at the end of the bound, so it counts as over.
#[test]
fn before_the_timer_exists_what_is_woken_is_overdue_at_once() {
    on_core(|| {
        let trace = Trace::new();
        host::remove_timer();
        trace.spawn_safe("interrupt-safe", 1);
        block_on(trace.ready("f"));
        trace.spawn("ordinary", 2);
        block_on(trace.ready("g"));
        block_on(trace.ready("h"));
        assert_eq!(
            trace.take(),
            ["f", "interrupt-safe", "g", "ordinary", "h", "ordinary"]
        );
        trace.spawn_safe("early", 1);
        arch::start_clock(arch::begin_clock());
        advance(D);
        assert_eq!(trace.take(), ["early"], "the start makes up for it");
    });
}
