//! TCP connections.

use core::fmt;
use core::future::poll_fn;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use smoltcp::socket::tcp;
use smoltcp::time::Instant;

use super::options::{CongestionControl, StreamOptions, TcpOptions};
use super::ports::PortSearch;
use super::table::SocketId;
use crate::net::frame::Key;
use crate::net::stack::Outlook;
use crate::net::state::{State, now};
use crate::net::wakes::Wakes;
use crate::net::{Error, Stack};
use crate::time;

/// A TCP connection.
///
/// What is written leaves at once; nothing needs flushing. At most one task may
/// wait to read and one to write.
///
/// Dropping the stream closes the connection in the background and never waits:
/// what was written is still delivered, unless data is left that was received
/// and not read, which resets the connection (RFC 9293 §3.10.4), or
/// [`StreamOptions::linger`] says otherwise.
pub struct TcpStream {
    stack: Stack,
    id: SocketId,
    key: Key,
    /// The last read has taken all that was there.
    is_drained: AtomicBool,
}

/// Which of the two wakers of a connection.
#[derive(Clone, Copy)]
enum Side {
    Reader,
    Writer,
}

impl TcpStream {
    pub(super) fn new(stack: Stack, id: SocketId, key: Key) -> Self {
        Self {
            stack,
            id,
            key,
            is_drained: AtomicBool::new(false),
        }
    }

    /// Connects to `remote` with the default options.
    ///
    /// Cancel-safe: dropping the future gives the attempt up.
    ///
    /// # Errors
    ///
    /// - [`Error::ConnectionRefused`] if nobody listens there,
    /// - [`Error::TimedOut`] after 30 s without an answer,
    /// - [`Error::NetworkUnreachable`] without an address or a route,
    /// - [`Error::AddrNotAvailable`] if all ports are in use,
    /// - [`Error::InvalidInput`] if `remote` is not a host and a port,
    /// - [`Error::LimitReached`] or [`Error::OutOfMemory`].
    pub async fn connect(stack: Stack, remote: SocketAddr) -> Result<Self, Error> {
        Self::connect_with(stack, remote, TcpOptions::default()).await
    }

