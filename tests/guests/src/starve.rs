//! A program that is busy for five seconds and never waits, on a network.
//!
//! `shape=` says how: `ready` calls `block_on` with a ready future, over and
//! over; `compute` computes; `task` computes in a spawned task.
//! `deferral=off` takes the deferral out.

#![no_std]
#![no_main]

use core::future::ready;
use core::hint::black_box;

use firstpoll::arch::now;
use firstpoll::net::{Error, Stack, TcpListener};
use firstpoll::runtime::{ExitStatus, Runtime};
use firstpoll::time::Duration;
use firstpoll::{block_on, executor, println, spawn};

firstpoll::entry!(main, options: ["shape", "deferral"]);

const BUSY: Duration = Duration::from_secs(5);

fn main(runtime: Runtime) -> ExitStatus {
    let args = runtime.args();
    if args.get("deferral") == Some("off") {
        executor::set_deferral_bound(Duration::MAX);
    }
    let busy = match args.get("shape") {
        Some("ready") => call_ready,
        Some("compute") => compute,
        Some("task") => compute_in_task,
        other => {
            println!("no such shape: {other:?}");
            return ExitStatus::FAILURE;
        }
    };
    match runtime.network().and_then(|stack| run(stack, busy)) {
        Ok(()) => ExitStatus::SUCCESS,
        Err(error) => {
            println!("no network: {error:?}");
            ExitStatus::FAILURE
        }
    }
}

fn run(stack: Stack, busy: fn()) -> Result<(), Error> {
    block_on(stack.wait_configured())?;
    // Nobody accepts: handshakes are the network's own business.
    let _listener = TcpListener::bind(stack, 80)?;
    println!("busy");
    busy();
    println!("done");
    let stats = executor::stats();
    println!("bottom halves {}", stats.bottom_halves);
    println!("overdue passes {}", stats.overdue_passes);
    let lateness = stats.interrupt_safe_lateness.longest;
    println!("lateness {} us", lateness.as_micros());
    Ok(())
}

fn call_ready() {
    let end = now() + BUSY;
    while now() < end {
        block_on(ready(()));
    }
}

fn compute() {
    let end = now() + BUSY;
    let mut value = 1_u64;
    while now() < end {
        for _ in 0..100_000 {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

fn compute_in_task() {
    block_on(spawn(async { compute() }));
}
