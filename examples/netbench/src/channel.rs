//! A bounded channel between two tasks of one core.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::RefCell;
use core::error;
use core::fmt;
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};

/// A channel that holds up to `capacity` values.
///
/// # Panics
///
/// Panics if `capacity` is 0.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel must hold something");
    let shared = Rc::new(RefCell::new(Shared {
        values: VecDeque::with_capacity(capacity),
        capacity,
        waiting: None,
        closed: false,
    }));
    let receiver = Receiver {
        shared: Rc::clone(&shared),
    };
    (Sender { shared }, receiver)
}

/// The sending end. Dropping it ends the channel.
pub struct Sender<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// The receiving end. Dropping it ends the channel.
pub struct Receiver<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

struct Shared<T> {
    values: VecDeque<T>,
    capacity: usize,
    /// One end waits for the other, never both: the channel cannot be full and
    /// empty.
    waiting: Option<Waker>,
    closed: bool,
}

/// The receiver is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the receiver is gone")
    }
}

impl error::Error for Closed {}

impl<T> Sender<T> {
    /// Sends `value`, as soon as there is room.
    ///
    /// # Errors
    ///
    /// [`Closed`].
    pub async fn send(&mut self, value: T) -> Result<(), Closed> {
        let mut value = Some(value);
        poll_fn(|context| {
            let mut shared = self.shared.borrow_mut();
            if shared.closed {
                return Poll::Ready(Err(Closed));
            }
            if shared.values.len() == shared.capacity {
                return shared.wait(context);
            }
            shared.values.extend(value.take());
            let waiting = shared.waiting.take();
            drop(shared);
            wake(waiting);
            Poll::Ready(Ok(()))
        })
        .await
    }
}

impl<T> Receiver<T> {
    /// Waits for the next value; there is none once the sender is gone.
    pub async fn receive(&mut self) -> Option<T> {
        poll_fn(|context| {
            let mut shared = self.shared.borrow_mut();
            let Some(value) = shared.values.pop_front() else {
                if shared.closed {
                    return Poll::Ready(None);
                }
                return shared.wait(context);
            };
            let waiting = shared.waiting.take();
            drop(shared);
            wake(waiting);
            Poll::Ready(Some(value))
        })
        .await
    }
}

impl<T> Shared<T> {
    fn wait<R>(&mut self, context: &Context<'_>) -> Poll<R> {
        match &mut self.waiting {
            Some(waiting) => waiting.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// With nothing borrowed: a waker is foreign code.
fn wake(waiting: Option<Waker>) {
    if let Some(waker) = waiting {
        waker.wake();
    }
}

fn close<T>(shared: &RefCell<Shared<T>>) {
    let mut shared = shared.borrow_mut();
    shared.closed = true;
    let waiting = shared.waiting.take();
    drop(shared);
    wake(waiting);
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        close(&self.shared);
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        close(&self.shared);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use firstpoll::{block_on, runtime, spawn};

    use super::*;

    #[test]
    fn all_values_arrive_in_order() {
        runtime::init();
        for capacity in [1, 2, 16] {
            let (mut sender, mut receiver) = channel(capacity);
            let sending = spawn(async move {
                for value in 0..100 {
                    sender.send(value).await?;
                }
                Ok::<_, Closed>(())
            });
            let received = block_on(async {
                let mut received = Vec::new();
                while let Some(value) = receiver.receive().await {
                    received.push(value);
                }
                received
            });
            assert_eq!(block_on(sending), Ok(()));
            assert_eq!(received, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_sender_learns_that_the_receiver_is_gone() {
        runtime::init();
        let (mut sender, receiver) = channel(1);
        let sending = spawn(async move {
            sender.send(1).await?;
            sender.send(2).await
        });
        let receiving = spawn(async move { drop(receiver) });
        block_on(receiving);
        assert_eq!(block_on(sending), Err(Closed));
    }
}
