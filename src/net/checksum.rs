//! The checksums of TCP and UDP in frames of Ethernet (RFC 1071, RFC 9293
//! §3.1, RFC 768): finished here where the card does not do it.
//!
//! smoltcp leaves them alone at the card's interface. Its own sums take two
//! bytes a step, these eight.

use crate::drivers::ETHERNET_HEADER_BYTES;
use crate::drivers::offload::{Checksum, Unfinished};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Where a segment or datagram stands in a frame, and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    protocol: u8,
    start: usize,
    end: usize,
    /// The sum of the pseudo header.
    pseudo: u64,
    /// Whether the sum may be left out.
    optional: bool,
}

impl Place {
    /// That of the TCP segment or UDP datagram in `frame`, if it has one that is
    /// whole and has no headers of IPv6's extensions before it.
    #[inline(never)]
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let header: &[u8; 34] = frame.first_chunk()?;
        let number = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
        let is_v4 = number(12) == 0x0800;
        let (start, end, protocol, addresses) = if is_v4 {
            let is_fragment = number(20) & 0x3fff != 0;
            if is_fragment {
                return None;
            }
            let start = ETHERNET_HEADER_BYTES + usize::from(header[14] & 0x0f) * 4;
            let end = ETHERNET_HEADER_BYTES + number(16);
            (start, end, header[23], sum(&header[26..34]))
        } else if number(12) == 0x86dd {
            let header: &[u8; 54] = frame.first_chunk()?;
            (54, 54 + number(18), header[20], sum(&header[22..54]))
        } else {
            return None;
        };
        let segment = frame.get(start..end)?;
        let bytes = match protocol {
            TCP if segment.len() >= 20 => segment.len(),
            UDP if segment.len() >= 8 => {
                // What stands behind it is not part of it.
                let bytes = usize::from(u16::from_be_bytes([segment[4], segment[5]]));
                Some(bytes).filter(|bytes| (8..=segment.len()).contains(bytes))?
            }
            _ => return None,
        };
        let ends = u64::from(u16::from(protocol).to_be()) + u64::from((bytes as u16).to_be());
        Some(Self {
            protocol,
            start,
            end: start + bytes,
            pseudo: addresses + ends,
            optional: protocol == UDP && is_v4,
        })
    }

    /// Where the checksum stands, from the segment's start on.
    fn offset(self) -> usize {
        if self.protocol == TCP { 16 } else { 6 }
    }

    fn field(self, frame: &mut [u8]) -> &mut [u8] {
        &mut frame[self.start + self.offset()..][..2]
    }

    /// Writes the checksum.
    pub(super) fn finish(self, frame: &mut [u8]) {
        self.field(frame).fill(0);
        let sum = !fold(self.pseudo + sum(&frame[self.start..self.end]));
        // None at all would be written as 0.
        let sum = if sum == 0 && self.protocol == UDP {
            !0
        } else {
            sum
        };
        self.field(frame).copy_from_slice(&sum.to_ne_bytes());
    }

    /// Writes what the card needs to finish the checksum.
    pub(super) fn prepare(self, frame: &mut [u8]) -> Unfinished {
        let sum = fold(self.pseudo);
        self.field(frame).copy_from_slice(&sum.to_ne_bytes());
        self.unfinished()
    }

    fn unfinished(self) -> Unfinished {
        // What stands before it is at most 74 bytes.
        Unfinished {
            start: self.start as u16,
            offset: self.offset() as u16,
        }
    }

    /// How many bytes stand before the data of a TCP segment.
    pub(super) fn header_bytes(self, frame: &[u8]) -> usize {
        self.start + usize::from(frame[self.start + 12] >> 4) * 4
    }

    fn is_right(self, frame: &[u8]) -> bool {
        let field = &frame[self.start + self.offset()..][..2];
        if self.protocol == UDP && field == [0, 0] {
            return self.optional;
        }
        fold(self.pseudo + sum(&frame[self.start..self.end])) == !0
    }
}

/// Whether the checksum in a frame with a TCP segment or UDP datagram is right,
/// by what the card says of it or else by itself.
pub(super) fn is_right(frame: &[u8], said: Checksum) -> bool {
    if said == Checksum::Right {
        return true;
    }
    let Some(place) = Place::of(frame) else {
        return false;
    };
    said == Checksum::Unfinished(place.unfinished()) || place.is_right(frame)
}

/// The sum of words of two bytes, as the processor reads them, not folded yet:
/// for at most 2³² bytes. That order makes no difference (RFC 1071 §2).
#[inline(never)]
fn sum(bytes: &[u8]) -> u64 {
    let halves = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        (word & 0xffff_ffff) + (word >> 32)
    };
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sum = 0;
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        sum += halves(&words[0]) + halves(&words[1]) + halves(&words[2]) + halves(&words[3]);
    }
    let (words, mut rest) = rest.as_chunks::<8>();
    sum += words.iter().map(halves).sum::<u64>();
    if let Some((word, others)) = rest.split_first_chunk() {
        sum += u64::from(u32::from_ne_bytes(*word));
        rest = others;
    }
    if let Some((word, others)) = rest.split_first_chunk() {
        sum += u64::from(u16::from_ne_bytes(*word));
        rest = others;
    }
    if let [byte] = *rest {
        sum += u64::from(u16::from_ne_bytes([byte, 0]));
    }
    sum
}

