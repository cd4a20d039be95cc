//! Rule 4: parking, and what an idle core's timer does.

use std::time::Duration;

use firstpoll::arch::host::{self, advance};
use firstpoll::arch::{self, Slot};
use firstpoll::executor::{DEFAULT_BUDGET, Park, blocking, park, pass};
use firstpoll::{block_on, spawn};

use crate::trace::{
    D, START, Signal, Trace, deferral, on_core, panic_of, spawn_safe, stats, timer_interrupts,
};

#[test]
fn a_park_with_nothing_to_do_halts() {
    on_core(|| {
        let trace = Trace::new();
        trace.at_halts([Box::new(|| {})]);
        assert_eq!(park(), Park::Halted);
        assert_eq!(trace.take(), ["halt"]);
    });
}

#[test]
fn a_ready_ordinary_task_is_seen_before_the_halt() {
    on_core(|| {
        Trace::new().spawn("task", 1);
        assert_eq!(park(), Park::NotIdle);
        assert_eq!(stats().halts, 0);
    });
}

#[test]
fn a_ready_interrupt_safe_task_is_seen_before_the_halt() {
    on_core(|| {
        Trace::new().spawn_safe("task", 1);
        assert_eq!(park(), Park::NotIdle);
        assert_eq!(stats().halts, 0);
    });
}

#[test]
fn the_wake_of_the_blocked_future_is_seen_before_the_halt() {
    on_core(|| {
        blocking(|blocked| {
            blocked.waker().wake_by_ref();
            assert_eq!(park(), Park::NotIdle);
            assert!(blocked.take_woken());
            assert!(!blocked.take_woken());
        });
        assert_eq!(stats().halts, 0);
    });
}

#[test]
fn an_interrupt_that_came_while_masked_ends_the_halt() {
    on_core(|| {
        let trace = Trace::new();
        let log = trace.clone();
        blocking(|blocked| {
            let waker = blocked.waker().clone();
            // Raised between the last look and the halt.
            let mask = arch::mask_interrupts();
            host::interrupt(move || {
                log.log("interrupt");
                waker.wake();
            });
            assert!(trace.take().is_empty());
            arch::wait_for_interrupt(mask);
            assert_eq!(trace.take(), ["interrupt"]);
            assert!(arch::interrupts_enabled());
            assert!(blocked.take_woken());
        });
    });
}

#[test]
fn an_idle_core_takes_no_timer_interrupt() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        trace.spawn("task", 2);
        let set = signal.clone();
        let mut halts = 0;
        // Nothing is due at any of these halts, so only the hook ends them.
        host::on_halt(move |programmed| {
            halts += 1;
            if halts > 1 {
                assert_eq!(programmed, None);
            }
            if halts == 5 {
                set.set();
            }
            halts > 1
        });
        block_on(signal.wait(&trace, "f"));
        // The one that was armed when the task was spawned, before the park.
        assert_eq!(timer_interrupts(), 1);
    });
}

#[test]
fn a_deferral_that_was_armed_earlier_fires_once_in_the_halt_and_polls_nothing() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        trace.spawn("task", 1);
        let set = signal.clone();
        let log = trace.clone();
        host::on_halt(move |programmed| {
            log.log(format!("halt {:?}", programmed.map(|at| at - START)));
            if programmed.is_none() {
                set.set();
            }
            programmed.is_none()
        });
        block_on(signal.wait(&trace, "f"));
        let armed = format!("halt {:?}", Some(D));
        assert_eq!(trace.take(), ["f", "task", &armed, "halt None", "f"]);
        assert_eq!(timer_interrupts(), 1);
        assert_eq!(arch::now(), START + D);
        assert_eq!(stats().bottom_halves, 0);
    });
}

#[test]
fn a_real_deadline_ends_the_halt() {
    on_core(|| {
        let later = START + Duration::from_secs(5);
        arch::set_deadline(Slot::TimerQueue, Some(later));
        assert_eq!(park(), Park::Halted);
        assert_eq!(arch::now(), later);
        assert_eq!(timer_interrupts(), 1);
    });
}

