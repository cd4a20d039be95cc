//! A look at an ICMP message before smoltcp sees it: whom it concerns.

use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::{
    EthernetFrame, Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, Icmpv6DstUnreachable,
    Icmpv6Message, Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv6Packet,
};

/// An IPv4 header without options.
const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Message {
    /// The answer to a ping from here.
    EchoReply {
        remote: IpAddr,
        local: IpAddr,
        ident: u16,
        /// The length of the message, in bytes.
        len: usize,
    },
    /// Nobody listens where a UDP datagram from here went to. Its checksums are
    /// right.
    PortUnreachable {
        /// Where the datagram came from.
        local: SocketAddr,
        /// And where it went to.
        remote: SocketAddr,
    },
    /// Something else.
    Other,
}

/// Looks at the ICMP message in `frame`, whose headers have been looked at.
pub(in crate::net) fn look(frame: &[u8]) -> Message {
    let packet = EthernetFrame::new_checked(frame).map(|frame| frame.payload());
    packet.map_or(Message::Other, look_own)
}

/// The same in a packet that the guest has sent to itself.
pub(in crate::net) fn look_own(packet: &[u8]) -> Message {
    let message = match packet.first().map(|byte| byte >> 4) {
        Some(4) => Ipv4Packet::new_checked(packet).and_then(|packet| parse_ipv4(&packet)),
        Some(6) => Ipv6Packet::new_checked(packet).and_then(|packet| parse_ipv6(&packet)),
        _ => Err(smoltcp::wire::Error),
    };
    message.unwrap_or(Message::Other)
}

fn parse_ipv4(packet: &Ipv4Packet<&[u8]>) -> Result<Message, smoltcp::wire::Error> {
    let message = Icmpv4Packet::new_checked(packet.payload())?;
    Ok(match message.msg_type() {
        Icmpv4Message::EchoReply => Message::EchoReply {
            remote: packet.src_addr().into(),
            local: packet.dst_addr().into(),
            ident: message.echo_ident(),
            len: packet.payload().len(),
        },
        Icmpv4Message::DstUnreachable
            if message.msg_code() == Icmpv4DstUnreachable::PortUnreachable.into()
                && packet.verify_checksum()
                && message.verify_checksum() =>
        {
            quoted_ipv4(message.data()).unwrap_or(Message::Other)
        }
        _ => Message::Other,
    })
}

/// `packet` is the beginning of one that found nobody: its header, and as little
/// as 8 bytes behind it, for which smoltcp's own reading of it is too strict.
fn quoted_ipv4(packet: &[u8]) -> Option<Message> {
    let header = Ipv4Packet::new_unchecked(packet.get(..IPV4_HEADER_BYTES)?);
    let datagram = packet.get(header.header_len().into()..)?;
    (header.next_header() == IpProtocol::Udp)
        .then(|| port_unreachable(header.src_addr().into(), header.dst_addr().into(), datagram))
}

fn parse_ipv6(packet: &Ipv6Packet<&[u8]>) -> Result<Message, smoltcp::wire::Error> {
    let message = Icmpv6Packet::new_checked(packet.payload())?;
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    Ok(match message.msg_type() {
        Icmpv6Message::EchoReply => Message::EchoReply {
            remote: from.into(),
            local: to.into(),
            ident: message.echo_ident(),
            len: packet.payload().len(),
        },
        Icmpv6Message::DstUnreachable
            if message.msg_code() == Icmpv6DstUnreachable::PortUnreachable.into()
                && message.verify_checksum(&from, &to) =>
        {
            quoted_ipv6(message.payload()).unwrap_or(Message::Other)
        }
        _ => Message::Other,
    })
}

/// As [`quoted_ipv4`].
fn quoted_ipv6(packet: &[u8]) -> Option<Message> {
    let (header, datagram) = packet.split_at_checked(IPV6_HEADER_BYTES)?;
    let header = Ipv6Packet::new_unchecked(header);
    (header.next_header() == IpProtocol::Udp)
        .then(|| port_unreachable(header.src_addr().into(), header.dst_addr().into(), datagram))
}

/// `datagram` is the beginning of the one that found nobody.
fn port_unreachable(from: IpAddr, to: IpAddr, datagram: &[u8]) -> Message {
    let &[a, b, c, d, ..] = datagram else {
        return Message::Other;
    };
    Message::PortUnreachable {
        local: SocketAddr::new(from, u16::from_be_bytes([a, b])),
        remote: SocketAddr::new(to, u16::from_be_bytes([c, d])),
    }
}
