//! UDP sockets.

use core::fmt;
use core::future::poll_fn;
use core::net::{IpAddr, SocketAddr};
use core::task::{Context, Poll};

use super::endpoints::{Endpoint, EndpointId, Protocol};
use super::queue::Bounds;
use crate::net::stack::Outlook;
use crate::net::state::now;
use crate::net::{Error, Stack};

/// A UDP port.
///
/// A datagram that comes waits in a bounded queue to be received; where the
/// queue is full, it is dropped and counted. One that is sent leaves at once, or
/// waits in another bounded queue: for room in the card, or for up to 3 s for
/// the address of its neighbour, while others overtake it.
///
/// At most one task may wait to receive and one to send. Dropping the socket
/// drops what waits in its queues. Datagrams longer than the network's packets
/// are neither sent nor received, as there are no fragments.
///
/// # Examples
///
/// ```no_run
/// use firstpoll::net::{Error, Stack, UdpSocket};
///
/// async fn echo(stack: Stack) -> Result<(), Error> {
///     let socket = UdpSocket::bind(stack, "0.0.0.0:7".parse().unwrap())?;
///     let mut buffer = [0; 1472];
///     loop {
///         let received = socket.recv_from(&mut buffer).await?;
///         socket.send_to(&buffer[..received.bytes], received.from).await?;
///     }
/// }
/// ```
pub struct UdpSocket {
    stack: Stack,
    id: EndpointId,
    local: SocketAddr,
}

/// Options of [`UdpSocket::bind_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// How many datagrams may wait to be received.
    pub receive_datagrams: usize,
    /// How many bytes they may have together; one datagram may always wait.
    pub receive_bytes: usize,
    /// How many datagrams may wait to be sent.
    pub send_datagrams: usize,
    /// How many bytes they may have together; one datagram may always wait.
    pub send_bytes: usize,
    /// Whether datagrams may be sent to all hosts of a network. Off by default.
    pub broadcast: bool,
    /// How many routers a datagram may pass, at least 1; 64 by default.
    pub hop_limit: u8,
    /// The same for those to a group of hosts; 1 by default, which keeps them on
    /// the network (RFC 1112 §6.1).
    pub multicast_hop_limit: u8,
}

impl Default for UdpOptions {
    /// 64 datagrams of at most 64 KiB together, each way.
    fn default() -> Self {
        Self {
            receive_datagrams: 64,
            receive_bytes: 64 << 10,
            send_datagrams: 64,
            send_bytes: 64 << 10,
            broadcast: false,
            hop_limit: 64,
            multicast_hop_limit: 1,
        }
    }
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// How many of its bytes are in the buffer.
    pub bytes: usize,
    /// How many bytes it had. What the buffer did not hold is lost.
    pub datagram_bytes: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// The local address that it was sent to, which can be that of a group or
    /// of all hosts.
    pub to: IpAddr,
}

impl Received {
    /// Whether the buffer was too small for the datagram.
    pub fn is_truncated(&self) -> bool {
        self.bytes < self.datagram_bytes
    }
}

impl UdpSocket {
    /// Binds to `local` with the default options.
    ///
    /// The address is one of the interface's, or `0.0.0.0` for all of IPv4, or
    /// `::` for all of both families. With port 0 the socket gets a free one that
    /// nobody can foretell.
    ///
    /// # Errors
    ///
    /// - [`Error::AddrInUse`] if another socket has the port, at whatever
    ///   address,
    /// - [`Error::AddrNotAvailable`] if the interface has no such address, or no
    ///   port is left,
    /// - [`Error::OutOfMemory`].
    pub fn bind(stack: Stack, local: SocketAddr) -> Result<Self, Error> {
        Self::bind_with(stack, local, UdpOptions::default())
    }

    /// Binds to `local`.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind), and [`Error::InvalidInput`] for a hop limit of 0.
    pub fn bind_with(stack: Stack, local: SocketAddr, options: UdpOptions) -> Result<Self, Error> {
        if options.hop_limit == 0 || options.multicast_hop_limit == 0 {
            return Err(Error::InvalidInput);
        }
        let receive = Bounds {
            datagrams: options.receive_datagrams,
            bytes: options.receive_bytes,
        };
        let send = Bounds {
            datagrams: options.send_datagrams,
            bytes: options.send_bytes,
        };
        let address = local.ip().to_canonical();
        let mut endpoint = Endpoint::new(Protocol::Udp, address, receive, send);
        endpoint.broadcast = options.broadcast;
        endpoint.hop_limit = options.hop_limit;
        endpoint.group_hop_limit = options.multicast_hop_limit;
        let (id, port) = stack.shared.visit(|state, _| {
            let id = state.open_endpoint(endpoint, local.port())?;
            let port = state.endpoints.by_id(id).map(|endpoint| endpoint.number);
            Ok::<_, Error>((id, port.unwrap_or_default()))
        })?;
        Ok(Self {
            stack,
            id,
            local: SocketAddr::new(address, port),
        })
    }

    /// Makes `remote` the only place that datagrams are received from, and that
    /// to which [`send`](Self::send) sends. What came from elsewhere before stays
    /// in the queue.
    ///
    /// From then on, a peer whose host answers that nobody listens there shows as
    /// [`Error::ConnectionRefused`] at the next call, once.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] if `remote` is not a single host and a port.
    pub fn connect(&self, remote: SocketAddr) -> Result<(), Error> {
        let host = remote.ip().to_canonical();
        if remote.port() == 0 || host.is_unspecified() || host.is_multicast() {
            return Err(Error::InvalidInput);
        }
        self.stack.shared.visit(|state, _| {
            let endpoint = state.endpoints.by_id(self.id).ok_or(Error::NotConnected)?;
            // Without a scope, which received ones have none of.
            endpoint.peer = Some(SocketAddr::new(host, remote.port()));
            endpoint.failure = None;
            Ok(())
        })
    }

