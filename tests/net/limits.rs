//! What the stack may hold: at a limit the newcomer is refused, what is
//! established goes on, and everything comes back.

use firstpoll::arch::host;
use firstpoll::net::{Error, Limits, Stack, Stats, TcpListener, TcpOptions, TcpStream};
use firstpoll::time::{Duration, sleep};
use firstpoll::{block_on, spawn};
use smoltcp::wire::TcpControl::{Fin, None as Plain};

use crate::peer::{PEER_IP, Peer, PeerStream, start, start_limited};
use crate::raw::Raw;

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn limits() -> Limits {
    Limits::for_heap(0)
}

async fn connected(listener: &TcpListener, peer: &Peer) -> (TcpStream, PeerStream) {
    let far = peer.begin(80);
    let near = listener.accept().await.unwrap();
    assert!(far.established().await);
    (near, far)
}

/// Whether data goes both ways.
async fn works((near, far): &mut (TcpStream, PeerStream)) {
    far.write_all(b"ping").await;
    assert_eq!(near.read(&mut [0; 8]).await, Ok(4));
    near.write_all(b"pong").await.unwrap();
    assert_eq!(far.read_exactly(4).await, b"pong");
}

/// What the stack holds.
fn held(stats: &Stats) -> [usize; 6] {
    [
        stats.sockets,
        stats.half_open,
        stats.orphans,
        stats.closing,
        stats.time_wait,
        stats.buffer_bytes,
    ]
}

#[test]
fn at_the_limit_of_connections_newcomers_are_refused_and_the_others_go_on() {
    let (stack, peer) = start_limited(Limits {
        connections: 3,
        ..limits()
    });
    let listener = TcpListener::bind(stack, 80).unwrap();
    block_on(async {
        assert_eq!(stack.limits().connections, 3);
        let mut pairs = Vec::new();
        for _ in 0..3 {
            pairs.push(connected(&listener, &peer).await);
        }
        let late = peer.begin(80);
        sleep(100 * MS).await;
        assert_eq!(stack.stats().refused_connections, 1);
        let outgoing = TcpStream::connect(stack, (PEER_IP, 99).into()).await;
        assert_eq!(outgoing.err(), Some(Error::LimitReached));
        assert_eq!(stack.stats().refused_connections, 2);
        for pair in &mut pairs {
            works(pair).await;
        }
        assert_eq!(stack.stats().sockets, 3);
        // A place that is free again goes to the one who repeats the attempt.
        drop(pairs.pop());
        assert!(late.established().await);
        let near = listener.accept().await.unwrap();
        works(&mut (near, late)).await;
    });
}

/// Memory goes to data that nobody reads; newcomers are refused before those
/// that are there run out of it.
#[test]
fn at_the_limit_of_buffers_newcomers_are_refused_and_the_others_go_on() {
    let (stack, peer) = start_limited(Limits {
        buffer_bytes: 128 << 10,
        ..limits()
    });
    let listener = TcpListener::bind(stack, 80).unwrap();
    block_on(async {
        let mut pairs = Vec::new();
        for _ in 0..7 {
            let pair = connected(&listener, &peer).await;
            pair.1.write_all(&[7; 16 << 10]).await;
            pairs.push(pair);
        }
        sleep(SEC).await;
        assert_eq!(stack.stats().buffer_bytes, 7 << 14);
        let late = peer.begin(80);
        sleep(100 * MS).await;
        assert_eq!(stack.stats().refused_buffers, 1);
        let outgoing = TcpStream::connect(stack, (PEER_IP, 99).into()).await;
        assert_eq!(outgoing.err(), Some(Error::LimitReached));
        for (near, far) in &mut pairs {
            near.write_all(b"pong").await.unwrap();
            assert_eq!(far.read_exactly(4).await, b"pong");
            let mut left = 16 << 10;
            while left > 0 {
                left -= near.read(&mut [0; 4096]).await.unwrap();
            }
        }
        assert!(late.established().await);
        for pair in &mut pairs {
            works(pair).await;
        }
        let stats = stack.stats();
        assert!(stats.buffer_bytes_most >= 7 << 14, "{stats:?}");
        sleep(10 * SEC).await;
        assert_eq!(stack.stats().buffer_bytes, 0);
    });
}

#[test]
fn an_orphan_gives_way_to_a_newcomer() {
    let (stack, peer) = start_limited(Limits {
        connections: 1,
        ..limits()
    });
    let listener = TcpListener::bind(stack, 80).unwrap();
    // Its peer does not acknowledge the end.
    let (_raw, stream) = Raw::open(&peer, &listener, 4000, 1);
    drop(stream);
    assert_eq!((stack.stats().sockets, stack.stats().orphans), (1, 1));
    let mut other = Raw::new(&peer, 4001, 80, 1);
    other.handshake();
    let stats = stack.stats();
    assert_eq!((stats.orphans, stats.orphans_evicted), (0, 1));
    assert_eq!(stats.refused_connections, 0);
}

