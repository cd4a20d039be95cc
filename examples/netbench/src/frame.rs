//! Which frames the reflector sends back, and how they look then.

use core::net::Ipv4Addr;
use core::ops::Range;

const MAC_TO: Range<usize> = 0..6;
const MAC_FROM: Range<usize> = 6..12;
const TYPE: Range<usize> = 12..14;
const IPV4: [u8; 2] = [0x08, 0x00];
const ARP: [u8; 2] = [0x08, 0x06];

/// Version 4, and a header of 20 bytes: without options.
const IP_VERSION_AND_LENGTH: usize = 14;
const IP_FRAGMENT: Range<usize> = 20..22;
const IP_PROTOCOL: usize = 23;
const IP_FROM: Range<usize> = 26..30;
const IP_TO: Range<usize> = 30..34;
const UDP: u8 = 17;
const PORT_FROM: Range<usize> = 34..36;
const PORT_TO: Range<usize> = 36..38;
const UDP_FRAME_BYTES: usize = 42;

/// Ethernet and IPv4, addresses of 6 and 4 bytes (RFC 826).
const ARP_HEADER: Range<usize> = 14..20;
const ARP_ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_OPERATION: Range<usize> = 20..22;
const ARP_REQUEST: [u8; 2] = [0, 1];
const ARP_REPLY: [u8; 2] = [0, 2];
const ARP_FROM_MAC: Range<usize> = 22..28;
const ARP_FROM_IP: Range<usize> = 28..32;
const ARP_TO: Range<usize> = 32..42;
const ARP_TO_IP: Range<usize> = 38..42;
const ARP_FRAME_BYTES: usize = 42;

/// Where datagrams are reflected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The card's address.
    pub mac: [u8; 6],
    /// The machine's address.
    pub address: Ipv4Addr,
    /// The UDP port.
    pub port: u16,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is a datagram for us, and goes back.
    Reflect,
    /// It asks for our address, and is answered.
    Answer,
    /// It is anything else.
    Drop,
}

impl Endpoint {
    /// What becomes of `frame`, which may be anything.
    pub fn judge(&self, frame: &[u8]) -> Verdict {
        let Some((header, _)) = frame.split_first_chunk::<UDP_FRAME_BYTES>() else {
            return Verdict::Drop;
        };
        if header[TYPE] == IPV4 && self.is_for_us(header) {
            Verdict::Reflect
        } else if header[TYPE] == ARP && self.is_asked_for(header) {
            Verdict::Answer
        } else {
            Verdict::Drop
        }
    }

    /// Whether it is a whole datagram to our port. Neither its lengths nor its
    /// checksums matter to us: they are the sender's, who gets it back.
    fn is_for_us(&self, header: &[u8; UDP_FRAME_BYTES]) -> bool {
        // More fragments follow, or it is not the first.
        let fragment = u16::from_be_bytes([header[IP_FRAGMENT.start], header[21]]) & 0x3fff;
        header[MAC_TO] == self.mac
            && header[IP_VERSION_AND_LENGTH] == 0x45
            && fragment == 0
            && header[IP_PROTOCOL] == UDP
            && header[IP_TO] == self.address.octets()
            && header[PORT_TO] == self.port.to_be_bytes()
    }

    fn is_asked_for(&self, header: &[u8; ARP_FRAME_BYTES]) -> bool {
        header[ARP_HEADER] == ARP_ETHERNET_IPV4
            && header[ARP_OPERATION] == ARP_REQUEST
            && header[ARP_TO_IP] == self.address.octets()
    }

    /// Writes the datagram in `frame` to `place`, of the same length, with
    /// sender and receiver exchanged. The checksums, which are sums over both,
    /// stay right.
    pub fn reflect(frame: &[u8], place: &mut [u8]) {
        place.copy_from_slice(frame);
        for (to, from) in [(MAC_TO, MAC_FROM), (IP_TO, IP_FROM), (PORT_TO, PORT_FROM)] {
            place[to.clone()].copy_from_slice(&frame[from.clone()]);
            place[from].copy_from_slice(&frame[to]);
        }
    }

