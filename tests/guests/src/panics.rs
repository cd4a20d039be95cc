//! Panics where the option `where=` says.

#![no_std]
#![no_main]

use core::fmt;

use firstpoll::executor::spawn_interrupt_safe;
use firstpoll::runtime::{Args, Runtime};
use firstpoll::time::{Duration, Instant, sleep};
use firstpoll::{block_on, println, spawn, yield_now};

firstpoll::entry!(main, options: ["where"]);

fn main(runtime: Runtime) {
    match runtime.args().get("where") {
        Some("task") => {
            let task = spawn(async {
                yield_now().await;
                panic!("in a task");
            });
            block_on(task);
        }
        Some("bottom-half") => {
            let task = async {
                sleep(Duration::from_millis(1)).await;
                panic!("in the bottom half");
            };
            // SAFETY: it touches nothing.
            unsafe { spawn_interrupt_safe(task) }.detach();
            block_on(yield_now());
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(5) {}
        }
        Some("panic") => panic!("with {}", PanicsToo),
        Some("log") => println!("{}", PanicsToo),
        Some("memory") => exhaust(runtime.args()),
        _ => outer(),
    }
}

/// For the backtrace.
#[inline(never)]
fn outer() {
    inner();
    core::hint::black_box(());
}

#[inline(never)]
fn inner() {
    panic!("in the program");
}

/// Panics when it is printed.
struct PanicsToo;

impl fmt::Display for PanicsToo {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("while printing");
    }
}

/// Asks for more memory than there is.
fn exhaust(_: Args) {
    extern crate alloc;
    let all: alloc::vec::Vec<u8> = alloc::vec::Vec::with_capacity(1 << 40);
    core::hint::black_box(all);
}
