//! A look at a frame before smoltcp sees it: to whom it belongs, and whether
//! it may pass at all.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, Icmpv4Message, Icmpv4Packet, Icmpv6Message, Icmpv6Packet,
    IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket, TcpSeqNumber, UdpPacket,
};

use super::ip::loopback::Link;

/// Where the DHCP client of RFC 2131 listens.
const DHCP_CLIENT_PORT: u16 = 68;

/// The hop limit that shows that a message has passed no router (RFC 4861 §3.1).
const FROM_THIS_LINK: u8 = 255;

/// IGMP's query (RFC 2236 §2.1).
const IGMP_QUERY: u8 = 0x11;

/// The two ends of a TCP connection, which are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
}

impl Key {
    /// A hash that a peer, who chooses half of the key, cannot aim at one
    /// bucket: `secret` is drawn at the start.
    pub(super) fn hash(&self, secret: [u64; 2]) -> u64 {
        let ports = u64::from(self.local_port) << 16 | u64::from(self.remote_port);
        match (&self.remote, &self.local) {
            (IpAddr::V4(remote), IpAddr::V4(local)) => {
                let first = u64::from(remote.to_bits()) << 32 | ports;
                let second = u64::from(local.to_bits());
                fold(fold(first, secret[0]) ^ second, secret[1])
            }
            (remote, local) => {
                let [local, remote] = [local, remote].map(to_bits);
                let [first, second] = secret;
                let hash = fold(ports, first);
                let hash = fold(hash ^ (remote >> 64) as u64, second);
                let hash = fold(hash ^ remote as u64, first);
                let hash = fold(hash ^ (local >> 64) as u64, second);
                fold(hash ^ local as u64, first)
            }
        }
    }
}

fn to_bits(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A multiplication into 128 bits, folded: every bit of both moves all others.
fn fold(value: u64, secret: u64) -> u64 {
    let product = u128::from(value ^ secret) * u128::from(secret | 1 << 63);
    product as u64 ^ (product >> 64) as u64
}

/// What a TCP segment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It opens a connection: SYN alone.
    Open,
    /// It belongs to one.
    Other,
}

/// The part of the peer's stream that a TCP segment carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Its sequence number.
    pub(super) sequence: u32,
    /// Its data.
    pub(super) bytes: u32,
}

/// What a segment of the peer says of our stream and of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// What it awaits.
    pub(super) ack: TcpSeqNumber,
    /// Its window, unscaled.
    pub(super) window: u16,
    /// What it will send next.
    pub(super) next: TcpSeqNumber,
    /// It carries nothing that is to be acknowledged.
    pub(super) is_empty: bool,
    /// It is the end of the peer's stream.
    pub(super) is_end: bool,
}

/// Whom a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A neighbour asks for an address or tells one: ARP, or the same of IPv6.
    Neighbour,
    /// A router of IPv6 tells about itself.
    Router,
    /// A router asks for the multicast groups that are listened to.
    Membership,
    /// A TCP segment, whose checksum nobody has looked at; it says something if
    /// it is of a connection.
    Tcp(Key, Kind, Span, Option<Heard>),
    /// A question whether a host is there, which wants to be answered.
    Echo { from: IpAddr, to: IpAddr },
    /// Another ICMP message.
    Icmp,
    /// A UDP datagram with so many bytes behind its header.
    Udp(Key, u16),
    /// An answer to the DHCP client.
    Dhcp,
    /// Nobody.
    Dropped(Reason),
}

/// Why a frame is dropped at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// A header is cut short or contradicts itself.
    Malformed,
    /// A fragment of a packet; these are not put together.
    Fragment,
    /// It comes from, or goes to, an address that has no place on a wire.
    Martian,
    /// A protocol, or a kind of address, that nobody here serves.
    Unsupported,
}

/// Looks at the headers of `frame`, not at checksums.
pub(super) fn classify(frame: &[u8]) -> Frame {
    parse(frame).unwrap_or(Frame::Dropped(Reason::Malformed))
}

/// Looks at the headers of a packet that the guest has sent to itself.
pub(super) fn classify_own(packet: &[u8]) -> Frame {
    let parsed = match packet.first().map(|byte| byte >> 4) {
        Some(4) => parse_ipv4(packet, true, Link::Loopback),
        Some(6) => parse_ipv6(packet, true, Link::Loopback),
        _ => Err(smoltcp::wire::Error),
    };
    parsed.unwrap_or(Frame::Dropped(Reason::Malformed))
}

type Parsed = Result<Frame, smoltcp::wire::Error>;

