//! Rule 6, second half: where calls panic and name the mistake.

use std::cell::Cell;
use std::rc::Rc;

use firstpoll::arch::host::{self, advance};
use firstpoll::arch::{self, Slot};
use firstpoll::executor::{self, DEFAULT_BUDGET, park, pass};
use firstpoll::{block_on, spawn};

use crate::trace::{
    D, FOREVER, Signal, Trace, deferral, on_core, panic_of, spawn_safe, stats, timer_interrupts,
};

const IN_TASK: &str = "was called in a task's poll";
const IN_INTERRUPT: &str = "was called in an interrupt or a bottom half";
const MASKED: &str = "with interrupts masked";

#[track_caller]
fn names(message: &str, what: &str, mistake: &str) {
    assert!(
        message.starts_with(what) && message.contains(mistake),
        "{message:?} does not say {what:?} {mistake:?}"
    );
}

// ---- in a task ------------------------------------------------------------

#[test]
fn a_ready_block_on_in_a_task_panics_after_one_poll() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        trace.spawn_doing("task", move || block_on(inner.ready("inner")));
        names(&panic_of(|| pass(1)), "block_on", IN_TASK);
        assert_eq!(trace.take(), ["task", "inner"]);
    });
}

#[test]
fn a_pending_block_on_in_a_task_panics_before_any_pass() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        trace.spawn_doing("task", move || block_on(inner.yields("inner", 2)));
        trace.spawn("next", 1);
        names(&panic_of(|| pass(2)), "block_on", IN_TASK);
        assert_eq!(trace.take(), ["task", "inner"]);
    });
}

#[test]
fn a_block_on_in_a_task_that_a_block_on_polls_panics() {
    on_core(|| {
        spawn(async { block_on(async {}) }).detach();
        names(
            &panic_of(|| block_on(firstpoll::yield_now())),
            "block_on",
            IN_TASK,
        );
    });
}

#[test]
fn a_block_on_in_an_interrupt_safe_task_panics() {
    on_core(|| {
        spawn_safe(async { block_on(async {}) }).detach();
        names(&panic_of(|| pass(1)), "block_on", IN_TASK);
    });
}

#[test]
fn a_block_on_in_a_task_of_a_nested_call_panics() {
    on_core(|| {
        spawn(async { block_on(async {}) }).detach();
        let message = panic_of(|| block_on(async { block_on(firstpoll::yield_now()) }));
        names(&message, "block_on", IN_TASK);
    });
}

#[test]
fn pass_and_park_in_a_task_panic() {
    on_core(|| {
        spawn(async { _ = pass(1) }).detach();
        names(&panic_of(|| pass(1)), "pass", IN_TASK);
        spawn(async { _ = park() }).detach();
        names(&panic_of(|| pass(1)), "park", IN_TASK);
    });
}

#[test]
fn an_interrupt_in_a_task_leaves_the_task_a_task() {
    on_core(|| {
        spawn(async {
            host::interrupt(|| {});
            block_on(async {})
        })
        .detach();
        names(&panic_of(|| pass(1)), "block_on", IN_TASK);
    });
}

#[test]
fn a_bottom_half_in_a_task_leaves_the_task_a_task() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        spawn(async move {
            inner.spawn_safe("net", 1);
            advance(D);
            assert_eq!(inner.take(), ["net"]);
            block_on(async {})
        })
        .detach();
        names(&panic_of(|| pass(1)), "block_on", IN_TASK);
    });
}

// ---- in an interrupt ------------------------------------------------------

#[test]
fn a_ready_block_on_in_an_interrupt_panics_after_one_poll() {
    on_core(|| {
        let trace = Trace::new();
        let f = trace.ready("f");
        let message = panic_of(|| host::interrupt(move || block_on(f)));
        names(&message, "block_on", IN_INTERRUPT);
        assert_eq!(trace.take(), ["f"]);
    });
}

#[test]
fn a_pending_block_on_in_an_interrupt_panics_before_any_pass() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", 1);
        let f = trace.yields("f", 2);
        let message = panic_of(|| host::interrupt(move || block_on(f)));
        names(&message, "block_on", IN_INTERRUPT);
        assert_eq!(trace.take(), ["f"]);
    });
}

#[test]
fn pass_and_park_in_an_interrupt_panic() {
    on_core(|| {
        let message = panic_of(|| host::interrupt(|| _ = pass(1)));
        names(&message, "pass", IN_INTERRUPT);
        let message = panic_of(|| host::interrupt(|| _ = park()));
        names(&message, "park", IN_INTERRUPT);
    });
}

#[test]
fn a_block_on_in_the_bottom_half_panics() {
    on_core(|| {
        spawn_safe(async { block_on(async {}) }).detach();
        names(&panic_of(|| advance(D)), "block_on", IN_INTERRUPT);
    });
}

