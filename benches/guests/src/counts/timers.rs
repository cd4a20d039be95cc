//! Timers: cancelled, fired, and waited for in a halt.

use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use firstpoll::time::{Duration, Instant, Sleep, sleep, sleep_until};
use firstpoll::{arch, block_on, println};

use crate::count::{each, instructions, per_round};

const ROUNDS: u64 = 10_000;

/// Timers that expire together.
const BATCH: usize = 1_000;

/// Far enough for a batch to be armed before.
const SOON: Duration = Duration::from_millis(5);

const LATER: Duration = Duration::from_secs(3600);

pub fn count() {
    println!("timer_cancelled {}", per_round(ROUNDS, arm_and_cancel));
    let others: Vec<Sleep> = (0..BATCH).map(|_| armed(Instant::now() + SOON)).collect();
    println!(
        "timer_cancelled_of_1000 {}",
        per_round(ROUNDS, arm_and_cancel)
    );
    drop(others);
    println!("timer_fired {}", fired());
    println!("timer_interrupt_to_poll {}", interrupt_to_poll());
}

fn armed(deadline: Instant) -> Sleep {
    let mut sleep = sleep_until(deadline);
    let _ = poll(&mut sleep);
    sleep
}

fn poll(sleep: &mut Sleep) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop()))
}

fn arm_and_cancel() {
    let mut sleep = sleep(LATER);
    let _ = poll(&mut sleep);
}

/// Armed, expired and found ready: per timer, of a batch that is due together.
fn fired() -> u64 {
    let deadline = Instant::now() + SOON;
    let mut sleeps = Vec::with_capacity(BATCH);
    let start = instructions();
    sleeps.extend((0..BATCH).map(|_| armed(deadline)));
    let arming = instructions() - start;

    let mask = arch::mask_interrupts();
    while Instant::now() < deadline + Duration::from_micros(1) {}
    let start = instructions();
    drop(mask); // Here is the interrupt, and its bottom half.
    let fired = sleeps.iter_mut().map(poll).filter(Poll::is_ready).count();
    let firing = instructions() - start;
    assert_eq!(fired, BATCH, "not all timers fired");
    each(arming + firing, BATCH as u64)
}

/// From the deadline for which the core halts to the first instruction of the
/// blocked future's poll.
fn interrupt_to_poll() -> u64 {
    const ROUNDS: u64 = 1_000;
    let mut total = 0;
    for _ in 0..ROUNDS {
        let deadline = Instant::now() + Duration::from_micros(50);
        let mut sleep = sleep_until(deadline);
        let polled_at = block_on(poll_fn(|context| {
            let now = Instant::now();
            Pin::new(&mut sleep).poll(context).map(|()| now)
        }));
        total += (polled_at - deadline).as_nanos() as u64;
    }
    each(total, ROUNDS)
}
