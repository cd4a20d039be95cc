//! Connections on their way into a listener's queue, and out of it.

use firstpoll::arch::host;
use firstpoll::block_on;
use firstpoll::net::{ListenerOptions, Stack, TcpListener};
use firstpoll::time::Duration;
use smoltcp::wire::TcpControl::{None as Plain, Rst, Syn};

use crate::frames::{Sent, segment};
use crate::peer::{PEER_IP, Peer, start};
use crate::raw::Raw;

const SEC: Duration = Duration::from_secs(1);

fn listen(stack: Stack, backlog: usize) -> TcpListener {
    let options = ListenerOptions {
        backlog,
        ..ListenerOptions::default()
    };
    TcpListener::bind_with(stack, 80, options).unwrap()
}

/// Connections that wait to be accepted.
fn waiting(peer: &Peer, ports: impl Iterator<Item = u16>) -> Vec<Raw> {
    ports
        .map(|port| {
            let mut raw = Raw::new(peer, port, 80, 1);
            raw.handshake();
            raw
        })
        .collect()
}

fn accepted_port(listener: &TcpListener) -> u16 {
    block_on(listener.accept()).unwrap().peer_addr().port()
}

#[test]
fn an_aborted_handshake_gives_its_place_back_at_once() {
    let (stack, peer) = start();
    let _listener = listen(stack, 8);
    let mut raw = Raw::new(&peer, 4000, 80, 1);
    raw.begin();
    assert_eq!(stack.stats().half_open, 1);
    assert_eq!(raw.send(Rst, b""), []);
    let stats = stack.stats();
    assert_eq!((stats.half_open, stats.sockets), (0, 0));
    assert_eq!((stats.half_open_reset, stats.buffer_bytes), (1, 0));
}

#[test]
fn a_half_open_connection_is_given_up_after_ten_seconds() {
    let (stack, peer) = start();
    let _listener = listen(stack, 8);
    let raw = {
        let mut raw = Raw::new(&peer, 4000, 80, 1);
        raw.begin();
        raw
    };
    // Repeating its attempt does not prolong it.
    for _ in 0..9 {
        host::advance(SEC);
        raw.opening(raw.seq - 1);
    }
    assert_eq!(stack.stats().half_open, 1);
    host::advance(SEC);
    let stats = stack.stats();
    assert_eq!((stats.half_open, stats.half_open_expired), (0, 1));
}

/// The peer has restarted, or given its first attempt up.
#[test]
fn an_attempt_with_another_number_from_the_same_port_is_answered_at_once() {
    let (stack, peer) = start();
    let listener = listen(stack, 8);
    let mut first = Raw::new(&peer, 4000, 80, 1000);
    first.begin();
    for seq in [2000, -5] {
        let mut raw = Raw::new(&peer, 4000, 80, seq);
        raw.begin();
        assert_eq!(stack.stats().half_open, 1);
    }
    assert_eq!(stack.stats().half_open_restarted, 2);
    let mut last = Raw::new(&peer, 4000, 80, 3000);
    last.handshake();
    assert_eq!(accepted_port(&listener), 4000);
    assert_eq!(stack.stats().sockets, 1);
}

#[test]
fn an_attempt_with_a_wrong_checksum_leaves_the_half_open_connection() {
    let (stack, peer) = start();
    let listener = listen(stack, 8);
    let mut raw = Raw::new(&peer, 4000, 80, 1000);
    raw.begin();
    let mut frame = segment(PEER_IP, (4000, 80), Syn, 2000, None);
    let last = frame.len() - 1;
    frame[last] ^= 1;
    peer.wire.send(frame);
    assert_eq!(raw.answers(), []);
    assert_eq!(stack.stats().half_open_restarted, 0);
    assert_eq!(raw.send(Plain, b""), []);
    assert_eq!(accepted_port(&listener), 4000);
}

#[test]
fn a_full_backlog_answers_nothing_and_a_reset_makes_room() {
    let (stack, peer) = start();
    let listener = listen(stack, 3);
    let mut clients = waiting(&peer, 4000..4003);
    let mut late = Raw::new(&peer, 5000, 80, 1);
    late.opening(late.seq);
    assert_eq!(late.answers(), []);
    assert_eq!(stack.stats().backlog_full, 1);
    // One in the middle goes away.
    assert_eq!(clients[1].send(Rst, b""), []);
    assert_eq!(stack.stats().sockets, 2);
    late.handshake();
    let order = [4000, 4002, 5000].map(|_| accepted_port(&listener));
    assert_eq!(order, [4000, 4002, 5000]);
}

#[test]
fn a_listener_that_ends_resets_its_own_queue_and_no_other() {
    let (stack, peer) = start();
    let listener = listen(stack, 8);
    let other = TcpListener::bind(stack, 81).unwrap();
    let clients = waiting(&peer, 4000..4003);
    let mut elsewhere = Raw::new(&peer, 4000, 81, 1);
    elsewhere.handshake();
    drop(listener);
    let answers = clients[0].answers();
    assert_eq!(answers.len(), 3);
    for answer in answers {
        assert!(matches!(answer, Sent::Tcp { rst: true, .. }));
    }
    assert_eq!(stack.stats().sockets, 1);
    assert_eq!(accepted_port(&other), 4000);
}

#[test]
fn an_opening_segment_with_a_wrong_checksum_opens_nothing() {
    let (stack, peer) = start();
    let _listener = listen(stack, 8);
    let raw = Raw::new(&peer, 4000, 80, 1);
    let ports = (4000, 80);
    let mut frame = segment(PEER_IP, ports, Syn, 1, None);
    let last = frame.len() - 1;
    frame[last] ^= 1;
    peer.wire.send(frame);
    assert_eq!(raw.answers(), []);
    let stats = stack.stats();
    assert_eq!((stats.sockets, stats.half_open, stats.malformed), (0, 0, 1));
    assert_eq!(stats.half_open_reset, 0);
}
