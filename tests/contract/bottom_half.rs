//! Rule 5 for interrupt-safe tasks: the bottom half, what holds it off, and
//! what runs it then.

use firstpoll::arch::host::{self, advance};
use firstpoll::arch::{self, Slot};
use firstpoll::block_on;
use firstpoll::executor::{DEFAULT_BUDGET, pass};
use firstpoll::sync::{BottomHalfLock, bottom_half};
use std::sync::Arc;

use crate::trace::{
    D, FOREVER, Signal, Trace, deferral, on_core, panic_of, spawn_safe, stats, timer_interrupts,
};

#[test]
fn an_interrupt_safe_task_is_polled_at_the_bound_while_plain_code_computes() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("net", 1);
        advance(D - D / 1000);
        assert!(trace.take().is_empty());
        advance(D / 1000);
        assert_eq!(trace.take(), ["net"]);
        assert_eq!(stats().bottom_halves, 1);
    });
}

#[test]
fn an_interrupt_safe_task_is_polled_while_the_blocked_future_computes() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("net", 1);
        let log = trace.clone();
        block_on(trace.does("f", move || {
            advance(D);
            log.log("f goes on");
        }));
        assert_eq!(trace.take(), ["f", "net", "f goes on"]);
    });
}

#[test]
fn an_interrupt_safe_task_is_polled_while_an_ordinary_task_computes() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        spawn_safe(signal.wait(&trace, "net")).detach();
        let _ = pass(DEFAULT_BUDGET);
        let log = trace.clone();
        trace.spawn_doing("computes", move || {
            signal.set();
            advance(D);
            log.log("goes on");
        });
        arch::set_deadline(Slot::Deferral, None);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["net", "computes", "net", "goes on"]);
    });
}

#[test]
fn in_the_ordinary_section_of_a_pass_an_interrupt_safe_wake_arms() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        spawn_safe(signal.wait(&trace, "net")).detach();
        let _ = pass(DEFAULT_BUDGET);
        let log = trace.clone();
        trace.spawn_doing("ordinary", move || {
            signal.wake();
            log.log(format!("{:?}", deferral()));
        });
        arch::set_deadline(Slot::Deferral, None);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["net", "ordinary", &format!("{:?}", Some(D))]);
    });
}

#[test]
fn interrupt_safe_leftovers_are_covered_in_the_ordinary_section() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("net", FOREVER);
        let log = trace.clone();
        trace.spawn_doing("ordinary", move || log.log(format!("{:?}", deferral())));
        arch::set_deadline(Slot::Deferral, None);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["net", "ordinary", &format!("{:?}", Some(D))]);
    });
}

#[test]
fn it_runs_one_pass_and_does_not_drain() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("net", FOREVER);
        advance(D);
        assert_eq!(trace.take(), ["net"]);
        assert_eq!(deferral(), Some(2 * D));
        advance(3 * D);
        assert_eq!(trace.take(), ["net", "net", "net"]);
        assert_eq!(timer_interrupts(), 4);
    });
}

#[test]
fn its_budget_is_that_of_a_pass_and_its_leftovers_wait_for_the_next() {
    on_core(|| {
        let trace = Trace::new();
        for _ in 0..DEFAULT_BUDGET + 3 {
            trace.spawn_safe("net", 1);
        }
        advance(D);
        assert_eq!(trace.take_counts(["net"]), [DEFAULT_BUDGET]);
        assert_eq!(deferral(), Some(2 * D));
        advance(D);
        assert_eq!(trace.take_counts(["net"]), [3]);
        assert_eq!(deferral(), None);
    });
}

#[test]
fn its_leftovers_count_from_its_end() {
    on_core(|| {
        let trace = Trace::new();
        spawn_safe({
            let log = trace.clone();
            let mut first = true;
            std::future::poll_fn(move |context| {
                log.log("slow");
                if std::mem::take(&mut first) {
                    advance(D / 2);
                    context.waker().wake_by_ref();
                    return std::task::Poll::Pending;
                }
                std::task::Poll::Ready(())
            })
        })
        .detach();
        advance(D);
        assert_eq!(trace.take(), ["slow"]);
        assert_eq!(deferral(), Some(D + D / 2 + D));
    });
}

