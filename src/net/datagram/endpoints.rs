//! Where datagrams come and go: UDP ports and the identifiers of echoes.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::task::Waker;

use hashbrown::HashTable;
use smoltcp::time::Instant;

use super::queue::{Bounds, Queue};
use crate::net::Error;
use crate::net::deadlines::Deadlines;
use crate::net::index_list::{IndexList, Rehash};
use crate::net::random::Random;

/// The first of the ports that are given out (RFC 6335 §6).
const FIRST_EPHEMERAL: u16 = 49_152;
const EPHEMERAL_PORTS: u16 = u16::MAX - FIRST_EPHEMERAL + 1;

const NONE: u32 = u32::MAX;

/// Names an endpoint for as long as it exists; stale ones find nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) struct EndpointId {
    index: u32,
    generation: u32,
}

/// What an endpoint's number is a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// A UDP port.
    Udp,
    /// The identifier of ICMP echo requests from here.
    Echo,
}

/// One endpoint.
pub(in crate::net) struct Endpoint {
    pub(super) protocol: Protocol,
    /// The port or the identifier.
    pub(super) number: u16,
    /// The local address, which may be unspecified.
    pub(super) address: IpAddr,
    /// The only other end that it talks to, if there is just one.
    pub(super) peer: Option<SocketAddr>,
    pub(super) broadcast: bool,
    /// Of packets to single hosts.
    pub(super) hop_limit: u8,
    /// Of packets to groups.
    pub(super) group_hop_limit: u8,
    /// The groups that it has joined.
    pub(in crate::net) groups: Vec<IpAddr>,
    pub(super) receive: Queue,
    pub(super) send: Queue,
    /// Datagrams that it lost: received ones without room or memory, and sent
    /// ones whose neighbour never answered.
    pub(super) dropped: u64,
    /// What the peer has answered, to be told once.
    pub(super) failure: Option<Error>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

impl Endpoint {
    pub(super) fn new(protocol: Protocol, address: IpAddr, receive: Bounds, send: Bounds) -> Self {
        Self {
            protocol,
            number: 0,
            address,
            peer: None,
            broadcast: false,
            hop_limit: 64,
            group_hop_limit: 1,
            groups: Vec::new(),
            receive: Queue::new(receive),
            send: Queue::new(send),
            dropped: 0,
            failure: None,
            reader: None,
            writer: None,
        }
    }

