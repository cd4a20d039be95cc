//! Buffers that get memory as they are used: what they hold is right, and where
//! no memory is left, data waits.

use firstpoll::arch::{Memory, PAGE_BYTES, host};
use firstpoll::net::{Buffers, ListenerOptions, Stack, TcpListener, TcpStream};
use firstpoll::time::{Duration, sleep, timeout};
use firstpoll::{block_on, spawn, yield_now};
use proptest::collection::vec;
use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, EthernetFrame, IpAddress, IpProtocol, Ipv4Packet, TcpControl, TcpPacket, TcpRepr,
    TcpSeqNumber,
};

use crate::frames::{arp, ipv4};
use crate::peer::{PEER_IP, PEER_MAC, Peer, PeerStream, STACK_IP, start};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// Longer than memory that holds nothing is kept.
const A_WHILE: Duration = Duration::from_secs(3);
const PORTS: (u16, u16) = (9, 80);

const SHORT: Memory = Memory {
    heap_bytes: 64 << 20,
    allocated_bytes: (64 << 20) - 1000,
};

/// The byte of a stream at `place`.
fn byte(place: u32) -> u8 {
    (place.wrapping_mul(2_654_435_761) >> 24) as u8
}

fn bytes(from: u32, len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|offset| byte(from.wrapping_add(offset)))
        .collect()
}

fn sized(bytes: usize) -> ListenerOptions {
    ListenerOptions {
        buffers: Buffers {
            receive_bytes: bytes,
            send_bytes: bytes,
        },
        ..ListenerOptions::default()
    }
}

/// A connection, opened by the far host.
async fn pair(stack: Stack, peer: &Peer, options: ListenerOptions) -> (TcpStream, PeerStream) {
    let listener = TcpListener::bind_with(stack, 80, options).unwrap();
    let far = peer.begin(80);
    let near = listener.accept().await.unwrap();
    assert!(far.established().await);
    (near, far)
}

async fn read_exactly(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut all = vec![0; count];
    let mut done = 0;
    while done < count {
        let read = stream.read(&mut all[done..]).await.unwrap();
        assert!(read > 0, "the stream ended early");
        done += read;
    }
    all
}

#[test]
fn a_connection_at_rest_has_no_buffer_memory() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer, sized(64 << 10)).await;
        assert_eq!(stack.stats().buffer_bytes, 0);
        for _ in 0..3 {
            far.write_all(b"request").await;
            assert_eq!(read_exactly(&mut near, 7).await, b"request");
            near.write_all(b"answer").await.unwrap();
            assert_eq!(far.read_exactly(6).await, b"answer");
            assert_eq!(stack.stats().buffer_bytes, 2 * PAGE_BYTES);
            sleep(A_WHILE).await;
            assert_eq!(stack.stats().buffer_bytes, 0);
        }
        assert!(stack.stats().socket_bytes > 0 && stack.stats().table_bytes > 0);
    });
}

#[test]
fn what_was_not_read_or_not_sent_is_kept() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer, sized(16 << 10)).await;
        far.write_all(&bytes(0, 5000)).await;
        // More than the far host's window takes.
        let written = bytes(0, 200_000);
        let mut done = 0;
        while let Ok(count) = timeout(SEC, near.write(&written[done..])).await {
            done += count.unwrap();
        }
        sleep(A_WHILE).await;
        let held = stack.stats().buffer_bytes;
        assert!(held >= 5000 + (done - (64 << 10)), "{held}");
        assert_eq!(read_exactly(&mut near, 5000).await, bytes(0, 5000));
        assert_eq!(far.read_exactly(done).await, written[..done]);
        sleep(A_WHILE).await;
        assert_eq!(stack.stats().buffer_bytes, 0);
    });
}

