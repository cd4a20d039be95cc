//! A look at a frame before smoltcp sees it: to whom it belongs, and whether
//! it may pass at all.

use core::net::Ipv4Addr;

use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket, UdpPacket,
};

/// Where the DHCP client of RFC 2131 listens.
const DHCP_CLIENT_PORT: u16 = 68;

/// The two ends of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) local: Ipv4Addr,
    pub(super) remote: Ipv4Addr,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
}

impl Key {
    /// A hash that a peer, who chooses half of the key, cannot aim at one
    /// bucket: `secret` is drawn at the start.
    pub(super) fn hash(self, secret: [u64; 2]) -> u64 {
        let ports = u64::from(self.local_port) << 16 | u64::from(self.remote_port);
        let first = u64::from(self.remote.to_bits()) << 32 | ports;
        let second = u64::from(self.local.to_bits());
        fold(fold(first, secret[0]) ^ second, secret[1])
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

/// Whom a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Address resolution.
    Arp,
    /// A TCP segment.
    Tcp(Key, Kind, Span),
    /// An ICMP message.
    Icmp,
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
    /// A protocol, or a kind of address, that nobody here serves.
    Unsupported,
}

/// Looks at the headers of `frame`. Checksums are smoltcp's business.
pub(super) fn classify(frame: &[u8]) -> Frame {
    parse(frame).unwrap_or(Frame::Dropped(Reason::Malformed))
}

fn parse(frame: &[u8]) -> Result<Frame, smoltcp::wire::Error> {
    let ethernet = EthernetFrame::new_checked(frame)?;
    match ethernet.ethertype() {
        EthernetProtocol::Arp => return Ok(Frame::Arp),
        EthernetProtocol::Ipv4 => {}
        _ => return Ok(Frame::Dropped(Reason::Unsupported)),
    }
    let packet = Ipv4Packet::new_checked(ethernet.payload())?;
    if packet.version() != 4 {
        return Ok(Frame::Dropped(Reason::Malformed));
    }
    if packet.more_frags() || packet.frag_offset() != 0 {
        return Ok(Frame::Dropped(Reason::Fragment));
    }
    // Nobody can be answered at such an address, and smoltcp does not expect to.
    if !is_host(packet.src_addr()) {
        return Ok(Frame::Dropped(Reason::Unsupported));
    }
    match packet.next_header() {
        IpProtocol::Tcp => {
            let segment = TcpPacket::new_checked(packet.payload())?;
            // A connection is between two hosts.
            if !ethernet.dst_addr().is_unicast() || !is_host(packet.dst_addr()) {
                return Ok(Frame::Dropped(Reason::Unsupported));
            }
            let key = Key {
                local: packet.dst_addr(),
                remote: packet.src_addr(),
                local_port: segment.dst_port(),
                remote_port: segment.src_port(),
            };
            let opens = segment.syn() && !segment.ack() && !segment.rst() && !segment.fin();
            let kind = if opens { Kind::Open } else { Kind::Other };
            let span = Span {
                sequence: segment.seq_number().0 as u32,
                bytes: segment.payload().len() as u32,
            };
            Ok(Frame::Tcp(key, kind, span))
        }
        IpProtocol::Icmp => Ok(Frame::Icmp),
        IpProtocol::Udp => {
            let datagram = UdpPacket::new_checked(packet.payload())?;
            if datagram.dst_port() == DHCP_CLIENT_PORT {
                Ok(Frame::Dhcp)
            } else {
                Ok(Frame::Dropped(Reason::Unsupported))
            }
        }
        _ => Ok(Frame::Dropped(Reason::Unsupported)),
    }
}

/// Whether a single host may have `address`.
pub(super) fn is_host(address: Ipv4Addr) -> bool {
    !address.is_unspecified()
        && !address.is_broadcast()
        && !address.is_multicast()
        && !address.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

    fn key(remote_port: u16) -> Key {
        Key {
            local: Ipv4Addr::new(10, 0, 2, 15),
            remote: Ipv4Addr::new(10, 0, 2, 2),
            local_port: 80,
            remote_port,
        }
    }

    #[test]
    fn a_frame_that_is_cut_short_anywhere_is_malformed() {
        let mut frame = std::vec![0; 54];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&40u16.to_be_bytes());
        frame[23] = 6;
        frame[26..30].copy_from_slice(&[10, 0, 2, 2]);
        frame[30..34].copy_from_slice(&[10, 0, 2, 15]);
        frame[34..36].copy_from_slice(&1234u16.to_be_bytes());
        frame[36..38].copy_from_slice(&80u16.to_be_bytes());
        frame[46] = 5 << 4;
        frame[47] = 0x02;
        frame[38..42].copy_from_slice(&0x8000_0001_u32.to_be_bytes());
        let span = Span {
            sequence: 0x8000_0001,
            bytes: 0,
        };
        let expected = Frame::Tcp(key(1234), Kind::Open, span);
        assert_eq!(classify(&frame), expected);
        for len in 0..frame.len() {
            assert_eq!(
                classify(&frame[..len]),
                Frame::Dropped(Reason::Malformed),
                "{len}"
            );
        }
        frame[20] = 0x20; // More fragments.
        assert_eq!(classify(&frame), Frame::Dropped(Reason::Fragment));
    }

    #[test]
    fn neighbouring_ports_spread_over_the_buckets() {
        let mut buckets = [0; 64];
        for port in 0..6_400 {
            buckets[(key(port).hash(SECRET) % 64) as usize] += 1;
        }
        assert!(
            buckets.iter().all(|&count| (50..200).contains(&count)),
            "{buckets:?}"
        );
    }
}
