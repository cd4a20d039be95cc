//! The deadline timer and the clock; the option `test=` chooses.

#![no_std]
#![no_main]

use core::arch::{asm, naked_asm};

use firstpoll::arch::x86_64::vectors;
use firstpoll::runtime::{ExitStatus, Runtime};
use firstpoll::time::{Duration, Instant, sleep, sleep_until, timeout};
use firstpoll::{arch, block_on, executor, println, spawn, yield_now};

firstpoll::entry!(main, options: ["test"]);

fn main(runtime: Runtime) -> ExitStatus {
    match runtime.args().get("test") {
        Some("order") => order(),
        Some("deadlines") => deadlines(),
        Some("stray") => stray(),
        Some("idle") => idle(),
        Some("clock") => clock(),
        Some("registers") => registers(),
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

/// Interrupts and bottom halves leave all registers and flags as they were.
fn registers() {
    let task = async {
        loop {
            sleep(Duration::from_micros(20)).await;
        }
    };
    // SAFETY: it touches only the timer queue.
    let task = unsafe { executor::spawn_interrupt_safe(task) };
    executor::set_deferral_bound(Duration::from_micros(10));
    block_on(yield_now());
    let before = executor::stats().bottom_halves;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(200) {
        assert_eq!(hold_registers(10_000), 0, "an interrupt changed something");
    }
    println!("bottom_halves {}", executor::stats().bottom_halves - before);
    drop(task);
}

/// Holds values in all registers, and the carry and direction flags, while it
/// checks them `rounds` times. Returns zero if they stay.
#[unsafe(naked)]
extern "C" fn hold_registers(rounds: u64) -> u64 {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdi",
        ".irp n, 8, 9, 10, 11, 12, 13, 14, 15",
        "mov r\\n, 1000 + \\n",
        ".endr",
        "mov rax, 1",
        "mov rcx, 2",
        "mov rdx, 3",
        "mov rbx, 4",
        "mov rbp, 5",
        "mov rsi, 6",
        "mov rdi, 7",
        "std",
        "2:",
        "stc",
        "jmp 5f",
        "5:",
        "jnc 3f",
        ".irp n, 8, 9, 10, 11, 12, 13, 14, 15",
        "cmp r\\n, 1000 + \\n",
        "jne 3f",
        ".endr",
        "cmp rax, 1",
        "jne 3f",
        "cmp rcx, 2",
        "jne 3f",
        "cmp rdx, 3",
        "jne 3f",
        "cmp rbx, 4",
        "jne 3f",
        "cmp rbp, 5",
        "jne 3f",
        "cmp rsi, 6",
        "jne 3f",
        "cmp rdi, 7",
        "jne 3f",
        "pushfq",
        "bt qword ptr [rsp], 10", // The direction flag.
        "lea rsp, [rsp + 8]",
        "jnc 3f",
        "dec qword ptr [rsp]",
        "jnz 2b",
        "xor eax, eax",
        "jmp 4f",
        "3:",
        "mov eax, 1",
        "4:",
        "cld",
        "pop rdi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