    /// The address that it was bound to, with the port that it got.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The place that it is connected to.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.stack
            .shared
            .visit(|state, _| state.endpoints.by_id(self.id)?.peer)
    }

    /// Sends `data` to the place that the socket is connected to.
    ///
    /// # Errors
    ///
    /// [`Error::NotConnected`] if it is not, and those of
    /// [`send_to`](Self::send_to).
    pub async fn send(&self, data: &[u8]) -> Result<(), Error> {
        poll_fn(|context| self.poll_send(context, data, None, None)).await
    }

    /// Sends `data` to `to`, as soon as it has room in the queue.
    ///
    /// Cancel-safe: nothing was sent if it did not return. That it did does not
    /// say that `data` will arrive.
    ///
    /// # Errors
    ///
    /// - [`Error::MessageTooLong`] if it would need more than one packet,
    /// - [`Error::NetworkUnreachable`] without an address or a route,
    /// - [`Error::AddrNotAvailable`] if the interface has lost the address that
    ///   the socket is bound to,
    /// - [`Error::InvalidInput`] for port 0, an address of the other family than
    ///   that the socket is bound to, or all hosts without
    ///   [`broadcast`](UdpOptions::broadcast),
    /// - [`Error::ConnectionRefused`] if the peer has answered so,
    /// - [`Error::LimitReached`] and [`Error::OutOfMemory`].
    pub async fn send_to(&self, data: &[u8], to: SocketAddr) -> Result<(), Error> {
        poll_fn(|context| self.poll_send_to(context, data, to)).await
    }

    /// Sends `data` to `to` from the interface's address `from`, such as the one
    /// that a question was [received](Received::to) at.
    ///
    /// # Errors
    ///
    /// As [`send_to`](Self::send_to).
    pub async fn send_from(&self, data: &[u8], from: IpAddr, to: SocketAddr) -> Result<(), Error> {
        poll_fn(|context| self.poll_send(context, data, Some(from), Some(to))).await
    }

    /// Waits for a datagram from the place that the socket is connected to, or
    /// from anywhere; returns how many bytes of it are in `buffer`.
    ///
    /// # Errors
    ///
    /// [`Error::MessageTooLong`] if `buffer` was too small, and those of
    /// [`recv_from`](Self::recv_from).
    pub async fn recv(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let received = self.recv_from(buffer).await?;
        if received.is_truncated() {
            return Err(Error::MessageTooLong);
        }
        Ok(received.bytes)
    }

    /// Waits for a datagram.
    ///
    /// Cancel-safe: a datagram that was not returned goes to the next call.
    ///
    /// # Errors
    ///
    /// [`Error::ConnectionRefused`] if the socket is connected and the peer has
    /// answered that nobody listens there.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> Result<Received, Error> {
        poll_fn(|context| self.poll_recv_from(context, buffer)).await
    }

    /// The form of [`send_to`](Self::send_to) for futures written by hand.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn poll_send_to(
        &self,
        context: &mut Context<'_>,
        data: &[u8],
        to: SocketAddr,
    ) -> Poll<Result<(), Error>> {
        self.poll_send(context, data, None, Some(to))
    }

    /// The form of [`recv_from`](Self::recv_from) for futures written by hand.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn poll_recv_from(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Received, Error>> {
        let taken = self.stack.shared.poll(
            context,
            Outlook::Ready,
            |state| state.reader_of(self.id),
            |state, _| state.take_datagram(self.id, buffer),
        );
        taken.map_ok(|taken| Received {
            bytes: taken.len.min(buffer.len()),
            datagram_bytes: taken.len,
            from: taken.remote,
            to: taken.local.unwrap_or(self.local.ip()),
        })
    }

    fn poll_send(
        &self,
        context: &mut Context<'_>,
        data: &[u8],
        from: Option<IpAddr>,
        to: Option<SocketAddr>,
    ) -> Poll<Result<(), Error>> {
        self.stack.shared.poll(
            context,
            Outlook::Ready,
            |state| state.writer_of(self.id),
            |state, wakes| state.send_datagram(now(), self.id, data, (from, to), wakes),
        )
    }

    /// Whether datagrams may be sent to all hosts; see [`UdpOptions::broadcast`].
    pub fn set_broadcast(&self, broadcast: bool) {
        self.stack.shared.visit(|state, _| {
            if let Some(endpoint) = state.endpoints.by_id(self.id) {
                endpoint.broadcast = broadcast;
            }
        });
    }

    /// Joins a group of hosts, from then on to receive what is sent to it. To
    /// send to a group nobody has to be a member. Joining twice is as joining
    /// once.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] if `group` is no group's address, and
    /// [`Error::OutOfMemory`] if the interface is in too many groups.
    pub fn join_multicast(&self, group: IpAddr) -> Result<(), Error> {
        self.stack
            .shared
            .visit(|state, _| state.join_group(self.id, group))
    }

    /// Leaves a group; dropping the socket leaves all.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] if it was not joined.
    pub fn leave_multicast(&self, group: IpAddr) -> Result<(), Error> {
        self.stack
            .shared
            .visit(|state, _| state.leave_group(self.id, group))
    }

    /// How many datagrams the socket has lost: received ones for which there was
    /// no room or no memory, and sent ones whose neighbour never answered.
    pub fn dropped(&self) -> u64 {
        self.stack.shared.visit(|state, _| {
            let endpoint = state.endpoints.by_id(self.id);
            endpoint.map_or(0, |endpoint| endpoint.dropped)
        })
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        let endpoint = self
            .stack
            .shared
            .visit(|state, _| state.close_endpoint(self.id));
        drop(endpoint);
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}