#[test]
fn a_half_open_connection_gives_way_to_a_newcomer() {
    let (stack, peer) = start_limited(Limits {
        half_open: 2,
        ..limits()
    });
    let _listener = TcpListener::bind(stack, 80).unwrap();
    let mut half_open: Vec<_> = (0..3)
        .map(|number| {
            let mut raw = Raw::new(&peer, 4000 + number, 80, 1);
            raw.begin();
            raw
        })
        .collect();
    let stats = stack.stats();
    assert_eq!((stats.half_open, stats.half_open_evicted), (2, 1));
    // The newest gets in.
    assert_eq!(half_open[2].send(Plain, b""), []);
    assert_eq!(stack.stats().half_open, 1);
}

#[test]
fn orphans_and_records_are_bounded() {
    let (stack, peer) = start_limited(Limits {
        orphans: 2,
        closing_records: 3,
        ..limits()
    });
    let listener = TcpListener::bind(stack, 80).unwrap();
    let mut ends = Vec::new();
    for number in 0..4 {
        let (mut raw, stream) = Raw::open(&peer, &listener, 4000 + number, 1);
        drop(stream);
        raw.answers();
        raw.theirs += 1;
        ends.push(raw);
    }
    assert_eq!((stack.stats().orphans, stack.stats().sockets), (2, 2));
    assert_eq!(stack.stats().orphans_evicted, 2);
    for number in 0..4 {
        let (mut raw, stream) = Raw::open(&peer, &listener, 5000 + number, 1);
        drop(stream);
        raw.answers();
        raw.theirs += 1;
        assert_eq!(raw.send(Fin, b""), [raw.acknowledgement()]);
    }
    let stats = stack.stats();
    assert_eq!((stats.closing, stats.closing_evicted), (3, 1));
}

/// Cases C2 and C3 in small: whatever way connections end, what they held comes
/// back.
#[test]
fn everything_comes_back() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let before = held(&stack.stats());
    block_on(async {
        for round in 0..400 {
            let (mut near, far) = connected(&listener, &peer).await;
            match round % 8 {
                // The stack closes first.
                0 => {
                    near.write_all(b"answer").await.unwrap();
                    drop(near);
                    assert_eq!(far.read_to_end().await.unwrap(), b"answer");
                    far.close();
                }
                // The peer closes first.
                1 => {
                    far.close();
                    assert_eq!(near.read(&mut [0; 8]).await, Ok(0));
                    drop(near);
                }
                // Both at once.
                2 => {
                    far.close();
                    drop(near);
                }
                // The peer resets.
                3 => {
                    far.abort();
                    assert!(near.read(&mut [0; 8]).await.is_err());
                }
                // The stack resets: something was not read.
                4 => {
                    far.write_all(b"unread").await;
                    sleep(MS).await;
                    drop(near);
                }
                // The peer never closes its side.
                5 => {
                    drop(near);
                    far.read().await.unwrap();
                }
                // The peer sends what nobody reads.
                6 => {
                    drop(near);
                    far.read().await.unwrap();
                    far.write_all(b"unread").await;
                }
                // Shut down before it is dropped.
                _ => {
                    near.shutdown().await.unwrap();
                    far.close();
                    assert_eq!(near.read(&mut [0; 8]).await, Ok(0));
                    drop(near);
                }
            }
        }
        assert!(stack.stats().closing > 0);
        sleep(120 * SEC).await;
    });
    assert_eq!(held(&stack.stats()), before);
    assert_eq!(stack.stats().accepted, 400);
}

#[test]
fn a_listener_that_ends_gives_everything_back() {
    let (stack, peer) = start();
    let before = held(&stack.stats());
    let listener = TcpListener::bind(stack, 80).unwrap();
    for port in 4000..4010 {
        let mut raw = Raw::new(&peer, port, 80, 1);
        if port % 2 == 0 {
            raw.handshake();
        } else {
            raw.begin();
        }
    }
    let stats = stack.stats();
    assert_eq!((stats.sockets, stats.half_open), (10, 5));
    assert!(stats.socket_bytes > 0);
    drop(listener);
    host::advance(SEC);
    assert_eq!(held(&stack.stats()), before);
}

fn give_up_connecting(stack: Stack) -> Option<Error> {
    let options = TcpOptions {
        connect_timeout: SEC,
        ..TcpOptions::default()
    };
    let nobody = "10.0.2.77:80".parse().unwrap();
    block_on(TcpStream::connect_with(stack, nobody, options)).err()
}

#[test]
fn attempts_that_fail_give_everything_back() {
    let (stack, _peer) = start();
    let before = held(&stack.stats());
    for _ in 0..5 {
        assert_eq!(give_up_connecting(stack), Some(Error::TimedOut));
        let refused = block_on(TcpStream::connect(stack, (PEER_IP, 1).into()));
        assert_eq!(refused.err(), Some(Error::ConnectionRefused));
    }
    let cancelled = spawn(async move {
        let _ = TcpStream::connect(stack, (PEER_IP, 1).into()).await;
    });
    drop(cancelled);
    block_on(sleep(SEC));
    assert_eq!(held(&stack.stats()), before);
}
