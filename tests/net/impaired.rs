//! Connections over a network that loses, reorders and delays frames, and
//! readers that take their time. All times are of the clock that tests move.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use firstpoll::net::{Buffers, ListenerOptions, TcpListener, TcpStream};
use firstpoll::time::{Duration, Instant, sleep};
use firstpoll::{block_on, spawn};
use firstpoll_peer::frame::{Parsed, TcpControl};
use firstpoll_peer::{Direction, Impairment};

use crate::peer::{Peer, PeerStream, start};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// For throughput over a distance.
const LARGE: usize = 256 << 10;

/// What case C8 asks for, on a network with a round trip of half a millisecond.
const LOSSY: Impairment = Impairment {
    loss: 0.02,
    duplication: 0.0,
    reordering: 0.02,
    hold: Duration::from_millis(1),
    delay: Duration::from_micros(200),
    jitter: Duration::from_micros(100),
};

/// Byte n of what is sent; 251 is no divisor of any segment's length.
fn pattern(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|n| (n % 251) as u8).collect()
}

/// A stack and a peer with a connection between them, with large buffers.
fn connected() -> (Peer, TcpStream, PeerStream) {
    let (stack, peer) = start();
    let buffers = Buffers {
        receive_bytes: LARGE,
        send_bytes: LARGE,
    };
    let options = ListenerOptions {
        buffers,
        ..ListenerOptions::default()
    };
    let listener = TcpListener::bind_with(stack, 80, options).unwrap();
    let (near, far) = block_on(async {
        let far = peer.begin_with(80, LARGE);
        let near = listener.accept().await.unwrap();
        assert!(far.established().await);
        (near, far)
    });
    (peer, near, far)
}

/// Writes `total` bytes of the pattern, and the end.
async fn write(mut near: TcpStream, total: usize) -> TcpStream {
    let mut written = 0;
    while written < total {
        let part = pattern(written, (total - written).min(1 << 16));
        near.write_all(&part).await.unwrap();
        written += part.len();
    }
    near.shutdown().await.unwrap();
    near
}

/// The same from the far side.
async fn write_far(far: PeerStream, total: usize) {
    let mut written = 0;
    while written < total {
        let part = pattern(written, (total - written).min(1 << 16));
        far.write_all(&part).await;
        written += part.len();
    }
    far.close();
}

/// Reads the pattern to its end; how much it was.
async fn read(near: &mut TcpStream) -> usize {
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        let count = near.read(&mut buffer).await.unwrap();
        assert!(buffer[..count] == pattern(total, count), "at {total}");
        total += count;
        if count == 0 {
            return total;
        }
    }
}

/// The same at the far side.
async fn read_far(far: &PeerStream) -> usize {
    let mut total = 0;
    loop {
        let part = far.read().await.unwrap();
        assert!(part == pattern(total, part.len()), "at {total}");
        total += part.len();
        if part.is_empty() {
            return total;
        }
    }
}

/// Case C8: sends `total` bytes each way over a network that loses 2 % of the
/// frames and reorders others.
fn over_a_lossy_network(total: usize) {
    let lossy = |seed| {
        let (peer, near, far) = connected();
        peer.impair(Direction::Incoming, LOSSY, seed);
        peer.impair(Direction::Outgoing, LOSSY, seed + 100);
        (peer, near, far)
    };
    let lost = |peer: &Peer| {
        [Direction::Incoming, Direction::Outgoing]
            .map(|direction| peer.with_path(direction, |path| path.counts().lost))
    };
    let (peer, near, far) = lossy(1);
    block_on(async {
        let began = Instant::now();
        let writer = spawn(write(near, total));
        assert_eq!(read_far(&far).await, total);
        let took = Instant::now() - began;
        far.close();
        drop(writer.await);
        let (rate, lost) = (total as f64 / took.as_secs_f64(), lost(&peer));
        println!("{total} bytes took {took:?}: {rate:.0} bytes/s, lost {lost:?}");
        assert!(lost[0] > 0 && lost[1] > 0);
        assert!(rate > 1e6, "{rate:.0} bytes/s");
    });
    // The far host, a plain smoltcp, waits a second for many a segment.
    let (peer, mut near, far) = lossy(2);
    block_on(async {
        let writer = spawn(write_far(far, total));
        assert_eq!(read(&mut near).await, total);
        writer.await;
        assert!(lost(&peer)[1] > 0);
    });
}

