//! Rule 5: the invariant that keeps the deferral armed, and the two deadlines.

use std::time::Duration;

use firstpoll::arch::host::{self, advance};
use firstpoll::arch::{self, Instant, Slot};
use firstpoll::block_on;
use firstpoll::executor::{DEFAULT_BUDGET, pass, set_deferral_bound};

use crate::trace::{
    D, FOREVER, START, Signal, Trace, deferral, on_core, panic_of, stats, timer_interrupts,
};

// ---- where the invariant is upheld ----------------------------------------

#[test]
fn an_ordinary_task_that_is_scheduled_arms_for_the_bound_from_now() {
    on_core(|| {
        assert_eq!(deferral(), None);
        advance(D / 4);
        Trace::new().spawn("task", 1);
        assert_eq!(deferral(), Some(D / 4 + D));
    });
}

#[test]
fn an_interrupt_safe_task_that_is_scheduled_arms_for_the_bound_from_now() {
    on_core(|| {
        advance(D / 4);
        Trace::new().spawn_safe("task", 1);
        assert_eq!(deferral(), Some(D / 4 + D));
    });
}

#[test]
fn a_wake_arms_like_a_spawn() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        firstpoll::spawn(signal.wait(&trace, "task")).detach();
        let _ = pass(DEFAULT_BUDGET);
        advance(D); // What the spawn had armed.
        assert_eq!(deferral(), None);
        signal.wake();
        assert_eq!(deferral(), Some(2 * D));
    });
}

#[test]
fn a_cancellation_arms_like_a_wake() {
    on_core(|| {
        let trace = Trace::new();
        let task = firstpoll::spawn(Signal::new().wait(&trace, "task"));
        let _ = pass(DEFAULT_BUDGET);
        advance(D);
        drop(task);
        assert_eq!(deferral(), Some(2 * D));
    });
}

#[test]
fn a_wake_in_an_interrupt_arms() {
    on_core(|| {
        let trace = Trace::new();
        host::interrupt(move || trace.spawn("task", 1));
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn the_oldest_task_counts_not_the_newest() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("a", 1);
        advance(D / 2);
        trace.spawn("b", 1);
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn the_oldest_of_both_queues_counts() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("interrupt-safe", 1);
        advance(D / 2);
        trace.spawn("ordinary", 1);
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn a_task_woken_while_it_runs_is_covered_at_the_end_of_the_pass() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", FOREVER);
        advance(D);
        assert_eq!(deferral(), None);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(deferral(), Some(2 * D));
    });
}

#[test]
fn an_interrupt_safe_task_woken_while_it_runs_is_covered_at_the_end_of_the_pass() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("task", FOREVER);
        arch::set_deadline(Slot::Deferral, None);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn leftovers_are_covered_at_the_end_of_the_pass() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("a", 1);
        trace.spawn("b", 1);
        arch::set_deadline(Slot::Deferral, None);
        let _ = pass(1);
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn leftovers_past_the_bound_are_overdue_at_the_end_of_the_pass() {
    on_core(|| {
        let trace = Trace::new();
        for name in ["a", "b", "c"] {
            trace.spawn(name, 1);
        }
        advance(D);
        let _ = pass(1);
        assert_eq!(deferral(), None);
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["a", "f", "b", "c"]);
    });
}

#[test]
fn the_return_of_a_block_on_that_ran_a_pass_leaves_the_deferral_armed() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", FOREVER);
        advance(D);
        block_on(trace.yields("f", 2));
        assert_eq!(deferral(), Some(2 * D));
    });
}

#[test]
fn a_task_that_panics_leaves_the_rest_of_the_queue_covered() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_doing("panics", || panic!("as told"));
        trace.spawn("task", 1);
        arch::set_deadline(Slot::Deferral, None);
        assert_eq!(panic_of(|| pass(DEFAULT_BUDGET)), "as told");
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn a_task_woken_in_a_pass_is_ready_since_that_wake() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_doing("computes", || {
            advance(D / 2);
        });
        trace.spawn("wakes itself", FOREVER);
        arch::set_deadline(Slot::Deferral, None);
        advance(D / 4);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(deferral(), Some(D * 3 / 4 + D));
    });
}

