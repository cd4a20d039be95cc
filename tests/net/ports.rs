//! The local ports of outgoing connections.

use std::collections::BTreeSet;

use firstpoll::net::{Buffers, Stack, TcpListener, TcpOptions, TcpStream};
use firstpoll::time::{Duration, sleep};
use firstpoll::{block_on, yield_now};

use crate::peer::{PEER_IP, Peer, PeerStream, start};

const MS: Duration = Duration::from_millis(1);

const SMALL: Buffers = Buffers {
    receive_bytes: 1024,
    send_bytes: 1024,
};

async fn connect(stack: Stack, peer: &Peer) -> (TcpStream, PeerStream) {
    let options = TcpOptions {
        buffers: SMALL,
        ..TcpOptions::default()
    };
    let far = peer.listen_with(99, 1024);
    let near = TcpStream::connect_with(stack, (PEER_IP, 99).into(), options).await;
    assert!(far.established().await);
    (near.unwrap(), far)
}

fn port(stream: &TcpStream) -> u16 {
    stream.local_addr().port()
}

/// RFC 6056: from the whole range, and not one behind the other.
#[test]
fn ports_are_drawn_at_random() {
    let (stack, peer) = start();
    block_on(async {
        let mut held = Vec::new();
        for _ in 0..200 {
            held.push(connect(stack, &peer).await);
        }
        let ports: Vec<_> = held.iter().map(|(near, _)| port(near)).collect();
        let distinct = BTreeSet::from_iter(&ports);
        assert_eq!(distinct.len(), 200);
        assert!(ports.iter().all(|&port| port >= 1024));
        let near_to_the_last = ports.windows(2).filter(|two| two[0].abs_diff(two[1]) < 100);
        assert!(near_to_the_last.count() < 10, "{ports:?}");
        for quarter in 0..4 {
            let there = ports.iter().filter(|&&port| port / (1 << 14) == quarter);
            assert!(there.count() > 25, "{ports:?}");
        }
    });
}

/// A peer that closes first keeps the ends of the connection for a while, and
/// need not answer another from the same port.
#[test]
fn no_port_comes_again_soon() {
    let (stack, peer) = start();
    block_on(async {
        let mut ports = BTreeSet::new();
        for _ in 0..2_000 {
            let (mut near, far) = connect(stack, &peer).await;
            assert!(ports.insert(port(&near)), "a port came again");
            far.close();
            assert_eq!(near.read(&mut [0]).await, Ok(0));
            drop(near);
            far.closed().await;
            peer.forget_closed();
        }
    });
}

/// Case C4; `held` of the connections stay, and each other one is closed by the
/// stack first, so that its port is left in TIME-WAIT.
fn connect_in_a_row(count: usize, held: usize) {
    let (stack, peer) = start();
    let _listener = TcpListener::bind(stack, 50_000).unwrap();
    block_on(async {
        let mut stay = Vec::new();
        for _ in 0..held {
            stay.push(connect(stack, &peer).await);
        }
        let live = BTreeSet::from_iter(stay.iter().map(|(near, _)| port(near)));
        for number in 0..count {
            let (near, far) = connect(stack, &peer).await;
            let port = port(&near);
            assert!(port >= 1024 && port != 50_000 && !live.contains(&port));
            drop(near);
            assert_eq!(far.read().await, Ok(Vec::new()));
            far.close();
            far.closed().await;
            peer.forget_closed();
            if number % 1000 == 0 {
                // The last acknowledgement.
                yield_now().await;
            }
        }
        sleep(MS).await;
        let stats = stack.stats();
        assert_eq!(stats.sockets, held);
        assert_eq!(stats.connected, (held + count) as u64);
        for (near, far) in &mut stay {
            near.write_all(b"still here").await.unwrap();
            assert_eq!(far.read_exactly(10).await, b"still here");
        }
    });
}

#[test]
fn two_thousand_connects_in_a_row_use_no_port_that_is_in_use() {
    connect_in_a_row(2_000, 50);
}

/// More than there are ports, before the first has left TIME-WAIT.
#[test]
#[ignore = "long"]
fn seventy_thousand_connects_in_a_row_use_no_port_that_is_in_use() {
    connect_in_a_row(70_000, 50);
}