#[test]
fn a_wake_on_a_parked_core_arms_nothing() {
    on_core(|| {
        let trace = Trace::new();
        let (ordinary, safe, signal) = (Signal::new(), Signal::new(), Signal::new());
        spawn(ordinary.wait(&trace, "ordinary")).detach();
        spawn_safe(safe.wait(&trace, "interrupt-safe")).detach();
        let _ = pass(DEFAULT_BUDGET);
        arch::set_deadline(Slot::Deferral, None);

        let wake = {
            let (ordinary, safe, trace) = (ordinary.clone(), safe.clone(), trace.clone());
            Box::new(move || {
                ordinary.wake();
                safe.wake();
                trace.log(format!("{:?}", deferral()));
            })
        };
        trace.at_halts([wake, signal.setting()]);
        trace.take();
        block_on(signal.wait(&trace, "f"));
        assert_eq!(
            trace.take(),
            [
                "f",
                "halt",
                "None",
                "interrupt-safe",
                "ordinary",
                "halt",
                "f"
            ]
        );
        assert_eq!(deferral(), None);
    });
}

#[test]
fn the_timer_on_a_parked_core_runs_no_bottom_half() {
    on_core(|| {
        let trace = Trace::new();
        let (safe, signal) = (Signal::new(), Signal::new());
        spawn_safe(safe.wait(&trace, "interrupt-safe")).detach();
        let _ = pass(DEFAULT_BUDGET);
        trace.take();
        // The deferral that the spawn armed is due at the halt.
        arch::set_deadline(Slot::TimerQueue, Some(START + D));
        let wake = safe.clone();
        let set = signal.clone();
        let mut halts = 0;
        host::on_halt(move |_| {
            halts += 1;
            match halts {
                1 => {
                    wake.wake();
                    false
                }
                _ => {
                    set.set();
                    true
                }
            }
        });
        block_on(signal.wait(&trace, "f"));
        assert_eq!(timer_interrupts(), 1);
        assert_eq!(stats().bottom_halves, 0);
        assert_eq!(trace.take(), ["f", "interrupt-safe", "f"]);
    });
}

#[test]
fn the_return_of_a_park_arms_for_what_was_woken_meanwhile() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        trace.at_halts([Box::new(move || inner.spawn("task", 1))]);
        assert_eq!(park(), Park::Halted);
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn the_return_of_a_park_arms_for_interrupt_safe_tasks_too() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        trace.at_halts([Box::new(move || inner.spawn_safe("task", 1))]);
        assert_eq!(park(), Park::Halted);
        assert_eq!(deferral(), Some(D));
        advance(D);
        assert_eq!(trace.take(), ["halt", "task"]);
    });
}

#[test]
fn a_block_on_that_returns_from_its_park_without_a_pass_arms_for_the_tasks_that_wait() {
    on_core(|| {
        let trace = Trace::new();
        let signal = Signal::new();
        let (inner, set) = (trace.clone(), signal.clone());
        trace.at_halts([Box::new(move || {
            inner.spawn("task", 1);
            set.set();
        })]);
        block_on(signal.wait(&trace, "f"));
        assert_eq!(trace.take(), ["f", "halt", "f"]);
        assert_eq!(deferral(), Some(D));
        advance(D);
        block_on(trace.ready("g"));
        assert_eq!(trace.take(), ["g", "task"]);
    });
}

#[test]
fn a_task_woken_while_parked_is_ready_since_that_wake() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        trace.at_halts([Box::new(move || {
            inner.spawn("task", 1);
            advance(D / 2);
        })]);
        assert_eq!(park(), Park::Halted);
        assert_eq!(arch::now(), START + D / 2);
        assert_eq!(deferral(), Some(D));
    });
}

#[test]
fn the_end_of_a_park_sets_overdue_for_what_has_waited_for_the_bound() {
    on_core(|| {
        let trace = Trace::new();
        let inner = trace.clone();
        trace.at_halts([Box::new(move || {
            inner.spawn("task", 1);
            advance(2 * D);
        })]);
        assert_eq!(park(), Park::Halted);
        assert_eq!(deferral(), None);
        block_on(trace.ready("f"));
        assert_eq!(trace.take(), ["halt", "f", "task"]);
    });
}

#[test]
fn a_park_that_ends_by_a_panic_leaves_the_core_unparked() {
    on_core(|| {
        let trace = Trace::new();
        host::on_halt(|_| panic!("in an interrupt"));
        assert_eq!(panic_of(park), "in an interrupt");
        trace.spawn_safe("task", 1);
        assert_eq!(deferral(), Some(D));
        advance(D);
        assert_eq!(trace.take(), ["task"]);
    });
}
