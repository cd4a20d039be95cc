//! Ethernet frames: made from their parts, and taken apart.

pub use smoltcp::wire::{
    ArpOperation, ArpRepr, DhcpMessageType, EthernetAddress, EthernetProtocol, IpProtocol,
    Ipv4Address, TcpControl, TcpRepr, TcpSeqNumber,
};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpPacket, EthernetFrame, EthernetRepr, Icmpv4Packet, Icmpv4Repr, IpAddress, Ipv4Packet,
    Ipv4Repr, TcpPacket, UdpPacket, UdpRepr,
};

/// The addresses of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Of its network card.
    pub mac: EthernetAddress,
    /// Of IPv4.
    pub ip: Ipv4Address,
}

impl Host {
    /// All hosts of the link.
    pub const BROADCAST: Self = Self {
        mac: EthernetAddress::BROADCAST,
        ip: Ipv4Address::BROADCAST,
    };
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
pub fn echo_request(from: Host, to: Host, ident: u16, seq_no: u16, data: &[u8]) -> Vec<u8> {
    let icmp = Icmpv4Repr::EchoRequest {
        ident,
        seq_no,
        data,
    };
    ipv4(from, to, IpProtocol::Icmp, icmp.buffer_len(), |payload| {
        icmp.emit(
            &mut Icmpv4Packet::new_unchecked(payload),
            &ChecksumCapabilities::default(),
        );
    })
}

/// A TCP segment, from what `segment` says of ports, flags and numbers.
pub fn tcp(from: Host, to: Host, segment: &TcpRepr<'_>) -> Vec<u8> {
    ipv4(from, to, IpProtocol::Tcp, segment.buffer_len(), |payload| {
        segment.emit(
            &mut TcpPacket::new_unchecked(payload),
            &IpAddress::Ipv4(from.ip),
            &IpAddress::Ipv4(to.ip),
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
pub fn udp(from: Host, to: Host, src_port: u16, dst_port: u16, data: &[u8]) -> Vec<u8> {
    let udp = UdpRepr { src_port, dst_port };
    let length = udp.header_len() + data.len();
    ipv4(from, to, IpProtocol::Udp, length, |payload| {
        udp.emit(
            &mut UdpPacket::new_unchecked(payload),
            &IpAddress::Ipv4(from.ip),
            &IpAddress::Ipv4(to.ip),
            data.len(),
            |payload| payload.copy_from_slice(data),
            &ChecksumCapabilities::default(),
        );
    })
}

/// An IPv4 packet whose payload `emit` writes.
pub fn ipv4(
    from: Host,
    to: Host,
    next_header: IpProtocol,
    payload_len: usize,
    emit: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let ip = Ipv4Repr {
        src_addr: from.ip,
        dst_addr: to.ip,
        next_header,
        payload_len,
        hop_limit: 64,
    };
    let length = ip.buffer_len() + payload_len;
    ethernet(
        from.mac,
        to.mac,
        EthernetProtocol::Ipv4,
        length,
        |payload| {
            let mut packet = Ipv4Packet::new_unchecked(payload);
            ip.emit(&mut packet, &ChecksumCapabilities::default());
            emit(packet.payload_mut());
        },
    )
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

/// A frame, taken apart as far as the peer understands it.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Parsed<'a> {
    /// ARP.
    Arp(ArpRepr),
    /// An answer to an echo request.
    EchoReply {
        /// Who answers.
        from: Host,
        /// The request's identifier.
        ident: u16,
        /// The request's sequence number.
        seq_no: u16,
        /// The request's data.
        data: &'a [u8],
    },
    /// A TCP segment.
    Tcp {
        /// Who sent it.
        from: Host,
        /// For whom it is.
        to: Host,
        /// What it says.
        segment: TcpRepr<'a>,
    },
    /// A UDP datagram.
    Udp {
        /// Who sent it.
        from: Host,
        /// For whom it is.
        to: Host,
        /// The sender's port.
        src_port: u16,
        /// The receiver's port.
        dst_port: u16,
        /// Its payload.
        data: &'a [u8],
    },
}

impl<'a> Parsed<'a> {
    /// Takes `frame` apart; `None` for all that is malformed, has a wrong
    /// checksum or is of another kind.
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        let payload = ethernet.payload();
        match ethernet.ethertype() {
            EthernetProtocol::Arp => {
                let packet = ArpPacket::new_checked(payload).ok()?;
                Some(Self::Arp(ArpRepr::parse(&packet).ok()?))
            }
            EthernetProtocol::Ipv4 => {
                let macs = (ethernet.src_addr(), ethernet.dst_addr());
                Self::parse_ipv4(macs, payload)
            }
            _ => None,
        }
    }

    fn parse_ipv4(macs: (EthernetAddress, EthernetAddress), payload: &'a [u8]) -> Option<Self> {
        let checksums = ChecksumCapabilities::default();
        let packet = Ipv4Packet::new_checked(payload).ok()?;
        let ip = Ipv4Repr::parse(&packet, &checksums).ok()?;
        let from = Host {
            mac: macs.0,
            ip: ip.src_addr,
        };
        let to = Host {
            mac: macs.1,
            ip: ip.dst_addr,
        };
        let (source, destination) = (&from.ip.into(), &to.ip.into());
        match ip.next_header {
            IpProtocol::Icmp => {
                let packet = Icmpv4Packet::new_checked(packet.payload()).ok()?;
                let Icmpv4Repr::EchoReply {
                    ident,
                    seq_no,
                    data,
                } = Icmpv4Repr::parse(&packet, &checksums).ok()?
                else {
                    return None;
                };
                Some(Self::EchoReply {
                    from,
                    ident,
                    seq_no,
                    data,
                })
            }
            IpProtocol::Tcp => {
                let packet = TcpPacket::new_checked(packet.payload()).ok()?;
                let segment = TcpRepr::parse(&packet, source, destination, &checksums).ok()?;
                Some(Self::Tcp { from, to, segment })
            }
            IpProtocol::Udp => {
                let packet = UdpPacket::new_checked(packet.payload()).ok()?;
                let udp = UdpRepr::parse(&packet, source, destination, &checksums).ok()?;
                Some(Self::Udp {
                    from,
                    to,
                    src_port: udp.src_port,
                    dst_port: udp.dst_port,
                    data: packet.payload(),
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Host = Host {
        mac: EthernetAddress([2, 0, 0, 0, 0, 1]),
        ip: Ipv4Address::new(10, 0, 2, 2),
    };
    const B: Host = Host {
        mac: EthernetAddress([2, 0, 0, 0, 0, 2]),
        ip: Ipv4Address::new(10, 0, 2, 15),
    };

    #[test]
    fn what_was_made_can_be_taken_apart() {
        let made = segment(1000, 80, TcpControl::Syn);
        let frame = tcp(A, B, &made);
        let parsed = Parsed::Tcp {
            from: A,
            to: B,
            segment: made,
        };
        assert_eq!(Parsed::parse(&frame), Some(parsed));

        let frame = udp(A, B, 1, 2, b"hello");
        let parsed = Parsed::Udp {
            from: A,
            to: B,
            src_port: 1,
            dst_port: 2,
            data: b"hello",
        };
        assert_eq!(Parsed::parse(&frame), Some(parsed));
        assert!(matches!(
            Parsed::parse(&arp_request(A, B.ip)),
            Some(Parsed::Arp(_))
        ));
    }

    #[test]
    fn damaged_frames_are_none() {
        let frame = tcp(A, B, &segment(1000, 80, TcpControl::Syn));
        for length in 0..frame.len() {
            assert_eq!(Parsed::parse(&frame[..length]), None, "cut at {length}");
        }
        for index in 14..frame.len() {
            let mut damaged = frame.clone();
            damaged[index] ^= 0x10;
            assert_eq!(Parsed::parse(&damaged), None, "damaged at {index}");
        }
    }
}