#[test]
fn an_interrupt_in_the_bottom_half_leaves_it_a_bottom_half() {
    on_core(|| {
        spawn_safe(async {
            host::interrupt(|| {});
            block_on(async {})
        })
        .detach();
        names(&panic_of(|| advance(D)), "block_on", IN_INTERRUPT);
    });
}

#[test]
fn a_block_on_in_an_interrupt_that_ends_a_halt_panics() {
    on_core(|| {
        host::on_halt(|_| {
            block_on(async {});
            true
        });
        names(&panic_of(park), "block_on", IN_INTERRUPT);
    });
}

// ---- with interrupts masked -----------------------------------------------

#[test]
fn a_pending_block_on_with_interrupts_masked_panics_before_any_pass() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", 1);
        let mask = arch::mask_interrupts();
        let message = panic_of(|| block_on(trace.yields("f", 2)));
        drop(mask);
        names(&message, "block_on", MASKED);
        assert_eq!(trace.take(), ["f"]);
    });
}

#[test]
fn a_ready_block_on_with_interrupts_masked_returns_and_overdue_stays() {
    on_core(|| {
        let trace = Trace::new();
        trace.spawn("task", FOREVER);
        advance(D);
        let mask = arch::mask_interrupts();
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f"]);
        drop(mask);
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f", "task"]);
    });
}

#[test]
fn pass_and_park_with_interrupts_masked_panic() {
    on_core(|| {
        let mask = arch::mask_interrupts();
        names(&panic_of(|| pass(1)), "pass", MASKED);
        names(&panic_of(park), "park", MASKED);
        drop(mask);
        assert_eq!(stats().passes, 0);
        assert_eq!(stats().halts, 0);
    });
}

// ---- after unwinding ------------------------------------------------------

#[test]
fn block_on_works_after_a_task_panicked_in_it() {
    on_core(|| {
        let trace = Trace::new();
        spawn(async { panic!("as told") }).detach();
        assert_eq!(panic_of(|| block_on(firstpoll::yield_now())), "as told");
        trace.spawn("task", 1);
        block_on(trace.yields("f", 2));
        assert_eq!(trace.take(), ["f", "task", "f"]);
    });
}

#[test]
fn block_on_works_after_an_interrupt_handler_panicked() {
    on_core(|| {
        let message = panic_of(|| host::interrupt(|| panic!("as told")));
        assert_eq!(message, "as told");
        assert!(arch::interrupts_enabled());
        let trace = Trace::new();
        block_on(trace.yields("f", 2));
        assert_eq!(trace.take(), ["f", "f"]);
    });
}

#[test]
fn block_on_works_after_a_task_panicked_in_the_bottom_half() {
    on_core(|| {
        spawn_safe(async { panic!("as told") }).detach();
        assert_eq!(panic_of(|| advance(D)), "as told");
        let trace = Trace::new();
        trace.spawn_safe("net", 1);
        block_on(trace.yields("f", 2));
        assert_eq!(trace.take(), ["f", "net", "f"]);
    });
}

#[test]
fn an_unwound_pass_keeps_the_ordinary_leftovers_overdue() {
    on_core(|| {
        let trace = Trace::new();
        spawn(async { panic!("as told") }).detach();
        trace.spawn("task", 1);
        advance(D);
        assert_eq!(panic_of(|| block_on(trace.ready("f"))), "as told");
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["f", "f", "task"]);
    });
}

// ---- what is allowed everywhere -------------------------------------------

#[test]
fn tasks_can_be_spawned_in_tasks_and_dropped_there() {
    on_core(|| {
        let dropped = Rc::new(Cell::new(false));
        let flag = Rc::clone(&dropped);
        spawn(async move {
            let guard = scopeguard(move || flag.set(true));
            drop(spawn(async move { drop(guard) }));
        })
        .detach();
        let _ = pass(DEFAULT_BUDGET);
        let _ = pass(DEFAULT_BUDGET);
        assert!(dropped.get());
    });
}

fn scopeguard(f: impl FnOnce()) -> impl Drop {
    struct Guard<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Guard<F> {
        fn drop(&mut self) {
            self.0.take().expect("dropped once")();
        }
    }
    Guard(Some(f))
}

#[test]
fn a_timer_interrupt_with_nothing_armed_is_counted_and_harmless() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        arch::set_deadline(Slot::TimerQueue, Some(arch::now() + D));
        arch::set_deadline(Slot::TimerQueue, None);
        advance(D);
        assert_eq!(timer_interrupts(), 1);
        assert_eq!(stats().idle_timer_interrupts, 1);
        assert_eq!(deferral(), None);
        trace.at_halts([signal.setting()]);
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take(), ["f", "halt", "f"]);
    });
}

#[test]
fn outside_of_tasks_no_task_is_current() {
    on_core(|| {
        assert_eq!(executor::current_task(), None);
        spawn(async { assert!(executor::current_task().is_some()) }).detach();
        let _ = pass(DEFAULT_BUDGET);
        assert_eq!(executor::current_task(), None);
    });
}
