//! UDP sockets: data both ways, queues and their bounds, neighbours, groups.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Waker};

use firstpoll::arch::host;
use firstpoll::net::{Config, Error, Ipv4Config, Limits, Stack, UdpOptions, UdpSocket};
use firstpoll::time::{Duration, sleep, timeout};
use firstpoll::{block_on, spawn, yield_now};
use proptest::collection::vec;
use proptest::prelude::*;
use smoltcp::wire::{ArpOperation, EthernetAddress, Ipv4Address};

use crate::datagrams::{
    Out, echo_reply, group_mac, igmp_query, look_out, port_unreachable, udp, udp_to,
};
use crate::frames::{arp, ipv4, udp_broadcast};
use crate::peer::{PEER_IP, PEER_MAC, Peer, STACK_IP, start, start_with};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const STRANGER: Ipv4Address = Ipv4Address::new(10, 0, 2, 99);
const STRANGER_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 9]);
const GROUP: Ipv4Address = Ipv4Address::new(239, 1, 2, 3);

fn any_address(port: u16) -> SocketAddr {
    (Ipv4Addr::UNSPECIFIED, port).into()
}

fn peer_at(port: u16) -> SocketAddr {
    (PEER_IP, port).into()
}

/// A stack that knows its neighbour, whose frames the test makes by hand.
fn start_by_hand() -> (Stack, Peer) {
    by_hand(start())
}

fn start_with_limits(buffer_bytes: usize) -> (Stack, Peer) {
    let address = Ipv4Config {
        address: STACK_IP,
        prefix_len: 24,
        gateway: None,
    };
    let limits = Limits {
        buffer_bytes,
        ..Limits::default()
    };
    by_hand(start_with(Config {
        limits,
        ..Config::from(address)
    }))
}

fn by_hand((stack, peer): (Stack, Peer)) -> (Stack, Peer) {
    host::on_halt(|_| false);
    block_on(yield_now());
    host::advance(100 * MS);
    peer.wire
        .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
    host::advance(2 * MS);
    sent(&peer);
    (stack, peer)
}

fn sent(peer: &Peer) -> Vec<Out> {
    std::iter::from_fn(|| peer.wire.receive())
        .map(|frame| look_out(&frame))
        .collect()
}

/// Lets the stack work on a frame.
fn deliver(peer: &Peer, frame: Vec<u8>) {
    peer.wire.send(frame);
    host::advance(2 * MS);
}

/// What is ready now.
fn now<F: Future>(future: F) -> Option<F::Output> {
    block_on(timeout(Duration::ZERO, future)).ok()
}

#[test]
fn datagrams_go_both_ways() {
    let (stack, peer) = start();
    let far = peer.udp(None, 2000);
    block_on(async {
        let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
        assert_eq!(socket.local_addr(), any_address(7));
        for data in [&b"ping"[..], b"", &[7; 1472]] {
            socket.send_to(data, peer_at(2000)).await.unwrap();
            let (received, meta) = far.receive().await;
            assert_eq!(received, data);
            far.send(&received, meta.endpoint, None);
            let mut buffer = [0; 2000];
            let back = socket.recv_from(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..back.bytes], data);
            assert_eq!((back.from, back.to), (peer_at(2000), STACK_IP.into()));
            assert!(!back.is_truncated());
        }
        let stats = stack.stats();
        assert_eq!((stats.datagrams_sent, stats.datagrams_received), (3, 3));
        assert_eq!(stats.datagram_sockets, 1);
        drop(socket);
        assert_eq!(stack.stats().datagram_sockets, 0);
    });
}

#[test]
fn a_port_has_one_socket_and_port_zero_is_a_free_one() {
    let (stack, _peer) = start();
    let first = UdpSocket::bind(stack, any_address(7)).unwrap();
    let in_use = |address| UdpSocket::bind(stack, address).map(drop);
    assert_eq!(in_use(any_address(7)), Err(Error::AddrInUse));
    assert_eq!(in_use((STACK_IP, 7).into()), Err(Error::AddrInUse));
    assert_eq!(in_use(peer_at(8)), Err(Error::AddrNotAvailable));
    drop(first);
    assert_eq!(in_use(any_address(7)), Ok(()));
    let ports: Vec<_> = (0..100)
        .map(|_| UdpSocket::bind(stack, any_address(0)).unwrap())
        .collect();
    let mut numbers: Vec<_> = ports
        .iter()
        .map(|socket| socket.local_addr().port())
        .collect();
    let in_a_row = numbers.windows(2).filter(|two| two[0] + 1 == two[1]);
    assert!(in_a_row.count() < 10, "{numbers:?}");
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 100);
    assert!(numbers.iter().all(|&number| number >= 49_152));
    let no_hops = UdpOptions {
        hop_limit: 0,
        ..UdpOptions::default()
    };
    let refused = UdpSocket::bind_with(stack, any_address(9), no_hops).map(drop);
    assert_eq!(refused, Err(Error::InvalidInput));
}