    /// Whether it takes a datagram from `remote` to `local`.
    pub(super) fn accepts(&self, remote: SocketAddr, local: IpAddr) -> bool {
        let is_from_peer = self.peer.is_none_or(|peer| peer == remote);
        let is_for_here = if local.is_multicast() {
            self.groups.contains(&local)
        } else {
            match self.address {
                IpAddr::V4(address) if address.is_unspecified() => local.is_ipv4(),
                IpAddr::V6(address) if address.is_unspecified() => true,
                address => address == local,
            }
        };
        is_from_peer && is_for_here
    }
}

#[derive(Default)]
struct Slot {
    generation: u32,
    next_free: u32,
    endpoint: Option<Endpoint>,
}

/// The endpoints, found by their numbers in one look.
pub(in crate::net) struct Endpoints {
    slots: Vec<Slot>,
    first_free: u32,
    index: HashTable<u32>,
    len: usize,
    /// Those that may have something to send now.
    pub(in crate::net) dirty: IndexList,
    /// Those that wait for room in the card's send queue.
    pub(in crate::net) stalled: IndexList,
    /// Those with datagrams that wait for a neighbour's address.
    pub(in crate::net) waiting: IndexList,
    /// When to try again for them.
    pub(in crate::net) deadlines: Deadlines,
}

impl Endpoints {
    pub(in crate::net) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            first_free: NONE,
            index: HashTable::new(),
            len: 0,
            dirty: IndexList::new(),
            stalled: IndexList::new(),
            waiting: IndexList::new(),
            deadlines: Deadlines::new(),
        }
    }

    pub(in crate::net) fn len(&self) -> usize {
        self.len
    }

    pub(in crate::net) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The endpoint with this number.
    pub(super) fn find(&self, protocol: Protocol, number: u16) -> Option<u32> {
        self.index
            .find(hash(protocol, number), |&index| {
                self.get(index).is_some_and(|endpoint| {
                    endpoint.protocol == protocol && endpoint.number == number
                })
            })
            .copied()
    }

    /// Adds an endpoint; with `number` 0 it gets one that nobody can foretell.
    ///
    /// # Errors
    ///
    /// [`Error::AddrInUse`], [`Error::AddrNotAvailable`] if no number is left,
    /// and [`Error::OutOfMemory`]; the table is then as before.
    pub(super) fn insert(
        &mut self,
        mut endpoint: Endpoint,
        number: u16,
        random: &mut Random,
    ) -> Result<EndpointId, Error> {
        let protocol = endpoint.protocol;
        endpoint.number = match number {
            0 => self
                .free_number(protocol, random)
                .ok_or(Error::AddrNotAvailable)?,
            number if self.find(protocol, number).is_some() => return Err(Error::AddrInUse),
            number => number,
        };
        self.reserve().ok_or(Error::OutOfMemory)?;
        let hash_of_new = hash(protocol, endpoint.number);
        let index = self.first_free;
        let slot = &mut self.slots[index as usize];
        self.first_free = slot.next_free;
        slot.endpoint = Some(endpoint);
        let generation = slot.generation;
        self.len += 1;
        let slots = &self.slots;
        let rehash: Rehash<'_> = &|&index| hash_at(slots, index);
        self.index.insert_unique(hash_of_new, index, rehash);
        Ok(EndpointId { index, generation })
    }

    /// A number without an endpoint.
    fn free_number(&self, protocol: Protocol, random: &mut Random) -> Option<u16> {
        let start = random.draw() as u16;
        (0..EPHEMERAL_PORTS)
            .map(|step| match protocol {
                Protocol::Udp => FIRST_EPHEMERAL + start.wrapping_add(step) % EPHEMERAL_PORTS,
                Protocol::Echo => start.wrapping_add(step),
            })
            .find(|&number| self.find(protocol, number).is_none())
    }

    /// Makes sure that there is a free slot, and place for it everywhere.
    fn reserve(&mut self) -> Option<()> {
        let slots = &self.slots;
        let rehash: Rehash<'_> = &|&index| hash_at(slots, index);
        self.index.try_reserve(1, rehash).ok()?;
        if self.first_free != NONE {
            return Some(());
        }
        let count = self.slots.len() + 1;
        self.dirty.grow(count).ok()?;
        self.stalled.grow(count).ok()?;
        self.waiting.grow(count).ok()?;
        self.deadlines.grow(count).ok()?;
        self.slots.try_reserve(1).ok()?;
        self.first_free = self.slots.len() as u32;
        self.slots.push(Slot {
            next_free: NONE,
            ..Slot::default()
        });
        Some(())
    }

    /// Takes an endpoint out of everything.
    pub(super) fn remove(&mut self, id: EndpointId) -> Option<Endpoint> {
        let index = self.index(id)?;
        self.dirty.remove(index);
        self.stalled.remove(index);
        self.waiting.remove(index);
        self.deadlines.set(index, None);
        let hash = hash_at(&self.slots, index);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == index) {
            entry.remove();
        }
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = self.first_free;
        self.first_free = index;
        self.len -= 1;
        slot.endpoint.take()
    }

    /// The slot of `id`, if its endpoint still exists.
    pub(super) fn index(&self, id: EndpointId) -> Option<u32> {
        let slot = self.slots.get(id.index as usize)?;
        (slot.generation == id.generation && slot.endpoint.is_some()).then_some(id.index)
    }

    pub(super) fn get(&self, index: u32) -> Option<&Endpoint> {
        self.slots.get(index as usize)?.endpoint.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Endpoint> {
        self.slots.get_mut(index as usize)?.endpoint.as_mut()
    }

    pub(in crate::net) fn by_id(&mut self, id: EndpointId) -> Option<&mut Endpoint> {
        let index = self.index(id)?;
        self.get_mut(index)
    }

    /// Marks those dirty that wait for a neighbour's address: it may have come.
    pub(in crate::net) fn mark_waiting_dirty(&mut self) {
        while let Some(index) = self.waiting.pop() {
            if let Some(endpoint) = self.get_mut(index) {
                for datagram in endpoint.send.iter_mut() {
                    datagram.retry_at = None;
                }
            }
            self.dirty.push(index);
        }
    }

    /// Marks those dirty that waited for room in the card's send queue, at most
    /// `limit`.
    pub(super) fn mark_stalled_dirty(&mut self, limit: usize) {
        self.dirty.take_from(&mut self.stalled, limit);
    }

    /// Marks those dirty whose deadline has come, at most `limit`.
    pub(super) fn mark_due_dirty(&mut self, now: Instant, limit: usize) {
        self.deadlines.move_due(now, limit, &mut self.dirty);
    }
}

/// The program chooses who listens where, so nobody can aim at one bucket.
fn hash(protocol: Protocol, number: u16) -> u64 {
    (u64::from(number) << 1 | protocol as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn hash_at(slots: &[Slot], index: u32) -> u64 {
    slots[index as usize]
        .endpoint
        .as_ref()
        .map_or(0, |endpoint| hash(endpoint.protocol, endpoint.number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    const BOUNDS: Bounds = Bounds {
        datagrams: 1,
        bytes: 1,
    };

    fn endpoint(protocol: Protocol) -> Endpoint {
        Endpoint::new(protocol, Ipv4Addr::UNSPECIFIED.into(), BOUNDS, BOUNDS)
    }

    #[test]
    fn every_port_is_given_out_once_and_the_last_attempt_is_told() {
        let mut endpoints = Endpoints::new();
        let mut random = Random::new([1, 2]);
        let mut ids = Vec::new();
        for _ in 0..EPHEMERAL_PORTS {
            let id = endpoints.insert(endpoint(Protocol::Udp), 0, &mut random);
            ids.push(id.unwrap());
        }
        let full = endpoints.insert(endpoint(Protocol::Udp), 0, &mut random);
        assert_eq!(full, Err(Error::AddrNotAvailable));
        for port in FIRST_EPHEMERAL..=u16::MAX {
            assert!(endpoints.find(Protocol::Udp, port).is_some(), "{port}");
            assert!(endpoints.find(Protocol::Echo, port).is_none(), "{port}");
        }
        let taken = endpoints.insert(endpoint(Protocol::Udp), 60_000, &mut random);
        assert_eq!(taken, Err(Error::AddrInUse));
        let echo = endpoints.insert(endpoint(Protocol::Echo), 60_000, &mut random);
        ids.push(echo.unwrap());
        for id in ids {
            assert!(endpoints.remove(id).is_some());
            assert!(endpoints.remove(id).is_none());
        }
        assert_eq!(endpoints.len(), 0);
        assert!(endpoints.find(Protocol::Udp, 60_000).is_none());
    }
}