#[test]
fn it_runs_with_interrupts_enabled() {
    on_core(|| {
        let trace = Trace::new();
        let log = trace.clone();
        trace.spawn_safe_doing("net", move || {
            assert!(arch::interrupts_enabled());
            let log = log.clone();
            host::interrupt(move || log.log("interrupt"));
        });
        advance(D);
        assert_eq!(trace.take(), ["net", "interrupt"]);
    });
}

#[test]
fn it_does_not_run_on_top_of_itself() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        trace.spawn_safe_doing("slow", move || {
            inner.spawn_safe("woken meanwhile", 1);
            arch::set_deadline(Slot::TimerQueue, Some(arch::now() + D));
            advance(3 * D);
            inner.log("slow ends");
        });
        advance(D);
        assert_eq!(trace.take(), ["slow", "slow ends"]);
        assert_eq!(timer_interrupts(), 2);
        assert_eq!(stats().bottom_halves, 1);
        assert_eq!(deferral(), Some(5 * D));
    });
}

#[test]
fn a_future_woken_in_the_bottom_half_is_polled_after_the_pass_under_way() {
    on_core(|| {
        let trace = Trace::new();
        let (packet, signal) = (Signal::new(), Signal::new());
        let (arrives, done) = (packet.clone(), signal.clone());
        let net = packet.wait(&trace, "net");
        spawn_safe(async move {
            net.await;
            done.set();
        })
        .detach();
        trace.spawn_doing("computes", move || {
            arrives.set();
            advance(D);
        });
        trace.spawn("ordinary", 1);
        block_on(signal.wait(&trace, "f"));
        assert_eq!(
            trace.take(),
            ["f", "net", "computes", "net", "ordinary", "f"]
        );
    });
}

#[test]
fn what_a_bottom_half_finds_on_top_of_a_pass_waits_for_the_next_pass() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("first", 1);
        let inner = trace.clone();
        trace.spawn_doing("computes", move || {
            for _ in 0..DEFAULT_BUDGET {
                inner.spawn_safe("woken meanwhile", 1);
            }
            advance(D);
            let polled = inner.take_counts(["safe", "woken meanwhile"]);
            assert_eq!(polled, [1, DEFAULT_BUDGET - 1]);
        });
        // Leaves the ordinary task that computes, so that it comes before the
        // interrupt-safe one, which a bottom half then polls on top of it.
        let _ = pass(1);
        trace.spawn_safe("safe", 1);
        arch::set_deadline(Slot::Deferral, Some(arch::now() + D));
        let second = pass(DEFAULT_BUDGET);
        assert!(trace.take().is_empty());
        assert_eq!((second.polled, second.left), (1, 0));
        let third = pass(DEFAULT_BUDGET);
        assert_eq!(third.polled, 1);
        assert_eq!(trace.take(), ["woken meanwhile"]);
    });
}

// ---- held off -------------------------------------------------------------

#[test]
fn it_is_held_off_while_the_bottom_half_is_disabled_and_runs_at_the_end() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("net", 1);
        let disabled = bottom_half::disable();
        advance(D);
        trace.log("section ends");
        drop(disabled);
        trace.log("after");
        assert_eq!(trace.take(), ["section ends", "net", "after"]);
    });
}

#[test]
fn it_is_held_off_while_bottom_half_data_is_locked() {
    on_core(|| {
        let trace = Trace::new();
        let data = Arc::new(BottomHalfLock::new(1));
        let shared = Arc::clone(&data);
        let log = trace.clone();
        trace.spawn_safe_doing("net", move || {
            let mut data = shared.lock();
            *data += 1;
            log.log(format!("{}", *data));
        });
        let mut locked = data.lock();
        advance(D);
        *locked = 10;
        assert!(trace.take().is_empty());
        drop(locked);
        assert_eq!(trace.take(), ["net", "11"]);
    });
}