fn parse(frame: &[u8]) -> Parsed {
    let ethernet = EthernetFrame::new_checked(frame)?;
    let unicast = ethernet.dst_addr().is_unicast();
    match ethernet.ethertype() {
        EthernetProtocol::Ipv4 => parse_ipv4(ethernet.payload(), unicast, Link::Card),
        EthernetProtocol::Ipv6 => parse_ipv6(ethernet.payload(), unicast, Link::Card),
        EthernetProtocol::Arp => Ok(Frame::Neighbour),
        _ => Ok(Frame::Dropped(Reason::Unsupported)),
    }
}

/// `unicast`: whether the frame was sent to one host.
#[inline(always)] // What the card cannot bring costs it nothing.
fn parse_ipv4(packet: &[u8], unicast: bool, link: Link) -> Parsed {
    let packet = Ipv4Packet::new_checked(packet)?;
    if packet.version() != 4 {
        return Ok(Frame::Dropped(Reason::Malformed));
    }
    if packet.more_frags() || packet.frag_offset() != 0 {
        return Ok(Frame::Dropped(Reason::Fragment));
    }
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    let own = |address: Ipv4Addr| link == Link::Loopback && address.is_loopback();
    if link == Link::Card && (from.is_loopback() || to.is_loopback()) {
        return Ok(Frame::Dropped(Reason::Martian));
    }
    // Nobody can be answered at such an address, and smoltcp does not expect to.
    if !is_host(from) && !own(from) {
        return Ok(Frame::Dropped(Reason::Unsupported));
    }
    match packet.next_header() {
        // A connection is between two hosts.
        IpProtocol::Tcp if unicast && (is_host(to) || own(to)) => {
            parse_tcp(from.into(), to.into(), packet.payload())
        }
        IpProtocol::Icmp => {
            let message_type = packet.payload().first().ok_or(smoltcp::wire::Error)?;
            Ok(match Icmpv4Message::from(*message_type) {
                Icmpv4Message::EchoRequest => Frame::Echo {
                    from: from.into(),
                    to: to.into(),
                },
                _ => Frame::Icmp,
            })
        }
        IpProtocol::Udp => {
            let datagram = UdpPacket::new_checked(packet.payload())?;
            if datagram.dst_port() == DHCP_CLIENT_PORT {
                return Ok(Frame::Dhcp);
            }
            Ok(parse_udp(from.into(), to.into(), &datagram))
        }
        IpProtocol::Igmp if packet.payload().first() == Some(&IGMP_QUERY) => Ok(Frame::Membership),
        _ => Ok(Frame::Dropped(Reason::Unsupported)),
    }
}

/// Extension headers are not for a host like this one, but for the one that
/// queries for multicast groups carry; packets with others are dropped.
fn parse_ipv6(packet: &[u8], unicast: bool, link: Link) -> Parsed {
    let packet = Ipv6Packet::new_checked(packet)?;
    if packet.version() != 6 {
        return Ok(Frame::Dropped(Reason::Malformed));
    }
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    let own = |address: Ipv6Addr| link == Link::Loopback && address.is_loopback();
    let on_wire = |address: Ipv6Addr| !address.is_loopback() && !is_mapped(address);
    if link == Link::Card && !(on_wire(from) && on_wire(to)) {
        return Ok(Frame::Dropped(Reason::Martian));
    }
    if !is_host_v6(from) && !own(from) {
        return Ok(Frame::Dropped(Reason::Unsupported));
    }
    match packet.next_header() {
        IpProtocol::Tcp if unicast && (is_host_v6(to) || own(to)) => {
            parse_tcp(from.into(), to.into(), packet.payload())
        }
        IpProtocol::Udp => {
            let datagram = UdpPacket::new_checked(packet.payload())?;
            Ok(parse_udp(from.into(), to.into(), &datagram))
        }
        IpProtocol::Icmpv6 => parse_icmpv6(&packet),
        IpProtocol::HopByHop => parse_hop_by_hop(packet.payload()),
        IpProtocol::Ipv6Frag => Ok(Frame::Dropped(Reason::Fragment)),
        _ => Ok(Frame::Dropped(Reason::Unsupported)),
    }
}

fn parse_icmpv6(packet: &Ipv6Packet<&[u8]>) -> Parsed {
    let message_type = packet.payload().first().ok_or(smoltcp::wire::Error)?;
    let from_this_link = packet.hop_limit() == FROM_THIS_LINK;
    Ok(match Icmpv6Message::from(*message_type) {
        Icmpv6Message::NeighborSolicit | Icmpv6Message::NeighborAdvert if from_this_link => {
            Frame::Neighbour
        }
        Icmpv6Message::RouterAdvert if from_this_link => Frame::Router,
        Icmpv6Message::EchoRequest => Frame::Echo {
            from: packet.src_addr().into(),
            to: packet.dst_addr().into(),
        },
        Icmpv6Message::EchoReply
        | Icmpv6Message::DstUnreachable
        | Icmpv6Message::PktTooBig
        | Icmpv6Message::TimeExceeded
        | Icmpv6Message::ParamProblem => Frame::Icmp,
        _ => Frame::Dropped(Reason::Unsupported),
    })
}