#[test]
fn each_of_many_ports_gets_its_own() {
    let (stack, peer) = start_by_hand();
    let sockets: Vec<_> = (1000..3000)
        .map(|port| UdpSocket::bind(stack, any_address(port)).unwrap())
        .collect();
    for port in (1000..3000).rev().step_by(7) {
        deliver(&peer, udp(PEER_IP, (9, port), &port.to_be_bytes()));
    }
    for socket in &sockets {
        let port = socket.local_addr().port();
        let mut buffer = [0; 8];
        let received = now(socket.recv(&mut buffer));
        if (2999 - port).is_multiple_of(7) {
            assert_eq!(received, Some(Ok(2)));
            assert_eq!(buffer[..2], port.to_be_bytes());
        } else {
            assert_eq!(received, None);
        }
    }
    drop(sockets);
    assert_eq!(stack.stats().datagram_sockets, 0);
}

/// Case N1: the first datagram for a neighbour whose address is unknown.
#[test]
fn the_first_datagrams_for_a_stranger_are_sent_in_order_once_he_answers() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    for data in [b"first", b"other", b"third"] {
        now(socket.send_to(data, (STRANGER, 8).into()))
            .unwrap()
            .unwrap();
    }
    assert_eq!(sent(&peer), [Out::ArpRequest(STRANGER)]);
    host::advance(300 * MS);
    assert_eq!(sent(&peer), []);
    deliver(&peer, arp(ArpOperation::Reply, STRANGER, STRANGER_MAC));
    let data: Vec<_> = sent(&peer).iter().map(|out| out.data().to_vec()).collect();
    assert_eq!(data, [b"first", b"other", b"third"]);
    assert_eq!(stack.stats().datagrams_unreachable, 0);
}

#[test]
fn a_silent_neighbour_is_given_up_and_holds_up_nobody() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    now(socket.send_to(b"lost", (STRANGER, 8).into()))
        .unwrap()
        .unwrap();
    now(socket.send_to(b"fine", peer_at(8))).unwrap().unwrap();
    let out = sent(&peer);
    assert_eq!(out[0], Out::ArpRequest(STRANGER));
    assert_eq!(out[1].data(), b"fine");
    // He is asked three times; in between another one is.
    let other = Ipv4Address::new(10, 0, 2, 98);
    now(socket.send_to(b"late", (other, 8).into()))
        .unwrap()
        .unwrap();
    host::advance(2500 * MS);
    let asked = sent(&peer);
    assert!(asked.contains(&Out::ArpRequest(STRANGER)), "{asked:?}");
    assert!(asked.contains(&Out::ArpRequest(other)), "{asked:?}");
    deliver(&peer, arp(ArpOperation::Reply, other, STRANGER_MAC));
    assert_eq!(sent(&peer)[0].data(), b"late");
    host::advance(2 * SEC);
    assert_eq!(stack.stats().datagrams_unreachable, 1);
    assert_eq!(socket.dropped(), 1);
    // Then nothing keeps the stack busy.
    let before = host::timer_interrupts();
    host::advance(60 * SEC);
    assert!(host::timer_interrupts() - before < 10);
}

#[test]
fn what_waits_for_a_neighbour_goes_with_its_socket() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    now(socket.send_to(b"lost", (STRANGER, 8).into()))
        .unwrap()
        .unwrap();
    assert_eq!(sent(&peer), [Out::ArpRequest(STRANGER)]);
    assert_eq!(stack.stats().buffer_bytes, 4);
    drop(socket);
    assert_eq!(stack.stats().buffer_bytes, 0);
    deliver(&peer, arp(ArpOperation::Reply, STRANGER, STRANGER_MAC));
    host::advance(5 * SEC);
    assert_eq!(sent(&peer), []);
}

