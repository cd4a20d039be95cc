//! What the card does in the stack's place: checksums, long segments to send,
//! long frames received, and a card that tells lies about them.

use firstpoll::arch::host;
use firstpoll::block_on;
use firstpoll::drivers::virtio_net::VirtioNet;
use firstpoll::net::{Buffers, ListenerOptions, Stack, TcpListener, TcpStream};
use firstpoll::time::{Duration, timeout};
use smoltcp::wire::{ArpOperation, EthernetFrame, Ipv4Packet, TcpControl, TcpPacket, TcpSeqNumber};

use crate::card_model::{
    CSUM, EVENT_IDX, FakeTransport, Far, GUEST_CSUM, GUEST_TSO4, GUEST_TSO6, HEADER, HOST_TSO4,
    MAC, MRG_RXBUF, RECEIVE, VERSION_1,
};
use crate::fake_card::start_with;
use crate::frames::{arp, tcp, without_data};
use crate::peer::{PEER_IP, PEER_MAC, STACK_IP};

const MS: Duration = Duration::from_millis(1);
const BASE: u64 = VERSION_1 | MAC | EVENT_IDX;
const LARGE: u64 = GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | MRG_RXBUF;
const ALL: u64 = LARGE | CSUM | HOST_TSO4;
const PORTS: (u16, u16) = (4000, 80);

/// Headers that speak of a checksum.
const UNFINISHED: [u8; HEADER] = [1, 0, 0, 0, 0, 0, 34, 0, 16, 0, 0, 0];
const RIGHT: [u8; HEADER] = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn driver(features: u64, places: u16) -> (VirtioNet<FakeTransport>, Far) {
    let (far, transport) = Far::new(BASE | features, [places; 2]);
    let card = VirtioNet::new(transport, far.interrupt).expect("the card is good");
    (card, far)
}

fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number + at / 7) as u8).collect()
}

#[test]
fn nothing_is_asked_for_without_what_it_needs() {
    for (offered, asked) in [
        (ALL, ALL),
        (ALL & !CSUM, LARGE),
        (ALL & !GUEST_CSUM, CSUM | HOST_TSO4),
        (ALL & !MRG_RXBUF, CSUM | HOST_TSO4 | GUEST_CSUM),
        (ALL & !HOST_TSO4, LARGE | CSUM),
        (MRG_RXBUF | GUEST_TSO4 | HOST_TSO4, 0),
    ] {
        let (_driver, far) = driver(offered, 256);
        assert_eq!(far.card().features, BASE | asked, "{offered:#x}");
    }
}

/// In one piece, and torn by the end of the queue.
#[test]
fn long_frames_arrive_whole_wherever_they_start() {
    for places in [1, 4, 64, 256] {
        let (mut driver, far) = driver(ALL, places);
        for number in 0..400 {
            let len = [60, 1514, 2036, 2037, 9014, 65_589][number % 6] - number % 5;
            let frame = content(number, len);
            assert!(far.send(&frame), "{number}: no buffers of {places}");
            let (receive, _) = driver.queues();
            assert!(receive.front() == Some(&frame), "{number} of {places}");
            receive.release();
            driver.flush();
        }
        assert_eq!(driver.faults(), 0);
    }
}

/// Whether the queue stops at a frame whose header says that it takes `said`
/// buffers, and which takes buffers that hold so much.
fn is_stopped(said: u16, parts: &[u32]) -> bool {
    let (mut driver, far) = driver(ALL, 256);
    {
        let mut card = far.card();
        let queue = &mut card.queues[RECEIVE];
        for (number, &len) in parts.iter().enumerate() {
            let (id, address, _) = queue.take().expect("there are buffers");
            if number == 0 {
                let mut header = [0; HEADER];
                header[10..].copy_from_slice(&said.to_le_bytes());
                // SAFETY: the driver gave the buffer to the card.
                unsafe { (address as *mut [u8; HEADER]).write(header) };
            }
            queue.give(id.into(), len);
        }
    }
    let (receive, _) = driver.queues();
    let arrived = receive.front().is_some();
    driver.flush();
    assert_eq!(driver.faults(), u64::from(!arrived));
    !arrived
}