#[test]
fn only_the_last_of_nested_sections_runs_it() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("net", 1);
        let outer = bottom_half::disable();
        let inner = bottom_half::disable();
        advance(D);
        drop(inner);
        assert!(trace.take().is_empty());
        assert!(bottom_half::is_disabled());
        drop(outer);
        assert_eq!(trace.take(), ["net"]);
        assert!(!bottom_half::is_disabled());
    });
}

#[test]
fn a_section_that_held_nothing_off_runs_nothing() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("net", 1);
        drop(bottom_half::disable());
        assert!(trace.take().is_empty());
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn it_is_held_off_while_a_pass_polls_an_interrupt_safe_task() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        trace.spawn_safe_doing("slow", move || {
            inner.spawn_safe("woken meanwhile", 1);
            advance(2 * D);
            inner.log("slow ends");
        });
        trace.spawn_safe("next", 1);
        trace.spawn("ordinary", 1);
        let _ = pass(DEFAULT_BUDGET);
        // At the end of the interrupt-safe section, not inside a poll.
        assert_eq!(
            trace.take(),
            ["slow", "slow ends", "next", "woken meanwhile", "ordinary"]
        );
        assert_eq!(stats().bottom_halves, 1);
    });
}

#[test]
fn an_interrupt_safe_section_without_an_interrupt_runs_no_bottom_half() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("net", FOREVER);
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(trace.take(), ["net"]);
        assert_eq!(stats().bottom_halves, 0);
    });
}

#[test]
fn a_section_that_ends_with_interrupts_masked_puts_it_off_to_the_unmasking() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("net", 1);
        let disabled = bottom_half::disable();
        advance(D);
        let mask = arch::mask_interrupts();
        drop(disabled);
        trace.log("still masked");
        assert_eq!(deferral(), Some(D));
        drop(mask);
        assert_eq!(trace.take(), ["still masked", "net"]);
    });
}

#[test]
fn interrupts_masked_for_longer_than_the_bound_put_it_off_to_the_unmasking() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("net", 1);
        let mask = arch::mask_interrupts();
        advance(3 * D);
        trace.log("still masked");
        drop(mask);
        assert_eq!(trace.take(), ["still masked", "net"]);
        assert_eq!(timer_interrupts(), 1);
    });
}

#[test]
fn the_timer_queues_interrupt_runs_it_too() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe("expiry", 1);
        arch::set_deadline(Slot::TimerQueue, Some(arch::now() + D / 2));
        advance(D / 2);
        assert_eq!(trace.take(), ["expiry"]);
    });
}

#[test]
fn a_task_that_panics_in_it_leaves_the_rest_covered_and_the_bottom_half_usable() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn_safe_doing("panics", || panic!("as told"));
        trace.spawn_safe("net", 1);
        assert_eq!(panic_of(|| advance(D)), "as told");
        assert!(!bottom_half::is_disabled());
        assert_eq!(trace.take(), ["panics"]);
        assert_eq!(deferral(), Some(2 * D));
        advance(D);
        assert_eq!(trace.take(), ["net"]);
    });
}

#[test]
fn a_bottom_half_that_waits_on_one_core_does_not_cover_another() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        spawn_safe(signal.wait(&trace, "net")).detach();
        let _ = pass(DEFAULT_BUDGET);
        arch::set_deadline(Slot::Deferral, None);
        let remote = signal.clone();
        on_core(move || {
            let disabled = bottom_half::disable();
            Trace::new().spawn_safe("held off", 1);
            advance(D);
            // This core's bottom half is pending; the other core's is not.
            remote.wake();
            drop(disabled);
        });
        assert_eq!(deferral(), Some(D));
        trace.take();
        advance(D);
        assert_eq!(trace.take(), ["net"]);
    });
}
