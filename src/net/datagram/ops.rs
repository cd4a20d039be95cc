//! What the program does with its endpoints, each a short visit under the stack's
//! lock.

use core::net::{IpAddr, SocketAddr};
use core::task::{Poll, Waker};

use smoltcp::time::Instant;

use super::endpoints::{Endpoint, EndpointId, Protocol};
use super::queue::{Datagram, zeroes};
use crate::net::Error;
use crate::net::ip::loopback::{self, Link};
use crate::net::state::State;
use crate::net::wakes::Wakes;

/// The scope of groups that are on one link (RFC 4291 §2.7).
const LINK_LOCAL_SCOPE: u16 = 2;

/// What the headers of a UDP datagram and its packet take at least, in bytes.
const UDP_IPV4_BYTES: usize = 20 + 8;
const UDP_IPV6_BYTES: usize = 40 + 8;

/// A received datagram as it is handed to the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    /// How long it was.
    pub(super) len: usize,
    /// When it came.
    pub(super) at: Instant,
}

impl State {
    /// Makes an endpoint.
    pub(super) fn open_endpoint(
        &mut self,
        endpoint: Endpoint,
        number: u16,
    ) -> Result<EndpointId, Error> {
        let address = endpoint.address;
        if !address.is_unspecified() && !self.is_here(address) {
            return Err(Error::AddrNotAvailable);
        }
        self.endpoints.insert(endpoint, number, &mut self.random)
    }

    /// Ends an endpoint. What it held is dropped with nothing locked.
    pub(super) fn close_endpoint(&mut self, id: EndpointId) -> Option<Endpoint> {
        let endpoint = self.endpoints.remove(id)?;
        self.budget
            .release(endpoint.receive.bytes() + endpoint.send.bytes());
        for &group in &endpoint.groups {
            self.leave(group);
        }
        Some(endpoint)
    }

    /// Queues a datagram, and sends it if that is possible now.
    pub(super) fn send_datagram(
        &mut self,
        now: Instant,
        id: EndpointId,
        data: &[u8],
        (from, to): (Option<IpAddr>, Option<SocketAddr>),
        wakes: &mut Wakes,
    ) -> Poll<Result<(), Error>> {
        let Some(index) = self.endpoints.index(id) else {
            return Poll::Ready(Err(Error::NotConnected));
        };
        match self.queue_datagram(now, index, data, from, to) {
            Ok(true) => {}
            Ok(false) => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
        }
        self.egress_endpoint(now, index, wakes);
        self.nic.flush();
        Poll::Ready(Ok(()))
    }

    /// Queues a datagram; `false` if there is no room.
    fn queue_datagram(
        &mut self,
        now: Instant,
        index: u32,
        data: &[u8],
        from: Option<IpAddr>,
        to: Option<SocketAddr>,
    ) -> Result<bool, Error> {
        let endpoint = self.endpoints.get_mut(index).ok_or(Error::NotConnected)?;
        if let Some(failure) = endpoint.failure.take() {
            return Err(failure);
        }
        let remote = to.or(endpoint.peer).ok_or(Error::NotConnected)?;
        let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
        let (protocol, broadcast) = (endpoint.protocol, endpoint.broadcast);
        let bound = Some(endpoint.address).filter(|address| !address.is_unspecified());
        let local = from.or(bound);
        let (link, best) = self.check_ends(protocol, local, remote, broadcast)?;
        let local = local.or(Some(best));
        if data.len() > self.longest_datagram(protocol, link, remote.ip()) {
            return Err(Error::MessageTooLong);
        }
        let endpoint = self.endpoints.get(index).ok_or(Error::NotConnected)?;
        if !endpoint.send.has_room(data.len()) {
            return Ok(false);
        }
        if !self.has_buffers(data.len()) {
            return Err(Error::LimitReached);
        }
        let endpoint = self.endpoints.get_mut(index).ok_or(Error::NotConnected)?;
        let mut payload = zeroes(data.len()).ok_or(Error::OutOfMemory)?;
        payload.copy_from_slice(data);
        if !endpoint.send.reserve() {
            return Err(Error::OutOfMemory);
        }
        endpoint.send.push(Datagram {
            remote,
            local,
            payload,
            at: now,
            link,
            retry_at: None,
        });
        self.budget.hold(data.len());
        Ok(true)
    }

