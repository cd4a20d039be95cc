//! Hand-made frames, and a look into those of the stack.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    Icmpv4Packet, Icmpv4Repr, IpAddress, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr, TcpControl,
    TcpPacket, TcpRepr, TcpSeqNumber, UdpPacket, UdpRepr,
};

use crate::peer::{PEER_IP, PEER_MAC, STACK_IP};
use crate::wire::STACK_MAC;

/// An Ethernet frame from the far host.
pub fn ethernet(to: EthernetAddress, protocol: EthernetProtocol, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14 + payload.len()];
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
    ethernet.set_src_addr(PEER_MAC);
    ethernet.set_dst_addr(to);
    ethernet.set_ethertype(protocol);
    ethernet.payload_mut().copy_from_slice(payload);
    frame
}

/// A frame with an IPv4 packet for the stack.
pub fn ipv4(from: Ipv4Address, protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    ipv4_to(STACK_MAC.into(), from, STACK_IP, protocol, payload)
}

struct Mac(EthernetAddress);

impl From<[u8; 6]> for Mac {
    fn from(bytes: [u8; 6]) -> Self {
        Self(EthernetAddress(bytes))
    }
}

fn ipv4_to(
    mac: Mac,
    from: Ipv4Address,
    to: Ipv4Address,
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
    ethernet(mac.0, EthernetProtocol::Ipv4, &packet)
}

/// A broadcast UDP datagram.
pub fn udp_broadcast(from_port: u16, to_port: u16, data: &[u8]) -> Vec<u8> {
    let repr = UdpRepr {
        src_port: from_port,
        dst_port: to_port,
    };
    let mut datagram = vec![0; 8 + data.len()];
    let to = Ipv4Address::BROADCAST;
    repr.emit(
        &mut UdpPacket::new_unchecked(&mut datagram[..]),
        &IpAddress::Ipv4(PEER_IP),
        &IpAddress::Ipv4(to),
        data.len(),
        |payload| payload.copy_from_slice(data),
        &ChecksumCapabilities::default(),
    );
    ipv4_to(
        Mac(EthernetAddress::BROADCAST),
        PEER_IP,
        to,
        IpProtocol::Udp,
        &datagram,
    )
}

/// An ARP message from the far host's address `from`.
pub fn arp(operation: ArpOperation, from: Ipv4Address, mac: EthernetAddress) -> Vec<u8> {
    let repr = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: mac,
        source_protocol_addr: from,
        target_hardware_addr: EthernetAddress(STACK_MAC),
        target_protocol_addr: STACK_IP,
    };
    let mut packet = vec![0; repr.buffer_len()];
    repr.emit(&mut ArpPacket::new_unchecked(&mut packet[..]));
    ethernet(EthernetAddress(STACK_MAC), EthernetProtocol::Arp, &packet)
}

/// An echo request.
pub fn ping(from: Ipv4Address, number: u16) -> Vec<u8> {
    let repr = Icmpv4Repr::EchoRequest {
        ident: 7,
        seq_no: number,
        data: b"are you there?",
    };
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(
        &mut Icmpv4Packet::new_unchecked(&mut message[..]),
        &ChecksumCapabilities::default(),
    );
    ipv4(from, IpProtocol::Icmp, &message)
}

/// A TCP segment without data.
pub fn segment(
    from: Ipv4Address,
    ports: (u16, u16),
    control: TcpControl,
    seq: i32,
    ack: Option<TcpSeqNumber>,
) -> Vec<u8> {
    segment_to(STACK_IP, from, ports, control, seq, ack)
}

/// A TCP segment without data, whatever it is carried by.
pub fn without_data(
    ports: (u16, u16),
    control: TcpControl,
    seq: i32,
    ack: Option<TcpSeqNumber>,
) -> TcpRepr<'static> {
    TcpRepr {
        src_port: ports.0,
        dst_port: ports.1,
        control,
        seq_number: TcpSeqNumber(seq),
        ack_number: ack,
        window_len: 1000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    }
}

/// A TCP segment without data, to an address that need not be the stack's.
pub fn segment_to(
    to: Ipv4Address,
    from: Ipv4Address,
    ports: (u16, u16),
    control: TcpControl,
    seq: i32,
    ack: Option<TcpSeqNumber>,
) -> Vec<u8> {
    tcp(to, from, &without_data(ports, control, seq, ack))
}

/// Any TCP segment, from any address to any.
pub fn tcp(to: Ipv4Address, from: Ipv4Address, repr: &TcpRepr<'_>) -> Vec<u8> {
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(
        &mut TcpPacket::new_unchecked(&mut bytes[..]),
        &IpAddress::Ipv4(from),
        &IpAddress::Ipv4(to),
        &ChecksumCapabilities::default(),
    );
    ipv4_to(STACK_MAC.into(), from, to, IpProtocol::Tcp, &bytes)
}

/// What the stack has sent.
#[derive(Debug, PartialEq)]
pub enum Sent {
    ArpRequest(Ipv4Address),
    ArpReply,
    Pong(u16),
    Tcp {
        to: Ipv4Address,
        to_port: u16,
        syn: bool,
        rst: bool,
        fin: bool,
        seq: TcpSeqNumber,
        ack: TcpSeqNumber,
        len: usize,
    },
    Other,
}

pub fn look(frame: &[u8]) -> Sent {
    let ethernet = EthernetFrame::new_checked(frame).unwrap();
    if ethernet.ethertype() == EthernetProtocol::Arp {
        let packet = ArpPacket::new_checked(ethernet.payload()).unwrap();
        return match packet.operation() {
            ArpOperation::Request => {
                let target = packet.target_protocol_addr();
                Sent::ArpRequest(Ipv4Address::new(target[0], target[1], target[2], target[3]))
            }
            _ => Sent::ArpReply,
        };
    }
    let packet = Ipv4Packet::new_checked(ethernet.payload()).unwrap();
    assert!(packet.verify_checksum());
    match packet.next_header() {
        IpProtocol::Icmp => {
            let message = Icmpv4Packet::new_checked(packet.payload()).unwrap();
            match Icmpv4Repr::parse(&message, &ChecksumCapabilities::default()) {
                Ok(Icmpv4Repr::EchoReply { seq_no, .. }) => Sent::Pong(seq_no),
                _ => Sent::Other,
            }
        }
        IpProtocol::Tcp => {
            let segment = TcpPacket::new_checked(packet.payload()).unwrap();
            Sent::Tcp {
                to: packet.dst_addr(),
                to_port: segment.dst_port(),
                syn: segment.syn(),
                rst: segment.rst(),
                fin: segment.fin(),
                seq: segment.seq_number(),
                ack: segment.ack_number(),
                len: segment.payload().len(),
            }
        }
        _ => Sent::Other,
    }
}
