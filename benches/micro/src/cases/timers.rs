//! Timers: one, and 100,000.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::run::{Run, timed};
use crate::system::Timers;

const TIMERS: u32 = 100_000;

/// Deadlines on so many milliseconds: some systems round to those.
const DEADLINES: u32 = 10;

/// Far enough never to come.
const FAR: Duration = Duration::from_secs(3_600);

/// One timer, armed and cancelled.
pub(crate) fn arm_and_cancel<S: Timers + 'static>() -> Run {
    let system = S::new();
    Box::new(move |times| {
        within(&system, |context| {
            timed(times, || {
                let sleep = system.sleep(system.now(), FAR);
                assert!(pin!(sleep).poll(context).is_pending());
            })
        })
    })
}

/// 100,000 timers, all armed, then all cancelled.
pub(crate) fn many_cancelled<S: Timers + 'static>() -> Run {
    let system = S::new();
    Box::new(move |times| timed(times, || drop(arm_many(&system, FAR))))
}

/// 100,000 timers, all armed, then waited for.
///
/// The time is the processor's for this thread: what waiting takes is no cost.
pub(crate) fn many_expired<S: Timers + 'static>() -> Run {
    let system = S::new();
    Box::new(move |times| {
        let mut took = Duration::ZERO;
        for _ in 0..times {
            // Long enough that none is due before all are armed.
            let rehearsal = Instant::now();
            drop(arm_many(&system, FAR));
            let delay = rehearsal.elapsed() * 3 + Duration::from_millis(5);

            let start = thread_time();
            let mut sleeps = arm_many(&system, delay).into_iter().peekable();
            system.block_on(poll_fn(|context| {
                while let Some(sleep) = sleeps.peek_mut() {
                    if sleep.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    sleeps.next();
                }
                Poll::Ready(())
            }));
            took += thread_time() - start;
        }
        took
    })
}

/// Arms all timers for some milliseconds from `delay` on, in no order; returns
/// them in the order of their deadlines.
fn arm_many<S: Timers>(
    system: &S,
    delay: Duration,
) -> Vec<Pin<Box<impl Future<Output = ()> + use<'_, S>>>> {
    let start = system.now();
    let mut sleeps: Vec<_> = (0..TIMERS)
        .map(|index| {
            let later = Duration::from_millis((index / (TIMERS / DEADLINES)).into());
            Box::pin(system.sleep(start, delay + later))
        })
        .collect();
    within(system, |context| {
        for index in 0..u64::from(TIMERS) {
            // A prime, so this visits each once.
            let index = index * 48_271 % u64::from(TIMERS);
            let sleep = sleeps[index as usize].as_mut();
            assert!(sleep.poll(context).is_pending(), "armed too late");
        }
    });
    sleeps
}

/// Calls `body` with the context of a blocked future.
fn within<S: Timers, R>(system: &S, body: impl FnOnce(&mut Context<'_>) -> R) -> R {
    let mut body = Some(body);
    system.block_on(poll_fn(|context| {
        let body = body.take().expect("ready at the first poll");
        Poll::Ready(body(context))
    }))
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("never negative")
}
