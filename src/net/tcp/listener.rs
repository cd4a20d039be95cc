//! Accepting connections.

use core::fmt;
use core::future::poll_fn;
use core::task::{Context, Poll};

use super::listeners::ListenerId;
use super::options::ListenerOptions;
use super::stream::TcpStream;
use crate::net::state::now;
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
        poll_fn(|context| self.poll_accept(context)).await
    }

    pub(super) fn poll_accept(&self, context: &mut Context<'_>) -> Poll<Result<TcpStream, Error>> {
        let attempt = |registered: &mut bool| {
            self.stack.shared.visit(|state, _| {
                let accepted = state.accept(now(), self.id);
                *registered = state
                    .listeners
                    .get_mut(self.id)
                    .is_some_and(|listening| listening.is_registered(context.waker()));
                accepted
            })
        };
        let mut registered = false;
        let mut accepted = attempt(&mut registered);
        if accepted.is_pending() && !registered {
            let waker = context.waker().clone();
            // A waker that finds no place is dropped with nothing locked.
            let unplaced =
                self.stack
                    .shared
                    .visit(|state, _| match state.listeners.get_mut(self.id) {
                        Some(listening) => listening.register(waker).err(),
                        None => Some(waker),
                    });
            if unplaced.is_some() {
                return Poll::Ready(Err(Error::OutOfMemory));
            }
            // One may have come in between.
            accepted = attempt(&mut registered);
        }
        accepted.map_ok(|(id, key)| TcpStream::new(self.stack, id, key))
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
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