/// Case N3: a slow reader, and a datagram that does not fit into a packet.
#[test]
fn the_queue_is_bounded_and_what_it_drops_is_counted() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    for number in 0..70_u8 {
        deliver(&peer, udp(PEER_IP, (9, 7), &[number; 512]));
    }
    assert_eq!((socket.dropped(), stack.stats().datagrams_dropped), (6, 6));
    let mut buffer = [0; 600];
    for number in 0..64 {
        assert_eq!(now(socket.recv(&mut buffer)), Some(Ok(512)));
        assert_eq!(buffer[..512], [number; 512]);
    }
    assert_eq!(now(socket.recv(&mut buffer)), None);
    // By bytes: three times 1,000, whatever else there is room for.
    let options = UdpOptions {
        receive_bytes: 3000,
        ..UdpOptions::default()
    };
    let narrow = UdpSocket::bind_with(stack, any_address(8), options).unwrap();
    for _ in 0..5 {
        deliver(&peer, udp(PEER_IP, (9, 8), &[1; 1000]));
    }
    assert_eq!((narrow.dropped(), stack.stats().datagrams_dropped), (2, 8));
    assert_eq!(stack.stats().buffer_bytes, 3000);
    assert_eq!(now(narrow.recv(&mut [0; 1000])), Some(Ok(1000)));
    assert_eq!(stack.stats().buffer_bytes, 2000);
    deliver(&peer, udp(PEER_IP, (9, 8), &[1; 1000]));
    assert_eq!(narrow.dropped(), 2);
}

/// Beyond the limit of the whole stack nothing is queued.
#[test]
fn the_limit_of_the_stack_holds_for_datagrams() {
    let (stack, peer) = start_with_limits(10_000);
    let options = UdpOptions {
        receive_bytes: 1 << 20,
        ..UdpOptions::default()
    };
    let socket = UdpSocket::bind_with(stack, any_address(7), options).unwrap();
    for _ in 0..12 {
        deliver(&peer, udp(PEER_IP, (9, 7), &[1; 1000]));
    }
    assert_eq!(stack.stats().buffer_bytes, 10_000);
    assert_eq!(stack.stats().datagrams_dropped, 2);
    let sent = now(socket.send_to(b"x", peer_at(8)));
    assert_eq!(sent, Some(Err(Error::LimitReached)));
    assert_eq!(now(socket.recv(&mut [0; 1000])), Some(Ok(1000)));
    let sent = now(socket.send_to(b"x", peer_at(8)));
    assert_eq!(sent, Some(Ok(())));
    drop(socket);
    assert_eq!(stack.stats().buffer_bytes, 0);
}

/// The other half of case N3.
#[test]
fn a_datagram_that_needs_fragments_is_refused_and_dropped_cleanly() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    for (len, result) in [
        (1472, Ok(())),
        (1473, Err(Error::MessageTooLong)),
        (3000, Err(Error::MessageTooLong)),
        (70_000, Err(Error::MessageTooLong)),
    ] {
        assert_eq!(now(socket.send_to(&vec![0; len], peer_at(8))), Some(result));
    }
    assert_eq!(sent(&peer).len(), 1);
    let mut first = udp(PEER_IP, (9, 7), &[0; 1400]);
    first[20] |= 0x20;
    deliver(&peer, first);
    assert_eq!(stack.stats().fragments, 1);
    assert_eq!(now(socket.recv(&mut [0; 2000])), None);
}

#[test]
fn a_small_buffer_gets_the_beginning_and_says_so() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    for _ in 0..2 {
        deliver(&peer, udp(PEER_IP, (9, 7), b"0123456789"));
    }
    let mut buffer = [0; 4];
    let received = now(socket.recv_from(&mut buffer)).unwrap().unwrap();
    assert_eq!((received.bytes, received.datagram_bytes), (4, 10));
    assert!(received.is_truncated());
    assert_eq!(&buffer, b"0123");
    let received = now(socket.recv(&mut buffer));
    assert_eq!(received, Some(Err(Error::MessageTooLong)));
    assert_eq!(now(socket.recv(&mut buffer)), None);
}

#[test]
fn a_connected_socket_hears_its_peer_alone() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    assert_eq!(now(socket.send(b"x")), Some(Err(Error::NotConnected)));
    for remote in [any_address(8), peer_at(0), (GROUP, 8).into()] {
        assert_eq!(socket.connect(remote), Err(Error::InvalidInput));
    }
    socket.connect(peer_at(8)).unwrap();
    assert_eq!(socket.peer_addr(), Some(peer_at(8)));
    assert_eq!(now(socket.send(b"hello")), Some(Ok(())));
    assert!(matches!(&sent(&peer)[..], [Out::Udp { to, .. }] if *to == peer_at(8)));
    deliver(&peer, udp(PEER_IP, (9, 7), b"another port"));
    assert_eq!(sent(&peer), [Out::PortUnreachable]);
    deliver(&peer, udp(PEER_IP, (8, 7), b"the peer"));
    assert_eq!(now(socket.recv(&mut [0; 99])), Some(Ok(8)));
    assert_eq!(now(socket.recv(&mut [0; 99])), None);
}

