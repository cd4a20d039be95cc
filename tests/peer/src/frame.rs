//! Ethernet frames: made from their parts, and taken apart.

pub mod ndp;
mod parsed;

pub use parsed::Parsed;
pub use smoltcp::wire::{
    ArpOperation, ArpRepr, DhcpMessageType, EthernetAddress, EthernetProtocol, IpProtocol,
    Ipv4Address, Ipv6Address, TcpControl, TcpRepr, TcpSeqNumber,
};

use std::net::IpAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpPacket, EthernetFrame, EthernetRepr, Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr,
    IpRepr, TcpPacket, UdpPacket, UdpRepr,
};

/// How many routers a packet may pass.
const HOP_LIMIT: u8 = 64;

/// The addresses of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<A = Ipv4Address> {
    /// Of its network card.
    pub mac: EthernetAddress,
    /// Of IP: its version 4, its version 6, or either, as the type says.
    pub ip: A,
}

impl Host {
    /// All hosts of the link.
    pub const BROADCAST: Self = Self {
        mac: EthernetAddress::BROADCAST,
        ip: Ipv4Address::BROADCAST,
    };
}

impl<A: Into<IpAddr>> Host<A> {
    /// The same, whichever version of IP it has.
    pub fn any(self) -> Host<IpAddr> {
        Host {
            mac: self.mac,
            ip: self.ip.into(),
        }
    }
}

/// Asks all hosts who has `ip`.
pub fn arp_request(from: Host, ip: Ipv4Address) -> Vec<u8> {
    let arp = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: from.mac,
        source_protocol_addr: from.ip,
        target_hardware_addr: EthernetAddress::default(),
        target_protocol_addr: ip,
    };
    ethernet(
        from.mac,
        EthernetAddress::BROADCAST,
        EthernetProtocol::Arp,
        arp.buffer_len(),
        |payload| arp.emit(&mut ArpPacket::new_unchecked(payload)),
    )
}

/// Tells `to` who has the address that it has asked for.
pub fn arp_reply(from: Host, to: Host) -> Vec<u8> {
    let arp = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: from.mac,
        source_protocol_addr: from.ip,
        target_hardware_addr: to.mac,
        target_protocol_addr: to.ip,
    };
    ethernet(
        from.mac,
        to.mac,
        EthernetProtocol::Arp,
        arp.buffer_len(),
        |payload| arp.emit(&mut ArpPacket::new_unchecked(payload)),
    )
}

/// An ICMP echo request.
///
/// # Panics
///
/// If the two hosts have addresses of different versions.
pub fn echo_request<A: Into<IpAddr>>(
    from: Host<A>,
    to: Host<A>,
    ident: u16,
    seq_no: u16,
    data: &[u8],
) -> Vec<u8> {
    let (from, to) = (from.any(), to.any());
    if let (IpAddr::V6(source), IpAddr::V6(destination)) = (from.ip, to.ip) {
        let icmp = Icmpv6Repr::EchoRequest {
            ident,
            seq_no,
            data,
        };
        let from = Host {
            mac: from.mac,
            ip: source,
        };
        let to = Host {
            mac: to.mac,
            ip: destination,
        };
        return icmpv6(from, to, HOP_LIMIT, &icmp);
    }
    let icmp = Icmpv4Repr::EchoRequest {
        ident,
        seq_no,
        data,
    };
    ip(from, to, IpProtocol::Icmp, icmp.buffer_len(), |payload| {
        icmp.emit(
            &mut Icmpv4Packet::new_unchecked(payload),
            &ChecksumCapabilities::default(),
        );
    })
}

/// A TCP segment, from what `segment` says of ports, flags and numbers.
///
/// # Panics
///
/// If the two hosts have addresses of different versions.
pub fn tcp<A: Into<IpAddr>>(from: Host<A>, to: Host<A>, segment: &TcpRepr<'_>) -> Vec<u8> {
    let (from, to) = (from.any(), to.any());
    ip(from, to, IpProtocol::Tcp, segment.buffer_len(), |payload| {
        segment.emit(
            &mut TcpPacket::new_unchecked(payload),
            &from.ip.into(),
            &to.ip.into(),
            &ChecksumCapabilities::default(),
        );
    })
}

/// A TCP segment without data: the start for changes of one's own.
pub fn segment(src_port: u16, dst_port: u16, control: TcpControl) -> TcpRepr<'static> {
    TcpRepr {
        src_port,
        dst_port,
        control,
        seq_number: TcpSeqNumber(0),
        ack_number: None,
        window_len: 65535,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    }
}

/// A UDP datagram.
///
/// # Panics
///
/// If the two hosts have addresses of different versions.
pub fn udp<A: Into<IpAddr>>(
    from: Host<A>,
    to: Host<A>,
    src_port: u16,
    dst_port: u16,
    data: &[u8],
) -> Vec<u8> {
    let (from, to) = (from.any(), to.any());
    let udp = UdpRepr { src_port, dst_port };
    let length = udp.header_len() + data.len();
    ip(from, to, IpProtocol::Udp, length, |payload| {
        udp.emit(
            &mut UdpPacket::new_unchecked(payload),
            &from.ip.into(),
            &to.ip.into(),
            data.len(),
            |payload| payload.copy_from_slice(data),
            &ChecksumCapabilities::default(),
        );
    })
}

/// An IP packet whose payload `emit` writes.
///
/// # Panics
///
/// If the two hosts have addresses of different versions.
pub fn ip<A: Into<IpAddr>>(
    from: Host<A>,
    to: Host<A>,
    next_header: IpProtocol,
    payload_len: usize,
    emit: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    packet(
        from.any(),
        to.any(),
        next_header,
        HOP_LIMIT,
        payload_len,
        emit,
    )
}

/// An ICMPv6 message.
fn icmpv6(
    from: Host<Ipv6Address>,
    to: Host<Ipv6Address>,
    hop_limit: u8,
    icmp: &Icmpv6Repr<'_>,
) -> Vec<u8> {
    packet(
        from.any(),
        to.any(),
        IpProtocol::Icmpv6,
        hop_limit,
        icmp.buffer_len(),
        |payload| {
            icmp.emit(
                &from.ip,
                &to.ip,
                &mut Icmpv6Packet::new_unchecked(payload),
                &ChecksumCapabilities::default(),
            );
        },
    )
}

fn packet(
    from: Host<IpAddr>,
    to: Host<IpAddr>,
    next_header: IpProtocol,
    hop_limit: u8,
    payload_len: usize,
    emit: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let header = IpRepr::new(
        from.ip.into(),
        to.ip.into(),
        next_header,
        payload_len,
        hop_limit,
    );
    let ethertype = match header {
        IpRepr::Ipv4(_) => EthernetProtocol::Ipv4,
        IpRepr::Ipv6(_) => EthernetProtocol::Ipv6,
    };
    let length = header.header_len() + payload_len;
    ethernet(from.mac, to.mac, ethertype, length, |payload| {
        header.emit(&mut payload[..], &ChecksumCapabilities::default());
        emit(&mut payload[header.header_len()..]);
    })
}

/// A frame whose payload `emit` writes.
pub fn ethernet(
    src_addr: EthernetAddress,
    dst_addr: EthernetAddress,
    ethertype: EthernetProtocol,
    payload_len: usize,
    emit: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let header = EthernetRepr {
        src_addr,
        dst_addr,
        ethertype,
    };
    let mut bytes = vec![0; header.buffer_len() + payload_len];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes[..]);
    header.emit(&mut frame);
    emit(frame.payload_mut());
    bytes
}
