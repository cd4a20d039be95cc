//! What a `block_on` and a timer cost by themselves, on one thread.

use std::future::{Future, poll_fn, ready};
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::channel::{self, Message};
use crate::executor::Executor;
use crate::options::{ChannelKind, ExecutorKind, TimerKind};
use crate::report::{figure, median};
use crate::system::Usage;
use crate::timer;

/// How often the rate is taken, and for how long each time.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(2);

/// A timeout that does not come.
const FAR: Duration = Duration::from_secs(1);

/// Measures the `block_on` of `kind` and prints it; `none` polls in a loop.
///
/// # Errors
///
/// If it does not start.
pub fn run(kind: ExecutorKind) -> Result<()> {
    if kind == ExecutorKind::None {
        time("ready", || poll_in_loop(ready(black_box(1))))?;
        time("self-woken", || poll_in_loop(self_woken()))?;
        return Ok(());
    }
    let executor = Executor::new(kind, 1)?;
    time("ready", || executor.block_on(ready(black_box(1))))?;
    time("self-woken", || executor.block_on(self_woken()))?;
    for (name, channel) in [
        ("flume", ChannelKind::Flume),
        ("tokio", ChannelKind::Tokio),
        ("async-channel", ChannelKind::AsyncChannel),
        ("mutex and queue", ChannelKind::WakeUnlocked),
    ] {
        let (sender, mut receiver) = channel::channel(channel);
        time(&format!("queued message, {name}"), || {
            sender.send(Message {
                sent: Instant::now(),
                payload: Vec::new(),
            });
            executor.block_on(receiver.recv())
        })?;
    }
    Ok(())
}

/// Measures races of the timer `kind` against a future that is ready, and
/// prints it.
///
/// # Errors
///
/// If its `block_on` does not start.
pub fn run_timers(kind: TimerKind) -> Result<()> {
    let executor = Executor::new(
        match kind {
            TimerKind::FuturesTimer => ExecutorKind::Futures,
            TimerKind::Tokio => ExecutorKind::TokioCurrent,
            TimerKind::AsyncIo => ExecutorKind::AsyncIo,
            TimerKind::Firstpoll => ExecutorKind::Firstpoll,
        },
        1,
    )?;
    time("no timer", || executor.block_on(ready(black_box(1))))?;
    time("timeout around a ready future", || {
        executor.block_on(async { timer::timeout(timer::sleep(kind, FAR), ready(1)).await })
    })?;
    time("race against a ready future", || {
        executor.block_on(async { timer::race(timer::sleep(kind, FAR), ready(1)).await })
    })
}

/// Prints what `call` costs in ns, and in context switches.
fn time<R>(case: &str, mut call: impl FnMut() -> R) -> Result<()> {
    let mut calls = 0_u64;
    let mut rounds = Vec::with_capacity(ROUNDS);
    let before = Usage::now()?;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut count = 0_u32;
        let elapsed = loop {
            for _ in 0..64 {
                black_box(call());
            }
            count += 64;
            let elapsed = start.elapsed();
            if elapsed >= ROUND {
                break elapsed;
            }
        };
        calls += u64::from(count);
        rounds.push(elapsed.as_nanos() as f64 / f64::from(count));
    }
    let used = Usage::now()?.since(before);
    figure(case, "time", "ns", median(&mut rounds));
    let switches = used.switches as f64 / calls as f64;
    figure(case, "switches", "1/call", switches);
    Ok(())
}

/// Pending once, and woken from within.
async fn self_woken() {
    let mut is_second = false;
    poll_fn(|context| {
        if is_second {
            return Poll::Ready(());
        }
        is_second = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What there is without an executor.
fn poll_in_loop<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}