#[test]
fn data_goes_round_and_round_in_full_buffers() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer, sized(2 * PAGE_BYTES)).await;
        let all = bytes(0, 300_000);
        let echo = spawn(async move {
            let mut buffer = [0; 777];
            for number in 0.. {
                // Once in a while the buffers fill up, and are trimmed so.
                if number % 50 == 0 {
                    sleep(2 * SEC).await;
                }
                match near.read(&mut buffer).await.unwrap() {
                    0 => break,
                    count => near.write_all(&buffer[..count]).await.unwrap(),
                }
            }
        });
        let mut echoed = Vec::new();
        for part in all.chunks(10_000) {
            far.write_all(part).await;
            echoed.extend(far.read_exactly(part.len()).await);
        }
        assert!(echoed == all, "the bytes are others");
        far.close();
        echo.await;
    });
    assert!(stack.stats().buffer_bytes <= 4 * PAGE_BYTES);
}

#[test]
fn buffers_of_any_size_can_be_asked_for() {
    for size in [0, 1, 5000, 1 << 30, usize::MAX] {
        let (stack, peer) = start();
        block_on(async {
            let (mut near, far) = pair(stack, &peer, sized(size)).await;
            far.write_all(&bytes(0, 10_000)).await;
            assert_eq!(read_exactly(&mut near, 10_000).await, bytes(0, 10_000));
            near.write_all(&bytes(7, 10_000)).await.unwrap();
            assert_eq!(far.read_exactly(10_000).await, bytes(7, 10_000));
            assert!(stack.stats().buffer_bytes <= 8 * PAGE_BYTES);
        });
    }
}

#[test]
fn a_connection_that_ends_leaves_no_memory_behind() {
    let (stack, peer) = start();
    block_on(async {
        for reset in [false, true] {
            let (mut near, far) = pair(stack, &peer, sized(64 << 10)).await;
            far.write_all(&bytes(0, 30_000)).await;
            near.write_all(&bytes(0, 30_000)).await.unwrap();
            assert!(stack.stats().buffer_bytes > 30_000);
            if reset {
                far.abort();
                sleep(MS).await;
            }
            drop(near);
            far.close();
            sleep(100 * SEC).await;
            let stats = stack.stats();
            assert_eq!((stats.sockets, stats.buffer_bytes), (0, 0), "{reset}");
        }
    });
}

#[test]
fn without_memory_a_segment_is_dropped_until_there_is_some() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer, sized(16 << 10)).await;
        host::set_memory(SHORT);
        far.write_all(&bytes(0, 6000)).await;
        let mut buffer = [0; 100];
        assert!(timeout(2 * SEC, near.read(&mut buffer)).await.is_err());
        assert!(stack.stats().unreceived > 0);
        assert_eq!(stack.stats().buffer_bytes, 0);
        host::set_memory(Memory::default());
        assert_eq!(read_exactly(&mut near, 6000).await, bytes(0, 6000));
    });
}

#[test]
fn without_memory_a_writer_waits_until_there_is_some() {
    let (stack, peer) = start();
    block_on(async {
        let (mut near, far) = pair(stack, &peer, sized(16 << 10)).await;
        host::set_memory(SHORT);
        let data = bytes(0, 50_000);
        assert!(timeout(2 * SEC, near.write(&data)).await.is_err());
        assert!(stack.stats().unsent > 0);
        let writer = spawn(async move {
            near.write_all(&data).await.unwrap();
            near
        });
        sleep(SEC).await;
        host::set_memory(Memory::default());
        let read = timeout(SEC, far.read_exactly(50_000)).await;
        assert_eq!(read, Ok(bytes(0, 50_000)));
        writer.await;
    });
}

