//! UDP of the peer, as a blocking socket.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::datagrams::Datagram;
use crate::shared::Shared;

/// A UDP port of the peer, at all its addresses. Dropping it gives it back.
pub struct UdpSocket {
    shared: Arc<Shared>,
    port: u16,
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl UdpSocket {
    pub(crate) fn new(shared: Arc<Shared>, port: u16) -> Self {
        shared.with(|engine, _| engine.bind(port));
        Self { shared, port }
    }

    /// Sends a datagram to the guest, which must have been heard of, as by
    /// [`Peer::resolve`](crate::Peer::resolve).
    ///
    /// # Errors
    ///
    /// `HostUnreachable` if it has not.
    pub fn send_to(&self, data: &[u8], to: impl Into<SocketAddr>) -> io::Result<()> {
        let to = to.into();
        let sent = self
            .shared
            .with(|engine, _| engine.send_datagram(self.port, to, data));
        if sent {
            Ok(())
        } else {
            Err(ErrorKind::HostUnreachable.into())
        }
    }

    /// Waits for a datagram.
    ///
    /// # Errors
    ///
    /// If none comes in time, or the guest is gone.
    pub fn receive(&self, timeout: Duration) -> io::Result<Datagram> {
        self.shared
            .wait(timeout, |engine, _| engine.take_datagram(self.port))
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.shared.with(|engine, _| engine.unbind(self.port));
    }
}
