//! The deadline timer and the clock; the option `test=` chooses.

#![no_std]
#![no_main]

use core::arch::asm;

use firstpoll::arch::x86_64::vectors;
use firstpoll::runtime::{ExitStatus, Runtime};
use firstpoll::time::{Duration, Instant, sleep, sleep_until, timeout};
use firstpoll::{arch, block_on, executor, println, spawn};

firstpoll::entry!(main, options: ["test"]);

fn main(runtime: Runtime) -> ExitStatus {
    match runtime.args().get("test") {
        Some("order") => order(),
        Some("deadlines") => deadlines(),
        Some("stray") => stray(),
        Some("idle") => idle(),
        Some("clock") => clock(),
        _ => return ExitStatus::FAILURE,
    }
    ExitStatus::SUCCESS
}

/// A long sleep, then a short one: each ends at its own time.
fn order() {
    let start = Instant::now();
    let long = spawn(async move {
        sleep(Duration::from_millis(1000)).await;
        start.elapsed()
    });
    let short = spawn(async move {
        sleep(Duration::from_millis(20)).await;
        start.elapsed()
    });
    println!("short_ns {}", block_on(short).as_nanos());
    println!("long_ns {}", block_on(long).as_nanos());
}

/// Past, present and far deadlines: those that are due fire, all of them.
fn deadlines() {
    for round in 0..20_000 {
        let now = Instant::now();
        let deadline = match round % 3 {
            0 => Instant::from_nanos(now.as_nanos() - 1),
            1 => now,
            _ => now + Duration::from_nanos(1),
        };
        block_on(sleep_until(deadline));
        assert!(Instant::now() >= deadline, "a sleep ended early");
    }
    for far in [
        Duration::from_micros(1 << 32),
        Duration::from_micros(u64::MAX),
        Duration::MAX,
    ] {
        let never = block_on(timeout(Duration::from_millis(2), sleep(far)));
        assert!(never.is_err(), "a sleep of {far:?} ended");
    }
    println!("deadlines fired");
}

/// Timer interrupts with nothing armed are counted and do nothing.
fn stray() {
    let before = executor::stats().idle_timer_interrupts;
    for _ in 0..100 {
        // SAFETY: the vector's entry returns as from any interrupt.
        unsafe { asm!("int {}", const vectors::TIMER) };
    }
    println!("stray {}", executor::stats().idle_timer_interrupts - before);
    // The timer still works.
    block_on(sleep(Duration::from_millis(1)));
    println!("timer_interrupts {}", arch::interrupt_counts().timer);
}

/// Idle for 10 s.
fn idle() {
    let before = arch::interrupt_counts();
    let start = Instant::now();
    block_on(sleep(Duration::from_secs(10)));
    println!("slept_ns {}", start.elapsed().as_nanos());
    let after = arch::interrupt_counts();
    let all = |counts: arch::InterruptCounts| counts.timer + counts.device + counts.spurious;
    println!("interrupts {}", all(after) - all(before));
    println!("halts {}", executor::stats().halts);
}

/// Two seconds by the clock, for somebody outside to compare.
fn clock() {
    let start = Instant::now();
    println!("start");
    while start.elapsed() < Duration::from_secs(2) {}
    println!("end");
    let mut last = Instant::now();
    for _ in 0..1_000_000 {
        let now = Instant::now();
        assert!(now >= last, "the clock went back");
        last = now;
    }
}
