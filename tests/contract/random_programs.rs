//! The bounds of rule 5 in programs made up at random.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use firstpoll::arch::host::{self, advance};
use firstpoll::arch::{self, Instant};
use firstpoll::block_on;
use firstpoll::executor::{DEFAULT_BUDGET, pass};
use firstpoll::sync::bottom_half;
use proptest::prelude::*;

use crate::trace::{D, START, on_core, spawn_safe, timer_interrupts};

/// What a program does next; times are in hundredths of D.
#[derive(Clone, Debug)]
enum Step {
    /// Wakes the interrupt-safe or the ordinary task, at once or in an interrupt.
    Wake { safe: bool, in_interrupt: bool },
    /// Computes.
    Compute(u32),
    /// Computes with interrupts masked.
    Mask(u32),
    /// Computes with the bottom half held off.
    HoldOff(u32),
    /// Blocks on a future that is ready.
    Ready,
    /// Blocks on a future that is pending once.
    Pending,
    /// Blocks on a future that computes.
    Busy(u32),
}

/// Short enough for the bound to be told from it.
const LONGEST_SECTION: u32 = 40;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<(bool, bool)>().prop_map(|(safe, in_interrupt)| Step::Wake { safe, in_interrupt }),
        2 => (1..250u32).prop_map(Step::Compute),
        1 => (1..LONGEST_SECTION).prop_map(Step::Mask),
        1 => (1..LONGEST_SECTION).prop_map(Step::HoldOff),
        3 => Just(Step::Ready),
        1 => Just(Step::Pending),
        1 => (1..250u32).prop_map(Step::Busy),
    ]
}

fn hundredths(count: u32) -> Duration {
    D / 100 * count
}

/// A task that notes how late after its wake it is polled.
struct Late {
    /// When it was woken, in nanoseconds; 0 when it was not.
    woken_at: AtomicU64,
    waker: std::sync::Mutex<Option<std::task::Waker>>,
    longest_ns: AtomicU64,
}

impl Late {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            woken_at: AtomicU64::new(0),
            waker: std::sync::Mutex::new(None),
            longest_ns: AtomicU64::new(0),
        })
    }

    fn task(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let late = Arc::clone(self);
        std::future::poll_fn(move |context| {
            *late.waker.lock().expect("not poisoned") = Some(context.waker().clone());
            let woken_at = late.woken_at.swap(0, SeqCst);
            if woken_at != 0 {
                let lateness = arch::now() - Instant::from_nanos(woken_at);
                late.longest_ns
                    .fetch_max(lateness.as_nanos() as u64, SeqCst);
            }
            std::task::Poll::Pending
        })
    }

    fn wake(&self) {
        let now = arch::now().as_nanos();
        let _ = self.woken_at.compare_exchange(0, now, SeqCst, SeqCst);
        let waker = self.waker.lock().expect("not poisoned").clone();
        waker.expect("it was polled once").wake();
    }

    /// Since when it waits for its poll.
    fn waits_since(&self) -> Option<Instant> {
        match self.woken_at.load(SeqCst) {
            0 => None,
            nanos => Some(Instant::from_nanos(nanos)),
        }
    }

    fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(SeqCst))
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_bounds_hold_and_the_interrupts_are_few(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        on_core(move || {
            let (safe, ordinary) = (Late::new(), Late::new());
            spawn_safe(safe.task()).detach();
            firstpoll::spawn(ordinary.task()).detach();
            let _ = pass(DEFAULT_BUDGET);

            for step in steps {
                let mut may_be_overdue = true;
                match step {
                    Step::Wake { safe: is_safe, in_interrupt } => {
                        let task = Arc::clone(if is_safe { &safe } else { &ordinary });
                        if in_interrupt {
                            host::interrupt(move || task.wake());
                        } else {
                            task.wake();
                        }
                    }
                    Step::Compute(time) => advance(hundredths(time)),
                    Step::Mask(time) => {
                        let mask = arch::mask_interrupts();
                        advance(hundredths(time));
                        drop(mask);
                    }
                    Step::HoldOff(time) => {
                        let disabled = bottom_half::disable();
                        advance(hundredths(time));
                        drop(disabled);
                    }
                    Step::Ready => {
                        block_on(async {});
                        may_be_overdue = false;
                    }
                    Step::Pending => {
                        block_on(firstpoll::yield_now());
                        may_be_overdue = false;
                    }
                    Step::Busy(time) => {
                        block_on(async { advance(hundredths(time)) });
                        may_be_overdue = false;
                    }
                }

                let waits = |task: &Late| task.waits_since().map(|since| arch::now() - since);
                if let Some(waits) = waits(&safe) {
                    assert!(waits < D + hundredths(LONGEST_SECTION), "waits for {waits:?}");
                }
                if !may_be_overdue && let Some(waits) = waits(&ordinary) {
                    assert!(waits < D, "an overdue task waits for {waits:?} after a call");
                }
            }
            assert!(safe.longest() <= D + hundredths(LONGEST_SECTION), "{:?}", safe.longest());
            // At most one per bound: the n-th comes n bounds after the start.
            let bounds = (arch::now() - START).as_nanos() / D.as_nanos();
            assert!(u128::from(timer_interrupts()) <= bounds);
        });
    }
}