    /// Writes the answer to the question in `frame` to `place`, of the same
    /// length.
    pub fn answer(&self, frame: &[u8], place: &mut [u8]) {
        place.copy_from_slice(frame);
        place[MAC_TO].copy_from_slice(&frame[MAC_FROM]);
        place[MAC_FROM].copy_from_slice(&self.mac);
        place[ARP_OPERATION].copy_from_slice(&ARP_REPLY);
        let asker = ARP_FROM_MAC.start..ARP_FROM_IP.end;
        place[ARP_TO].copy_from_slice(&frame[asker]);
        place[ARP_FROM_MAC].copy_from_slice(&self.mac);
        place[ARP_FROM_IP].copy_from_slice(&self.address.octets());
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    const OURS: Endpoint = Endpoint {
        mac: [2, 0, 0, 0, 0, 1],
        address: Ipv4Addr::new(10, 0, 2, 15),
        port: 9978,
    };
    const THEIRS: Endpoint = Endpoint {
        mac: [2, 0, 0, 0, 0, 2],
        address: Ipv4Addr::new(10, 0, 2, 2),
        port: 4567,
    };

    fn datagram(from: &Endpoint, to: &Endpoint) -> Vec<u8> {
        let mut frame = vec![0; UDP_FRAME_BYTES];
        frame[MAC_TO].copy_from_slice(&to.mac);
        frame[MAC_FROM].copy_from_slice(&from.mac);
        frame[TYPE].copy_from_slice(&IPV4);
        frame[IP_VERSION_AND_LENGTH] = 0x45;
        frame[IP_FRAGMENT].copy_from_slice(&[0x40, 0]); // Must not be fragmented.
        frame[IP_PROTOCOL] = UDP;
        frame[IP_FROM].copy_from_slice(&from.address.octets());
        frame[IP_TO].copy_from_slice(&to.address.octets());
        frame[PORT_FROM].copy_from_slice(&from.port.to_be_bytes());
        frame[PORT_TO].copy_from_slice(&to.port.to_be_bytes());
        frame.extend(b"content");
        frame
    }

    fn question() -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend(THEIRS.mac);
        frame.extend(ARP);
        frame.extend(ARP_ETHERNET_IPV4);
        frame.extend(ARP_REQUEST);
        frame.extend(THEIRS.mac);
        frame.extend(THEIRS.address.octets());
        frame.extend([0; 6]);
        frame.extend(OURS.address.octets());
        frame
    }

    #[test]
    fn a_datagram_goes_back() {
        let frame = datagram(&THEIRS, &OURS);
        assert_eq!(OURS.judge(&frame), Verdict::Reflect);
        let mut place = vec![0xee; frame.len()];
        Endpoint::reflect(&frame, &mut place);
        assert_eq!(place, datagram(&OURS, &THEIRS));
    }

    #[test]
    fn a_question_is_answered() {
        let frame = question();
        assert_eq!(OURS.judge(&frame), Verdict::Answer);
        let mut place = vec![0xee; frame.len()];
        OURS.answer(&frame, &mut place);
        assert_eq!(place[MAC_TO], THEIRS.mac);
        assert_eq!(place[MAC_FROM], OURS.mac);
        let answer = [
            &ARP_ETHERNET_IPV4[..],
            &ARP_REPLY,
            &OURS.mac,
            &OURS.address.octets(),
            &THEIRS.mac,
            &THEIRS.address.octets(),
        ];
        assert_eq!(place[14..], answer.concat());
        assert_eq!(
            OURS.judge(&place),
            Verdict::Drop,
            "an answer is no question"
        );
    }

    /// Every byte that is looked at, changed by itself.
    #[test]
    fn anything_else_is_dropped() {
        let looked_at = [0, 5, 12, 13, 14, 20, 21, 23, 30, 33, 36, 37];
        for at in looked_at {
            let mut frame = datagram(&THEIRS, &OURS);
            frame[at] ^= 1;
            assert_eq!(OURS.judge(&frame), Verdict::Drop, "byte {at}");
        }
        for at in (12..22).chain(38..42) {
            let mut frame = question();
            frame[at] ^= 1;
            assert_eq!(OURS.judge(&frame), Verdict::Drop, "byte {at}");
        }
        for frame in [datagram(&THEIRS, &OURS), question()] {
            for length in 0..UDP_FRAME_BYTES {
                assert_eq!(OURS.judge(&frame[..length]), Verdict::Drop);
            }
        }
    }
}
