//! ARP, ICMP, and answering while the program computes.

use firstpoll::arch::host;
use firstpoll::executor::set_deferral_bound;
use firstpoll::time::{Duration, sleep};
use firstpoll::{block_on, yield_now};
use smoltcp::wire::{ArpOperation, EthernetAddress, IpProtocol, Ipv4Address, TcpControl};

use crate::frames::{Sent, arp, ipv4, look, ping, segment, segment_to};
use crate::peer::{PEER_IP, PEER_MAC, Peer, start};

const MS: Duration = Duration::from_millis(1);

fn sent(peer: &Peer) -> Vec<Sent> {
    std::iter::from_fn(|| peer.wire.receive())
        .map(|frame| look(&frame))
        .collect()
}

/// Lets the network task have its first turn.
fn settle() {
    block_on(yield_now());
    host::advance(100 * MS);
}

#[test]
fn arp_and_pings_are_answered_while_the_program_computes() {
    let (_stack, peer) = start();
    settle();
    peer.wire
        .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
    host::advance(2 * MS);
    assert_eq!(sent(&peer), [Sent::ArpReply]);
    for number in 0..200 {
        peer.wire.send(ping(PEER_IP, number));
        host::advance(2 * MS);
        assert_eq!(sent(&peer), [Sent::Pong(number)]);
    }
}

/// The test above rests on the deferral.
#[test]
fn without_the_deferral_nothing_is_answered_while_the_program_computes() {
    let (_stack, peer) = start();
    settle();
    peer.wire
        .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
    host::advance(100 * MS);
    assert_eq!(sent(&peer), [Sent::ArpReply]);
    set_deferral_bound(Duration::MAX);
    peer.wire.send(ping(PEER_IP, 1));
    host::advance(Duration::from_secs(5));
    assert_eq!(sent(&peer), []);
    block_on(yield_now());
    assert_eq!(sent(&peer), [Sent::Pong(1)]);
}

#[test]
fn handshakes_are_completed_while_the_program_computes() {
    let (stack, peer) = start();
    let listener = firstpoll::net::TcpListener::bind(stack, 80).unwrap();
    settle();
    let clients: Vec<_> = (0..20).map(|_| peer.begin(80)).collect();
    for _ in 0..10 {
        peer.poll();
        host::advance(2 * MS);
    }
    peer.poll();
    for client in &clients {
        assert_eq!(client.state(), smoltcp::socket::tcp::State::Established);
    }
    for _ in &clients {
        block_on(listener.accept()).unwrap();
    }
}

/// Case N1: the first ping of a host whose address is unknown.
#[test]
fn the_first_ping_of_a_stranger_is_answered() {
    let (_stack, peer) = start();
    settle();
    let stranger = Ipv4Address::new(10, 0, 2, 99);
    peer.wire.send(ping(stranger, 1));
    host::advance(2 * MS);
    assert_eq!(sent(&peer), [Sent::ArpRequest(stranger)]);
    peer.wire.send(arp(
        ArpOperation::Reply,
        stranger,
        EthernetAddress([2, 0, 0, 0, 0, 9]),
    ));
    host::advance(2 * MS);
    assert_eq!(sent(&peer), [Sent::Pong(1)]);
    peer.wire.send(ping(stranger, 2));
    host::advance(2 * MS);
    assert_eq!(sent(&peer), [Sent::Pong(2)]);
}

#[test]
fn a_connection_waits_for_its_neighbours_address_no_longer_than_needed() {
    let (stack, peer) = start();
    let listener = firstpoll::net::TcpListener::bind(stack, 80).unwrap();
    settle();
    let stranger = Ipv4Address::new(10, 0, 2, 99);
    peer.wire
        .send(segment(stranger, (1000, 80), TcpControl::Syn, 1, None));
    host::advance(2 * MS);
    assert_eq!(sent(&peer), [Sent::ArpRequest(stranger)]);
    peer.wire.send(arp(
        ArpOperation::Reply,
        stranger,
        EthernetAddress([2, 0, 0, 0, 0, 9]),
    ));
    host::advance(2 * MS);
    assert!(matches!(
        sent(&peer)[..],
        [Sent::Tcp {
            syn: true,
            rst: false,
            ..
        }]
    ));
    drop(listener);
}