/// RFC 8200 §4.3; what is queried for comes with one (RFC 3810 §5).
fn parse_hop_by_hop(payload: &[u8]) -> Parsed {
    let &[next, units, ..] = payload else {
        return Err(smoltcp::wire::Error);
    };
    let message = payload.get(8 * (usize::from(units) + 1)..);
    let message = message.ok_or(smoltcp::wire::Error)?;
    let query = u8::from(Icmpv6Message::MldQuery);
    if IpProtocol::from(next) == IpProtocol::Icmpv6 && message.first() == Some(&query) {
        Ok(Frame::Membership)
    } else {
        Ok(Frame::Dropped(Reason::Unsupported))
    }
}

fn parse_udp(remote: IpAddr, local: IpAddr, datagram: &UdpPacket<&[u8]>) -> Frame {
    let key = Key {
        local,
        remote,
        local_port: datagram.dst_port(),
        remote_port: datagram.src_port(),
    };
    // Its length stands in 16 bits.
    Frame::Udp(key, datagram.payload().len() as u16)
}

#[inline(always)]
fn parse_tcp(remote: IpAddr, local: IpAddr, segment: &[u8]) -> Parsed {
    let segment = TcpPacket::new_checked(segment)?;
    let key = Key {
        local,
        remote,
        local_port: segment.dst_port(),
        remote_port: segment.src_port(),
    };
    let opens = segment.syn() && !segment.ack() && !segment.rst() && !segment.fin();
    let kind = if opens { Kind::Open } else { Kind::Other };
    let span = Span {
        sequence: segment.seq_number().0 as u32,
        bytes: segment.payload().len() as u32,
    };
    let heard = (segment.ack() && !segment.rst()).then(|| Heard {
        ack: segment.ack_number(),
        // The one of the handshake is on another scale.
        window: if segment.syn() {
            0
        } else {
            segment.window_len()
        },
        next: segment.seq_number() + segment.segment_len(),
        is_empty: segment.segment_len() == 0,
        is_end: segment.fin(),
    });
    Ok(Frame::Tcp(key, kind, span, heard))
}

/// Whether the checksums of a frame with a message of ICMP are right.
pub(super) fn is_intact(frame: &[u8]) -> bool {
    let intact = || -> Result<bool, smoltcp::wire::Error> {
        let ethernet = EthernetFrame::new_checked(frame)?;
        if ethernet.ethertype() == EthernetProtocol::Ipv4 {
            let packet = Ipv4Packet::new_checked(ethernet.payload())?;
            let message = Icmpv4Packet::new_checked(packet.payload())?;
            Ok(packet.verify_checksum() && message.verify_checksum())
        } else {
            let packet = Ipv6Packet::new_checked(ethernet.payload())?;
            let message = Icmpv6Packet::new_checked(packet.payload())?;
            Ok(message.verify_checksum(&packet.src_addr(), &packet.dst_addr()))
        }
    };
    intact().unwrap_or(false)
}

/// Whether a single host on a network may have `address`.
pub(super) fn is_host(address: Ipv4Addr) -> bool {
    !address.is_unspecified()
        && !address.is_broadcast()
        && !address.is_multicast()
        && !address.is_loopback()
}

/// The same of IPv6.
pub(super) fn is_host_v6(address: Ipv6Addr) -> bool {
    !address.is_unspecified()
        && !address.is_multicast()
        && !address.is_loopback()
        && !is_mapped(address)
}

