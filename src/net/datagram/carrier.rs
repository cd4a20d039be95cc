//! smoltcp's sockets for datagrams, each made for one datagram and gone again.
//!
//! smoltcp's own queues drop without a word what does not fit, keep a datagram
//! for a silent neighbour before all others, and want their memory beforehand.
//! So the queues are ours, and smoltcp checks, wraps and unwraps one datagram at
//! a time, in the memory where it lies.

use core::net::{IpAddr, SocketAddr};

use smoltcp::iface::{Interface, SocketSet, SocketStorage};
use smoltcp::socket::{icmp, udp};
use smoltcp::time::Instant;

use crate::net::device::Port;

/// What became of a datagram that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is on its way.
    Sent,
    /// The card's queue has no room.
    Full,
    /// The address of its neighbour is not known.
    Unresolved {
        /// The neighbour was asked for it just now.
        asked: bool,
    },
    /// It can never be sent from here.
    Impossible,
}

/// Sends a UDP datagram.
pub(super) fn send_udp(
    now: Instant,
    iface: &mut Interface,
    port: &mut Port<'_>,
    from: (Option<IpAddr>, u16),
    to: SocketAddr,
    hop_limit: u8,
    payload: &mut [u8],
) -> Outcome {
    let len = payload.len();
    let mut metadata = [udp::PacketMetadata::EMPTY];
    let mut socket = udp::Socket::new(
        udp::PacketBuffer::new(&mut [][..], &mut [][..]),
        udp::PacketBuffer::new(&mut metadata[..], payload),
    );
    socket.set_hop_limit(Some(hop_limit.max(1)));
    let meta = udp::UdpMetadata {
        endpoint: to.into(),
        local_address: from.0.map(Into::into),
        meta: Default::default(),
    };
    // The buffer holds nothing but the payload, which thus is in its place.
    if socket.bind(from.1).is_err() || socket.send(len, meta).is_err() {
        return Outcome::Impossible;
    }
    let mut storage = [SocketStorage::EMPTY];
    let mut set = SocketSet::new(&mut storage[..]);
    let handle = set.add(socket);
    send(now, iface, port, &mut set, |set| {
        set.get::<udp::Socket<'_>>(handle).can_send()
    })
}

/// Sends the ICMP echo request that `message` holds.
pub(super) fn send_echo(
    now: Instant,
    iface: &mut Interface,
    port: &mut Port<'_>,
    ident: u16,
    to: IpAddr,
    hop_limit: u8,
    message: &mut [u8],
) -> Outcome {
    let len = message.len();
    let mut metadata = [icmp::PacketMetadata::EMPTY];
    let mut socket = icmp::Socket::new(
        icmp::PacketBuffer::new(&mut [][..], &mut [][..]),
        icmp::PacketBuffer::new(&mut metadata[..], message),
    );
    socket.set_hop_limit(Some(hop_limit.max(1)));
    if socket.bind(icmp::Endpoint::Ident(ident)).is_err() || socket.send(len, to.into()).is_err() {
        return Outcome::Impossible;
    }
    let mut storage = [SocketStorage::EMPTY];
    let mut set = SocketSet::new(&mut storage[..]);
    let handle = set.add(socket);
    send(now, iface, port, &mut set, |set| {
        set.get::<icmp::Socket<'_>>(handle).can_send()
    })
}

/// Lets smoltcp send what the set holds, which `is_gone` looks for.
fn send<'a>(
    now: Instant,
    iface: &mut Interface,
    port: &mut Port<'_>,
    set: &mut SocketSet<'a>,
    is_gone: impl FnOnce(&SocketSet<'a>) -> bool,
) -> Outcome {
    let before = port.sent.frames;
    iface.poll_egress(now, port, set);
    let sent = port.sent.frames != before;
    match is_gone(set) {
        true if sent => Outcome::Sent,
        true => Outcome::Impossible,
        false if port.exhausted => Outcome::Full,
        false => Outcome::Unresolved { asked: sent },
    }
}

/// Takes the UDP datagram for the port `number` out of the frame that has
/// arrived; `payload` is as long as it. Returns the two ends, or nothing if the
/// datagram is damaged or not for this interface.
pub(super) fn receive_udp(
    now: Instant,
    iface: &mut Interface,
    port: &mut Port<'_>,
    number: u16,
    payload: &mut [u8],
) -> Option<(SocketAddr, Option<IpAddr>)> {
    let len = payload.len();
    let mut metadata = [udp::PacketMetadata::EMPTY];
    let mut socket = udp::Socket::new(
        udp::PacketBuffer::new(&mut metadata[..], payload),
        udp::PacketBuffer::new(&mut [][..], &mut [][..]),
    );
    socket.bind(number).ok()?;
    let mut storage = [SocketStorage::EMPTY];
    let mut set = SocketSet::new(&mut storage[..]);
    let handle = set.add(socket);
    iface.poll_ingress_single(now, port, &mut set);
    let socket = set.get_mut::<udp::Socket<'_>>(handle);
    let (data, meta) = socket.recv().ok()?;
    let local = meta.local_address.map(Into::into);
    (data.len() == len).then_some((meta.endpoint.into(), local))
}

/// Takes the ICMP echo reply to `ident` out of the frame that has arrived;
/// `message` is as long as it. Returns who sent it, or nothing if it is damaged
/// or not for this interface.
pub(super) fn receive_echo(
    now: Instant,
    iface: &mut Interface,
    port: &mut Port<'_>,
    ident: u16,
    message: &mut [u8],
) -> Option<IpAddr> {
    let len = message.len();
    let mut metadata = [icmp::PacketMetadata::EMPTY];
    let mut socket = icmp::Socket::new(
        icmp::PacketBuffer::new(&mut metadata[..], message),
        icmp::PacketBuffer::new(&mut [][..], &mut [][..]),
    );
    socket.bind(icmp::Endpoint::Ident(ident)).ok()?;
    let mut storage = [SocketStorage::EMPTY];
    let mut set = SocketSet::new(&mut storage[..]);
    let handle = set.add(socket);
    iface.poll_ingress_single(now, port, &mut set);
    let socket = set.get_mut::<icmp::Socket<'_>>(handle);
    let (data, from) = socket.recv().ok()?;
    (data.len() == len).then_some(from.into())
}
