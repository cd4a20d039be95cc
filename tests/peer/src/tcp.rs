//! TCP connections of the peer, as blocking streams.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{RecvError, State};

use crate::engine::Engine;
use crate::shared::Shared;

/// How long a read or a write waits, unless the stream is told otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A TCP connection between the peer and the guest.
///
/// Reading and writing block, for ten seconds at most by default. Dropping it
/// closes the connection in an orderly way.
pub struct Stream {
    shared: Arc<Shared>,
    handle: SocketHandle,
    timeout: Duration,
    bytes_read: u64,
    bytes_written: u64,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("bytes_read", &self.bytes_read)
            .field("bytes_written", &self.bytes_written)
            .finish_non_exhaustive()
    }
}

impl Stream {
    pub(crate) fn connect(
        shared: Arc<Shared>,
        to: SocketAddr,
        timeout: Duration,
    ) -> io::Result<Self> {
        let handle = shared.with(|engine, _| engine.connect(to));
        let stream = Self::new(Arc::clone(&shared), handle);
        let outcome = shared.wait(timeout, |engine, _| match engine.socket(handle).state() {
            State::SynSent | State::SynReceived => None,
            State::Closed => Some(Err(ErrorKind::ConnectionRefused.into())),
            _ => Some(Ok(())),
        });
        match outcome {
            Ok(Ok(())) => Ok(stream),
            Ok(Err(error)) | Err(error) => {
                stream.reset();
                Err(error)
            }
        }
    }

    fn new(shared: Arc<Shared>, handle: SocketHandle) -> Self {
        Self {
            shared,
            handle,
            timeout: DEFAULT_TIMEOUT,
            bytes_read: 0,
            bytes_written: 0,
        }
    }

    /// Sets how long a read or a write waits.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// The guest's end; `None` once the connection is over.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        let remote = self
            .shared
            .with(|engine, _| engine.socket(self.handle).remote_endpoint())?;
        Some(SocketAddr::new(remote.addr.into(), remote.port))
    }

    /// How many bytes were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// How many bytes were written so far.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Whether and how late what arrives is acknowledged; at once by default.
    pub fn set_ack_delay(&mut self, delay: Option<Duration>) {
        self.shared.with(|engine, _| {
            let socket = engine.socket(self.handle);
            socket.set_ack_delay(delay.map(Into::into));
        });
    }

    /// Sends the end of the stream; reading goes on.
    pub fn shutdown(&mut self) {
        self.shared
            .with(|engine, _| engine.socket(self.handle).close());
    }

    /// Resets the connection.
    pub fn reset(self) {
        self.shared
            .with(|engine, _| engine.socket(self.handle).abort());
    }

    /// Waits for `attempt`, whose error tells why it will never succeed.
    fn wait<T>(
        &self,
        mut attempt: impl FnMut(&mut Engine) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        self.shared
            .wait(self.timeout, |engine, _| attempt(engine))
            .and_then(|result| result)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let count = self.wait(
            |engine| match engine.socket(self.handle).recv_slice(buffer) {
                Ok(0) => None,
                Ok(count) => Some(Ok(count)),
                Err(RecvError::Finished) => Some(Ok(0)),
                Err(RecvError::InvalidState) => Some(Err(ErrorKind::ConnectionReset.into())),
            },
        )?;
        self.bytes_read += count as u64;
        Ok(count)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let count = self.wait(
            |engine| match engine.socket(self.handle).send_slice(bytes) {
                Ok(0) => None,
                Ok(count) => Some(Ok(count)),
                Err(_) => Some(Err(ErrorKind::BrokenPipe.into())),
            },
        )?;
        self.bytes_written += count as u64;
        Ok(count)
    }

    /// Waits until the other side has acknowledged everything.
    fn flush(&mut self) -> io::Result<()> {
        self.wait(|engine| {
            let socket = engine.socket(self.handle);
            match socket.send_queue() {
                0 => Some(Ok(())),
                _ if socket.is_active() => None,
                _ => Some(Err(ErrorKind::ConnectionReset.into())),
            }
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.with(|engine, _| {
            engine.socket(self.handle).close();
            engine.leave(self.handle);
        });
    }
}

/// Accepts connections from the guest. Dropping it resets those that were not
/// accepted.
pub struct Listener {
    shared: Arc<Shared>,
    port: u16,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Listener {
    pub(crate) fn new(shared: Arc<Shared>, port: u16) -> Self {
        shared.with(|engine, _| engine.listen(port));
        Self { shared, port }
    }

    /// Waits for a connection.
    ///
    /// # Errors
    ///
    /// If none comes in time, or the guest is gone.
    pub fn accept(&self, timeout: Duration) -> io::Result<Stream> {
        let handle = self
            .shared
            .wait(timeout, |engine, _| engine.accept(self.port))?;
        Ok(Stream::new(Arc::clone(&self.shared), handle))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared
            .with(|engine, _| engine.end_listening(self.port));
    }
}
