//! Pings from here, and the rate of the answers to others.

use std::net::{IpAddr, Ipv4Addr};

use firstpoll::arch::host;
use firstpoll::net::{Error, PingOptions, Stack, ping};
use firstpoll::time::{Duration, Instant, sleep, timeout};
use firstpoll::{block_on, spawn, yield_now};
use smoltcp::wire::{ArpOperation, EthernetAddress, Ipv4Address};

use crate::datagrams::{Out, echo_reply, look_out};
use crate::frames::{arp, ping as ping_frame};
use crate::peer::{PEER_IP, PEER_MAC, Peer, START, start};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn ask(stack: Stack, host: impl Into<IpAddr>) -> Result<Duration, Error> {
    block_on(ping(stack, host.into(), PingOptions::default()))
}

#[test]
fn the_far_host_answers() {
    let (stack, _peer) = start();
    for data_bytes in [0, 7, 56, 1472] {
        let options = PingOptions {
            data_bytes,
            ..PingOptions::default()
        };
        let took = block_on(ping(stack, PEER_IP.into(), options)).unwrap();
        assert!(took < SEC, "{took:?}");
    }
    assert_eq!(stack.stats().datagram_sockets, 0);
}

#[test]
fn a_hundred_at_once_are_answered_each_its_own() {
    let (stack, _peer) = start();
    let pings: Vec<_> = (0..100)
        .map(|_| spawn(ping(stack, PEER_IP.into(), PingOptions::default())))
        .collect();
    block_on(async {
        for ping in pings {
            assert!(ping.await.is_ok());
        }
    });
    assert_eq!(stack.stats().datagram_sockets, 0);
}

/// A stack that knows its neighbour, whose frames the test makes by hand.
fn start_by_hand() -> (Stack, Peer) {
    let (stack, peer) = start();
    host::on_halt(|_| false);
    block_on(yield_now());
    host::advance(100 * MS);
    peer.wire
        .send(arp(ArpOperation::Request, PEER_IP, PEER_MAC));
    host::advance(2 * MS);
    while peer.wire.receive().is_some() {}
    (stack, peer)
}

fn question(peer: &Peer) -> (u16, u16, Vec<u8>) {
    match look_out(&peer.wire.receive().expect("nothing was sent")) {
        Out::Echo {
            ident,
            number,
            data,
            ..
        } => (ident, number, data),
        other => panic!("{other:?}"),
    }
}

/// The time is counted to the moment at which the answer came, not to that at
/// which the program looked.
#[test]
fn only_the_right_answer_counts() {
    let (stack, peer) = start_by_hand();
    let asked = spawn(ping(stack, PEER_IP.into(), PingOptions::default()));
    block_on(yield_now());
    let (ident, number, data) = question(&peer);
    assert_eq!(data.len(), 56);
    let mut other_data = data.clone();
    other_data[55] ^= 1;
    let stranger = Ipv4Address::new(10, 0, 2, 99);
    let mut damaged = echo_reply(PEER_IP, ident, number, &data);
    damaged[50] ^= 1;
    for wrong in [
        echo_reply(PEER_IP, ident ^ 1, number, &data),
        echo_reply(PEER_IP, ident, number ^ 1, &data),
        echo_reply(PEER_IP, ident, number, &other_data),
        echo_reply(PEER_IP, ident, number, &data[..55]),
        echo_reply(PEER_IP, ident, number, &[]),
        echo_reply(stranger, ident, number, &data),
        damaged,
    ] {
        peer.wire.send(wrong);
        host::advance(10 * MS);
        block_on(yield_now());
        assert!(!asked.is_finished());
    }
    peer.wire.send(echo_reply(PEER_IP, ident, number, &data));
    host::advance(500 * MS);
    let took = block_on(asked).unwrap();
    assert!((70 * MS..80 * MS).contains(&took), "{took:?}");
}

