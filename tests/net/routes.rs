//! Static routes, neighbours by the dozen, and the tables that hold them.

use firstpoll::arch::host;
use firstpoll::net::{Config, Stack, TcpListener, TcpStream};
use firstpoll::time::{Duration, timeout};
use firstpoll::{block_on, spawn, yield_now};
use smoltcp::wire::{ArpOperation, EthernetAddress, Ipv4Address, TcpControl};
use std::net::{IpAddr, SocketAddr};

use crate::frames::{Sent, arp, look, ping, segment};
use crate::frames6::{Sent6, look6};
use crate::peer::{Peer, start, start_with};

const MS: Duration = Duration::from_millis(1);

fn sent(peer: &Peer) -> Vec<Sent> {
    std::iter::from_fn(|| peer.wire.receive())
        .map(|frame| look(&frame))
        .collect()
}

fn settle(peer: &Peer) {
    block_on(yield_now());
    host::advance(100 * MS);
    while peer.wire.receive().is_some() {}
}

fn begin(stack: Stack, remote: &str) {
    let remote = SocketAddr::new(remote.parse::<IpAddr>().unwrap(), 80);
    spawn(async move {
        let _ = timeout(60 * 1000 * MS, TcpStream::connect(stack, remote)).await;
    })
    .detach();
    block_on(yield_now());
    host::advance(5 * MS);
}

#[test]
fn packets_take_the_route_that_fits_best() {
    let options = [
        ("ip", "10.0.2.15/24"),
        ("gateway", "10.0.2.2"),
        ("route", "10.1.0.0/16,10.0.2.9"),
        ("route", "10.1.7.0/24,10.0.2.10"),
        ("ip6", "2001:db8::15/64"),
        ("gateway6", "fe80::2"),
        ("route", "2001:db9::/32,2001:db8::9"),
    ];
    let (stack, peer) = start_with(Config::from_options(options).unwrap());
    settle(&peer);
    for (remote, router) in [
        ("10.0.2.77", [10, 0, 2, 77]),
        ("192.0.2.1", [10, 0, 2, 2]),
        ("10.1.8.1", [10, 0, 2, 9]),
        ("10.1.7.1", [10, 0, 2, 10]),
    ] {
        begin(stack, remote);
        let asked = Sent::ArpRequest(Ipv4Address::from(router));
        assert_eq!(sent(&peer), [asked], "{remote}");
    }
    for (remote, router) in [
        ("2001:db8::77", "2001:db8::77"),
        ("2001:dba::1", "fe80::2"),
        ("2001:db9::1", "2001:db8::9"),
        ("fe80::77", "fe80::77"),
    ] {
        begin(stack, remote);
        let asked: Vec<_> = std::iter::from_fn(|| peer.wire.receive())
            .map(|frame| look6(&frame))
            .collect();
        assert_eq!(asked, [Sent6::Solicit(router.parse().unwrap())], "{remote}");
    }
}

/// smoltcp asks for one neighbour per second; the others would wait.
#[test]
fn many_neighbours_are_asked_at_once_but_each_once_per_second() {
    let (stack, peer) = start();
    let _listener = TcpListener::bind(stack, 80).unwrap();
    settle(&peer);
    let stranger = |number: u8| Ipv4Address::new(10, 0, 2, 100 + number);
    for port in [1000, 1001] {
        for number in 0..20 {
            let from = stranger(number);
            peer.wire
                .send(segment(from, (port, 80), TcpControl::Syn, 1, None));
            host::advance(2 * MS);
        }
    }
    let asked: Vec<_> = (0..20)
        .map(|number| Sent::ArpRequest(stranger(number)))
        .collect();
    assert_eq!(sent(&peer), asked);
    for number in 0..20 {
        let mac = EthernetAddress([2, 0, 0, 0, 0, number]);
        peer.wire
            .send(arp(ArpOperation::Reply, stranger(number), mac));
        host::advance(2 * MS);
        let answers = sent(&peer);
        assert_eq!(answers.len(), 2, "{answers:?}");
        for answer in answers {
            let Sent::Tcp { to, syn: true, .. } = answer else {
                panic!("{answer:?}");
            };
            assert_eq!(to, stranger(number));
        }
    }
}

/// Case N1 with two strangers within a second.
#[test]
fn the_first_pings_of_two_strangers_are_answered() {
    let (_stack, peer) = start();
    settle(&peer);
    let strangers = [98, 99].map(|number| Ipv4Address::new(10, 0, 2, number));
    for stranger in strangers {
        peer.wire.send(ping(stranger, 1));
        host::advance(2 * MS);
        assert_eq!(sent(&peer), [Sent::ArpRequest(stranger)]);
    }
    for stranger in strangers {
        let mac = EthernetAddress([2, 0, 0, 0, 0, 9]);
        peer.wire.send(arp(ArpOperation::Reply, stranger, mac));
        host::advance(2 * MS);
        assert_eq!(sent(&peer), [Sent::Pong(1)]);
    }
}

/// As many neighbours as a small network has stay known side by side.
#[test]
fn sixty_neighbours_are_remembered() {
    let (_stack, peer) = start();
    settle(&peer);
    let neighbour = |number: u8| Ipv4Address::new(10, 0, 2, 100 + number);
    for number in 0..60 {
        let mac = EthernetAddress([2, 0, 0, 0, 0, number]);
        peer.wire
            .send(arp(ArpOperation::Request, neighbour(number), mac));
        host::advance(2 * MS);
    }
    assert_eq!(sent(&peer).len(), 60);
    for number in 0..60 {
        peer.wire.send(ping(neighbour(number), u16::from(number)));
        host::advance(2 * MS);
        assert_eq!(sent(&peer), [Sent::Pong(u16::from(number))]);
    }
}

/// All the addresses, gateways and routes that can be given have their place.
#[test]
fn the_tables_hold_all_that_can_be_configured() {
    let route = |number: u8| std::format!("10.{number}.0.0/16,10.0.2.{number}");
    let routes: Vec<_> = (1..=8).map(route).collect();
    let mut options = vec![
        ("ip", "10.0.2.15/24"),
        ("gateway", "10.0.2.99"),
        ("ip6", "2001:db8::15/64"),
        ("gateway6", "fe80::2"),
    ];
    options.extend(routes.iter().map(|route| ("route", route.as_str())));
    let (stack, peer) = start_with(Config::from_options(options).unwrap());
    settle(&peer);
    for number in 1..=8_u8 {
        let remote = Ipv4Address::new(10, number, 1, 1);
        begin(stack, &remote.to_string());
        let router = Ipv4Address::new(10, 0, 2, number);
        assert_eq!(sent(&peer), [Sent::ArpRequest(router)]);
        let mac = EthernetAddress([2, 0, 0, 0, 0, number]);
        peer.wire.send(arp(ArpOperation::Reply, router, mac));
        host::advance(2 * MS);
        let [Sent::Tcp { to, syn: true, .. }] = sent(&peer)[..] else {
            panic!("nothing goes to {remote}");
        };
        assert_eq!(to, remote);
    }
    begin(stack, "192.0.2.1");
    let gateway = Ipv4Address::new(10, 0, 2, 99);
    assert_eq!(sent(&peer), [Sent::ArpRequest(gateway)]);
    begin(stack, "2001:db9::1");
    let frame = peer.wire.receive().unwrap();
    assert_eq!(look6(&frame), Sent6::Solicit("fe80::2".parse().unwrap()));
}
