//! Accepting connections.

use core::fmt;
use core::future::poll_fn;
use core::task::{Context, Poll};

use super::listeners::ListenerId;
use super::options::ListenerOptions;
use super::stream::TcpStream;
use crate::net::state::now;
use crate::net::waiters::{Event, Waiting};
use crate::net::{Error, Stack};

/// A TCP port on which connections are accepted.
///
/// Connections are made as they arrive and wait, established, to be accepted in
/// the order of arrival. Dropping the listener resets those that wait.
pub struct TcpListener {
    stack: Stack,
    id: ListenerId,
    port: u16,
}

impl TcpListener {
    /// Listens on `port` with the default options.
    ///
    /// # Errors
    ///
    /// [`Error::AddrInUse`] if the port has a listener, [`Error::InvalidInput`]
    /// for port 0, [`Error::OutOfMemory`].
    pub fn bind(stack: Stack, port: u16) -> Result<Self, Error> {
        Self::bind_with(stack, port, ListenerOptions::default())
    }

    /// Listens on `port`.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_with(stack: Stack, port: u16, options: ListenerOptions) -> Result<Self, Error> {
        let id = stack.shared.visit(|state, _| state.bind(port, options))?;
        Ok(Self { stack, id, port })
    }

    /// Waits for a connection.
    ///
    /// Several tasks may wait at the same time. Cancel-safe: a connection that
    /// was not returned goes to the next call.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if it could not be registered as waiting.
    pub async fn accept(&self) -> Result<TcpStream, Error> {
        let mut accepting = Accepting::new(self);
        poll_fn(|context| accepting.poll(context)).await
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// What waits for a connection to accept.
#[derive(Debug)]
pub(super) struct Accepting<'a> {
    listener: &'a TcpListener,
    waiting: Waiting,
}

impl<'a> Accepting<'a> {
    pub(super) fn new(listener: &'a TcpListener) -> Self {
        let waiting = Waiting::new(listener.stack, Event::Connection(listener.id));
        Self { listener, waiting }
    }

    pub(super) fn poll(&mut self, context: &Context<'_>) -> Poll<Result<TcpStream, Error>> {
        let TcpListener { stack, id, .. } = *self.listener;
        let accepted = self.waiting.poll(context, |state| state.accept(now(), id));
        accepted.map_ok(|(id, key)| TcpStream::new(stack, id, key))
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.stack
            .shared
            .visit(|state, wakes| state.unbind(now(), self.id, wakes));
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
