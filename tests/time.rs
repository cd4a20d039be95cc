//! Sleeps, timeouts and intervals, on a clock that the tests move by hand.

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use firstpoll::arch::host;
use firstpoll::executor::stats;
use firstpoll::runtime;
use firstpoll::time::{
    Duration, Elapsed, Instant, Sleep, interval, sleep, sleep_until, timeout, timeout_by,
};
use firstpoll::{block_on, spawn, yield_now};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_nanos(1);

/// Where the clock stands after [`start`].
const START: Instant = Instant::from_nanos(1_000_000_000);

/// Initialises the runtime so that at `now` nothing is queued and nothing armed.
fn start_at(now: Instant) {
    let before = now - Instant::ZERO - 10 * MS;
    host::set_clock(Instant::ZERO + before);
    runtime::init();
    block_on(yield_now()); // The expiry task's first poll.
    host::advance(10 * MS);
}

fn start() {
    start_at(START);
}

fn poll(sleep: &mut Sleep) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop()))
}

/// Case T1.
#[test]
fn a_shorter_sleep_that_starts_later_ends_first() {
    start();
    let order = Rc::new(RefCell::new(Vec::new()));
    let sleeper = |name, duration| {
        let order = Rc::clone(&order);
        spawn(async move {
            sleep(duration).await;
            order.borrow_mut().push((name, Instant::now()));
        })
    };
    let long = sleeper("long", 10 * SEC);
    let short = sleeper("short", 200 * MS);
    block_on(async {
        short.await;
        long.await;
    });
    assert_eq!(
        *order.borrow(),
        [("short", START + 200 * MS), ("long", START + 10 * SEC)]
    );
}

/// Case T2.
#[test]
fn deadlines_around_now_all_fire() {
    start();
    for _ in 0..100_000 {
        let now = Instant::now();
        for deadline in [Instant::from_nanos(now.as_nanos() - 1), now, now + TICK] {
            block_on(sleep_until(deadline));
            assert!(Instant::now() >= deadline);
        }
    }
}

/// Case T3.
#[test]
fn far_deadlines_never_return_early_and_leave_others_exact() {
    start();
    let far = [
        Duration::from_micros(1 << 32),
        Duration::from_micros(u64::MAX),
        Duration::MAX,
    ];
    let mut sleeps = far.map(sleep);
    for sleep in &mut sleeps {
        assert_eq!(poll(sleep), Poll::Pending);
    }
    block_on(sleep(5 * MS));
    assert_eq!(Instant::now(), START + 5 * MS);
    host::advance(Duration::from_micros(1 << 32) - 5 * MS - TICK);
    for sleep in &mut sleeps {
        assert_eq!(poll(sleep), Poll::Pending);
    }
    host::advance(TICK);
    assert_eq!(sleeps.each_mut().map(poll)[0], Poll::Ready(()));
    assert_eq!(poll(&mut sleeps[1]), Poll::Pending);
    assert_eq!(poll(&mut sleeps[2]), Poll::Pending);
}

/// Case T4.
#[test]
fn a_timer_interrupt_with_nothing_due_is_counted_and_ignored() {
    start();
    let mut cancelled = sleep(5 * MS);
    assert_eq!(poll(&mut cancelled), Poll::Pending);
    drop(cancelled);
    let before = stats().idle_timer_interrupts;
    host::advance(10 * MS); // What was programmed still fires, once.
    assert_eq!(stats().idle_timer_interrupts, before + 1);
    host::advance(10 * SEC);
    assert_eq!(stats().idle_timer_interrupts, before + 1);
}

/// Case T5.
#[test]
fn ten_idle_seconds_take_no_interrupt_but_the_deadline() {
    start();
    let before = host::timer_interrupts();
    block_on(sleep(10 * SEC));
    assert_eq!(host::timer_interrupts() - before, 1);
}

/// Case T6, the part that is time's own: the clock crosses 2^32 ms.
#[test]
fn sleeps_cross_the_32_bit_millisecond_boundary() {
    let boundary = Duration::from_millis(1 << 32);
    start_at(Instant::ZERO + (boundary - 5 * SEC));
    block_on(sleep(10 * SEC));
    assert_eq!(Instant::now(), Instant::ZERO + boundary + 5 * SEC);
}

/// Case T8, the order and the queue; the heap is measured elsewhere.
#[test]
fn of_many_sleeps_half_of_them_dropped_the_rest_fire_in_order() {
    const SLEEPS: u64 = 100_000;
    start();
    let order = Rc::new(RefCell::new(Vec::new()));
    // Visits 0..SLEEPS in a scattered order.
    let scattered = (0..SLEEPS).map(|i| i * 7_919 % SLEEPS);
    let mut tasks: Vec<_> = scattered
        .map(|i| {
            let order = Rc::clone(&order);
            (
                i,
                spawn(async move {
                    sleep_until(START + Duration::from_micros(1_000 + i)).await;
                    order.borrow_mut().push(i);
                }),
            )
        })
        .collect();
    block_on(sleep(TICK));
    while stats().polls < SLEEPS {
        block_on(yield_now());
    }
    tasks.retain(|(i, _)| i % 2 == 0);
    block_on(async {
        for (_, task) in tasks {
            task.await;
        }
    });
    let order = order.borrow();
    assert_eq!(order.len() as u64, SLEEPS / 2);
    assert!(order.is_sorted());
}

