//! Giving up on a future at a point in time.

use core::error::Error;
use core::fmt;
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;

use super::sleep::{Sleep, sleep_until};
use crate::arch::{self, Instant};

/// The time was up before the future completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is up")
    }
}

impl Error for Elapsed {}

/// Runs `future` for at most `duration` from now.
///
/// `future` is polled before the time is looked at, so one that is ready wins,
/// and a timeout of zero polls it exactly once.
///
/// # Errors
///
/// [`Elapsed`] if the time is up first; `future` is then dropped.
///
/// # Examples
///
/// ```
/// use core::future::pending;
/// use firstpoll::time::{Duration, Elapsed, timeout};
///
/// firstpoll::runtime::init();
/// let result = firstpoll::block_on(timeout(Duration::from_millis(1), pending::<()>()));
/// assert_eq!(result, Err(Elapsed));
/// ```
pub fn timeout<F: Future>(
    duration: Duration,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    timeout_at(arch::now() + duration, future)
}

/// Runs `future` until `deadline` at the latest.
///
/// # Errors
///
/// [`Elapsed`] if the deadline comes first; `future` is then dropped.
pub async fn timeout_at<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
    timeout_by(&mut sleep_until(deadline), future).await
}

/// Runs `future` until `limit` completes at the latest.
///
/// For many in a row: [`Sleep::reset`] makes one limit serve all of them.
///
/// # Errors
///
/// [`Elapsed`] if the limit completes first; `future` is then dropped.
pub async fn timeout_by<F: Future>(limit: &mut Sleep, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut *limit).poll(context).map(|()| Err(Elapsed))
    })
    .await
}