#[test]
fn a_card_that_lies_about_the_buffers_of_a_frame_is_ignored() {
    assert!(!is_stopped(1, &[100]));
    assert!(!is_stopped(3, &[2048, 2048, 1]));
    assert!(is_stopped(0, &[100]));
    assert!(is_stopped(2, &[2048]));
    assert!(is_stopped(u16::MAX, &[2048; 100]));
    // One in the middle is not full.
    assert!(is_stopped(3, &[2048, 2047, 100]));
    assert!(is_stopped(2, &[100, 100]));
    // Longer than any frame.
    assert!(is_stopped(40, &[2048; 40]));
}

/// A stack with one connection, and the sequence numbers that the far host
/// sends next and awaits.
struct Connected {
    stack: Stack,
    far: Far,
    stream: TcpStream,
    next: i32,
    theirs: TcpSeqNumber,
}

impl Connected {
    fn new(features: u64) -> Self {
        let (stack, far) = start_with(features);
        let buffers = Buffers {
            receive_bytes: 256 << 10,
            send_bytes: 256 << 10,
        };
        let options = ListenerOptions {
            buffers,
            ..ListenerOptions::default()
        };
        let listener = TcpListener::bind_with(stack, 80, options).unwrap();
        assert!(far.send(&arp(ArpOperation::Request, PEER_IP, PEER_MAC)));
        host::advance(2 * MS);
        far.sent_under(usize::MAX);
        let mut syn = without_data(PORTS, TcpControl::Syn, 0, None);
        syn.max_seg_size = Some(1460);
        syn.window_scale = Some(7);
        assert!(far.send(&tcp(STACK_IP, PEER_IP, &syn)));
        host::advance(2 * MS);
        let (_, frame) = far.sent_under(1).pop_front().expect("it is answered");
        let theirs = with_segment(&frame, |segment| segment.seq_number()) + 1;
        let ack = without_data(PORTS, TcpControl::None, 1, Some(theirs));
        assert!(far.send(&tcp(STACK_IP, PEER_IP, &ack)));
        let stream = block_on(listener.accept()).unwrap();
        Self {
            stack,
            far,
            stream,
            next: 1,
            theirs,
        }
    }

    /// A frame with the far host's next data.
    fn frame(&self, data: &[u8]) -> Vec<u8> {
        let mut segment = without_data(PORTS, TcpControl::Psh, self.next, Some(self.theirs));
        segment.payload = data;
        segment.window_len = u16::MAX;
        tcp(STACK_IP, PEER_IP, &segment)
    }

    /// Whether data arrives in a frame like this.
    fn takes(&mut self, header: [u8; HEADER], frame: &[u8], data: &[u8]) -> bool {
        assert!(self.far.send_under(header, frame));
        host::advance(2 * MS);
        let mut arrived = vec![0; data.len()];
        let read = block_on(timeout(Duration::ZERO, self.stream.read(&mut arrived)));
        if !matches!(read, Ok(Ok(_))) {
            return false;
        }
        self.next += data.len() as i32;
        arrived == data
    }
}

fn with_segment<R>(frame: &[u8], look: impl FnOnce(TcpPacket<&[u8]>) -> R) -> R {
    let ethernet = EthernetFrame::new_checked(frame).unwrap();
    let packet = Ipv4Packet::new_checked(ethernet.payload()).unwrap();
    assert!(packet.verify_checksum());
    look(TcpPacket::new_checked(packet.payload()).unwrap())
}

/// Leaves in a frame what a host does that has its card finish the checksum.
fn unfinish(frame: &mut [u8]) {
    let bytes = (frame.len() - 34) as u32;
    let words = frame[26..34].chunks(2);
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let sum = sum + 6 + bytes;
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[50..52].copy_from_slice(&(sum as u16).to_be_bytes());
}