#[test]
fn a_connected_socket_is_told_that_nobody_listens() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    socket.connect(peer_at(8)).unwrap();
    for quoted in [8, 13] {
        now(socket.send(b"hello")).unwrap().unwrap();
        let frame = peer.wire.receive().unwrap();
        deliver(&peer, port_unreachable(&frame, quoted));
        let received = now(socket.recv(&mut [0; 9]));
        assert_eq!(received, Some(Err(Error::ConnectionRefused)));
        assert_eq!(now(socket.recv(&mut [0; 9])), None);
    }
    // About a datagram that was never sent, or damaged.
    deliver(&peer, port_unreachable(&udp(STACK_IP, (7, 9), b"x"), 8));
    now(socket.send(b"hello")).unwrap().unwrap();
    let frame = peer.wire.receive().unwrap();
    let mut damaged = port_unreachable(&frame, 8);
    damaged[36] ^= 1;
    deliver(&peer, damaged);
    assert_eq!(now(socket.recv(&mut [0; 9])), None);
}

#[test]
fn datagrams_for_nobody_are_answered_but_a_flood_of_them_is_not() {
    let (stack, peer) = start_by_hand();
    deliver(&peer, udp(PEER_IP, (9, 7), b"anybody?"));
    assert_eq!(sent(&peer), [Out::PortUnreachable]);
    host::advance(200 * MS);
    for _ in 0..1000 {
        peer.wire.send(udp(PEER_IP, (9, 7), b"anybody?"));
    }
    host::advance(50 * MS);
    let answers = sent(&peer).len();
    assert!((100..=200).contains(&answers), "{answers}");
    let stats = stack.stats();
    assert_eq!(stats.datagrams_unclaimed, 1001);
    assert_eq!(stats.unreachables_limited, 1000 - answers as u64);
    // What all hosts hear none of them answers.
    deliver(&peer, udp_broadcast(9, 7, b"anybody?"));
    let all = Ipv4Address::new(224, 0, 0, 1);
    deliver(&peer, udp_to(group_mac(all), all, PEER_IP, (9, 7), b"?"));
    host::advance(200 * MS);
    assert_eq!(sent(&peer), []);
}

#[test]
fn damaged_datagrams_are_dropped() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    let mut frame = udp(PEER_IP, (9, 7), b"damaged");
    *frame.last_mut().unwrap() ^= 1;
    deliver(&peer, frame);
    let mac = EthernetAddress(crate::wire::STACK_MAC);
    deliver(&peer, udp_to(mac, STRANGER, PEER_IP, (9, 7), b"misled"));
    // Shorter than its header says.
    deliver(
        &peer,
        ipv4(
            PEER_IP,
            smoltcp::wire::IpProtocol::Udp,
            &[0, 9, 0, 7, 0, 99, 0, 0],
        ),
    );
    assert_eq!(now(socket.recv(&mut [0; 99])), None);
    let stats = stack.stats();
    assert_eq!(stats.datagrams_received, 0);
    assert_eq!(stats.malformed + stats.unsupported, 3);
}

#[test]
fn all_hosts_are_heard_but_addressed_only_on_purpose() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    deliver(&peer, udp_broadcast(9, 7, b"all"));
    let received = now(socket.recv_from(&mut [0; 9])).unwrap().unwrap();
    assert_eq!(received.to, IpAddr::from(Ipv4Addr::BROADCAST));
    for all in [Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 2, 255)] {
        socket.set_broadcast(false);
        let send = || now(socket.send_to(b"all", (all, 9).into()));
        assert_eq!(send(), Some(Err(Error::InvalidInput)));
        socket.set_broadcast(true);
        assert_eq!(send(), Some(Ok(())));
        let frame = peer.wire.receive().unwrap();
        assert_eq!(frame[..6], [0xff; 6]);
        assert_eq!(look_out(&frame).data(), b"all");
    }
    // Bound to one address, a socket hears what is sent to that alone.
    drop(socket);
    let socket = UdpSocket::bind(stack, (STACK_IP, 7).into()).unwrap();
    deliver(&peer, udp_broadcast(9, 7, b"all"));
    assert_eq!(now(socket.recv(&mut [0; 9])), None);
    deliver(&peer, udp(PEER_IP, (9, 7), b"you"));
    assert_eq!(now(socket.recv(&mut [0; 9])), Some(Ok(3)));
}

