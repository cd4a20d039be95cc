//! Counts what a ready `block_on` costs.
//!
//! It prints `name instructions`, each per call and with the loop subtracted.

#![no_std]
#![no_main]

mod count;
mod order;

use core::arch::naked_asm;
use core::future::{Future, ready};
use core::hint::black_box;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::task::{Context, Poll, Waker};

use firstpoll::executor::{DEFAULT_BUDGET, pass};
use firstpoll::runtime::Runtime;
use firstpoll::{arch, block_on, println, spawn, yield_now};
use httpd::BlockOn;

use crate::count::per_round;
use crate::order::PassFirst;

firstpoll::entry!(main);

const ROUNDS: u64 = 10_000;

/// The queues that the measured calls find.
const QUEUED: [usize; 3] = [0, 1, 64];

static STOP: AtomicBool = AtomicBool::new(false);

fn main(_: Runtime) {
    for queued in QUEUED {
        let _masked = arch::mask_interrupts();
        queue(queued);
        println!(
            "ready_first_{queued} {}",
            per_round(ROUNDS, || block_on(Opaque))
        );
        drop(_masked);
        drain();
    }
    println!(
        "inlined_ready {}",
        per_round(ROUNDS, || block_on(ready(())))
    );
    println!("bare_loop {}", per_round(ROUNDS, bare_poll));
    for queued in QUEUED {
        queue(queued);
        println!(
            "pass_first_{queued} {}",
            per_round(ROUNDS, || PassFirst.block_on(Opaque))
        );
        drain();
    }
}

/// Queues tasks that are ready whenever they are looked at.
fn queue(count: usize) {
    STOP.store(false, Relaxed);
    for _ in 0..count {
        spawn(async {
            while !STOP.load(Relaxed) {
                yield_now().await;
            }
        })
        .detach();
    }
}

/// Lets them end.
fn drain() {
    STOP.store(true, Relaxed);
    while pass(DEFAULT_BUDGET).polled > 0 {}
}

/// A future of three instructions that the compiler cannot see into.
struct Opaque;

#[unsafe(naked)]
extern "C" fn opaque_poll() -> u8 {
    naked_asm!("nop", "xor eax, eax", "ret")
}

impl Future for Opaque {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if opaque_poll() == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// What a poll loop without an executor costs.
#[inline(always)]
fn bare_poll() {
    let mut future = pin!(black_box(ready(())));
    let mut context = Context::from_waker(Waker::noop());
    while future.as_mut().poll(&mut context).is_pending() {}
}
