//! The interface from the guest to itself.
//!
//! What is sent to 127.0.0.0/8, to ::1 or to an address of the card's own goes
//! into a queue here and comes out of it in a later step of the network task,
//! so that no call leads into itself. It needs no card, and goes on while the
//! card's send queue is full.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::iface::{self, Interface};
use smoltcp::phy::Medium;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};

use crate::net::device::{Nic, Port, ReceiveQueue, Room, SendQueue};

/// The longest packet: what IPv4 can say.
pub(in crate::net) const MTU: usize = 65_535;

/// How many packets may be under way, and how many bytes.
const MAX_PACKETS: usize = 256;
const MAX_BYTES: usize = 1 << 20;

/// Through what a packet comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Link {
    /// The network card.
    Card,
    /// Nothing: it is for the guest itself.
    Loopback,
}

/// The loopback interface.
pub(in crate::net) struct Loopback {
    iface: Interface,
    front: Front,
    queue: Queue,
}

/// The packet that is being received.
struct Front(Option<Vec<u8>>);

/// The packets that are under way.
#[derive(Default)]
struct Queue {
    packets: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Where the next one is made; of the longest packet's length once it is
    /// used.
    place: Vec<u8>,
    /// The length of the one that is being made.
    len: usize,
    /// Packets for which there was no memory.
    lost: u64,
}

impl Loopback {
    /// `seed` is as that of the card's interface.
    pub(in crate::net) fn new(now: Instant, seed: u64) -> Self {
        let mut config = iface::Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut front = Front(None);
        let mut queue = Queue::default();
        let mut port = Port::over(&mut front, &mut queue, MTU, Medium::Ip);
        let mut iface = Interface::new(config, &mut port, now);
        iface.update_ip_addrs(|addresses| {
            let own: [(IpAddr, u8); 2] = [
                (Ipv4Addr::LOCALHOST.into(), 8),
                (Ipv6Addr::LOCALHOST.into(), 128),
            ];
            addresses.extend(own.map(|(address, len)| IpCidr::new(address.into(), len)));
        });
        // All that is sent here is meant for here.
        iface.set_any_ip(true);
        Self {
            iface,
            front,
            queue,
        }
    }

    /// Whether a packet waits to be received.
    pub(in crate::net) fn is_waiting(&self) -> bool {
        self.front.0.is_some() || !self.queue.packets.is_empty()
    }

    /// The oldest packet, the same one until it is released.
    pub(in crate::net) fn front(&mut self) -> Option<&[u8]> {
        if self.front.0.is_none() {
            let packet = self.queue.packets.pop_front()?;
            self.queue.bytes -= packet.len();
            self.front.0 = Some(packet);
        }
        self.front.front()
    }

    /// Lets go of the oldest packet.
    pub(in crate::net) fn release(&mut self) {
        self.front.release();
    }

    /// How many packets were lost for want of memory.
    pub(in crate::net) fn lost(&self) -> u64 {
        self.queue.lost
    }
}

/// The interface at `link`, and what it sends and receives through.
pub(in crate::net) fn open<'a>(
    link: Link,
    iface: &'a mut Interface,
    nic: &'a mut dyn Nic,
    loopback: &'a mut Loopback,
) -> (&'a mut Interface, Port<'a>) {
    match link {
        Link::Card => (iface, Port::new(nic)),
        Link::Loopback => {
            let Loopback {
                iface,
                front,
                queue,
            } = loopback;
            (iface, Port::over(front, queue, MTU, Medium::Ip))
        }
    }
}

/// Its interface alone.
pub(in crate::net) fn interface<'a>(
    link: Link,
    iface: &'a mut Interface,
    loopback: &'a mut Loopback,
) -> &'a mut Interface {
    match link {
        Link::Card => iface,
        Link::Loopback => &mut loopback.iface,
    }
}

impl ReceiveQueue for Front {
    fn front(&mut self) -> Option<&[u8]> {
        self.0.as_deref()
    }

    fn release(&mut self) {
        self.0 = None;
    }
}

impl SendQueue for Queue {
    fn room(&mut self) -> Room {
        let full = self.packets.len() >= MAX_PACKETS || self.bytes >= MAX_BYTES;
        let has_place = self.place.len() == MTU || self.place.try_reserve_exact(MTU).is_ok();
        if full || !has_place {
            return Room::Full;
        }
        self.place.resize(MTU, 0);
        Room::Free
    }

    fn buffer(&mut self, len: usize) -> &mut [u8] {
        self.len = len;
        &mut self.place[..len]
    }

    fn commit(&mut self) {
        let mut packet = Vec::new();
        if packet.try_reserve_exact(self.len).is_err() || self.packets.try_reserve(1).is_err() {
            self.lost += 1;
            return;
        }
        packet.extend_from_slice(&self.place[..self.len]);
        self.bytes += packet.len();
        self.packets.push_back(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(loopback: &mut Loopback, len: usize) -> bool {
        let free = loopback.queue.room() == Room::Free;
        if free {
            loopback.queue.buffer(len).fill(len as u8);
            loopback.queue.commit();
        }
        free
    }

    #[test]
    fn packets_come_out_in_order_and_are_bounded() {
        let mut loopback = Loopback::new(Instant::ZERO, 1);
        assert!(!loopback.is_waiting());
        let packets = (1..).take_while(|&len| push(&mut loopback, len)).count();
        assert_eq!(packets, MAX_PACKETS);
        for len in 1..=packets {
            assert_eq!(loopback.front(), Some(&std::vec![len as u8; len][..]));
            assert_eq!(loopback.front().map(<[u8]>::len), Some(len));
            loopback.release();
        }
        assert_eq!(loopback.front(), None);
        assert_eq!((loopback.queue.bytes, loopback.lost()), (0, 0));
        let packets = (0..).take_while(|_| push(&mut loopback, MTU)).count();
        assert_eq!(packets, MAX_BYTES.div_ceil(MTU));
    }
}
