//! What a pass is: everything that was ready when it began, once each, in order.

use firstpoll::executor::{DEFAULT_BUDGET, Pass, Work, pass};

use crate::trace::{FOREVER, Signal, Trace, on_core, spawn_safe};

#[test]
fn a_pass_polls_each_ready_task_once_in_the_order_of_the_wakes() {
    on_core(|| {
        let trace = Trace::new();
        for name in ["a", "b", "c"] {
            trace.spawn(name, 1);
        }
        let pass = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["a", "b", "c"]);
        assert_eq!(
            pass,
            Pass {
                polled: 3,
                left: 0,
                work: Work::None
            }
        );
    });
}

#[test]
fn the_order_is_that_of_the_wakes_not_of_the_spawns() {
    on_core(|| {
        let trace = Trace::new();
        let (a, b) = (Signal::new(), Signal::new());
        firstpoll::spawn(a.wait(&trace, "a")).detach();
        firstpoll::spawn(b.wait(&trace, "b")).detach();
        let _ = pass(DEFAULT_BUDGET);
        b.set();
        a.set();
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["a", "b", "b", "a"]);
    });
}

#[test]
fn a_task_woken_twice_is_polled_once() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        firstpoll::spawn(signal.wait(&trace, "task")).detach();
        let _ = pass(DEFAULT_BUDGET);
        signal.wake();
        signal.wake();
        assert_eq!(pass(DEFAULT_BUDGET).polled, 1);
        assert_eq!(trace.take(), ["task", "task"]);
    });
}

#[test]
fn a_task_that_wakes_itself_waits_for_the_next_pass() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("a", 2);
        trace.spawn("b", 1);
        let first = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["a", "b"]);
        assert_eq!((first.polled, first.left, first.work), (2, 0, Work::Ready));
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["a"]);
    });
}

#[test]
fn a_task_that_is_spawned_by_another_waits_for_the_next_pass() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        trace.spawn_doing("parent", move || inner.spawn("child", 1));
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["parent"]);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["child"]);
    });
}

#[test]
fn an_ordinary_task_woken_by_an_interrupt_safe_one_waits_for_the_next_pass() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        firstpoll::spawn(signal.wait(&trace, "ordinary")).detach();
        let _ = pass(DEFAULT_BUDGET);
        let ordinary = signal.clone();
        trace.spawn_safe_doing("interrupt-safe", move || ordinary.set());
        let first = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["ordinary", "interrupt-safe"]);
        assert_eq!((first.polled, first.left, first.work), (1, 0, Work::Ready));
        assert_eq!(pass(DEFAULT_BUDGET).polled, 1);
    });
}

#[test]
fn an_interrupt_safe_task_woken_by_an_ordinary_one_waits_for_the_next_pass() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        spawn_safe(signal.wait(&trace, "interrupt-safe")).detach();
        let _ = pass(DEFAULT_BUDGET);
        trace.spawn_doing("ordinary", move || signal.set());
        let first = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["interrupt-safe", "ordinary"]);
        assert_eq!((first.polled, first.left, first.work), (1, 0, Work::Ready));
    });
}

#[test]
fn the_interrupt_safe_queue_comes_first() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("ordinary", 1);
        trace.spawn_safe("interrupt-safe", 1);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["interrupt-safe", "ordinary"]);
    });
}

#[test]
fn a_pass_ends_at_its_budget() {
    on_core(|| {
        let trace = Trace::new();
        for name in ["a", "b", "c"] {
            trace.spawn(name, 1);
        }
        let pass = pass(2);
        assert_eq!(trace.take(), ["a", "b"]);
        assert_eq!((pass.polled, pass.left, pass.work), (2, 1, Work::Ready));
    });
}

#[test]
fn the_budget_counts_both_queues() {
    on_core(|| {
        let trace = Trace::new();
        for _ in 0..2 {
            trace.spawn_safe("interrupt-safe", 1);
            trace.spawn("ordinary", 1);
        }
        let pass = pass(3);
        assert_eq!(
            trace.take(),
            ["interrupt-safe", "interrupt-safe", "ordinary"]
        );
        assert_eq!((pass.polled, pass.left, pass.work), (3, 1, Work::Ready));
    });
}

#[test]
fn a_pass_without_budget_polls_nothing_and_counts_what_is_ready() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("interrupt-safe", 1);
        trace.spawn("ordinary", 1);
        let pass = pass(0);
        assert!(trace.take().is_empty());
        assert_eq!((pass.polled, pass.left, pass.work), (0, 2, Work::Ready));
    });
}

#[test]
fn leftovers_of_the_last_pass_come_first() {
    on_core(|| {
        let trace = Trace::new();
        for name in ["a", "b", "c"] {
            trace.spawn(name, 1);
        }
        let _ = pass(1);
        trace.spawn("new", 1);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["a", "b", "c", "new"]);
    });
}

#[test]
fn ordinary_leftovers_come_before_interrupt_safe_tasks_woken_since() {
    on_core(|| {
        let trace = Trace::new();
        for name in ["a", "b", "c"] {
            trace.spawn(name, 1);
        }
        let _ = pass(1);
        trace.spawn_safe("interrupt-safe", 1);
        trace.spawn("new", 1);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["a", "b", "c", "interrupt-safe", "new"]);
    });
}

#[test]
fn interrupt_safe_leftovers_come_before_ordinary_ones() {
    on_core(|| {
        let trace = Trace::new();
        for name in ["safe a", "safe b"] {
            trace.spawn_safe(name, 1);
        }
        trace.spawn("ordinary", 1);
        let _ = pass(1);
        trace.spawn_safe("new", 1);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["safe a", "safe b", "ordinary", "new"]);
    });
}

#[test]
fn a_flood_of_self_waking_tasks_holds_no_leftover_up() {
    on_core(|| {
        let trace = Trace::new();
        for _ in 0..4 {
            trace.spawn_safe("flood", FOREVER);
        }
        trace.spawn("last", 1);
        let _ = pass(4);
        let _ = pass(4);
        assert_eq!(
            trace.take(),
            [
                "flood", "flood", "flood", "flood", "last", "flood", "flood", "flood"
            ]
        );
    });
}

#[test]
fn a_pass_in_block_on_has_the_default_budget() {
    on_core(|| {
        let trace = Trace::new();
        for _ in 0..DEFAULT_BUDGET + 1 {
            trace.spawn("task", 1);
        }
        // Pending once, and woken by itself: one pass follows.
        firstpoll::block_on(firstpoll::yield_now());
        assert_eq!(trace.take_counts(["task"]), [DEFAULT_BUDGET]);
    });
}

#[test]
fn the_queue_and_its_order_survive_a_task_that_panics() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("a", 2);
        trace.spawn_doing("panics", || panic!("as told"));
        trace.spawn("b", 1);
        assert_eq!(crate::trace::panic_of(|| pass(DEFAULT_BUDGET)), "as told");
        assert_eq!(trace.take(), ["a", "panics"]);
        let next = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["b", "a"]);
        assert_eq!((next.polled, next.left, next.work), (2, 0, Work::None));
    });
}