    /// Connects to `remote`.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(
        stack: Stack,
        remote: SocketAddr,
        options: TcpOptions,
    ) -> Result<Self, Error> {
        let mut search = PortSearch::default();
        let (id, key) = loop {
            let begun = stack
                .shared
                .visit(|state, wakes| state.connect(now(), remote, &options, &mut search, wakes));
            if let Poll::Ready(begun) = begun {
                break begun?;
            }
        };
        let stream = Self::new(stack, id, key);
        let connected = poll_fn(|context| {
            stream.poll(context, Side::Writer, Outlook::Ready, |state, _, _| {
                state.poll_connected(stream.id)
            })
        });
        match time::timeout(options.connect_timeout, connected).await {
            Ok(Ok(())) => Ok(stream),
            Ok(Err(error)) => Err(error),
            Err(time::Elapsed) => Err(Error::TimedOut),
        }
    }

    /// Reads into `buffer`; returns how many bytes, and 0 at the end of the
    /// stream (or of an empty `buffer`).
    ///
    /// Cancel-safe: bytes that were not returned are read by the next call.
    ///
    /// # Errors
    ///
    /// [`Error::ConnectionReset`], [`Error::TimedOut`] or
    /// [`Error::ConnectionAborted`], after what was received before was read.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.read_shared(buffer).await
    }

    /// Waits until [`read`](Self::read) has something to return: bytes, the end of
    /// the stream or an error.
    ///
    /// For a stream that may stay silent for long: it needs no buffer meanwhile.
    /// Cancel-safe: it reads nothing.
    pub async fn readable(&mut self) {
        poll_fn(|context| self.poll_readable(context)).await;
    }

    /// Writes bytes of `data`; returns how many, at least one unless `data` is
    /// empty.
    ///
    /// Cancel-safe: nothing of `data` was taken if it did not return.
    ///
    /// # Errors
    ///
    /// [`Error::NotConnected`] after [`shutdown`](Self::shutdown), and
    /// [`Error::ConnectionReset`], [`Error::TimedOut`] or
    /// [`Error::ConnectionAborted`] once the connection has ended.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, Error> {
        self.write_shared(data).await
    }

    /// Writes all of `data`.
    ///
    /// Not cancel-safe: a part may have been written.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub async fn write_all(&mut self, data: &[u8]) -> Result<(), Error> {
        self.write_all_shared(data).await
    }

    /// Closes the sending side: the peer reads the end of the stream after what
    /// was written. Reading goes on. Closing it again does nothing.
    ///
    /// # Errors
    ///
    /// The reason for which the connection has ended, if it has.
    pub async fn shutdown(&mut self) -> Result<(), Error> {
        self.shut_down()
    }

    /// A reading and a writing half, to be used at the same time.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf { stream: self }, WriteHalf { stream: self })
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> SocketAddr {
        SocketAddr::new(self.key.remote, self.key.remote_port)
    }

    /// The local address.
    pub fn local_addr(&self) -> SocketAddr {
        SocketAddr::new(self.key.local, self.key.local_port)
    }

    /// Whether small segments are sent at once; see
    /// [`StreamOptions::nodelay`].
    pub fn set_nodelay(&self, nodelay: bool) {
        self.change(|options| options.nodelay = nodelay);
    }

    /// When a silent peer is probed; see [`StreamOptions::keep_alive`].
    pub fn set_keep_alive(&self, interval: Option<Duration>) {
        self.change(|options| options.keep_alive = interval);
    }

    /// When a peer that does not acknowledge is given up; see
    /// [`StreamOptions::user_timeout`].
    pub fn set_user_timeout(&self, timeout: Option<Duration>) {
        self.change(|options| options.user_timeout = timeout);
    }

    /// What becomes of unfinished business when the stream is dropped; see
    /// [`StreamOptions::linger`].
    pub fn set_linger(&self, linger: Option<Duration>) {
        self.change(|options| options.linger = linger);
    }

    /// How the amount of data in flight is decided; see
    /// [`StreamOptions::congestion_control`].
    pub fn set_congestion_control(&self, congestion_control: CongestionControl) {
        self.change(|options| options.congestion_control = congestion_control);
    }

    /// The options as they are.
    pub fn options(&self) -> StreamOptions {
        self.stack
            .shared
            .visit(|state, _| state.options(self.id))
            .unwrap_or_default()
    }

    fn change(&self, change: impl FnOnce(&mut StreamOptions)) {
        self.stack.shared.visit(|state, wakes| {
            if let Some(mut options) = state.options(self.id) {
                change(&mut options);
                state.set_options(now(), self.id, options, wakes);
            }
        });
    }

    pub(super) fn shut_down(&self) -> Result<(), Error> {
        self.stack
            .shared
            .visit(|state, wakes| state.shutdown(now(), self.id, wakes))
    }

    /// Reads, for whoever holds the reading side.
    pub(super) async fn read_shared(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        poll_fn(|context| self.poll_read(context, buffer)).await
    }

    /// Writes, for whoever holds the writing side.
    pub(super) async fn write_shared(&self, data: &[u8]) -> Result<usize, Error> {
        poll_fn(|context| self.poll_write(context, data)).await
    }

    pub(super) async fn write_all_shared(&self, mut data: &[u8]) -> Result<(), Error> {
        while !data.is_empty() {
            let count = self.write_shared(data).await?;
            data = &data[count..];
        }
        Ok(())
    }

    /// Whether the next read would return at once.
    pub(super) fn is_read_ready(&self) -> bool {
        self.is_ready(|tcp| tcp.can_recv() || !tcp.may_recv())
    }

    /// Whether the next write would return at once.
    pub(super) fn is_write_ready(&self) -> bool {
        self.is_ready(|tcp| tcp.can_send() || !tcp.may_send())
    }

    /// Asks the socket; where there is none any more, nothing waits.
    fn is_ready(&self, ask: impl FnOnce(&tcp::Socket<'_>) -> bool) -> bool {
        self.stack.shared.visit(|state, _| {
            let connection = state.connection(self.id);
            connection.is_none_or(|connection| ask(connection.tcp()))
        })
    }

    pub(super) fn as_stream(&self) -> &Self {
        self
    }

    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<usize, Error>> {
        let expected = if self.is_drained.load(Relaxed) {
            Outlook::Pending
        } else {
            Outlook::Ready
        };
        let result = self.poll(context, Side::Reader, expected, |state, now, wakes| {
            state.read(now, self.id, buffer, wakes)
        });
        let is_drained = matches!(result, Poll::Ready(Ok(count)) if count < buffer.len());
        self.is_drained.store(is_drained, Relaxed);
        result
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.poll(context, Side::Reader, Outlook::Ready, |state, _, _| {
            state.readable(self.id)
        })
    }

    fn poll_write(&self, context: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, Error>> {
        self.poll(
            context,
            Side::Writer,
            Outlook::Ready,
            |state, now, wakes| state.write(now, self.id, data, wakes),
        )
    }

    /// Makes an attempt, and if it has to wait, registers the context's waker.
    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        side: Side,
        expected: Outlook,
        mut attempt: impl FnMut(&mut State, Instant, &mut Wakes) -> Poll<T>,
    ) -> Poll<T> {
        self.stack.shared.poll(
            context,
            expected,
            |state| self.waker(state, side),
            |state, wakes| attempt(state, now(), wakes),
        )
    }

    fn waker<'a>(&self, state: &'a mut State, side: Side) -> Option<&'a mut Option<Waker>> {
        let connection = state.connection(self.id)?;
        Some(match side {
            Side::Reader => &mut connection.reader,
            Side::Writer => &mut connection.writer,
        })
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        let wakers = self
            .stack
            .shared
            .visit(|state, wakes| state.release(now(), self.id, wakes));
        drop(wakers);
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream")
            .field("local", &self.local_addr())
            .field("peer", &self.peer_addr())
            .finish_non_exhaustive()
    }
}

/// The reading half of a [`TcpStream`].
#[derive(Debug)]
pub struct ReadHalf<'a> {
    stream: &'a TcpStream,
}

impl ReadHalf<'_> {
    /// As [`TcpStream::read`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.stream.read_shared(buffer).await
    }

    pub(super) fn as_stream(&self) -> &TcpStream {
        self.stream
    }

    /// As [`TcpStream::readable`].
    pub async fn readable(&mut self) {
        poll_fn(|context| self.stream.poll_readable(context)).await;
    }
}

/// The writing half of a [`TcpStream`].
#[derive(Debug)]
pub struct WriteHalf<'a> {
    stream: &'a TcpStream,
}

impl WriteHalf<'_> {
    /// As [`TcpStream::write`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, Error> {
        self.stream.write_shared(data).await
    }

    /// As [`TcpStream::write_all`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn write_all(&mut self, data: &[u8]) -> Result<(), Error> {
        self.stream.write_all_shared(data).await
    }

    /// As [`TcpStream::shutdown`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn shutdown(&mut self) -> Result<(), Error> {
        self.stream.shut_down()
    }

    pub(super) fn as_stream(&self) -> &TcpStream {
        self.stream
    }
}
