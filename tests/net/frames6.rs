//! Hand-made frames of IPv6, and a look into those of the stack.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv6Message, Icmpv6Packet, Icmpv6Repr,
    IpAddress, IpProtocol, Ipv6Address, Ipv6Packet, Ipv6Repr, NdiscNeighborFlags, NdiscRepr,
    TcpControl, TcpPacket, TcpSeqNumber,
};

use crate::frames::{ethernet, without_data};
use crate::peer::PEER_MAC;
use crate::wire::STACK_MAC;

/// The stack's address for its own link.
pub const STACK_LINK_LOCAL: Ipv6Address =
    Ipv6Address::new(0xfe80, 0, 0, 0, 0x5054, 0xff, 0xfe00, 1);
/// The address that the stack is given, or makes of the prefix.
pub const STACK_IP6: Ipv6Address = Ipv6Address::new(0x2001, 0xdb8, 0, 0, 0x5054, 0xff, 0xfe00, 1);
pub const PREFIX: Ipv6Address = Ipv6Address::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);
pub const PEER_LINK_LOCAL: Ipv6Address = Ipv6Address::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
pub const PEER_IP6: Ipv6Address = Ipv6Address::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
pub const ALL_NODES: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A frame with an IPv6 packet.
pub fn ipv6(
    from: Ipv6Address,
    to: Ipv6Address,
    protocol: IpProtocol,
    hop_limit: u8,
    payload: &[u8],
) -> Vec<u8> {
    let repr = Ipv6Repr {
        src_addr: from,
        dst_addr: to,
        next_header: protocol,
        payload_len: payload.len(),
        hop_limit,
    };
    let mut bytes = vec![0; 40 + payload.len()];
    let mut packet = Ipv6Packet::new_unchecked(&mut bytes[..]);
    repr.emit(&mut packet);
    packet.payload_mut().copy_from_slice(payload);
    let [.., a, b, c, d] = to.octets();
    let mac = if to.is_multicast() {
        [0x33, 0x33, a, b, c, d]
    } else {
        STACK_MAC
    };
    ethernet(EthernetAddress(mac), EthernetProtocol::Ipv6, &bytes)
}

/// A frame with a message of ICMPv6.
pub fn icmpv6(from: Ipv6Address, to: Ipv6Address, hop_limit: u8, repr: Icmpv6Repr) -> Vec<u8> {
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(
        &from,
        &to,
        &mut Icmpv6Packet::new_unchecked(&mut message[..]),
        &ChecksumCapabilities::default(),
    );
    ipv6(from, to, IpProtocol::Icmpv6, hop_limit, &message)
}

/// A frame with a message of ICMPv6 in bytes, whose checksum is filled in.
pub fn icmpv6_bytes(from: Ipv6Address, to: Ipv6Address, hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    Icmpv6Packet::new_unchecked(&mut message[..]).fill_checksum(&from, &to);
    ipv6(from, to, IpProtocol::Icmpv6, hop_limit, &message)
}

/// Asks the stack for the address of `target`.
pub fn solicit(from: Ipv6Address, target: Ipv6Address) -> Vec<u8> {
    let low = target.to_bits() & 0xff_ffff;
    let group = Ipv6Address::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low);
    let repr = NdiscRepr::NeighborSolicit {
        target_addr: target,
        lladdr: Some(PEER_MAC.into()),
    };
    icmpv6(from, group, 255, Icmpv6Repr::Ndisc(repr))
}

/// Tells the stack the address of `of`.
pub fn advert(of: Ipv6Address, to: Ipv6Address, mac: EthernetAddress) -> Vec<u8> {
    let repr = NdiscRepr::NeighborAdvert {
        flags: NdiscNeighborFlags::SOLICITED | NdiscNeighborFlags::OVERRIDE,
        target_addr: of,
        lladdr: Some(mac.into()),
    };
    icmpv6(of, to, 255, Icmpv6Repr::Ndisc(repr))
}

