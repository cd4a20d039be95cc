//! Many connections: one after another, at once, and hostile ones.

use firstpoll::arch::{Memory, host};
use firstpoll::net::{Buffers, ListenerOptions, TcpListener, TcpStream};
use firstpoll::time::{Duration, sleep, timeout};
use firstpoll::{block_on, spawn, yield_now};
use smoltcp::wire::{ArpOperation, Ipv4Address, TcpControl};

use crate::frames::{Sent, arp, look, segment};
use crate::peer::{PEER_IP, PEER_MAC, start};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Case C1, in small; TIME-WAIT costs a record each.
#[test]
fn two_thousand_connections_one_after_another() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let server = spawn(async move {
        for _ in 0..2000 {
            let mut stream = listener.accept().await.unwrap();
            let mut buffer = [0; 64];
            let count = stream.read(&mut buffer).await.unwrap();
            stream.write_all(&buffer[..count]).await.unwrap();
            // The server closes first, and is left with the TIME-WAIT.
        }
    });
    block_on(async {
        for number in 0..2000_u32 {
            let client = peer.connect(80).await.expect("refused");
            client.write_all(&number.to_be_bytes()).await;
            assert_eq!(client.read_to_end().await.unwrap(), number.to_be_bytes());
            client.close();
            client.closed().await;
            peer.forget_closed();
            assert!(stack.stats().sockets <= 2, "{:?}", stack.stats());
        }
        server.await;
        sleep(60 * SEC).await;
    });
    let stats = stack.stats();
    assert_eq!(
        (
            stats.accepted,
            stats.sockets,
            stats.half_open,
            stats.closing
        ),
        (2000, 0, 0, 0)
    );
}

/// A port of the peer that comes again while its last connection is in
/// TIME-WAIT here. This peer draws its sequence numbers at random, so that some
/// attempts look late and have to be repeated until TIME-WAIT is over.
#[test]
fn a_peer_may_use_its_port_again() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    block_on(async {
        for _ in 0..10 {
            let client = peer.begin_from(4444, 80);
            drop(listener.accept().await.unwrap());
            assert_eq!(client.read().await.unwrap(), b"");
            client.close();
            client.closed().await;
            peer.forget_closed();
        }
        assert_eq!(stack.stats().accepted, 10);
    });
    let elapsed = firstpoll::time::Instant::now() - crate::peer::START;
    assert!(elapsed < 9 * 16 * SEC, "{elapsed:?}");
}

#[test]
fn two_hundred_connects_at_once_to_a_slow_acceptor_are_all_served() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let server = spawn(async move {
        for _ in 0..200 {
            sleep(20 * MS).await;
            let mut stream = listener.accept().await.unwrap();
            let mut buffer = [0; 8];
            let count = stream.read(&mut buffer).await.unwrap();
            stream.write_all(&buffer[..count]).await.unwrap();
        }
    });
    block_on(async {
        let clients: Vec<_> = (0..200).map(|_| peer.begin_with(80, 2048)).collect();
        for client in &clients {
            assert!(client.established().await);
            client.write_all(b"hello").await;
        }
        for client in &clients {
            assert_eq!(client.read_to_end().await.unwrap(), b"hello");
        }
        server.await;
    });
    assert_eq!(stack.stats().backlog_full, 0);
}

#[test]
fn a_full_backlog_leaves_attempts_unanswered_until_there_is_room() {
    let (stack, peer) = start();
    let options = ListenerOptions {
        backlog: 2,
        ..ListenerOptions::default()
    };
    let listener = TcpListener::bind_with(stack, 80, options).unwrap();
    block_on(async {
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(peer.begin(80));
            sleep(100 * MS).await;
        }
        assert!(stack.stats().backlog_full > 0);
        let established = |client: &crate::peer::PeerStream| {
            client.state() == smoltcp::socket::tcp::State::Established
        };
        assert_eq!(
            clients.iter().filter(|client| established(client)).count(),
            2
        );
        let first = listener.accept().await.unwrap();
        // The peer repeats its attempt after a second.
        sleep(3 * SEC).await;
        assert_eq!(
            clients.iter().filter(|client| established(client)).count(),
            3
        );
        drop(first);
    });
}

#[test]
fn an_honest_client_gets_through_a_flood_of_half_open_connections() {
    let (stack, peer) = start();
    let options = ListenerOptions {
        backlog: 4096,
        buffers: Buffers {
            receive_bytes: 1024,
            send_bytes: 1024,
        },
        ..ListenerOptions::default()
    };
    let listener = TcpListener::bind_with(stack, 80, options).unwrap();
    let server = spawn(async move {
        let mut stream = listener.accept().await.unwrap();
        stream.write_all(b"welcome").await.unwrap();
        (stream, listener)
    });
    block_on(async {
        for number in 0..3000_u16 {
            let from = Ipv4Address::new(10, 0, 2, 100 + (number % 40) as u8);
            if number < 40 {
                peer.wire.send(arp(ArpOperation::Request, from, PEER_MAC));
            }
            peer.wire
                .send(segment(from, (2000 + number, 80), TcpControl::Syn, 1, None));
        }
        let client = peer.begin(80);
        for number in 3000..3500_u16 {
            let from = Ipv4Address::new(10, 0, 2, 100 + (number % 40) as u8);
            peer.wire
                .send(segment(from, (2000 + number, 80), TcpControl::Syn, 1, None));
        }
        assert!(client.established().await);
        assert_eq!(client.read_exactly(7).await, b"welcome");
        let stats = stack.stats();
        assert!(stats.half_open <= 1024, "{stats:?}");
        assert!(stats.half_open_evicted >= 3501 - 1024 - 1, "{stats:?}");
        let (stream, listener) = server.await;
        drop(stream);
        sleep(120 * SEC).await;
        assert_eq!(stack.stats().half_open, 0);
        drop(listener);
        client.close();
        sleep(120 * SEC).await;
        assert_eq!(stack.stats().sockets, 0);
    });
}