#[test]
fn a_later_wake_into_the_queue_does_not_move_its_stamp() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("a", 1);
        advance(D / 2);
        trace.spawn("b", 1);
        arch::set_deadline(Slot::Deferral, None);
        let _ = pass(0);
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn leftovers_keep_the_time_of_their_wake() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("a", 1);
        trace.spawn("b", 1);
        trace.spawn("c", 1);
        advance(D / 2);
        arch::set_deadline(Slot::Deferral, None);
        let _ = pass(1);
        assert_eq!(deferral(), Some(D));
        advance(D / 4);
        arch::set_deadline(Slot::Deferral, None);
        let _ = pass(1);
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn once_the_older_leftovers_are_gone_the_newer_tasks_count() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("a", 1);
        trace.spawn("b", 1);
        let _ = pass(1);
        advance(D / 2);
        trace.spawn("c", 1);
        trace.spawn("d", 1);
        arch::set_deadline(Slot::Deferral, None);
        let _ = pass(2);
        assert_eq!(trace.take(), ["a", "b", "c"]);
        assert_eq!(deferral(), Some(D / 2 + D));
    });
}

#[test]
fn the_bound_can_be_changed_for_what_is_woken_from_then_on() {
    on_core(|| {
        set_deferral_bound(5 * D);
        Trace::new().spawn("task", 1);
        assert_eq!(deferral(), Some(5 * D));
    });
}

#[test]
fn a_shorter_bound_arms_for_sooner() {
    on_core(|| {
        set_deferral_bound(5 * D);
        Trace::new().spawn("task", 1);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(deferral(), Some(5 * D));
        set_deferral_bound(D);
        Trace::new().spawn("another", 1);
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn what_is_armed_for_sooner_is_left_alone() {
    on_core(|| {
        Trace::new().spawn("task", 1);
        let _ = pass(DEFAULT_BUDGET);
        advance(D / 2);
        let trace = Trace::new();
        trace.spawn("another", 1);
        assert_eq!(deferral(), Some(D));
        advance(D / 2);
        // That interrupt found it ready.
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f", "another"]);
    });
}

#[test]
fn an_endless_bound_arms_nothing() {
    on_core(|| {
        let trace = Trace::new();
        set_deferral_bound(Duration::MAX);
        trace.spawn("task", 1);
        assert_eq!(deferral(), None);
        advance(Duration::from_secs(3600));
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f"]);
    });
}

// ---- ordinary tasks -------------------------------------------------------

#[test]
fn an_ordinary_task_is_never_polled_in_the_bottom_half() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("ordinary", 1);
        advance(10 * D);
        assert!(trace.take().is_empty());
        assert_eq!(stats().bottom_halves, 0);
    });
}

#[test]
fn a_busy_program_lets_an_ordinary_task_run_once_per_bound() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", FOREVER);
        for _ in 0..100 {
            block_on(async {});
            advance(D / 10);
        }
        // At D, 2 D, … 10 D, the last of which no call has seen yet.
        assert_eq!(trace.take_counts(["task"]), [9]);
    });
}

#[test]
fn an_ordinary_task_is_polled_by_a_block_on_that_pends_after_the_bound() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", 1);
        advance(3 * D);
        block_on(trace.yields("f", 2));
        assert_eq!(trace.take(), ["f", "task", "f"]);
    });
}

// ---- the two deadlines ----------------------------------------------------

#[test]
fn the_two_slots_do_not_overwrite_each_other() {
    on_core(|| {
        let late = START + 3 * D;
        arch::set_deadline(Slot::TimerQueue, Some(late));
        Trace::new().spawn("task", 1);
        assert_eq!(arch::deadline(Slot::TimerQueue), Some(late));
        assert_eq!(deferral(), Some(D));

        let soon = START + D / 2;
        arch::set_deadline(Slot::TimerQueue, Some(soon));
        assert_eq!(arch::deadline(Slot::TimerQueue), Some(soon));
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn each_slot_fires_at_its_own_time() {
    on_core(|| {
        Trace::new().spawn("task", 1);
        arch::set_deadline(Slot::TimerQueue, Some(START + D / 2));
        advance(D / 2);
        assert_eq!(timer_interrupts(), 1);
        assert_eq!(arch::deadline(Slot::TimerQueue), None);
        assert_eq!(deferral(), Some(D));
        advance(D / 2);
        assert_eq!(timer_interrupts(), 2);
        assert_eq!(deferral(), None);
    });
}

#[test]
fn a_later_deadline_in_one_slot_does_not_delay_the_other() {
    on_core(|| {
        arch::set_deadline(Slot::TimerQueue, Some(START + D / 2));
        Trace::new().spawn("task", 1);
        advance(D / 2);
        assert_eq!(timer_interrupts(), 1);
        assert_eq!(arch::deadline(Slot::TimerQueue), None);
    });
}

#[test]
fn the_timer_queues_deadline_makes_no_task_overdue() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", 1);
        arch::set_deadline(Slot::TimerQueue, Some(START + D / 2));
        advance(D / 2);
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f"]);
    });
}

