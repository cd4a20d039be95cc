//! Frames, taken apart.

use std::net::IpAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv4Packet, Icmpv4Repr,
    Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Address, Ipv6Packet, Ipv6Repr,
    NdiscRepr, RawHardwareAddress, TcpPacket, TcpRepr, UdpPacket, UdpRepr,
};

use super::Host;

/// A frame, taken apart as far as the peer understands it.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Parsed<'a> {
    /// ARP.
    Arp(ArpRepr),
    /// Says that a host is at its addresses, or asks who has one (RFC 4861).
    Neighbor {
        /// Who says or asks it; an address that is being checked for
        /// duplicates is `::` here.
        from: Host<Ipv6Address>,
        /// The address that is asked for; `None` if nothing is asked.
        asks_for: Option<Ipv6Address>,
    },
    /// Asks for the routers of the link.
    RouterSolicitation {
        /// Who asks.
        from: Host<Ipv6Address>,
    },
    /// An answer to an echo request.
    EchoReply {
        /// Who answers.
        from: Host<IpAddr>,
        /// The request's identifier.
        ident: u16,
        /// The request's sequence number.
        seq_no: u16,
        /// The request's data.
        data: &'a [u8],
    },
    /// An echo request.
    EchoRequest {
        /// Who asks.
        from: Host<IpAddr>,
        /// Who is asked.
        to: Host<IpAddr>,
        /// Its identifier.
        ident: u16,
        /// Its sequence number.
        seq_no: u16,
        /// Its data.
        data: &'a [u8],
    },
    /// A TCP segment.
    Tcp {
        /// Who sent it.
        from: Host<IpAddr>,
        /// For whom it is.
        to: Host<IpAddr>,
        /// What it says.
        segment: TcpRepr<'a>,
    },
    /// A UDP datagram.
    Udp {
        /// Who sent it.
        from: Host<IpAddr>,
        /// For whom it is.
        to: Host<IpAddr>,
        /// The sender's port.
        src_port: u16,
        /// The receiver's port.
        dst_port: u16,
        /// Its payload.
        data: &'a [u8],
    },
}

/// The ends of a packet.
#[derive(Clone, Copy)]
struct Ends {
    from: Host<IpAddr>,
    to: Host<IpAddr>,
}

impl<'a> Parsed<'a> {
    /// Takes `frame` apart; `None` for all that is malformed, has a wrong
    /// checksum or is of another kind.
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        let payload = ethernet.payload();
        let ends = |from: IpAddr, to: IpAddr| Ends {
            from: Host {
                mac: ethernet.src_addr(),
                ip: from,
            },
            to: Host {
                mac: ethernet.dst_addr(),
                ip: to,
            },
        };
        match ethernet.ethertype() {
            EthernetProtocol::Arp => {
                let packet = ArpPacket::new_checked(payload).ok()?;
                Some(Self::Arp(ArpRepr::parse(&packet).ok()?))
            }
            EthernetProtocol::Ipv4 => {
                let packet = Ipv4Packet::new_checked(payload).ok()?;
                let ip = Ipv4Repr::parse(&packet, &ChecksumCapabilities::default()).ok()?;
                let ends = ends(ip.src_addr.into(), ip.dst_addr.into());
                Self::parse_payload(ends, ip.next_header, packet.payload())
            }
            EthernetProtocol::Ipv6 => {
                let packet = Ipv6Packet::new_checked(payload).ok()?;
                let ip = Ipv6Repr::parse(&packet).ok()?;
                let ends = ends(ip.src_addr.into(), ip.dst_addr.into());
                if ip.next_header == IpProtocol::Icmpv6 {
                    return Self::parse_icmpv6(ends, &ip, packet.payload());
                }
                Self::parse_payload(ends, ip.next_header, packet.payload())
            }
            _ => None,
        }
    }

    fn parse_payload(ends: Ends, protocol: IpProtocol, payload: &'a [u8]) -> Option<Self> {
        let checksums = ChecksumCapabilities::default();
        let Ends { from, to } = ends;
        let (source, destination) = (&from.ip.into(), &to.ip.into());
        match protocol {
            IpProtocol::Icmp => {
                let packet = Icmpv4Packet::new_checked(payload).ok()?;
                match Icmpv4Repr::parse(&packet, &checksums).ok()? {
                    Icmpv4Repr::EchoReply {
                        ident,
                        seq_no,
                        data,
                    } => Some(Self::echo_reply(ends, ident, seq_no, data)),
                    Icmpv4Repr::EchoRequest {
                        ident,
                        seq_no,
                        data,
                    } => Some(Self::echo_request(ends, ident, seq_no, data)),
                    _ => None,
                }
            }
            IpProtocol::Tcp => {
                let packet = TcpPacket::new_checked(payload).ok()?;
                let segment = TcpRepr::parse(&packet, source, destination, &checksums).ok()?;
                Some(Self::Tcp { from, to, segment })
            }
            IpProtocol::Udp => {
                let packet = UdpPacket::new_checked(payload).ok()?;
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

    fn parse_icmpv6(ends: Ends, ip: &Ipv6Repr, payload: &'a [u8]) -> Option<Self> {
        let checksums = ChecksumCapabilities::default();
        let packet = Icmpv6Packet::new_checked(payload).ok()?;
        let message = Icmpv6Repr::parse(&ip.src_addr, &ip.dst_addr, &packet, &checksums).ok()?;
        let from = Host {
            mac: ends.from.mac,
            ip: ip.src_addr,
        };
        match message {
            Icmpv6Repr::EchoReply {
                ident,
                seq_no,
                data,
            } => Some(Self::echo_reply(ends, ident, seq_no, data)),
            Icmpv6Repr::EchoRequest {
                ident,
                seq_no,
                data,
            } => Some(Self::echo_request(ends, ident, seq_no, data)),
            Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit {
                target_addr,
                lladdr,
            }) => Some(Self::Neighbor {
                from: Host {
                    mac: lladdr.map_or(from.mac, mac),
                    ..from
                },
                asks_for: Some(target_addr),
            }),
            Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert {
                target_addr,
                lladdr,
                ..
            }) => Some(Self::Neighbor {
                from: Host {
                    mac: lladdr.map_or(from.mac, mac),
                    ip: target_addr,
                },
                asks_for: None,
            }),
            Icmpv6Repr::Ndisc(NdiscRepr::RouterSolicit { .. }) => {
                Some(Self::RouterSolicitation { from })
            }
            _ => None,
        }
    }

    fn echo_reply(ends: Ends, ident: u16, seq_no: u16, data: &'a [u8]) -> Self {
        Self::EchoReply {
            from: ends.from,
            ident,
            seq_no,
            data,
        }
    }

    fn echo_request(ends: Ends, ident: u16, seq_no: u16, data: &'a [u8]) -> Self {
        Self::EchoRequest {
            from: ends.from,
            to: ends.to,
            ident,
            seq_no,
            data,
        }
    }
}