/// The default backlog, which is smaller than the flood.
#[test]
fn a_flood_does_not_close_a_listener_with_the_default_backlog() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    peer.wire
        .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
    block_on(async {
        for number in 0..3000_u16 {
            let from = Ipv4Address::new(10, 0, 2, 100 + (number % 40) as u8);
            if number < 40 {
                peer.wire.send(arp(ArpOperation::Request, from, PEER_MAC));
            }
            peer.wire
                .send(segment(from, (2000 + number, 80), TcpControl::Syn, 1, None));
        }
        let client = peer.begin(80);
        let stream = listener.accept().await.unwrap();
        assert_eq!(stream.peer_addr().ip(), PEER_IP);
        drop(client);
    });
    assert!(firstpoll::time::Instant::now() - crate::peer::START < SEC);
}

/// Peers that let the server's end of the stream go unanswered.
#[test]
fn peers_that_never_let_go_do_not_pile_up() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let server = spawn(async move {
        loop {
            let mut stream = listener.accept().await.unwrap();
            stream.write_all(b"never acknowledged").await.unwrap();
        }
    });
    block_on(async {
        peer.wire
            .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
        yield_now().await;
        for port in 1000..3000_u16 {
            let ports = (port, 80);
            peer.wire
                .send(segment(PEER_IP, ports, TcpControl::Syn, 1, None));
            yield_now().await;
            let mut sent = std::iter::from_fn(|| peer.wire.receive());
            let theirs = sent.find_map(|frame| match look(&frame) {
                Sent::Tcp { seq, syn: true, .. } => Some(seq),
                _ => None,
            });
            let ack = theirs.map(|seq| seq + 1);
            assert!(ack.is_some(), "port {port} is not answered");
            peer.wire
                .send(segment(PEER_IP, ports, TcpControl::None, 2, ack));
            yield_now().await;
        }
        yield_now().await;
        let stats = stack.stats();
        assert_eq!(stats.accepted, 2000, "{stats:?}");
        assert!(stats.sockets <= 1024, "{stats:?}");
        assert_eq!(stats.orphans_evicted, 2000 - stats.sockets as u64);
    });
    drop(server);
}

/// Case N6, the part that the stack has a say in: peers do not get the memory
/// that the program needs to go on.
#[test]
fn peers_are_refused_before_the_program_runs_out_of_memory() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let memory = |allocated_bytes| {
        host::set_memory(Memory {
            heap_bytes: 64 << 20,
            allocated_bytes,
        })
    };
    block_on(async {
        memory(32 << 20);
        let first = peer.begin(80);
        let stream = listener.accept().await.unwrap();
        memory(63 << 20);
        let second = peer.begin(80);
        assert!(timeout(SEC / 2, listener.accept()).await.is_err());
        assert!(stack.stats().out_of_memory > 0);
        assert_eq!(stack.stats().sockets, 1);
        // Those that are there stay, and the program is not refused.
        first.write_all(b"still here").await;
        let mut stream = stream;
        assert_eq!(stream.read(&mut [0; 64]).await, Ok(10));
        let _far = peer.listen(7);
        assert!(TcpStream::connect(stack, (PEER_IP, 7).into()).await.is_ok());
        memory(32 << 20);
        assert!(listener.accept().await.is_ok());
        drop(second);
    });
}

/// Where half-open connections take all the memory, the newest still gets in.
#[test]
fn an_honest_client_gets_through_a_flood_that_takes_the_memory() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    block_on(async {
        let from = Ipv4Address::new(10, 0, 2, 100);
        peer.wire.send(arp(ArpOperation::Request, from, PEER_MAC));
        for port in 1000..1100 {
            peer.wire
                .send(segment(from, (port, 80), TcpControl::Syn, 1, None));
        }
        yield_now().await;
        host::advance(10 * MS);
        assert_eq!(stack.stats().half_open, 100);
        host::set_memory(Memory {
            heap_bytes: 64 << 20,
            allocated_bytes: 63 << 20,
        });
        let client = peer.begin(80);
        assert!(timeout(SEC / 2, listener.accept()).await.is_ok());
        assert!(stack.stats().half_open_evicted > 0);
        drop(client);
    });
}

#[test]
fn a_busy_program_accepts_what_came_meanwhile_in_order() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let clients: Vec<_> = (0..50).map(|_| peer.begin(80)).collect();
    block_on(firstpoll::yield_now());
    for _ in 0..20 {
        peer.poll();
        host::advance(2 * MS);
    }
    let mut last = 0;
    for _ in &clients {
        let stream = block_on(listener.accept()).unwrap();
        assert!(stream.peer_addr().port() > last);
        last = stream.peer_addr().port();
    }
}
