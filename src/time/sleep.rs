//! Waiting for a point in time.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use super::expiry::Registration;
use crate::arch::{self, Instant};

/// Completes `duration` from now; a duration that reaches beyond the end of
/// time never does.
///
/// # Examples
///
/// ```
/// use firstpoll::time::{Duration, sleep};
///
/// firstpoll::runtime::init();
/// firstpoll::block_on(sleep(Duration::from_millis(1)));
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(arch::now() + duration)
}

/// Completes at `deadline`, at once if that is past. [`Instant::MAX`] never comes.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        deadline,
        registration: None,
    }
}

/// The future of [`sleep`] and [`sleep_until`].
///
/// Dropping it takes its deadline out of the timer queue.
///
/// # Panics
///
/// Polling it before its deadline panics on a core where the runtime was not
/// initialised.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    deadline: Instant,
    registration: Option<Registration>,
}

impl Sleep {
    /// When it completes.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Makes it complete at `deadline` instead, also once it has completed.
    ///
    /// To a later deadline costs next to nothing: the timer stays at the earlier
    /// one and is moved on when that comes, for which the task may be polled
    /// once. So a limit that is hardly ever reached, as for a peer's silence, is
    /// best one `Sleep` that is reset each time the peer says something.
    ///
    /// # Examples
    ///
    /// ```
    /// use firstpoll::time::{Duration, Instant, sleep_until, timeout_by};
    ///
    /// firstpoll::runtime::init();
    /// let patience = Duration::from_millis(2);
    /// let mut limit = sleep_until(Instant::MAX);
    /// for answer in 1..=3 {
    ///     limit.reset(firstpoll::arch::now() + patience);
    ///     let heard = firstpoll::block_on(timeout_by(&mut limit, async { answer }));
    ///     assert_eq!(heard, Ok(answer));
    /// }
    /// ```
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if self
            .registration
            .as_ref()
            .is_some_and(|registration| registration.deadline() > deadline)
        {
            self.registration = None;
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline == Instant::MAX {
            return Poll::Pending;
        }
        if arch::now() >= self.deadline {
            self.registration = None;
            return Poll::Ready(());
        }
        let registration = self.registration.as_ref();
        if !registration.is_some_and(|registration| registration.update(context.waker())) {
            // None yet, or that of an earlier deadline, which has come.
            self.registration = Some(Registration::new(self.deadline, context.waker()));
        }
        Poll::Pending
    }
}