/// A link-layer address is 6 bytes long here, unless it is malformed.
fn mac(raw: RawHardwareAddress) -> EthernetAddress {
    let bytes = raw.as_bytes().try_into();
    bytes.map(EthernetAddress).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::{
        Ipv4Address, TcpControl, arp_request, echo_request, ndp, segment, tcp, udp,
    };
    use super::*;

    const A: Host = Host {
        mac: EthernetAddress([2, 0, 0, 0, 0, 1]),
        ip: Ipv4Address::new(10, 0, 2, 2),
    };
    const B: Host = Host {
        mac: EthernetAddress([2, 0, 0, 0, 0, 2]),
        ip: Ipv4Address::new(10, 0, 2, 15),
    };
    const A6: Host<Ipv6Address> = Host {
        mac: A.mac,
        ip: Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
    };
    const B6: Host<Ipv6Address> = Host {
        mac: B.mac,
        ip: Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 15),
    };

    /// Makes one of each kind and takes it apart again.
    fn round_trips(from: Host<IpAddr>, to: Host<IpAddr>) {
        let made = segment(1000, 80, TcpControl::Syn);
        let frame = tcp(from, to, &made);
        let segment = made;
        assert_eq!(
            Parsed::parse(&frame),
            Some(Parsed::Tcp { from, to, segment })
        );

        let frame = udp(from, to, 1, 2, b"hello");
        let parsed = Parsed::Udp {
            from,
            to,
            src_port: 1,
            dst_port: 2,
            data: b"hello",
        };
        assert_eq!(Parsed::parse(&frame), Some(parsed));

        let frame = echo_request(from, to, 1, 2, b"hello");
        let parsed = Parsed::EchoRequest {
            from,
            to,
            ident: 1,
            seq_no: 2,
            data: b"hello",
        };
        assert_eq!(Parsed::parse(&frame), Some(parsed));
    }

    #[test]
    fn what_was_made_can_be_taken_apart() {
        round_trips(A.any(), B.any());
        round_trips(A6.any(), B6.any());
        assert!(matches!(
            Parsed::parse(&arp_request(A, B.ip)),
            Some(Parsed::Arp(_))
        ));
        let neighbor = |from, asks_for| Some(Parsed::Neighbor { from, asks_for });
        assert_eq!(
            Parsed::parse(&ndp::neighbor_solicitation(A6, B6.ip)),
            neighbor(A6, Some(B6.ip))
        );
        assert_eq!(
            Parsed::parse(&ndp::neighbor_advertisement(A6, B6)),
            neighbor(A6, None)
        );
    }

    #[test]
    fn damaged_frames_are_none() {
        for (frame, first_guarded) in [
            (tcp(A, B, &segment(1000, 80, TcpControl::Syn)), 14),
            // The header of IPv6 has no checksum; the addresses are in TCP's.
            (tcp(A6, B6, &segment(1000, 80, TcpControl::Syn)), 14 + 8),
        ] {
            for length in 0..frame.len() {
                assert_eq!(Parsed::parse(&frame[..length]), None, "cut at {length}");
            }
            for index in first_guarded..frame.len() {
                let mut damaged = frame.clone();
                damaged[index] ^= 0x10;
                assert_eq!(Parsed::parse(&damaged), None, "damaged at {index}");
            }
        }
    }
}
