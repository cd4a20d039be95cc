//! A TCP segment that no socket processes: a look into it, and an answer.

use smoltcp::phy::{
    ChecksumCapabilities, Device as _, DeviceCapabilities, Medium, RxToken as _, TxToken as _,
};
use smoltcp::time::Instant;
use smoltcp::wire::{
    EthernetFrame, IpProtocol, IpRepr, IpVersion, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
    TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};

use crate::net::device::{Port, header_bytes};

/// The hops that an answer may take.
const HOP_LIMIT: u8 = 64;

/// What stands in the segment that answers another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) control: TcpControl,
    pub(super) seq: TcpSeqNumber,
    pub(super) ack: TcpSeqNumber,
}

/// A segment without data or options, between two ports.
pub(super) fn bare((from, to): (u16, u16), answer: Answer, window: u16) -> TcpRepr<'static> {
    TcpRepr {
        src_port: from,
        dst_port: to,
        control: answer.control,
        seq_number: answer.seq,
        ack_number: Some(answer.ack),
        window_len: window,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    }
}

/// Shows `decide` the segment in the frame that has arrived at `port`, and sends
/// the answer that it gives back to where the frame came from. What smoltcp
/// would not take is not shown, and has no answer.
pub(super) fn reply(
    port: &mut Port<'_>,
    now: Instant,
    decide: impl FnOnce(&TcpRepr<'_>) -> Option<Answer>,
) {
    let DeviceCapabilities {
        medium,
        checksum: checksums,
        ..
    } = port.capabilities();
    let Some((received, response)) = port.receive(now) else {
        return;
    };
    received.consume(|frame| {
        let Some((ethernet, ip, segment)) = parse(medium, frame, &checksums) else {
            return;
        };
        let Some(answer) = decide(&segment) else {
            return;
        };
        // Whatever comes is answered at once, never kept.
        let window = u16::MAX;
        let tcp = bare((segment.dst_port, segment.src_port), answer, window);
        let (to, from) = (ip.src_addr(), ip.dst_addr());
        let ip = IpRepr::new(from, to, IpProtocol::Tcp, tcp.buffer_len(), HOP_LIMIT);
        let header_bytes = header_bytes(medium);
        response.consume(header_bytes + ip.buffer_len(), |buffer| {
            if let Some(ethernet) = ethernet {
                let mut frame = EthernetFrame::new_unchecked(&mut *buffer);
                frame.set_src_addr(ethernet.dst_addr());
                frame.set_dst_addr(ethernet.src_addr());
                frame.set_ethertype(ethernet.ethertype());
            }
            let packet = &mut buffer[header_bytes..];
            ip.emit(&mut *packet, &checksums);
            let bytes = &mut packet[ip.header_len()..];
            tcp.emit(&mut TcpPacket::new_unchecked(bytes), &from, &to, &checksums);
        });
    });
}

/// Whether smoltcp would take the segment that has arrived at `port`.
pub(in crate::net) fn is_sound(port: &mut Port<'_>, now: Instant) -> bool {
    let capabilities = port.capabilities();
    port.receive(now).is_some_and(|(received, _)| {
        received
            .consume(|frame| parse(capabilities.medium, frame, &capabilities.checksum).is_some())
    })
}

type Parsed<'a> = (Option<EthernetFrame<&'a [u8]>>, IpRepr, TcpRepr<'a>);

fn parse<'a>(
    medium: Medium,
    frame: &'a [u8],
    checksums: &ChecksumCapabilities,
) -> Option<Parsed<'a>> {
    let ethernet = match medium {
        Medium::Ethernet => Some(EthernetFrame::new_checked(frame).ok()?),
        _ => None,
    };
    let packet = frame.get(header_bytes(medium)..)?;
    let (ip, bytes) = match IpVersion::of_packet(packet).ok()? {
        IpVersion::Ipv4 => {
            let packet = Ipv4Packet::new_checked(packet).ok()?;
            let ip = Ipv4Repr::parse(&packet, checksums).ok()?;
            (IpRepr::Ipv4(ip), packet.payload())
        }
        IpVersion::Ipv6 => {
            let packet = Ipv6Packet::new_checked(packet).ok()?;
            let ip = Ipv6Repr::parse(&packet).ok()?;
            (IpRepr::Ipv6(ip), packet.payload())
        }
    };
    if ip.next_header() != IpProtocol::Tcp {
        return None;
    }
    let packet = TcpPacket::new_checked(bytes).ok()?;
    let segment = TcpRepr::parse(&packet, &ip.src_addr(), &ip.dst_addr(), checksums).ok()?;
    Some((ethernet, ip, segment))
}

/// Where in its stream a segment that was sent ends, and what it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) struct Marks {
    /// The sequence number behind it.
    pub(super) end: TcpSeqNumber,
    /// The sequence number that is awaited.
    pub(super) ack: TcpSeqNumber,
}

impl Marks {
    /// Those of the segment in a frame that smoltcp has written, which has no
    /// options or extensions in front of it.
    pub(in crate::net) fn of(medium: Medium, frame: &[u8]) -> Option<Self> {
        const TCP: u8 = 6;
        let packet = frame.get(header_bytes(medium)..)?;
        let at = match *packet.get(..10)? {
            [0x45, .., TCP] => 20,
            [version, _, _, _, _, _, TCP, ..] if version >> 4 == 6 => 40,
            _ => return None,
        };
        let segment = TcpPacket::new_checked(packet.get(at..)?).ok()?;
        Some(Self {
            end: segment.seq_number() + segment.segment_len(),
            ack: segment.ack_number(),
        })
    }
}
