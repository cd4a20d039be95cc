//! Asking on the link: for the address of a neighbour, and for routers.
//!
//! smoltcp asks for one neighbour per second, whoever it is; the others would
//! wait for their turn. So where it may not ask, the stack does, for each
//! neighbour once per second. smoltcp takes the answer as its own.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    HardwareAddress, Icmpv6Packet, IpProtocol, Ipv6Packet, Ipv6Repr, NdiscNeighborFlags, NdiscRepr,
};

use super::addresses::Path;
use crate::drivers::ETHERNET_HEADER_BYTES;
use crate::net::device::{Nic, Room};
use crate::net::state::State;

/// How often one neighbour is asked.
const PERIOD: Duration = Duration::from_secs(1);

/// How many neighbours are asked in that time.
const MAX_ASKED: usize = 32;

/// All nodes on the link (RFC 4291 §2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// All routers on the link (RFC 4291 §2.7.1).
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// Shows that a message has passed no router (RFC 4861 §3.1).
const HOP_LIMIT: u8 = 255;

/// The neighbours that were asked for their address of late.
#[derive(Debug)]
pub(in crate::net) struct Asked {
    neighbours: Vec<(IpAddr, Instant)>,
}

impl Asked {
    pub(in crate::net) fn new() -> Self {
        Self {
            neighbours: Vec::with_capacity(MAX_ASKED),
        }
    }

    /// Notes that `neighbour` is asked; `false` if it was already, or too many
    /// others were.
    fn note(&mut self, now: Instant, neighbour: IpAddr) -> bool {
        let asked = &mut self.neighbours;
        asked.retain(|&(_, at)| now < at + PERIOD);
        if asked.len() == MAX_ASKED || asked.iter().any(|&(known, _)| known == neighbour) {
            return false;
        }
        asked.push((neighbour, now));
        true
    }
}

impl State {
    /// Notes that smoltcp has asked for the neighbour on the way to `remote`.
    pub(in crate::net) fn note_asked(&mut self, now: Instant, remote: IpAddr) {
        if let Some(path) = self.addresses.path_to(remote) {
            self.asked.note(now, path.neighbour);
        }
    }

    /// Asks for the address of the neighbour on the way to `remote`, unless that
    /// was done within the last second.
    pub(in crate::net) fn ask_neighbour(&mut self, now: Instant, remote: IpAddr) {
        let Some(Path { source, neighbour }) = self.addresses.path_to(remote) else {
            return;
        };
        if self.nic.split().1.room() == Room::Full || !self.asked.note(now, neighbour) {
            return;
        }
        let nic = &mut *self.nic;
        match (source, neighbour) {
            (IpAddr::V4(source), IpAddr::V4(neighbour)) => ask_v4(nic, source, neighbour),
            (IpAddr::V6(source), IpAddr::V6(neighbour)) => ask_v6(nic, source, neighbour),
            // A path is within one family.
            _ => return,
        }
        self.stats.frames_sent += 1;
    }

    /// Asks the routers of the link to advertise themselves, if there is room for
    /// it now: they are asked again.
    pub(super) fn ask_routers(&mut self, source: Ipv6Addr) {
        if self.nic.split().1.room() == Room::Full {
            return;
        }
        let message = NdiscRepr::RouterSolicit {
            lladdr: Some(hardware(&*self.nic).into()),
        };
        send_ndisc(&mut *self.nic, source, ALL_ROUTERS, message);
        self.stats.frames_sent += 1;
    }
}

/// Tells all hosts on the link that `address` is here, if there is room for it;
/// whether there was.
pub(super) fn announce(nic: &mut dyn Nic, address: IpAddr) -> bool {
    if nic.split().1.room() == Room::Full {
        return false;
    }
    match address {
        // RFC 5227 §2.3.
        IpAddr::V4(address) => ask_v4(nic, address, address),
        // RFC 4861 §7.2.6.
        IpAddr::V6(address) => {
            let message = NdiscRepr::NeighborAdvert {
                flags: NdiscNeighborFlags::OVERRIDE,
                target_addr: address,
                lladdr: Some(hardware(nic).into()),
            };
            send_ndisc(nic, address, ALL_NODES, message);
        }
    }
    true
}

fn hardware(nic: &dyn Nic) -> HardwareAddress {
    EthernetAddress(nic.mac()).into()
}

/// RFC 826.
fn ask_v4(nic: &mut dyn Nic, source: Ipv4Addr, neighbour: Ipv4Addr) {
    let message = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress(nic.mac()),
        source_protocol_addr: source,
        target_hardware_addr: EthernetAddress::BROADCAST,
        target_protocol_addr: neighbour,
    };
    send(
        nic,
        EthernetAddress::BROADCAST,
        EthernetProtocol::Arp,
        message.buffer_len(),
        |payload| message.emit(&mut ArpPacket::new_unchecked(payload)),
    );
}

/// RFC 4861 §7.2.2.
fn ask_v6(nic: &mut dyn Nic, source: Ipv6Addr, neighbour: Ipv6Addr) {
    let message = NdiscRepr::NeighborSolicit {
        target_addr: neighbour,
        lladdr: Some(hardware(nic).into()),
    };
    send_ndisc(nic, source, solicited_node(neighbour), message);
}

/// The group to which the host with `address` listens (RFC 4291 §2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let low = address.to_bits() & 0xff_ffff;
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}

/// Sends a message of neighbour discovery to a group on the link.
fn send_ndisc(nic: &mut dyn Nic, source: Ipv6Addr, group: Ipv6Addr, message: NdiscRepr<'_>) {
    let header = Ipv6Repr {
        src_addr: source,
        dst_addr: group,
        next_header: IpProtocol::Icmpv6,
        payload_len: message.buffer_len(),
        hop_limit: HOP_LIMIT,
    };
    let [.., a, b, c, d] = group.octets();
    send(
        nic,
        EthernetAddress([0x33, 0x33, a, b, c, d]),
        EthernetProtocol::Ipv6,
        header.buffer_len() + message.buffer_len(),
        |payload| {
            // Reserved fields are left alone.
            payload.fill(0);
            let mut packet = Ipv6Packet::new_unchecked(payload);
            header.emit(&mut packet);
            let mut packet = Icmpv6Packet::new_unchecked(packet.payload_mut());
            message.emit(&mut packet);
            packet.fill_checksum(&source, &group);
        },
    );
}

/// Sends a frame with `len` bytes behind its header. There is room for it.
fn send(
    nic: &mut dyn Nic,
    to: EthernetAddress,
    protocol: EthernetProtocol,
    len: usize,
    fill: impl FnOnce(&mut [u8]),
) {
    let from = EthernetAddress(nic.mac());
    let queue = nic.split().1;
    let mut frame = EthernetFrame::new_unchecked(queue.buffer(ETHERNET_HEADER_BYTES + len));
    frame.set_src_addr(from);
    frame.set_dst_addr(to);
    frame.set_ethertype(protocol);
    fill(frame.payload_mut());
    queue.commit();
}
