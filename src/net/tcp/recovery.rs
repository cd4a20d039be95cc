//! Noticing lost segments before the retransmission timer does.
//!
//! smoltcp sends the first unacknowledged segment again when the peer repeats
//! an acknowledgement three times, and all of them when its timer fires, a
//! second later at the least. That second is lost whenever two segments of one
//! window are, or the last ones. So the peer's last acknowledgement is shown to
//! smoltcp three times more
//!
//! - when it acknowledges a part of what was under way when a loss was noticed:
//!   the next segment is missing too (NewReno, RFC 6582 §3.2),
//! - when it says nothing for two round trips (RFC 8985 §7.2).

use smoltcp::iface::Interface;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol, IpRepr, TcpControl, TcpPacket,
    TcpSeqNumber,
};

use super::connection::Connection;
use super::segment::{Answer, bare};
use crate::drivers::ETHERNET_HEADER_BYTES;
use crate::net::device::{Nic, Port, Sent, left_to_smoltcp};
use crate::net::frame::{Heard, Key};

/// How often an acknowledgement must come again to tell of a loss (RFC 5681 §3.2).
const DUPLICATES: u8 = 3;

/// The shortest silence that tells of a loss.
pub(super) const MIN_SILENCE: Duration = Duration::from_millis(10);

/// How much longer a peer may stay silent that got a single segment, as it may
/// wait for a second one (RFC 8985 §7.2).
const ACK_DELAY: Duration = Duration::from_millis(200);

/// What a single segment has at most.
const SEGMENT_BYTES: usize = 1460;

/// How often a silent peer is sent something, each time after twice as long;
/// then it is left to the timer.
const MAX_PROBES: u8 = 2;

/// Ethernet, IPv6 and TCP, without options.
const MAX_FRAME_BYTES: usize = ETHERNET_HEADER_BYTES + 40 + 20;

/// What is under way to a peer, and what it said of it last.
#[derive(Debug, Default)]
pub(in crate::net) struct Recovery {
    /// Behind all that was sent.
    sent: Option<TcpSeqNumber>,
    /// What the peer said last.
    heard: Option<Heard>,
    /// How often it said it again.
    duplicates: u8,
    /// A loss was noticed, and is made good when this is acknowledged.
    until: Option<TcpSeqNumber>,
    /// The smoothed round trip.
    round_trip: Option<Duration>,
    /// What is behind a segment that was sent once, and when it was.
    timed: Option<(TcpSeqNumber, Instant)>,
    probe_at: Option<Instant>,
    probes: u8,
}

/// Whether the first unacknowledged segment is to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Verdict {
    /// No.
    Fine,
    /// Yes, it is missing.
    Missing,
}

/// The end of a segment with data or a flag that counts.
#[derive(Clone, Copy, Debug)]
pub(in crate::net) struct End {
    /// What is behind it.
    pub(in crate::net) sequence: TcpSeqNumber,
    /// Whether it carried the last data that there was.
    pub(in crate::net) pushes: bool,
}

/// The end of the segment in a frame that is sent.
pub(in crate::net) fn end_of(frame: &[u8]) -> Option<End> {
    let segment = tcp(frame)?;
    let len = segment.segment_len();
    (len > 0).then(|| End {
        sequence: segment.seq_number() + len,
        pushes: segment.psh(),
    })
}

/// The segment in a frame without extensions of IPv6.
fn tcp(frame: &[u8]) -> Option<TcpPacket<&[u8]>> {
    const TCP: u8 = 6;
    let at = match *frame.get(12..24)? {
        [0x08, 0x00, version, .., TCP] => ETHERNET_HEADER_BYTES + 4 * usize::from(version & 0x0f),
        [0x86, 0xdd, _, _, _, _, _, _, TCP, ..] => ETHERNET_HEADER_BYTES + 40,
        _ => return None,
    };
    let end = match frame[13] {
        0x00 => u16::from_be_bytes([frame[16], frame[17]]).into(),
        _ => 40 + usize::from(u16::from_be_bytes([frame[18], frame[19]])),
    };
    let packet = frame.get(at..ETHERNET_HEADER_BYTES + end)?;
    TcpPacket::new_checked(packet).ok()
}

impl Recovery {
    /// Something was sent, up to `end`.
    pub(in crate::net) fn note_sent(&mut self, now: Instant, end: TcpSeqNumber) {
        if self.sent.is_none_or(|sent| end > sent) {
            self.sent = Some(end);
            self.timed.get_or_insert((end, now));
        } else {
            // Of what is sent again, nobody can tell which one is answered.
            self.timed = None;
        }
        self.arm(now);
    }

    /// The peer said something.
    pub(in crate::net) fn note_heard(&mut self, now: Instant, heard: Heard) -> Verdict {
        let Some(sent) = self.sent else {
            return Verdict::Fine;
        };
        let before = self.heard;
        if heard.ack > sent || before.is_some_and(|before| heard.ack < before.ack) {
            return Verdict::Fine; // It is an old one, or a lie.
        }
        self.heard = Some(heard);
        let Some(before) = before.filter(|before| before.ack == heard.ack) else {
            return self.advanced(now, heard.ack);
        };
        if heard.is_empty && heard.ack < sent && heard.window == before.window {
            self.duplicates = self.duplicates.saturating_add(1);
            if self.duplicates == DUPLICATES && self.until.is_none() {
                self.until = Some(sent); // smoltcp has noticed it too.
            }
        }
        Verdict::Fine
    }