#[test]
fn groups_are_joined_heard_and_left() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    let other = UdpSocket::bind(stack, any_address(8)).unwrap();
    let for_group = |port| udp_to(group_mac(GROUP), GROUP, PEER_IP, (9, port), b"group");
    deliver(&peer, for_group(7));
    assert_eq!(now(socket.recv(&mut [0; 9])), None);

    assert_eq!(
        socket.join_multicast(PEER_IP.into()),
        Err(Error::InvalidInput)
    );
    assert_eq!(
        socket.leave_multicast(GROUP.into()),
        Err(Error::InvalidInput)
    );
    socket.join_multicast(GROUP.into()).unwrap();
    socket.join_multicast(GROUP.into()).unwrap();
    other.join_multicast(GROUP.into()).unwrap();
    host::advance(2 * MS);
    assert_eq!(sent(&peer), [Out::Report(GROUP)]);
    deliver(&peer, for_group(7));
    let received = now(socket.recv_from(&mut [0; 9])).unwrap().unwrap();
    assert_eq!(received.to, IpAddr::from(GROUP));

    // A router asks, within 10 s for an answer.
    deliver(&peer, igmp_query());
    host::advance(12 * SEC);
    assert_eq!(sent(&peer), [Out::Report(GROUP)]);

    socket.leave_multicast(GROUP.into()).unwrap();
    host::advance(2 * MS);
    assert_eq!(sent(&peer), []);
    deliver(&peer, for_group(7));
    assert_eq!(now(socket.recv(&mut [0; 9])), None);
    deliver(&peer, for_group(8));
    assert_eq!(now(other.recv(&mut [0; 9])), Some(Ok(5)));
    drop(other);
    host::advance(2 * MS);
    assert_eq!(sent(&peer), [Out::Leave(GROUP)]);

    now(socket.send_to(b"hello", (GROUP, 9).into()))
        .unwrap()
        .unwrap();
    now(socket.send_to(b"hello", peer_at(9))).unwrap().unwrap();
    let hops: Vec<_> = sent(&peer)
        .iter()
        .map(|out| match out {
            Out::Udp { hop_limit, .. } => *hop_limit,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(hops, [1, 64]);
}

#[test]
fn places_that_cannot_be_reached_are_told_apart() {
    let (stack, _peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    let send = |to: SocketAddr| now(socket.send_to(b"x", to)).unwrap();
    assert_eq!(send(peer_at(0)), Err(Error::InvalidInput));
    assert_eq!(send(any_address(9)), Err(Error::InvalidInput));
    assert_eq!(
        send("[2001:db8::1]:9".parse().unwrap()),
        Err(Error::NetworkUnreachable)
    );
    assert_eq!(send("192.0.2.1:9".parse().unwrap()), Ok(()));
    let from = |from: Ipv4Addr| now(socket.send_from(b"x", from.into(), peer_at(9))).unwrap();
    assert_eq!(from(STACK_IP), Ok(()));
    assert_eq!(from(STRANGER), Err(Error::AddrNotAvailable));
}

#[test]
fn a_full_card_is_waited_for() {
    let (stack, peer) = start_by_hand();
    peer.wire.set_send_room(10);
    let options = UdpOptions {
        send_datagrams: 20,
        ..UdpOptions::default()
    };
    let socket = UdpSocket::bind_with(stack, any_address(7), options).unwrap();
    let sender = spawn(async move {
        for number in 0..100_u8 {
            socket.send_to(&[number], peer_at(8)).await.unwrap();
        }
        socket
    });
    block_on(yield_now());
    let mut received = Vec::new();
    for _ in 0..1000 {
        received.extend(sent(&peer).iter().map(|out| out.data()[0]));
        host::advance(5 * MS);
        block_on(yield_now());
    }
    assert_eq!(received, (0..100).collect::<Vec<_>>());
    block_on(sender);
}

#[test]
fn a_call_that_was_given_up_loses_nothing() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut buffer = [0; 9];
    {
        let mut receive = pin!(socket.recv(&mut buffer));
        assert!(receive.as_mut().poll(&mut context).is_pending());
        deliver(&peer, udp(PEER_IP, (9, 7), b"kept"));
    }
    assert_eq!(now(socket.recv(&mut buffer)), Some(Ok(4)));
    // A sender that waits for room, and gives up.
    let options = UdpOptions {
        send_datagrams: 1,
        ..UdpOptions::default()
    };
    let narrow = UdpSocket::bind_with(stack, any_address(8), options).unwrap();
    let to = (STRANGER, 8).into();
    assert_eq!(now(narrow.send_to(b"waits", to)), Some(Ok(())));
    assert_eq!(now(narrow.send_to(b"does not", to)), None);
    deliver(&peer, arp(ArpOperation::Reply, STRANGER, STRANGER_MAC));
    let data: Vec<_> = sent(&peer)
        .iter()
        .filter(|out| matches!(out, Out::Udp { .. }))
        .map(|out| out.data().to_vec())
        .collect();
    assert_eq!(data, [b"waits"]);
}

#[test]
fn a_waiting_reader_is_woken_while_the_program_does_other_things() {
    let (stack, peer) = start();
    let far = peer.udp(None, 2000);
    let socket = UdpSocket::bind(stack, any_address(7)).unwrap();
    let reader = spawn(async move {
        let mut buffer = [0; 9];
        socket.recv(&mut buffer).await
    });
    block_on(async {
        sleep(SEC).await;
        far.send(b"wake", (STACK_IP, 7).into(), None);
        assert_eq!(timeout(SEC, reader).await, Ok(Ok(4)));
    });
}

/// Case N2 on this ring: a flood is worked on in bounded steps.
#[test]
fn a_flood_to_a_closed_port_leaves_others_their_turn() {
    let (stack, peer) = start_by_hand();
    let socket = UdpSocket::bind(stack, any_address(8)).unwrap();
    for _ in 0..10_000 {
        peer.wire.send(udp(PEER_IP, (9, 7), b"flood"));
    }
    peer.wire.send(udp(PEER_IP, (9, 8), b"honest"));
    host::advance(10 * MS);
    // Each bottom half takes at most 64 frames.
    assert!(stack.stats().frames_received < 64 * 12 + 10);
    while stack.stats().frames_received < 10_002 {
        block_on(yield_now());
        sent(&peer);
    }
    assert_eq!(now(socket.recv(&mut [0; 9])), Some(Ok(6)));
}

/// Frames about datagrams that are right but for some bytes.
fn almost() -> impl Strategy<Value = Vec<u8>> {
    let to_peer = udp_to(EthernetAddress([0; 6]), PEER_IP, STACK_IP, (7, 8), b"sent");
    let template = prop_oneof![
        Just(udp(PEER_IP, (8, 7), b"connected")),
        Just(udp(PEER_IP, (9, 9), b"")),
        Just(udp_to(group_mac(GROUP), GROUP, PEER_IP, (9, 9), b"group")),
        Just(port_unreachable(&to_peer, 8)),
        Just(echo_reply(PEER_IP, 1, 2, b"echo")),
        Just(igmp_query()),
    ];
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let end = proptest::option::of(any::<prop::sample::Index>());
    (template, changes, end).prop_map(|(mut frame, changes, end)| {
        for (place, byte) in changes {
            let place = place.index(frame.len());
            frame[place] = byte;
        }
        if let Some(end) = end {
            frame.truncate(end.index(frame.len()));
        }
        frame
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn frames_of_any_bytes_are_survived(frames in vec(almost(), 1..30)) {
        let (stack, peer) = start_by_hand();
        let connected = UdpSocket::bind(stack, any_address(7)).unwrap();
        connected.connect(peer_at(8)).unwrap();
        let member = UdpSocket::bind(stack, any_address(9)).unwrap();
        member.join_multicast(GROUP.into()).unwrap();
        for frame in frames {
            deliver(&peer, frame);
            let _ = now(connected.send(b"sent"));
        }
        host::advance(30 * SEC);
        let mut buffer = [0; 99];
        while now(connected.recv(&mut buffer)).is_some() {}
        while now(member.recv(&mut buffer)).is_some() {}
        deliver(&peer, udp(PEER_IP, (8, 7), b"alive"));
        prop_assert_eq!(now(connected.recv(&mut buffer)), Some(Ok(5)));
        drop((connected, member));
        prop_assert_eq!(stack.stats().datagram_sockets, 0);
        prop_assert_eq!(stack.stats().buffer_bytes, 0);
    }
}