#[test]
fn a_segment_for_nobody_is_reset_but_a_flood_of_them_is_not() {
    let (stack, peer) = start();
    settle();
    peer.wire
        .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
    host::advance(2 * MS);
    sent(&peer);
    for port in 0..1000 {
        peer.wire.send(segment(
            PEER_IP,
            (1000 + port, 80),
            TcpControl::Syn,
            1,
            None,
        ));
    }
    host::advance(50 * MS);
    let resets = sent(&peer);
    assert!(
        resets
            .iter()
            .all(|sent| matches!(sent, Sent::Tcp { rst: true, .. }))
    );
    assert!((100..=200).contains(&resets.len()), "{}", resets.len());
    assert_eq!(stack.stats().resets_limited, 1000 - resets.len() as u64);
    host::advance(200 * MS);
    peer.wire
        .send(segment(PEER_IP, (999, 80), TcpControl::Syn, 1, None));
    host::advance(2 * MS);
    assert_eq!(sent(&peer).len(), 1);
}

/// RFC 9293 §3.9.2.3: a reset would have the broadcast address as its sender.
#[test]
fn segments_for_another_address_are_not_answered() {
    let (_stack, peer) = start();
    settle();
    peer.wire
        .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
    host::advance(2 * MS);
    sent(&peer);
    for to in [[10, 0, 2, 255], [10, 0, 2, 16], [10, 9, 9, 9]] {
        for control in [TcpControl::Syn, TcpControl::None] {
            let to = Ipv4Address::from(to);
            let frame = segment_to(to, PEER_IP, (9, 80), control, 1, None);
            peer.wire.send(frame);
            host::advance(2 * MS);
            assert_eq!(sent(&peer), [], "{to} {control:?}");
        }
    }
}

#[test]
fn frames_that_nobody_serves_are_counted() {
    let (stack, peer) = start();
    settle();
    peer.wire.send(vec![0; 60]);
    peer.wire.send(vec![0; 3]);
    peer.wire.send(Vec::new());
    peer.wire.send(ipv4(PEER_IP, IpProtocol::Igmp, &[0; 8]));
    peer.wire
        .send(ipv4(PEER_IP, IpProtocol::Udp, &[0, 1, 0, 7, 0, 8, 0, 0]));
    peer.wire.send(ipv4(
        Ipv4Address::UNSPECIFIED,
        IpProtocol::Icmp,
        &[8, 0, 0, 0, 0, 0, 0, 0],
    ));
    let mut fragment = ping(PEER_IP, 1);
    fragment[20] |= 0x20;
    peer.wire.send(fragment);
    host::advance(5 * MS);
    let stats = stack.stats();
    assert_eq!(
        (stats.malformed, stats.unsupported, stats.fragments),
        (2, 3, 1)
    );
    // A port that nobody listens on is worth an answer, and so a question.
    assert_eq!(stats.datagrams_unclaimed, 1);
    assert_eq!(sent(&peer), [Sent::ArpRequest(PEER_IP)]);
}

/// Case I4: the card's interrupt line is dead.
#[test]
fn a_dead_interrupt_line_is_noticed_and_the_card_polled() {
    let (stack, peer) = start();
    settle();
    peer.wire.kill_interrupts();
    peer.wire
        .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
    for number in 0..3 {
        host::advance(300 * MS);
        peer.wire.send(ping(PEER_IP, number));
    }
    host::advance(300 * MS);
    assert!(stack.stats().unannounced >= 3);
    sent(&peer);
    for number in 3..100 {
        peer.wire.send(ping(PEER_IP, number));
        host::advance(3 * MS);
        assert_eq!(sent(&peer), [Sent::Pong(number)]);
    }
}

/// Case T5: no timer while nothing happens.
#[test]
fn an_idle_stack_takes_no_interrupts() {
    let (_stack, peer) = start();
    settle();
    peer.wire
        .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
    host::advance(100 * MS);
    let before = host::timer_interrupts();
    block_on(sleep(Duration::from_secs(10)));
    assert!(host::timer_interrupts() - before < 5);
}

/// A flood leaves the program its share of the time, and is survived.
#[test]
fn a_flood_of_pings_is_served_in_bounded_steps() {
    let (stack, peer) = start();
    settle();
    peer.wire
        .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
    for number in 0..10_000 {
        peer.wire.send(ping(PEER_IP, number));
    }
    // Each bottom half takes at most 64 of them.
    host::advance(10 * MS);
    let after_ten = sent(&peer).len();
    assert!((64..=64 * 12).contains(&after_ten), "{after_ten}");
    let mut rest = 0;
    while stack.stats().frames_received < 10_001 {
        block_on(yield_now());
        rest += sent(&peer).len();
    }
    // One is that of ARP.
    let limited = stack.stats().echoes_limited as usize;
    assert!(after_ten + rest > 1000);
    assert_eq!(after_ten + rest + limited, 10_001);
}