    /// The peer has acknowledged more.
    fn advanced(&mut self, now: Instant, ack: TcpSeqNumber) -> Verdict {
        self.duplicates = 0;
        self.probes = 0;
        if let Some((end, since)) = self.timed
            && ack >= end
        {
            self.timed = None;
            let sample = now - since;
            self.round_trip = Some(match self.round_trip {
                Some(smoothed) => (smoothed * 7 + sample) / 8,
                None => sample,
            });
        }
        let partial = self.until.is_some_and(|until| ack < until);
        if !partial {
            self.until = None;
        }
        self.arm(now);
        if partial {
            Verdict::Missing
        } else {
            Verdict::Fine
        }
    }

    /// When the peer's silence is to be broken.
    pub(in crate::net) fn deadline(&self) -> Option<Instant> {
        self.probe_at
    }

    /// Whether it is broken now.
    fn take_probe(&mut self, now: Instant) -> bool {
        if self.probe_at.is_none_or(|at| at > now) {
            return false;
        }
        self.probes += 1;
        self.until = self.sent;
        self.timed = None;
        self.arm(now);
        true
    }

    fn arm(&mut self, now: Instant) {
        self.probe_at = None;
        let (Some(sent), Some(heard), Some(round_trip)) = (self.sent, self.heard, self.round_trip)
        else {
            return;
        };
        if heard.ack >= sent || heard.window < 2 || self.probes >= MAX_PROBES {
            return;
        }
        let mut silence = (round_trip * 2).max(MIN_SILENCE);
        if sent - heard.ack <= SEGMENT_BYTES {
            silence += ACK_DELAY;
        }
        self.probe_at = Some(now + silence * (1 << self.probes));
    }
}

/// Breaks a peer's silence, if it is time.
pub(in crate::net) fn probe(
    iface: &mut Interface,
    nic: &mut dyn Nic,
    now: Instant,
    connection: &mut Connection,
) -> Sent {
    if !connection.recovery.take_probe(now) {
        return Sent::default();
    }
    // Another window makes smoltcp count from the start.
    let again = connection.recovery.heard.map(|heard| heard.window);
    match again {
        Some(window) => {
            let mut sent = repeat(iface, nic, now, connection, 1, window ^ 1);
            sent.add(repeat(iface, nic, now, connection, DUPLICATES + 1, window));
            connection.discount(now);
            sent
        }
        None => Sent::default(),
    }
}

/// Has the first unacknowledged segment sent again.
pub(in crate::net) fn resend(
    iface: &mut Interface,
    nic: &mut dyn Nic,
    now: Instant,
    connection: &mut Connection,
) -> Sent {
    match connection.recovery.heard {
        Some(heard) => repeat(iface, nic, now, connection, DUPLICATES, heard.window),
        None => Sent::default(),
    }
}

/// Shows smoltcp the acknowledgement in an end of the stream that it has had
/// before, which it drops unread. Stacks of BSD's descent acknowledge our end so
/// when both sides have closed at the same time.
#[cold]
pub(in crate::net) fn acknowledge_end(
    iface: &mut Interface,
    nic: &mut dyn Nic,
    now: Instant,
    connection: &mut Connection,
    heard: Heard,
) -> Sent {
    show(iface, nic, now, connection, heard, 1)
}

/// Shows smoltcp the peer's last acknowledgement some more times.
fn repeat(
    iface: &mut Interface,
    nic: &mut dyn Nic,
    now: Instant,
    connection: &mut Connection,
    times: u8,
    window: u16,
) -> Sent {
    // Without data, smoltcp would forget its timer and send nothing.
    match connection.recovery.heard {
        Some(heard) if connection.tcp().send_queue() > 0 => {
            let heard = Heard { window, ..heard };
            show(iface, nic, now, connection, heard, times)
        }
        _ => Sent::default(),
    }
}

/// Shows smoltcp so many times, in a segment without data, what the peer said.
fn show(
    iface: &mut Interface,
    nic: &mut dyn Nic,
    now: Instant,
    connection: &mut Connection,
    heard: Heard,
    times: u8,
) -> Sent {
    let mut all = Sent::default();
    let mut buffer = [0; MAX_FRAME_BYTES];
    let frame = acknowledgement(&mut buffer, connection.key, nic.mac(), heard);
    for _ in 0..times {
        let mut port = Port::replaying(nic, frame);
        iface.poll_ingress_single(now, &mut port, connection.socket.set_mut());
        all.add(port.sent);
    }
    all
}

/// A frame with what the peer said.
fn acknowledgement(
    buffer: &mut [u8; MAX_FRAME_BYTES],
    key: Key,
    mac: [u8; 6],
    heard: Heard,
) -> &[u8] {
    let checksums = left_to_smoltcp();
    let answer = Answer {
        control: TcpControl::None,
        seq: heard.next,
        ack: heard.ack,
    };
    let segment = bare((key.remote_port, key.local_port), answer, heard.window);
    let (from, to) = (key.remote.into(), key.local.into());
    let ip = IpRepr::new(from, to, IpProtocol::Tcp, segment.buffer_len(), 64);
    let buffer = &mut buffer[..ETHERNET_HEADER_BYTES + ip.buffer_len()];
    let mut frame = EthernetFrame::new_unchecked(&mut *buffer);
    frame.set_src_addr(EthernetAddress(mac));
    frame.set_dst_addr(EthernetAddress(mac));
    frame.set_ethertype(match ip {
        IpRepr::Ipv4(_) => EthernetProtocol::Ipv4,
        IpRepr::Ipv6(_) => EthernetProtocol::Ipv6,
    });
    ip.emit(&mut *frame.payload_mut(), &checksums);
    let bytes = &mut frame.payload_mut()[ip.header_len()..];
    segment.emit(&mut TcpPacket::new_unchecked(bytes), &from, &to, &checksums);
    buffer
}