/// Rule 7.
#[test]
fn a_timeout_ends_on_time_without_other_events() {
    start();
    assert_eq!(block_on(timeout(3 * SEC, pending::<()>())), Err(Elapsed));
    assert_eq!(Instant::now(), START + 3 * SEC);
}

/// Rule 7.
#[test]
fn a_timeout_ends_on_time_among_tasks_that_never_rest() {
    start();
    spawn(async {
        loop {
            host::advance(MS / 10);
            yield_now().await;
        }
    })
    .detach();
    assert_eq!(block_on(timeout(SEC, pending::<()>())), Err(Elapsed));
    assert!(Instant::now() <= START + SEC + MS);
}

/// Rule 7.
#[test]
fn a_timeout_of_zero_polls_once() {
    start();
    let mut polls = 0;
    let future = poll_fn(|_| {
        polls += 1;
        Poll::<()>::Pending
    });
    assert_eq!(block_on(timeout(Duration::ZERO, future)), Err(Elapsed));
    assert_eq!(polls, 1);
}

/// Rule 7 and case X1: a poll loop with a timeout of zero starves nobody.
#[test]
fn timeouts_of_zero_in_a_loop_let_overdue_tasks_run() {
    start();
    let data = spawn(async {
        sleep(100 * MS).await;
        "data"
    });
    let mut data = Box::pin(data);
    let seen = loop {
        if let Ok(seen) = block_on(timeout(Duration::ZERO, data.as_mut())) {
            break seen;
        }
        host::advance(Duration::from_micros(10));
        assert!(Instant::now() < START + SEC, "the data was never seen");
    };
    assert_eq!(seen, "data");
    assert!(Instant::now() < START + 105 * MS);
}

#[test]
fn a_ready_future_wins_against_a_timeout_that_is_up() {
    start();
    assert_eq!(block_on(timeout(Duration::ZERO, async { 1 })), Ok(1));
}

#[test]
fn timers_expire_while_the_program_computes() {
    start();
    let mut sleep = sleep(10 * MS);
    let (waker, woken) = flag_waker();
    assert_eq!(
        Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)),
        Poll::Pending
    );
    host::advance(10 * MS);
    assert!(woken.load(std::sync::atomic::Ordering::Relaxed));
}

/// What is put off goes on at its new time, whether that is later or sooner than
/// the one that is armed, and a limit that is always put off never comes.
#[test]
fn a_sleep_that_is_reset_ends_at_its_last_deadline() {
    start();
    let ends = |moves: &'static [u32]| {
        let before = Instant::now();
        block_on(async move {
            let mut sleep = sleep(100 * MS);
            assert_eq!(poll(&mut sleep), Poll::Pending);
            for &at in moves {
                sleep.reset(before + at * MS);
            }
            sleep.await;
        });
        Instant::now() - before
    };
    assert_eq!(ends(&[]), 100 * MS);
    assert_eq!(ends(&[300]), 300 * MS);
    assert_eq!(ends(&[20]), 20 * MS);
    assert_eq!(ends(&[300, 20, 40]), 40 * MS);
    let mut limit = sleep(5 * MS);
    for _ in 0..10 {
        limit.reset(Instant::now() + 5 * MS);
        let pause = block_on(timeout_by(&mut limit, sleep(3 * MS)));
        assert_eq!(pause, Ok(()));
    }
    let before = Instant::now();
    limit.reset(before + 5 * MS);
    let silence = timeout_by(&mut limit, pending::<()>());
    assert_eq!(block_on(silence), Err(Elapsed));
    assert_eq!(Instant::now(), before + 5 * MS);
    limit.reset(before + 9 * MS); // Also when it has completed.
    block_on(limit);
    assert_eq!(Instant::now(), before + 9 * MS);
}

#[test]
fn interval_ticks_keep_their_times_and_catch_up() {
    start();
    let mut interval = interval(10 * MS);
    let ticks = block_on(async {
        let first = interval.tick().await;
        let second = interval.tick().await;
        host::advance(25 * MS);
        [first, second, interval.tick().await, interval.tick().await]
    });
    let expected = [0, 10, 20, 30].map(|ms| START + ms * MS);
    assert_eq!(ticks, expected);
    assert_eq!(Instant::now(), START + 35 * MS);
}

#[test]
#[should_panic = "period must not be zero"]
fn an_interval_of_zero_is_refused() {
    let _ = interval(Duration::ZERO);
}

fn flag_waker() -> (Waker, std::sync::Arc<std::sync::atomic::AtomicBool>) {
    struct Flag(std::sync::Arc<std::sync::atomic::AtomicBool>);
    impl std::task::Wake for Flag {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    (std::sync::Arc::new(Flag(flag.clone())).into(), flag)
}
