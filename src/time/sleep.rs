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
        match &self.registration {
            Some(registration) => registration.update(context.waker()),
            None => self.registration = Some(Registration::new(self.deadline, context.waker())),
        }
        Poll::Pending
    }
}