    /// Whether a datagram may go from `local` to `remote`; through what it goes, and
    /// the address that it best comes from.
    fn check_ends(
        &self,
        protocol: Protocol,
        local: Option<IpAddr>,
        remote: SocketAddr,
        broadcast: bool,
    ) -> Result<(Link, IpAddr), Error> {
        let to = remote.ip();
        let has_port = remote.port() != 0 || protocol == Protocol::Echo;
        if to.is_unspecified() || !has_port {
            return Err(Error::InvalidInput);
        }
        if let Some(local) = local {
            if local.is_ipv4() != to.is_ipv4() {
                return Err(Error::InvalidInput);
            }
            if !self.is_here(local) {
                return Err(Error::AddrNotAvailable);
            }
        }
        let (link, best) = match to {
            IpAddr::V4(to) if to.is_broadcast() || self.addresses.is_broadcast(to) => {
                if !broadcast {
                    return Err(Error::InvalidInput);
                }
                (Link::Card, self.group_source(to.into())?)
            }
            to if to.is_multicast() => (Link::Card, self.group_source(to)?),
            to => self.source_for(to)?,
        };
        if link == Link::Card && local.is_some_and(|local| local.is_loopback()) {
            return Err(Error::NetworkUnreachable);
        }
        Ok((link, best))
    }

    /// Whether `address` is one of the guest's own.
    pub(in crate::net) fn is_here(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.iface.has_ip_addr(address)
    }

    /// The address that what goes to many hosts comes from: of the link alone if it
    /// stays there.
    fn group_source(&self, to: IpAddr) -> Result<IpAddr, Error> {
        let own = || self.addresses.all().map(|(address, _)| address);
        let is_alike = |address: &IpAddr| match (to, address) {
            (IpAddr::V4(_), IpAddr::V4(_)) => true,
            (IpAddr::V6(to), IpAddr::V6(address)) => {
                let stays = to.segments()[0] & 0xf <= LINK_LOCAL_SCOPE;
                stays == address.is_unicast_link_local()
            }
            _ => false,
        };
        let of_family = |address: &IpAddr| address.is_ipv4() == to.is_ipv4();
        own()
            .find(is_alike)
            .or_else(|| own().find(of_family))
            .ok_or(Error::NetworkUnreachable)
    }

    /// How many bytes a datagram to `to` can have without fragments.
    fn longest_datagram(&self, protocol: Protocol, link: Link, to: IpAddr) -> usize {
        let headers = match to {
            IpAddr::V4(_) => UDP_IPV4_BYTES,
            IpAddr::V6(_) => UDP_IPV6_BYTES,
        };
        let mtu = match link {
            Link::Card => self.nic.mtu(),
            Link::Loopback => loopback::MTU,
        };
        let longest = mtu.saturating_sub(headers);
        match protocol {
            Protocol::Udp => longest,
            // The header of an echo, as long as UDP's, is part of the message.
            Protocol::Echo => longest + 8,
        }
    }

    /// Takes the oldest datagram, and as much of it as `buffer` holds.
    pub(super) fn take_datagram(
        &mut self,
        id: EndpointId,
        buffer: &mut [u8],
    ) -> Poll<Result<Taken, Error>> {
        let Some(endpoint) = self.endpoints.by_id(id) else {
            return Poll::Ready(Err(Error::NotConnected));
        };
        if let Some(datagram) = endpoint.receive.pop() {
            let len = datagram.payload.len();
            self.budget.release(len);
            let count = len.min(buffer.len());
            buffer[..count].copy_from_slice(&datagram.payload[..count]);
            return Poll::Ready(Ok(Taken {
                remote: datagram.remote,
                local: datagram.local,
                len,
                at: datagram.at,
            }));
        }
        match endpoint.failure.take() {
            Some(failure) => Poll::Ready(Err(failure)),
            None => Poll::Pending,
        }
    }

    pub(super) fn reader_of(&mut self, id: EndpointId) -> Option<&mut Option<Waker>> {
        Some(&mut self.endpoints.by_id(id)?.reader)
    }

    pub(super) fn writer_of(&mut self, id: EndpointId) -> Option<&mut Option<Waker>> {
        Some(&mut self.endpoints.by_id(id)?.writer)
    }
}