/// An echo request to the stack.
pub fn ping6(from: Ipv6Address, to: Ipv6Address, number: u16) -> Vec<u8> {
    let repr = Icmpv6Repr::EchoRequest {
        ident: 7,
        seq_no: number,
        data: b"are you there?",
    };
    icmpv6(from, to, 64, repr)
}

/// What a router advertises of one prefix.
pub struct Advertised {
    pub router_seconds: u16,
    pub prefix: Ipv6Address,
    pub prefix_seconds: u32,
    pub dns_server: Option<Ipv6Address>,
}

/// An advertisement of the router [`PEER_LINK_LOCAL`] (RFC 4861 §4.2).
pub fn router_advert(advertised: &Advertised) -> Vec<u8> {
    let mut message = vec![134, 0, 0, 0, 64, 0];
    message.extend(advertised.router_seconds.to_be_bytes());
    message.extend([0; 8]);
    message.extend([3, 4, 64, 0xc0]);
    message.extend(advertised.prefix_seconds.to_be_bytes());
    message.extend(advertised.prefix_seconds.to_be_bytes());
    message.extend([0; 4]);
    message.extend(advertised.prefix.octets());
    if let Some(server) = advertised.dns_server {
        message.extend([25, 3, 0, 0]);
        message.extend(advertised.prefix_seconds.to_be_bytes());
        message.extend(server.octets());
    }
    icmpv6_bytes(PEER_LINK_LOCAL, ALL_NODES, 255, &message)
}

/// A TCP segment without data.
pub fn segment6(
    (from, to): (Ipv6Address, Ipv6Address),
    ports: (u16, u16),
    control: TcpControl,
    seq: i32,
    ack: Option<TcpSeqNumber>,
) -> Vec<u8> {
    let repr = without_data(ports, control, seq, ack);
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(
        &mut TcpPacket::new_unchecked(&mut bytes[..]),
        &IpAddress::Ipv6(from),
        &IpAddress::Ipv6(to),
        &ChecksumCapabilities::default(),
    );
    ipv6(from, to, IpProtocol::Tcp, 64, &bytes)
}

/// What the stack has sent over IPv6.
#[derive(Debug, PartialEq)]
pub enum Sent6 {
    Solicit(Ipv6Address),
    Advert(Ipv6Address),
    RouterSolicit,
    Report,
    Pong(u16),
    Tcp {
        to: Ipv6Address,
        to_port: u16,
        syn: bool,
        rst: bool,
    },
    Other,
}

pub fn look6(frame: &[u8]) -> Sent6 {
    let ethernet = EthernetFrame::new_checked(frame).unwrap();
    if ethernet.ethertype() != EthernetProtocol::Ipv6 {
        return Sent6::Other;
    }
    let packet = Ipv6Packet::new_checked(ethernet.payload()).unwrap();
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    match packet.next_header() {
        IpProtocol::HopByHop => Sent6::Report,
        IpProtocol::Tcp => {
            let segment = TcpPacket::new_checked(packet.payload()).unwrap();
            assert!(segment.verify_checksum(&from.into(), &to.into()));
            Sent6::Tcp {
                to,
                to_port: segment.dst_port(),
                syn: segment.syn(),
                rst: segment.rst(),
            }
        }
        IpProtocol::Icmpv6 => {
            let message = Icmpv6Packet::new_checked(packet.payload()).unwrap();
            assert!(message.verify_checksum(&from, &to));
            let on_link = packet.hop_limit() == 255;
            match message.msg_type() {
                Icmpv6Message::NeighborSolicit if on_link => Sent6::Solicit(message.target_addr()),
                Icmpv6Message::NeighborAdvert if on_link => Sent6::Advert(message.target_addr()),
                Icmpv6Message::RouterSolicit if on_link => Sent6::RouterSolicit,
                Icmpv6Message::EchoReply => Sent6::Pong(message.echo_seq_no()),
                _ => Sent6::Other,
            }
        }
        _ => Sent6::Other,
    }
}
