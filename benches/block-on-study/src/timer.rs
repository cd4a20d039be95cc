//! The timers, and the races against them.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::options::TimerKind;

/// Completes after `duration`, by the timer `kind`.
///
/// The timer is made when this is called, not when it is polled, as in the
/// crates themselves.
pub fn sleep(kind: TimerKind, duration: Duration) -> Sleep {
    match kind {
        TimerKind::FuturesTimer => Sleep::FuturesTimer(futures_timer::Delay::new(duration)),
        TimerKind::Tokio => Sleep::Tokio(tokio::time::sleep(duration)),
        TimerKind::AsyncIo => Sleep::AsyncIo(async_io::Timer::after(duration)),
        TimerKind::Firstpoll => Sleep::Firstpoll(firstpoll::time::sleep(duration)),
    }
}

/// A timer of any crate.
#[derive(Debug)]
pub enum Sleep {
    FuturesTimer(futures_timer::Delay),
    Tokio(tokio::time::Sleep),
    AsyncIo(async_io::Timer),
    Firstpoll(firstpoll::time::Sleep),
}

impl Sleep {
    /// Waits for it.
    pub async fn wait(self) {
        match self {
            Self::FuturesTimer(delay) => delay.await,
            Self::Tokio(sleep) => sleep.await,
            Self::AsyncIo(timer) => {
                timer.await;
            }
            Self::Firstpoll(sleep) => sleep.await,
        }
    }
}

/// Runs `future` until `timer` ends: the future is polled first, so one that
/// is ready leaves the timer alone. `None` if the timer won.
pub async fn timeout<F: Future>(timer: Sleep, future: F) -> Option<F::Output> {
    let (mut timer, mut future) = (pin!(timer.wait()), pin!(future));
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        timer.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// Runs `future` until `timer` ends: the timer is polled first, so each race
/// arms it. `None` if the timer won.
pub async fn race<F: Future>(timer: Sleep, future: F) -> Option<F::Output> {
    let (mut timer, mut future) = (pin!(timer.wait()), pin!(future));
    poll_fn(|context| {
        if timer.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        future.as_mut().poll(context).map(Some)
    })
    .await
}