#[test]
fn identifiers_and_data_cannot_be_foretold() {
    let (stack, peer) = start_by_hand();
    let mut questions = Vec::new();
    for _ in 0..50 {
        let asked = spawn(ping(stack, PEER_IP.into(), PingOptions::default()));
        block_on(yield_now());
        questions.push(question(&peer));
        drop(asked);
    }
    for part in 0..3 {
        let mut parts: Vec<_> = questions
            .iter()
            .map(|(ident, number, data)| match part {
                0 => ident.to_be_bytes().to_vec(),
                1 => number.to_be_bytes().to_vec(),
                _ => data.clone(),
            })
            .collect();
        parts.sort();
        parts.dedup();
        assert!(parts.len() > 45, "{parts:?}");
    }
    // Pings that were given up leave nothing.
    block_on(yield_now());
    assert_eq!(stack.stats().datagram_sockets, 0);
}

/// Case N1 the other way round.
#[test]
fn the_first_ping_of_a_stranger_waits_for_his_address() {
    let (stack, peer) = start_by_hand();
    let stranger = Ipv4Address::new(10, 0, 2, 99);
    let asked = spawn(ping(stack, stranger.into(), PingOptions::default()));
    block_on(yield_now());
    let arp_request = look_out(&peer.wire.receive().unwrap());
    assert_eq!(arp_request, Out::ArpRequest(stranger));
    let mac = EthernetAddress([2, 0, 0, 0, 0, 9]);
    peer.wire.send(arp(ArpOperation::Reply, stranger, mac));
    host::advance(2 * MS);
    let (ident, number, data) = question(&peer);
    peer.wire.send(echo_reply(stranger, ident, number, &data));
    host::advance(2 * MS);
    assert!(block_on(asked).is_ok());
}

#[test]
fn silence_times_out() {
    let (stack, _peer) = start();
    assert_eq!(
        ask(stack, Ipv4Addr::new(10, 0, 2, 99)),
        Err(Error::TimedOut)
    );
    let took = Instant::now() - START;
    assert!((5 * SEC..5 * SEC + 100 * MS).contains(&took), "{took:?}");
    assert_eq!(stack.stats().datagram_sockets, 0);
    let options = PingOptions {
        timeout: Duration::ZERO,
        ..PingOptions::default()
    };
    let impatient = block_on(ping(stack, PEER_IP.into(), options));
    assert_eq!(impatient, Err(Error::TimedOut));
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let (stack, _peer) = start();
    assert_eq!(ask(stack, Ipv4Addr::UNSPECIFIED), Err(Error::InvalidInput));
    assert_eq!(ask(stack, Ipv4Addr::BROADCAST), Err(Error::InvalidInput));
    let group = Ipv4Addr::new(224, 0, 0, 1);
    assert_eq!(ask(stack, group), Err(Error::InvalidInput));
    let six: IpAddr = "2001:db8::1".parse().unwrap();
    assert_eq!(ask(stack, six), Err(Error::NetworkUnreachable));
    for (data_bytes, hop_limit, error) in [
        (1473, 64, Error::MessageTooLong),
        (usize::MAX, 64, Error::MessageTooLong),
        (56, 0, Error::InvalidInput),
    ] {
        let options = PingOptions {
            data_bytes,
            hop_limit,
            ..PingOptions::default()
        };
        let result = block_on(ping(stack, PEER_IP.into(), options));
        assert_eq!(result, Err(error), "{data_bytes}");
    }
    assert_eq!(stack.stats().datagram_sockets, 0);
}

#[test]
fn others_get_a_thousand_answers_in_a_tenth_of_a_second() {
    let (stack, peer) = start_by_hand();
    for number in 0..2000 {
        peer.wire.send(ping_frame(PEER_IP, number));
    }
    host::advance(50 * MS);
    let answers = std::iter::from_fn(|| peer.wire.receive()).count();
    assert!((1000..=2000).contains(&answers), "{answers}");
    assert_eq!(stack.stats().echoes_limited, 2000 - answers as u64);
    host::advance(200 * MS);
    peer.wire.send(ping_frame(PEER_IP, 1));
    host::advance(2 * MS);
    assert!(peer.wire.receive().is_some());
}

#[test]
fn pings_go_on_beside_each_other_for_long() {
    let (stack, _peer) = start();
    block_on(async {
        for _ in 0..100 {
            let asked = ping(stack, PEER_IP.into(), PingOptions::default());
            assert!(timeout(SEC, asked).await.unwrap().is_ok());
            sleep(SEC).await;
        }
    });
}
