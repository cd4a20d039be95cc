//! Hand-made datagrams and ICMP messages, and a look into those of the stack.

use std::net::SocketAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv4DstUnreachable, Icmpv4Packet,
    Icmpv4Repr, IgmpPacket, IgmpRepr, IpAddress, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr,
    UdpPacket, UdpRepr,
};

use crate::frames::{ethernet, look};
use crate::peer::{PEER_IP, STACK_IP};
use crate::wire::STACK_MAC;

pub use crate::frames::Sent;

/// A UDP datagram of the far host for the stack.
pub fn udp(from: Ipv4Address, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    udp_to(EthernetAddress(STACK_MAC), STACK_IP, from, ports, data)
}

/// A UDP datagram to any address.
pub fn udp_to(
    mac: EthernetAddress,
    to: Ipv4Address,
    from: Ipv4Address,
    ports: (u16, u16),
    data: &[u8],
) -> Vec<u8> {
    let repr = UdpRepr {
        src_port: ports.0,
        dst_port: ports.1,
    };
    let mut datagram = vec![0; 8 + data.len()];
    repr.emit(
        &mut UdpPacket::new_unchecked(&mut datagram[..]),
        &IpAddress::Ipv4(from),
        &IpAddress::Ipv4(to),
        data.len(),
        |payload| payload.copy_from_slice(data),
        &ChecksumCapabilities::default(),
    );
    ipv4_to(mac, to, from, IpProtocol::Udp, &datagram)
}

fn ipv4_to(
    mac: EthernetAddress,
    to: Ipv4Address,
    from: Ipv4Address,
    protocol: IpProtocol,
    payload: &[u8],
) -> Vec<u8> {
    let repr = Ipv4Repr {
        src_addr: from,
        dst_addr: to,
        next_header: protocol,
        payload_len: payload.len(),
        hop_limit: 64,
    };
    let mut packet = vec![0; 20 + payload.len()];
    let mut ipv4 = Ipv4Packet::new_unchecked(&mut packet[..]);
    repr.emit(&mut ipv4, &ChecksumCapabilities::default());
    ipv4.payload_mut().copy_from_slice(payload);
    ethernet(mac, EthernetProtocol::Ipv4, &packet)
}

/// The Ethernet address of a group of hosts.
pub fn group_mac(group: Ipv4Address) -> EthernetAddress {
    let [_, b, c, d] = group.octets();
    EthernetAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d])
}

/// The far host's answer that nobody listens where `frame` went, which quotes so
/// many bytes behind the packet's header.
pub fn port_unreachable(frame: &[u8], quoted: usize) -> Vec<u8> {
    let packet = EthernetFrame::new_checked(frame).unwrap().payload();
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    message.extend(&packet[..20 + quoted]);
    Icmpv4Packet::new_unchecked(&mut message[..]).fill_checksum();
    let to = EthernetAddress(STACK_MAC);
    ipv4_to(to, STACK_IP, PEER_IP, IpProtocol::Icmp, &message)
}

/// An echo reply.
pub fn echo_reply(from: Ipv4Address, ident: u16, number: u16, data: &[u8]) -> Vec<u8> {
    let repr = Icmpv4Repr::EchoReply {
        ident,
        seq_no: number,
        data,
    };
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(
        &mut Icmpv4Packet::new_unchecked(&mut message[..]),
        &ChecksumCapabilities::default(),
    );
    let to = EthernetAddress(STACK_MAC);
    ipv4_to(to, STACK_IP, from, IpProtocol::Icmp, &message)
}

/// A router's question for the groups that are listened to.
pub fn igmp_query() -> Vec<u8> {
    let mut message = vec![0x11, 100, 0, 0, 0, 0, 0, 0];
    IgmpPacket::new_unchecked(&mut message[..]).fill_checksum();
    let all_systems = Ipv4Address::new(224, 0, 0, 1);
    ipv4_to(
        group_mac(all_systems),
        all_systems,
        PEER_IP,
        IpProtocol::Igmp,
        &message,
    )
}

/// What the stack has sent, beyond what [`look`] sees.
#[derive(Clone, Debug, PartialEq)]
pub enum Out {
    Udp {
        from: SocketAddr,
        to: SocketAddr,
        hop_limit: u8,
        data: Vec<u8>,
    },
    Echo {
        to: Ipv4Address,
        ident: u16,
        number: u16,
        data: Vec<u8>,
    },
    PortUnreachable,
    Report(Ipv4Address),
    Leave(Ipv4Address),
    ArpRequest(Ipv4Address),
    Other,
}

impl Out {
    /// The data of a UDP datagram.
    pub fn data(&self) -> &[u8] {
        match self {
            Self::Udp { data, .. } => data,
            other => panic!("{other:?}"),
        }
    }
}

pub fn look_out(frame: &[u8]) -> Out {
    if let Sent::ArpRequest(address) = look(frame) {
        return Out::ArpRequest(address);
    }
    let ethernet = EthernetFrame::new_checked(frame).unwrap();
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return Out::Other;
    }
    let packet = Ipv4Packet::new_checked(ethernet.payload()).unwrap();
    if packet.dst_addr().is_multicast() {
        assert_eq!(ethernet.dst_addr(), group_mac(packet.dst_addr()));
    }
    match packet.next_header() {
        IpProtocol::Udp => {
            let (from, to) = (packet.src_addr(), packet.dst_addr());
            let datagram = UdpPacket::new_checked(packet.payload()).unwrap();
            assert!(datagram.verify_checksum(&from.into(), &to.into()));
            Out::Udp {
                from: (from, datagram.src_port()).into(),
                to: (to, datagram.dst_port()).into(),
                hop_limit: packet.hop_limit(),
                data: datagram.payload().to_vec(),
            }
        }
        IpProtocol::Icmp => {
            let message = Icmpv4Packet::new_checked(packet.payload()).unwrap();
            match Icmpv4Repr::parse(&message, &ChecksumCapabilities::default()) {
                Ok(Icmpv4Repr::EchoRequest {
                    ident,
                    seq_no,
                    data,
                }) => Out::Echo {
                    to: packet.dst_addr(),
                    ident,
                    number: seq_no,
                    data: data.to_vec(),
                },
                Ok(Icmpv4Repr::DstUnreachable {
                    reason: Icmpv4DstUnreachable::PortUnreachable,
                    ..
                }) => Out::PortUnreachable,
                _ => Out::Other,
            }
        }
        IpProtocol::Igmp => {
            let message = IgmpPacket::new_checked(packet.payload()).unwrap();
            match IgmpRepr::parse(&message).unwrap() {
                IgmpRepr::MembershipReport { group_addr, .. } => Out::Report(group_addr),
                IgmpRepr::LeaveGroup { group_addr } => Out::Leave(group_addr),
                IgmpRepr::MembershipQuery { .. } => Out::Other,
            }
        }
        _ => Out::Other,
    }
}