#[test]
fn a_lossy_network_slows_no_more_than_it_must() {
    over_a_lossy_network(5_000_000);
}

/// Case C8 in full.
#[test]
#[ignore = "long"]
fn a_lossy_network_slows_no_more_than_it_must_in_full() {
    over_a_lossy_network(100_000_000);
}

/// Writes `segments` full segments, of which those at the places `lost` are lost
/// once, over a network with a round trip of 2 ms; how long it takes until the
/// far host has all.
fn with_losses(segments: usize, lost: &'static [u32]) -> Duration {
    const SEGMENT_BYTES: usize = 1460;
    let (peer, mut near, far) = connected();
    let delay = Impairment {
        delay: MS,
        ..Impairment::default()
    };
    peer.impair(Direction::Incoming, delay, 0);
    peer.impair(Direction::Outgoing, delay, 0);
    block_on(async {
        // So that the round trip is known and the window open.
        for _ in 0..20 {
            near.write_all(&[b'x'; 8 * SEGMENT_BYTES]).await.unwrap();
            far.read_exactly(8 * SEGMENT_BYTES).await;
        }
        sleep(SEC).await;
        let mut place = 0;
        peer.with_path(Direction::Incoming, |path| {
            path.lose(move |frame| {
                let Some(Parsed::Tcp { segment, .. }) = Parsed::parse(frame) else {
                    return false;
                };
                place += u32::from(!segment.payload.is_empty());
                !segment.payload.is_empty() && lost.contains(&(place - 1))
            });
        });
        let began = Instant::now();
        let data = pattern(0, segments * SEGMENT_BYTES);
        near.write_all(&data).await.unwrap();
        assert!(far.read_exactly(data.len()).await == data);
        let counts = peer.with_path(Direction::Incoming, |path| path.counts());
        assert_eq!(counts.lost, lost.len() as u64);
        Instant::now() - began
    })
}

/// RFC 6582: the acknowledgement of a part tells of the next loss.
#[test]
fn several_losses_of_one_window_take_a_round_trip_each() {
    let took = with_losses(20, &[2, 5, 9]);
    assert!(took < 9 * MS, "{took:?}");
}

/// RFC 8985 §7: after the last segments nothing comes that tells of their loss.
#[test]
fn lost_last_segments_are_sent_again_after_a_short_silence() {
    let took = with_losses(20, &[18, 19]);
    assert!(took < 40 * MS, "{took:?}");
    let took = with_losses(1, &[0]);
    assert!(took < 250 * MS, "{took:?}");
}

/// A segment that is lost again when it is sent again.
#[test]
fn a_segment_that_is_lost_twice_is_sent_again_after_a_short_silence() {
    let took = with_losses(20, &[2, 20]);
    assert!(took < 30 * MS, "{took:?}");
}

/// Case C5: a response of `total` bytes and the end of the stream, to a reader
/// that is slower than the network.
fn to_a_slow_reader(total: usize) {
    let (_peer, near, far) = connected();
    block_on(async {
        let writer = spawn(write(near, total));
        let mut read = 0;
        loop {
            let part = far.read().await.unwrap();
            assert!(part == pattern(read, part.len()), "at {read}");
            read += part.len();
            if part.is_empty() {
                break;
            }
            // Once in a while it does not read for longer than a probe waits.
            let long = read % 1_000_000 < part.len();
            sleep(if long { 3 * SEC } else { 5 * MS }).await;
        }
        assert_eq!(read, total);
        far.close();
        drop(writer.await);
    });
}

