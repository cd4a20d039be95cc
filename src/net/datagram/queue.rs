//! Datagrams, and the bounded queues that they wait in.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use smoltcp::time::Instant;

use crate::net::ip::loopback::Link;

/// A datagram that has come, or that is to be sent. That of an ICMP echo is the
/// whole message, and its ports are 0.
#[derive(Debug)]
pub(super) struct Datagram {
    /// The other end.
    pub(super) remote: SocketAddr,
    /// Where it was sent to, which can be a group; or where it shall come from.
    pub(super) local: Option<IpAddr>,
    pub(super) payload: Vec<u8>,
    /// When it was queued.
    pub(super) at: Instant,
    /// Through what it came, or goes.
    pub(in crate::net) link: Link,
    /// When it is tried again, if it waits for the address of a neighbour.
    pub(super) retry_at: Option<Instant>,
}

/// How much a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) datagrams: usize,
    pub(super) bytes: usize,
}

/// Datagrams in the order in which they came; memory is taken as they come.
#[derive(Debug)]
pub(super) struct Queue {
    datagrams: VecDeque<Datagram>,
    bytes: usize,
    bounds: Bounds,
}

impl Queue {
    pub(super) const fn new(bounds: Bounds) -> Self {
        Self {
            datagrams: VecDeque::new(),
            bytes: 0,
            bounds,
        }
    }

    /// Whether a datagram of `bytes` may be queued. One always may.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.datagrams.is_empty()
            || (self.datagrams.len() < self.bounds.datagrams
                && self.bytes.saturating_add(bytes) <= self.bounds.bytes)
    }

    /// Makes place for one more; `false` if memory is out.
    pub(super) fn reserve(&mut self) -> bool {
        self.datagrams.try_reserve(1).is_ok()
    }

    /// Queues a datagram for which there is room and place.
    pub(super) fn push(&mut self, datagram: Datagram) {
        self.bytes += datagram.payload.len();
        self.datagrams.push_back(datagram);
    }

    /// Takes out the oldest.
    pub(super) fn pop(&mut self) -> Option<Datagram> {
        self.remove(0)
    }

    /// Takes out one from wherever it stands.
    pub(super) fn remove(&mut self, place: usize) -> Option<Datagram> {
        let datagram = self.datagrams.remove(place)?;
        self.bytes -= datagram.payload.len();
        Some(datagram)
    }

    /// How many bytes its datagrams have together.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.datagrams.len()
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Datagram> {
        self.datagrams.get_mut(place)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Datagram> {
        self.datagrams.iter_mut()
    }
}

/// `len` zeroes, where there is memory for them.
pub(in crate::net) fn zeroes(len: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).ok()?;
    bytes.resize(len, 0);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn datagram(len: usize) -> Datagram {
        Datagram {
            remote: (Ipv4Addr::LOCALHOST, 1).into(),
            local: None,
            payload: zeroes(len).unwrap(),
            at: Instant::ZERO,
            link: Link::Card,
            retry_at: None,
        }
    }

    #[test]
    fn a_queue_is_bounded_in_number_and_in_bytes_but_takes_one_of_any_size() {
        let mut queue = Queue::new(Bounds {
            datagrams: 3,
            bytes: 10,
        });
        assert!(queue.has_room(1_000));
        queue.push(datagram(6));
        assert!(queue.has_room(4) && !queue.has_room(5));
        queue.push(datagram(0));
        queue.push(datagram(0));
        assert!(!queue.has_room(0));
        assert_eq!(queue.remove(1).unwrap().payload.len(), 0);
        assert!(queue.has_room(4) && !queue.has_room(5));
        assert_eq!(queue.pop().unwrap().payload.len(), 6);
        assert!(queue.has_room(10));
        assert_eq!(queue.len(), 1);
    }
}