/// The sum in one word.
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use smoltcp::wire::{Ipv4Address, Ipv6Address, TcpPacket, UdpPacket};

    use super::*;

    /// A frame of either family with `payload` behind the headers, and padding.
    fn frame(is_v6: bool, protocol: u8, payload: &[u8], padding: usize) -> std::vec::Vec<u8> {
        let header = if protocol == TCP { 20 } else { 8 };
        let bytes = header + payload.len();
        let start = if is_v6 { 54 } else { 34 };
        let mut frame: std::vec::Vec<u8> = (0..start + header).map(|byte| byte as u8).collect();
        frame.extend(payload);
        if is_v6 {
            frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            frame[18..20].copy_from_slice(&(bytes as u16).to_be_bytes());
            frame[20] = protocol;
        } else {
            frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
            frame[16..18].copy_from_slice(&(20 + bytes as u16).to_be_bytes());
            frame[20..22].fill(0);
            frame[23] = protocol;
        }
        if protocol == TCP {
            frame[start + 12] = 5 << 4;
        } else {
            frame[start + 4..start + 6].copy_from_slice(&(bytes as u16).to_be_bytes());
        }
        frame.resize(frame.len() + padding, 0xee);
        frame
    }

    /// Whether smoltcp finds the checksum right.
    fn smoltcp_agrees(is_v6: bool, protocol: u8, frame: &[u8], padding: usize) -> bool {
        let (from, to, start) = if is_v6 {
            let address = |at: usize| {
                Ipv6Address::from_octets(frame[at..at + 16].try_into().expect("16 bytes")).into()
            };
            (address(22), address(38), 54)
        } else {
            let address = |at: usize| {
                Ipv4Address::from_octets(frame[at..at + 4].try_into().expect("4 bytes")).into()
            };
            (address(26), address(30), 34)
        };
        let bytes = &frame[start..frame.len() - padding];
        if protocol == TCP {
            TcpPacket::new_checked(bytes).is_ok_and(|packet| packet.verify_checksum(&from, &to))
        } else {
            UdpPacket::new_checked(bytes).is_ok_and(|packet| packet.verify_checksum(&from, &to))
        }
    }

    proptest! {
        #[test]
        fn sums_are_those_of_smoltcp(
            is_v6: bool,
            is_tcp: bool,
            payload in proptest::collection::vec(any::<u8>(), 0..1500),
            padding in 0..20_usize,
            flip in any::<prop::sample::Index>(),
        ) {
            let protocol = if is_tcp { TCP } else { UDP };
            let mut frame = frame(is_v6, protocol, &payload, padding);
            let place = Place::of(&frame).expect("it is whole");
            place.finish(&mut frame);
            prop_assert!(smoltcp_agrees(is_v6, protocol, &frame, padding));
            prop_assert!(is_right(&frame, Checksum::Unverified));
            // What the card would finish comes to the same.
            let finished = frame.clone();
            let Unfinished { start, offset } = place.prepare(&mut frame);
            let (start, offset) = (usize::from(start), usize::from(offset));
            let end = frame.len() - padding;
            let sum = match !fold(sum(&frame[start..end])) {
                0 if !is_tcp => !0,
                sum => sum,
            };
            frame[start + offset..start + offset + 2].copy_from_slice(&sum.to_ne_bytes());
            prop_assert_eq!(&frame, &finished);
            // The ports, the data and the sum are covered, and the addresses.
            let at = start + flip.index(end - start);
            let is_length = protocol == UDP && (start + 4..start + 6).contains(&at);
            if !is_length && at != start + 12 {
                frame[at] ^= 0x40;
                let zero = protocol == UDP && !is_v6 && frame[start + 6..start + 8] == [0, 0];
                prop_assert!(zero || !is_right(&frame, Checksum::Unverified));
            }
        }
    }

    #[test]
    fn large_segments_are_summed_to_the_end() {
        let mut frame = frame(false, TCP, &[0xff; 65_495], 0);
        Place::of(&frame).expect("it is whole").finish(&mut frame);
        assert!(smoltcp_agrees(false, TCP, &frame, 0));
        assert!(is_right(&frame, Checksum::Unverified));
        let last = frame.len() - 1;
        frame[last] ^= 1;
        assert!(!is_right(&frame, Checksum::Unverified));
    }

    #[test]
    fn only_udp_over_ipv4_may_have_none() {
        for (is_v6, protocol, may) in [
            (false, UDP, true),
            (true, UDP, false),
            (false, TCP, false),
            (true, TCP, false),
        ] {
            let frame = frame(is_v6, protocol, b"", 0);
            let place = Place::of(&frame).expect("it is whole");
            let mut frame = frame;
            place.field(&mut frame).fill(0);
            assert_eq!(is_right(&frame, Checksum::Unverified), may);
        }
    }

    #[test]
    fn a_card_is_believed_only_where_it_names_the_right_place() {
        let mut frame = frame(false, TCP, b"data", 0);
        let place = Place::of(&frame).expect("it is whole");
        let right = place.prepare(&mut frame);
        assert!(is_right(&frame, Checksum::Unfinished(right)));
        assert!(is_right(&frame, Checksum::Right));
        assert!(!is_right(&frame, Checksum::Unverified));
        for (start, offset) in [(34, 6), (14, 16), (0, 0), (u16::MAX, u16::MAX)] {
            let wrong = Unfinished { start, offset };
            assert!(!is_right(&frame, Checksum::Unfinished(wrong)));
        }
    }

    #[test]
    fn what_is_cut_short_or_in_fragments_has_no_place() {
        for (is_v6, protocol) in [(false, TCP), (true, TCP), (false, UDP), (true, UDP)] {
            let frame = frame(is_v6, protocol, b"data", 0);
            for len in 0..frame.len() {
                assert_eq!(Place::of(&frame[..len]), None, "{len}");
            }
        }
        let mut fragment = frame(false, TCP, b"data", 0);
        fragment[20] = 0x20;
        assert_eq!(Place::of(&fragment), None);
    }
}