/// A segment of the far host with data.
fn data(sequence: u32, ack: TcpSeqNumber, control: TcpControl, payload: &[u8]) -> Vec<u8> {
    let repr = TcpRepr {
        src_port: PORTS.0,
        dst_port: PORTS.1,
        control,
        seq_number: TcpSeqNumber(sequence as i32),
        ack_number: (control != TcpControl::Syn).then_some(ack),
        window_len: 9000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload,
    };
    let mut segment = vec![0; repr.buffer_len()];
    repr.emit(
        &mut TcpPacket::new_unchecked(&mut segment[..]),
        &IpAddress::Ipv4(PEER_IP),
        &IpAddress::Ipv4(STACK_IP),
        &ChecksumCapabilities::default(),
    );
    ipv4(PEER_IP, IpProtocol::Tcp, &segment)
}

/// A connection whose far side is made of single segments.
struct Raw {
    peer: Peer,
    near: TcpStream,
    /// The far side's first byte.
    first: u32,
    /// What the stack has acknowledged of the far side's bytes.
    acknowledged: u32,
    /// The stack's first byte, and how many it has sent.
    theirs: TcpSeqNumber,
    sent: u32,
    /// How many the far side has acknowledged.
    taken: u32,
}

impl Raw {
    fn open(stack: Stack, peer: Peer, options: ListenerOptions, first: u32) -> Self {
        let listener = TcpListener::bind_with(stack, PORTS.1, options).unwrap();
        block_on(yield_now());
        peer.wire
            .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
        host::advance(2 * MS);
        while peer.wire.receive().is_some() {}
        let syn = first.wrapping_sub(1);
        peer.wire
            .send(data(syn, TcpSeqNumber(0), TcpControl::Syn, &[]));
        host::advance(2 * MS);
        let answer = peer.wire.receive().expect("the SYN is answered");
        let theirs = look(&answer).0 + 1;
        peer.wire.send(data(first, theirs, TcpControl::None, &[]));
        host::advance(2 * MS);
        let near = block_on(listener.accept()).unwrap();
        Self {
            peer,
            near,
            first,
            acknowledged: 0,
            theirs,
            sent: 0,
            taken: 0,
        }
    }

    /// Sends the far side's bytes from `place` on.
    fn send(&mut self, place: u32, len: usize, control: TcpControl) {
        let sequence = self.first.wrapping_add(place);
        let ack = self.theirs + self.taken as usize;
        let payload = bytes(place, len);
        self.peer.wire.send(data(sequence, ack, control, &payload));
        self.work();
    }

    /// Lets the stack work, and checks what it sends.
    fn work(&mut self) {
        host::advance(2 * MS);
        while let Some(frame) = self.peer.wire.receive() {
            let (sequence, ack, payload) = look(&frame);
            self.acknowledged = (ack.0 as u32).wrapping_sub(self.first);
            let place = sequence.0.wrapping_sub(self.theirs.0) as u32;
            assert_eq!(payload, bytes(place, payload.len()));
            self.sent = self.sent.max(place + payload.len() as u32);
        }
    }

    fn read(&mut self, max: usize) -> Vec<u8> {
        let mut buffer = vec![0; max];
        let read = block_on(timeout(Duration::ZERO, self.near.read(&mut buffer)));
        buffer.truncate(read.unwrap_or(Ok(0)).unwrap_or(0));
        buffer
    }
}

/// A segment's numbers and data.
fn look(frame: &[u8]) -> (TcpSeqNumber, TcpSeqNumber, Vec<u8>) {
    let ethernet = EthernetFrame::new_checked(frame).unwrap();
    let packet = Ipv4Packet::new_checked(ethernet.payload()).unwrap();
    let segment = TcpPacket::new_checked(packet.payload()).unwrap();
    let payload = segment.payload().to_vec();
    (segment.seq_number(), segment.ack_number(), payload)
}

