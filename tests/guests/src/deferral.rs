//! A program that computes while tasks are woken: by itself, as a device's
//! interrupt would, and by timers.
//!
//! - `shape=plain`: the computation is plain code. `shape=ready`: it is a loop
//!   of ready `block_on`s. `shape=task`: it is the poll of an ordinary task.
//! - `deferral=off` takes the deferral out.

#![no_std]
#![no_main]

use core::future::poll_fn;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::task::Poll;

use firstpoll::executor::{self, spawn_interrupt_safe};
use firstpoll::runtime::{ExitStatus, Runtime};
use firstpoll::sync::WakerSlot;
use firstpoll::time::{Duration, Instant, sleep};
use firstpoll::{arch, block_on, println, spawn, yield_now};

firstpoll::entry!(main, options: ["shape", "deferral", "millis"]);

/// How often the computation wakes the tasks.
const PERIOD: Duration = Duration::from_micros(3_700);

static SAFE: Events = Events::new();
static ORDINARY: Events = Events::new();
static TICKS: AtomicU64 = AtomicU64::new(0);

/// Events for one task, and how late it saw them.
struct Events {
    slot: WakerSlot,
    raised: AtomicU64,
    /// When the oldest that was not seen was raised; zero if all were.
    raised_at: AtomicU64,
    seen: AtomicU64,
    latest_ns: AtomicU64,
}

impl Events {
    const fn new() -> Self {
        Self {
            slot: WakerSlot::new(),
            raised: AtomicU64::new(0),
            raised_at: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            latest_ns: AtomicU64::new(0),
        }
    }

    fn raise(&self) {
        let now = Instant::now().as_nanos();
        let _ = self.raised_at.compare_exchange(0, now, Relaxed, Relaxed);
        self.raised.fetch_add(1, Relaxed);
        self.slot.wake();
    }

    /// The task: sees all events, for ever.
    async fn watch(&self) {
        poll_fn(|context| {
            self.slot.register(context.waker());
            let raised_at = self.raised_at.swap(0, Relaxed);
            if raised_at != 0 {
                let late = Instant::now().as_nanos() - raised_at;
                self.latest_ns.fetch_max(late, Relaxed);
                self.seen.store(self.raised.load(Relaxed), Relaxed);
            }
            Poll::<()>::Pending
        })
        .await;
    }

    fn print(&self, name: &str) {
        println!("{name}_raised {}", self.raised.load(Relaxed));
        println!("{name}_seen {}", self.seen.load(Relaxed));
        println!("{name}_latest_ns {}", self.latest_ns.load(Relaxed));
    }
}

fn main(runtime: Runtime) -> ExitStatus {
    let args = runtime.args();
    if args.get("deferral") == Some("off") {
        executor::set_deferral_bound(Duration::MAX);
    }
    // SAFETY: it touches atomics and the waker slot.
    unsafe { spawn_interrupt_safe(SAFE.watch()) }.detach();
    spawn(ORDINARY.watch()).detach();
    // A task that only timers wake.
    let ticking = async {
        loop {
            sleep(Duration::from_millis(10)).await;
            TICKS.fetch_add(1, Relaxed);
        }
    };
    // SAFETY: it touches an atomic and the timer queue.
    unsafe { spawn_interrupt_safe(ticking) }.detach();
    block_on(yield_now());

    let before = executor::stats();
    let length = Duration::from_millis(args.parse("millis").unwrap_or(200));
    match args.get("shape") {
        Some("plain") => compute(length, || {}),
        Some("ready") => compute(length, || block_on(async {})),
        Some("task") => block_on(spawn(async move { compute(length, || {}) })),
        _ => return ExitStatus::FAILURE,
    }
    let counts = arch::interrupt_counts();
    let computed = executor::stats();
    SAFE.print("safe");
    ORDINARY.print("ordinary");
    println!("ticks {}", TICKS.load(Relaxed));
    println!("timer_interrupts {}", counts.timer);
    println!(
        "bottom_halves {}",
        computed.bottom_halves - before.bottom_halves
    );
    println!(
        "overdue_passes {}",
        computed.overdue_passes - before.overdue_passes
    );
    println!("halts {}", computed.halts - before.halts);
    let nanos = |lateness: executor::Lateness| lateness.longest.as_nanos();
    println!(
        "safe_lateness_ns {}",
        nanos(computed.interrupt_safe_lateness)
    );

    // The first `block_on` after it, ready as it is, ends the wait of ordinary
    // tasks.
    block_on(async {});
    let after = executor::stats();
    println!("ordinary_seen_after {}", ORDINARY.seen.load(Relaxed));
    println!("ordinary_lateness_ns {}", nanos(after.ordinary_lateness));
    println!("done");
    ExitStatus::SUCCESS
}

/// Computes, raises the events now and then, and calls `step` all the time.
fn compute(length: Duration, step: impl Fn()) {
    let start = Instant::now();
    let mut next = start + PERIOD;
    while start.elapsed() < length {
        if Instant::now() >= next {
            next += PERIOD;
            SAFE.raise();
            ORDINARY.raise();
        }
        step();
    }
}