#[test]
fn only_what_the_card_did_not_vouch_for_is_verified() {
    let mut connected = Connected::new(ALL);
    let mut takes = |header, damage: fn(&mut [u8]), data: &[u8]| {
        let mut frame = connected.frame(data);
        damage(&mut frame);
        let taken = connected.takes(header, &frame, data);
        (taken, connected.stack.stats().malformed)
    };
    let damaged = |frame: &mut [u8]| frame[50] ^= 1;
    assert_eq!(takes([0; HEADER], |_| (), b"as it is"), (true, 0));
    assert_eq!(takes([0; HEADER], damaged, b"damaged"), (false, 1));
    assert_eq!(takes(RIGHT, damaged, b"vouched for"), (true, 1));
    assert_eq!(takes(UNFINISHED, unfinish, b"unfinished"), (true, 1));
    assert_eq!(takes([0; HEADER], unfinish, b"not said to be"), (false, 2));
    // It names a place that is not that of the checksum, or is not there.
    for place in [[34, 0, 6, 0], [14, 0, 16, 0], [0; 4], [0xff; 4]] {
        let mut header = UNFINISHED;
        header[6..10].copy_from_slice(&place);
        let before = takes([0; HEADER], |_| (), b"between").1;
        assert_eq!(takes(header, unfinish, b"elsewhere"), (false, before + 1));
        assert_eq!(takes(header, |_| (), b"but right"), (true, before + 1));
    }
    // What it says of cutting is of no interest.
    let nonsense = [
        2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0,
    ];
    assert!(takes(nonsense, |_| (), b"nonsense").0);
}

#[test]
fn without_the_feature_nothing_that_the_card_says_is_believed() {
    let mut connected = Connected::new(ALL & !GUEST_CSUM);
    let mut frame = connected.frame(b"data");
    frame[50] ^= 1;
    assert!(!connected.takes(RIGHT, &frame, b"data"));
    assert_eq!(connected.stack.stats().malformed, 1);
}

#[test]
fn a_long_frame_is_one_segment() {
    let mut connected = Connected::new(ALL);
    for number in 0..40 {
        let data = content(number, 50_000);
        let mut frame = connected.frame(&data);
        unfinish(&mut frame);
        assert!(connected.takes(UNFINISHED, &frame, &data), "{number}");
    }
    assert_eq!(connected.stack.stats().malformed, 0);
}

/// What the far host gets of `data`, with the longest segment's length.
fn received(connected: &mut Connected, data: &[u8]) -> (Vec<u8>, usize) {
    let checksums = connected.far.card().features & CSUM != 0;
    let mut stream_data = data;
    let (mut received, mut longest) = (Vec::new(), 0);
    while received.len() < data.len() {
        let write = block_on(timeout(MS, connected.stream.write(stream_data)));
        if let Ok(written) = write {
            stream_data = &stream_data[written.unwrap()..];
        }
        host::advance(MS);
        for (header, mut frame) in connected.far.sent_under(usize::MAX) {
            if checksums {
                assert_eq!(header[..1], [1]);
                assert_eq!(header[6..10], [34, 0, 16, 0]);
                let left = frame[50..52].to_vec();
                unfinish(&mut frame);
                assert_eq!(left, frame[50..52], "the sum of the pseudo header");
            } else {
                assert_eq!(header, [0; HEADER]);
            }
            let cut = frame.len() > 1514;
            if cut {
                assert_eq!(header[1..6], [1, 54, 0, 0xb4, 0x05]);
            } else {
                assert_eq!(header[1..6], [0; 5]);
            }
            with_segment(&frame, |segment| {
                let (from, to) = (STACK_IP.into(), PEER_IP.into());
                assert!(checksums || segment.verify_checksum(&from, &to));
                if segment.seq_number() == connected.theirs {
                    received.extend(segment.payload());
                    connected.theirs += segment.payload().len();
                    longest = longest.max(segment.payload().len());
                }
            });
        }
        let mut ack = without_data(
            PORTS,
            TcpControl::None,
            connected.next,
            Some(connected.theirs),
        );
        ack.window_len = u16::MAX;
        assert!(connected.far.send(&tcp(STACK_IP, PEER_IP, &ack)));
        host::advance(MS);
    }
    (received, longest)
}

/// The length of the longest segment in which three megabytes leave.
fn longest_segment(features: u64) -> usize {
    let data = content(3, 3_000_000);
    let mut connected = Connected::new(features);
    let (received, longest) = received(&mut connected, &data);
    assert!(received == data, "{features:#x}");
    assert_eq!(connected.stack.stats().send_queue_full, 0);
    longest
}

#[test]
fn long_segments_are_left_to_a_card_that_cuts_them() {
    let longest = longest_segment(ALL);
    assert!((60_000..=65_495).contains(&longest), "{longest}");
}

#[test]
fn a_card_that_only_finishes_checksums_gets_short_segments() {
    assert_eq!(longest_segment(CSUM), 1460);
}

/// It may not offer this (§5.1.3.1).
#[test]
fn a_card_that_only_cuts_gets_finished_short_segments() {
    assert_eq!(longest_segment(HOST_TSO4), 1460);
}