/// Whether `address` stands for one of IPv4, for programs only (RFC 4291
/// §2.5.5.2).
fn is_mapped(address: Ipv6Addr) -> bool {
    address.to_ipv4_mapped().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

    fn key(remote_port: u16) -> Key {
        Key {
            local: Ipv4Addr::new(10, 0, 2, 15).into(),
            remote: Ipv4Addr::new(10, 0, 2, 2).into(),
            local_port: 80,
            remote_port,
        }
    }

    fn key_v6(remote: u128, remote_port: u16) -> Key {
        Key {
            local: Ipv6Addr::from_bits(0x2001_0db8 << 96 | 15).into(),
            remote: Ipv6Addr::from_bits(remote).into(),
            local_port: 80,
            remote_port,
        }
    }

    fn ipv4_segment() -> std::vec::Vec<u8> {
        let mut frame = std::vec![0; 54];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&40u16.to_be_bytes());
        frame[23] = 6;
        frame[26..30].copy_from_slice(&[10, 0, 2, 2]);
        frame[30..34].copy_from_slice(&[10, 0, 2, 15]);
        fill_segment(&mut frame[34..]);
        frame
    }

    fn ipv6_segment() -> std::vec::Vec<u8> {
        let mut frame = std::vec![0; 74];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14] = 0x60;
        frame[18..20].copy_from_slice(&20u16.to_be_bytes());
        frame[20] = 6;
        frame[21] = 64;
        frame[22..38].copy_from_slice(&(0x2001_0db8_u128 << 96 | 2).to_be_bytes());
        frame[38..54].copy_from_slice(&(0x2001_0db8_u128 << 96 | 15).to_be_bytes());
        fill_segment(&mut frame[54..]);
        frame
    }

    fn fill_segment(segment: &mut [u8]) {
        segment[..2].copy_from_slice(&1234u16.to_be_bytes());
        segment[2..4].copy_from_slice(&80u16.to_be_bytes());
        segment[4..8].copy_from_slice(&0x8000_0001_u32.to_be_bytes());
        segment[12] = 5 << 4;
        segment[13] = 0x02;
    }

    #[test]
    fn a_frame_that_is_cut_short_anywhere_is_malformed() {
        let remote = 0x2001_0db8 << 96 | 2;
        for (frame, key) in [
            (ipv4_segment(), key(1234)),
            (ipv6_segment(), key_v6(remote, 1234)),
        ] {
            let span = Span {
                sequence: 0x8000_0001,
                bytes: 0,
            };
            assert_eq!(classify(&frame), Frame::Tcp(key, Kind::Open, span, None));
            for len in 0..frame.len() {
                assert_eq!(
                    classify(&frame[..len]),
                    Frame::Dropped(Reason::Malformed),
                    "{len}"
                );
            }
        }
    }

    #[test]
    fn fragments_and_extension_headers_are_dropped() {
        let mut frame = ipv4_segment();
        frame[20] = 0x20; // More fragments.
        assert_eq!(classify(&frame), Frame::Dropped(Reason::Fragment));
        for (next, reason) in [
            (0, Reason::Unsupported),  // Hop-by-hop options, then no query.
            (43, Reason::Unsupported), // Routing.
            (44, Reason::Fragment),
            (50, Reason::Unsupported), // Encrypted.
            (60, Reason::Unsupported), // Options for the destination.
            (59, Reason::Unsupported), // Nothing.
        ] {
            let mut frame = ipv6_segment();
            frame[20] = next;
            frame[54..56].copy_from_slice(&[6, 0]);
            assert_eq!(classify(&frame), Frame::Dropped(reason), "{next}");
        }
    }

    #[test]
    fn addresses_without_a_place_on_a_wire_are_told_apart() {
        for place in [26, 30] {
            let mut frame = ipv4_segment();
            frame[place..place + 4].copy_from_slice(&[127, 0, 0, 1]);
            assert_eq!(classify(&frame), Frame::Dropped(Reason::Martian));
        }
        let mapped = Ipv4Addr::new(10, 0, 2, 2).to_ipv6_mapped();
        for (place, address) in [22, 38]
            .into_iter()
            .flat_map(|place| [(place, Ipv6Addr::LOCALHOST), (place, mapped)])
        {
            let mut frame = ipv6_segment();
            frame[place..place + 16].copy_from_slice(&address.octets());
            assert_eq!(classify(&frame), Frame::Dropped(Reason::Martian));
        }
    }

    /// Messages about neighbours that a router has passed on are forged.
    #[test]
    fn neighbours_are_on_this_link() {
        let mut frame = ipv6_segment();
        frame[20] = 58;
        for (message_type, kind) in [
            (134, Frame::Router),
            (135, Frame::Neighbour),
            (136, Frame::Neighbour),
        ] {
            frame[54] = message_type;
            frame[21] = 255;
            assert_eq!(classify(&frame), kind);
            frame[21] = 254;
            assert_eq!(classify(&frame), Frame::Dropped(Reason::Unsupported));
        }
        frame[54] = 129;
        assert_eq!(classify(&frame), Frame::Icmp);
    }

    #[test]
    fn neighbouring_keys_spread_over_the_buckets() {
        let keys: [fn(u16) -> Key; 3] = [
            key,
            |port| key_v6(0x2001_0db8 << 96, port),
            |low| key_v6(0x2001_0db8 << 96 | u128::from(low), 1234),
        ];
        for make in keys {
            let mut buckets = [0; 64];
            for number in 0..6_400 {
                buckets[(make(number).hash(SECRET) % 64) as usize] += 1;
            }
            assert!(
                buckets.iter().all(|&count| (50..200).contains(&count)),
                "{buckets:?}"
            );
        }
    }
}
