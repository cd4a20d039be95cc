//! The channels, all unbounded.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Poll, Waker};
use std::time::Instant;

use crate::options::ChannelKind;

/// What is sent.
#[derive(Debug)]
pub struct Message {
    /// When, just before the send.
    pub sent: Instant,
    /// What the message carries, filled by the producer.
    pub payload: Vec<u8>,
}

/// A channel's sending end.
#[derive(Debug)]
pub enum Sender {
    Flume(flume::Sender<Message>),
    Tokio(tokio::sync::mpsc::UnboundedSender<Message>),
    AsyncChannel(async_channel::Sender<Message>),
    Own(Arc<Own>),
    Std(mpsc::Sender<Message>),
}

/// A channel's receiving end.
#[derive(Debug)]
pub enum Receiver {
    Flume(flume::Receiver<Message>),
    Tokio(tokio::sync::mpsc::UnboundedReceiver<Message>),
    AsyncChannel(async_channel::Receiver<Message>),
    Own(Arc<Own>),
    Std(mpsc::Receiver<Message>),
}

/// A new channel.
pub fn channel(kind: ChannelKind) -> (Sender, Receiver) {
    match kind {
        ChannelKind::Flume => {
            let (sender, receiver) = flume::unbounded();
            (Sender::Flume(sender), Receiver::Flume(receiver))
        }
        ChannelKind::Tokio => {
            let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
            (Sender::Tokio(sender), Receiver::Tokio(receiver))
        }
        ChannelKind::AsyncChannel => {
            let (sender, receiver) = async_channel::unbounded();
            (
                Sender::AsyncChannel(sender),
                Receiver::AsyncChannel(receiver),
            )
        }
        ChannelKind::WakeLocked | ChannelKind::WakeUnlocked => {
            let own = Arc::new(Own {
                wakes_locked: kind == ChannelKind::WakeLocked,
                state: Mutex::default(),
            });
            (Sender::Own(own.clone()), Receiver::Own(own))
        }
        ChannelKind::Std => {
            let (sender, receiver) = mpsc::channel();
            (Sender::Std(sender), Receiver::Std(receiver))
        }
    }
}

impl Sender {
    /// Sends `message`; a receiver that is gone is no error.
    pub fn send(&self, message: Message) {
        match self {
            Self::Flume(sender) => drop(sender.send(message)),
            Self::Tokio(sender) => drop(sender.send(message)),
            Self::AsyncChannel(sender) => drop(sender.try_send(message)),
            Self::Own(own) => own.send(message),
            Self::Std(sender) => drop(sender.send(message)),
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if let Self::Own(own) = self {
            own.close();
        }
    }
}

impl Receiver {
    /// The next message, `None` if the sender is gone.
    ///
    /// # Panics
    ///
    /// Panics for `std`, which has only [`recv_blocking`](Self::recv_blocking).
    pub async fn recv(&mut self) -> Option<Message> {
        match self {
            Self::Flume(receiver) => receiver.recv_async().await.ok(),
            Self::Tokio(receiver) => receiver.recv().await,
            Self::AsyncChannel(receiver) => receiver.recv().await.ok(),
            Self::Own(own) => own.recv().await,
            Self::Std(_) => unreachable!("the options exclude it"),
        }
    }

    /// A message that is there.
    pub fn try_recv(&mut self) -> Option<Message> {
        match self {
            Self::Flume(receiver) => receiver.try_recv().ok(),
            Self::Tokio(receiver) => receiver.try_recv().ok(),
            Self::AsyncChannel(receiver) => receiver.try_recv().ok(),
            Self::Own(own) => own.lock().queue.pop_front(),
            Self::Std(receiver) => receiver.try_recv().ok(),
        }
    }

    /// The next message, awaited without a future; only `std` has it.
    pub fn recv_blocking(&mut self) -> Option<Message> {
        match self {
            Self::Std(receiver) => receiver.recv().ok(),
            _ => None,
        }
    }
}

/// A queue behind a mutex, for one receiver: the same code but for the place
/// of the wake.
#[derive(Debug)]
pub struct Own {
    wakes_locked: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Message>,
    receiver: Option<Waker>,
    is_closed: bool,
}

impl Own {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, message: Message) {
        let mut state = self.lock();
        state.queue.push_back(message);
        self.wake(state);
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        self.wake(state);
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let Some(waker) = state.receiver.take() else {
            return;
        };
        if self.wakes_locked {
            waker.wake();
            drop(state);
        } else {
            drop(state);
            waker.wake();
        }
    }

    async fn recv(&self) -> Option<Message> {
        poll_fn(|context| {
            let mut state = self.lock();
            match state.queue.pop_front() {
                Some(message) => Poll::Ready(Some(message)),
                None if state.is_closed => Poll::Ready(None),
                None => {
                    state.receiver = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