#[test]
fn a_slow_reader_gets_every_byte() {
    to_a_slow_reader(3_000_000);
}

/// Case C5 in full.
#[test]
#[ignore = "long"]
fn a_slow_reader_gets_every_byte_in_full() {
    to_a_slow_reader(50_000_000);
}

/// Loses the next acknowledgement without data that opens a window, each time
/// that `armed` is counted up.
fn lose_window_updates(peer: &Peer, direction: Direction, armed: &Arc<AtomicU32>) {
    let armed = Arc::clone(armed);
    peer.with_path(direction, |path| {
        path.lose(move |frame| {
            let Some(Parsed::Tcp { segment, .. }) = Parsed::parse(frame) else {
                return false;
            };
            let is_update = segment.payload.is_empty()
                && segment.control == TcpControl::None
                && segment.window_len > 0;
            is_update
                && armed
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| {
                        count.checked_sub(1)
                    })
                    .is_ok()
        });
    });
}

/// Case C6: the far reader pauses for 20 s, and its window update is lost.
#[test]
fn a_lost_window_update_of_the_peer_is_asked_for() {
    let (peer, near, far) = connected();
    let armed = Arc::new(AtomicU32::new(0));
    lose_window_updates(&peer, Direction::Outgoing, &armed);
    let total = 3 * LARGE;
    block_on(async {
        let writer = spawn(write(near, total));
        sleep(20 * SEC).await;
        armed.store(1, Ordering::SeqCst);
        let began = Instant::now();
        assert_eq!(read_far(&far).await, total);
        assert_eq!(armed.load(Ordering::SeqCst), 0, "an update was lost");
        let took = Instant::now() - began;
        assert!(took < 65 * SEC, "it went on after {took:?}");
        far.close();
        drop(writer.await);
    });
}

/// Case C6 the other way round: the reader here pauses, and its window update
/// is lost.
#[test]
fn a_lost_window_update_is_repeated_when_asked_for() {
    let (peer, mut near, far) = connected();
    let armed = Arc::new(AtomicU32::new(0));
    lose_window_updates(&peer, Direction::Incoming, &armed);
    let total = 3 * LARGE;
    block_on(async {
        let writer = spawn(write_far(far, total));
        sleep(20 * SEC).await;
        armed.store(1, Ordering::SeqCst);
        let began = Instant::now();
        assert_eq!(read(&mut near).await, total);
        assert_eq!(armed.load(Ordering::SeqCst), 0, "an update was lost");
        let took = Instant::now() - began;
        assert!(took < 65 * SEC, "it went on after {took:?}");
        writer.await;
    });
}

/// The orders in which the network doubles, holds back and loses frames during
/// handshakes and ends of connections.
#[test]
fn connections_begin_and_end_on_a_network_that_does_everything() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let everything = Impairment {
        loss: 0.1,
        duplication: 0.1,
        reordering: 0.2,
        hold: 20 * MS,
        delay: 2 * MS,
        jitter: 3 * MS,
    };
    let server = spawn(async move {
        for _ in 0..100 {
            let mut stream = listener.accept().await.unwrap();
            spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    stream.write_all(&buffer[..count]).await.unwrap();
                }
            })
            .detach();
        }
    });
    block_on(async {
        peer.impair(Direction::Incoming, everything, 11);
        peer.impair(Direction::Outgoing, everything, 12);
        let clients = (0..100_u32).map(|number| {
            let peer = peer.clone();
            spawn(async move {
                let client = peer.connect(80).await.expect("refused");
                client.write_all(&number.to_be_bytes()).await;
                assert_eq!(client.read_exactly(4).await, number.to_be_bytes());
                client.close();
                assert_eq!(client.read().await.unwrap(), b"");
                client.closed().await;
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await;
        }
        server.await;
        sleep(120 * SEC).await;
    });
    let stats = stack.stats();
    assert_eq!((stats.accepted, stats.sockets), (100, 0), "{stats:?}");
}