#[test]
fn segments_out_of_order_find_memory_and_keep_it() {
    let (stack, peer) = start();
    let mut raw = Raw::open(stack, peer, sized(32 << 10), u32::MAX - 9000);
    // Far ahead, in the middle, and the front last.
    for place in [20_000, 9_000, 19_000, 10_000, 1_000, 2_000] {
        raw.send(place, 1000, TcpControl::None);
    }
    host::advance(A_WHILE);
    assert!(stack.stats().buffer_bytes >= 21_000);
    for place in (3_000..9_000).chain(11_000..19_000).step_by(1000) {
        raw.send(place, 1000, TcpControl::None);
    }
    assert_eq!(raw.read(100), []);
    raw.send(0, 1000, TcpControl::None);
    assert_eq!(raw.read(30_000), bytes(0, 21_000));
    host::advance(A_WHILE);
    assert_eq!(stack.stats().buffer_bytes, 0);
    raw.send(21_000, 500, TcpControl::None);
    assert_eq!(raw.read(30_000), bytes(21_000, 500));
}

/// What happens to a connection.
#[derive(Clone, Debug)]
enum Act {
    /// A segment, from what was acknowledged on or far from it.
    Segment {
        ahead: i32,
        len: usize,
        fin: bool,
    },
    /// The far side acknowledges this part, in 255ths, of what it has not.
    Acknowledge(u8),
    Read(usize),
    Write(usize),
    Wait(u16),
}

fn act() -> impl Strategy<Value = Act> {
    let near = prop_oneof![Just(0), -2000..2000_i32, -100..40_000_i32];
    let ahead = prop_oneof![8 => near, 1 => any::<i32>()];
    prop_oneof![
        6 => (ahead, 0..1400_usize, prop::bool::weighted(0.02))
            .prop_map(|(ahead, len, fin)| Act::Segment { ahead, len, fin }),
        2 => any::<u8>().prop_map(Act::Acknowledge),
        2 => (1..40_000_usize).prop_map(Act::Read),
        2 => (1..20_000_usize).prop_map(Act::Write),
        1 => (0..1500_u16).prop_map(Act::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// A byte that smoltcp wrote where no memory is would end the process.
    #[test]
    fn segments_of_any_numbers_find_memory_and_the_right_bytes(
        acts in vec(act(), 1..120),
        first in any::<u32>(),
        pages in 1..9_usize,
    ) {
        // On a core of its own, whose clock has not been moved yet.
        let case = std::thread::spawn(move || happen(acts, first, pages));
        if let Err(panic) = case.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Lets `acts` happen to a connection with buffers of so many pages whose far
/// side begins with number `first`.
fn happen(acts: Vec<Act>, first: u32, pages: usize) {
    let (stack, peer) = start();
    let mut raw = Raw::open(stack, peer, sized(pages * PAGE_BYTES), first);
    let (mut read, mut written) = (0, 0);
    let mut ended = false;
    for act in acts {
        match act {
            Act::Segment { ahead, len, fin } => {
                ended |= fin;
                let control = if fin {
                    TcpControl::Fin
                } else {
                    TcpControl::None
                };
                let place = raw.acknowledged.wrapping_add(ahead as u32);
                raw.send(place, len, control);
            }
            Act::Acknowledge(part) => {
                raw.taken += (raw.sent - raw.taken) * u32::from(part) / 255;
                raw.send(raw.acknowledged, 0, TcpControl::None);
            }
            Act::Read(max) => {
                let got = raw.read(max);
                // Data after the end of the stream is nobody's.
                assert!(ended || got == bytes(read, got.len()));
                read += got.len() as u32;
            }
            Act::Write(len) => {
                let data = bytes(written, len);
                let count = block_on(timeout(Duration::ZERO, raw.near.write(&data)));
                written += count.unwrap_or(Ok(0)).unwrap_or(0) as u32;
                raw.work();
            }
            Act::Wait(ms) => {
                host::advance(u32::from(ms) * MS);
                raw.work();
            }
        }
        assert!(stack.stats().buffer_bytes <= 2 * pages * PAGE_BYTES);
    }
    drop(raw);
    host::advance(600 * SEC);
    let stats = stack.stats();
    assert_eq!((stats.sockets, stats.buffer_bytes), (0, 0));
}