#[test]
fn disarming_one_slot_leaves_the_other() {
    on_core(|| {
        let trace = Trace::new();
        arch::set_deadline(Slot::TimerQueue, Some(START + D / 2));
        trace.spawn("task", 1);
        arch::set_deadline(Slot::TimerQueue, None);
        advance(D);
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f", "task"]);
    });
}

#[test]
fn arming_by_a_later_time_keeps_the_sooner_one() {
    on_core(|| {
        let core = arch::core_id();
        arch::arm_by(core, Slot::Deferral, START + D);
        arch::arm_by(core, Slot::Deferral, START + 2 * D);
        assert_eq!(deferral(), Some(D));
        arch::arm_by(core, Slot::Deferral, START + D / 2);
        assert_eq!(deferral(), Some(D / 2));
    });
}

#[test]
fn a_deadline_in_the_past_fires_at_once() {
    on_core(|| {
        let mask = arch::mask_interrupts();
        let past = Instant::from_nanos(START.as_nanos() - 1);
        arch::set_deadline(Slot::TimerQueue, Some(past));
        assert_eq!(timer_interrupts(), 0);
        drop(mask);
        assert_eq!(timer_interrupts(), 1);
        assert_eq!(arch::now(), START);
    });
}

#[test]
fn a_deferral_in_the_past_fires_at_once() {
    on_core(|| {
        let mask = arch::mask_interrupts();
        let past = Instant::from_nanos(START.as_nanos() - 1);
        arch::arm_by(arch::core_id(), Slot::Deferral, past);
        drop(mask);
        assert_eq!(timer_interrupts(), 1);
        assert_eq!(deferral(), None);
    });
}

// ---- at most one interrupt per bound --------------------------------------

#[test]
fn many_wakes_cost_one_interrupt() {
    on_core(|| {
        let trace = Trace::new();
        for _ in 0..1000 {
            trace.spawn("ordinary", 1);
            trace.spawn_safe("interrupt-safe", 1);
            advance(D / 2000);
        }
        assert_eq!(timer_interrupts(), 0);
        advance(D / 2);
        assert_eq!(timer_interrupts(), 1);
    });
}

#[test]
fn a_flood_of_both_kinds_costs_one_interrupt_per_bound() {
    on_core(|| {
        let trace = Trace::new();
        for _ in 0..DEFAULT_BUDGET + 1 {
            trace.spawn("ordinary", FOREVER);
            trace.spawn_safe("interrupt-safe", FOREVER);
        }
        for _ in 0..200 {
            advance(D / 10);
            block_on(async {});
        }
        assert_eq!(timer_interrupts(), 20);
    });
}

#[test]
fn a_flood_with_a_pending_future_costs_no_more_than_one_interrupt_per_bound() {
    on_core(|| {
        let trace = Trace::new();
        for _ in 0..DEFAULT_BUDGET + 1 {
            trace.spawn("ordinary", FOREVER);
            trace.spawn_safe("interrupt-safe", FOREVER);
        }
        for _ in 0..200 {
            advance(D / 10);
            block_on(firstpoll::yield_now());
        }
        assert!(timer_interrupts() <= 20, "{}", timer_interrupts());
    });
}

#[test]
fn tasks_that_are_not_overdue_at_the_interrupt_cost_no_second_one() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("a", 1);
        let _ = pass(DEFAULT_BUDGET);
        advance(D * 6 / 10);
        for _ in 0..2 * DEFAULT_BUDGET {
            trace.spawn("b", FOREVER);
        }
        // The deadline of `a` is still armed; at its interrupt the others are
        // 0.4 D old, and count as overdue rather than arming 0.6 D from there.
        advance(D * 4 / 10);
        assert_eq!(timer_interrupts(), 1);
        let mut calls = Vec::new();
        trace.take();
        for _ in 0..9 {
            block_on(async {});
            calls.push(trace.take_counts(["b"])[0]);
            advance(D / 10);
        }
        assert_eq!(calls, [DEFAULT_BUDGET, DEFAULT_BUDGET, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(timer_interrupts(), 1);
    });
}
