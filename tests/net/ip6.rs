//! IPv6: neighbours, pings, connections, what is dropped.

use firstpoll::arch::host;
use firstpoll::net::{
    Config, Error, Ipv4Source, Ipv6Config, Ipv6Source, Stack, TcpListener, TcpStream,
};
use firstpoll::time::{Duration, sleep};
use firstpoll::{block_on, spawn, yield_now};
use smoltcp::wire::{EthernetAddress, Icmpv6Repr, IpProtocol, Ipv6Address, Ipv6Repr, TcpControl};
use std::net::{IpAddr, SocketAddr};

use crate::frames::{ping, segment};
use crate::frames6::{
    ALL_NODES, Advertised, PEER_IP6, PEER_LINK_LOCAL, PREFIX, STACK_IP6, STACK_LINK_LOCAL, Sent6,
    advert, icmpv6, icmpv6_bytes, ipv6, look6, ping6, router_advert, segment6, solicit,
};
use crate::peer::{PEER_IP, Peer, STACK_IP, both_families, start_with};

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);
const STRANGER: Ipv6Address = Ipv6Address::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x99);
const STRANGER_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 9]);

/// A stack with addresses of both families, given, that has told of its groups;
/// and a host that has them too.
fn start() -> (Stack, Peer) {
    let (stack, peer) = start_with(both_families());
    block_on(yield_now());
    host::advance(100 * MS);
    let reports = sent(&peer);
    assert!(!reports.is_empty());
    assert!(reports.iter().all(|sent| *sent == Sent6::Report));
    (stack, peer)
}

/// The same, with a far host that has both families too.
fn start_both_families() -> (Stack, Peer) {
    let (stack, peer) = start();
    peer.add_address(PEER_IP6.into(), 64);
    peer.add_address(PEER_LINK_LOCAL.into(), 64);
    (stack, peer)
}

fn sent(peer: &Peer) -> Vec<Sent6> {
    std::iter::from_fn(|| peer.wire.receive())
        .map(|frame| look6(&frame))
        .collect()
}

/// What the stack sends when `frame` arrives.
fn answer(peer: &Peer, frame: Vec<u8>) -> Vec<Sent6> {
    peer.wire.send(frame);
    host::advance(2 * MS);
    sent(peer)
}

#[test]
fn neighbours_and_pings_are_answered_while_the_program_computes() {
    let (_stack, peer) = start();
    for target in [STACK_IP6, STACK_LINK_LOCAL] {
        let answers = answer(&peer, solicit(PEER_IP6, target));
        assert_eq!(answers, [Sent6::Advert(target)]);
    }
    for number in 0..200 {
        let answers = answer(&peer, ping6(PEER_IP6, STACK_IP6, number));
        assert_eq!(answers, [Sent6::Pong(number)]);
    }
    let nobody = solicit(PEER_IP6, Ipv6Address::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7));
    assert_eq!(answer(&peer, nobody), []);
}

/// Case N1 over IPv6, with two strangers at once: each is asked at once.
#[test]
fn the_first_pings_of_strangers_are_answered() {
    let (_stack, peer) = start();
    let other = Ipv6Address::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x98);
    for stranger in [STRANGER, other] {
        let answers = answer(&peer, ping6(stranger, STACK_IP6, 1));
        assert_eq!(answers, [Sent6::Solicit(stranger)]);
    }
    for stranger in [other, STRANGER] {
        let answers = answer(&peer, advert(stranger, STACK_IP6, STRANGER_MAC));
        assert_eq!(answers, [Sent6::Pong(1)]);
    }
}

/// The neighbour's answer is shown to another set than the one that waits.
#[test]
fn a_connection_waits_for_its_neighbours_address_no_longer_than_needed() {
    let (stack, peer) = start();
    let _listener = TcpListener::bind(stack, 80).unwrap();
    let syn = segment6((STRANGER, STACK_IP6), (1000, 80), TcpControl::Syn, 1, None);
    assert_eq!(answer(&peer, syn), [Sent6::Solicit(STRANGER)]);
    let answers = answer(&peer, advert(STRANGER, STACK_IP6, STRANGER_MAC));
    assert!(
        matches!(
            answers[..],
            [Sent6::Tcp {
                to: STRANGER,
                to_port: 1000,
                syn: true,
                rst: false,
            }]
        ),
        "{answers:?}"
    );
}

#[test]
fn connections_work_both_ways_and_with_addresses_of_all_kinds() {
    let (stack, peer) = start_both_families();
    let listener = TcpListener::bind(stack, 80).unwrap();
    block_on(async {
        for (number, to, from) in [
            (0, IpAddr::from(STACK_IP6), IpAddr::from(PEER_IP6)),
            (1, STACK_LINK_LOCAL.into(), PEER_LINK_LOCAL.into()),
            (2, STACK_IP.into(), PEER_IP.into()),
        ] {
            let client = peer.begin_to(to.into(), 5000 + number, 80, 4096);
            let mut stream = listener.accept().await.unwrap();
            assert_eq!(stream.local_addr(), SocketAddr::new(to, 80));
            assert_eq!(stream.peer_addr(), SocketAddr::new(from, 5000 + number));
            client.write_all(b"hello").await;
            let mut buffer = [0; 16];
            let count = stream.read(&mut buffer).await.unwrap();
            stream.write_all(&buffer[..count]).await.unwrap();
            assert_eq!(client.read_exactly(5).await, b"hello");
        }
        for to in [
            IpAddr::from(PEER_IP6),
            PEER_LINK_LOCAL.into(),
            PEER_IP.into(),
            PEER_IP.to_ipv6_mapped().into(),
        ] {
            let server = peer.listen(81);
            let remote = SocketAddr::new(to, 81);
            let mut stream = TcpStream::connect(stack, remote).await.unwrap();
            assert!(server.established().await);
            assert_eq!(stream.peer_addr().ip(), to.to_canonical());
            stream.write_all(b"hello").await.unwrap();
            assert_eq!(server.read_exactly(5).await, b"hello");
        }
    });
}

/// Only the addresses tell these two apart, and those are of two families.
#[test]
fn the_same_ports_over_both_families_are_two_connections() {
    let (stack, peer) = start_both_families();
    let listener = TcpListener::bind(stack, 80).unwrap();
    block_on(async {
        let old = peer.begin_to(STACK_IP.into(), 5000, 80, 4096);
        let mut first = listener.accept().await.unwrap();
        let new = peer.begin_to(STACK_IP6.into(), 5000, 80, 4096);
        let mut second = listener.accept().await.unwrap();
        old.write_all(b"4").await;
        new.write_all(b"6").await;
        let mut buffer = [0; 8];
        assert_eq!(first.read(&mut buffer).await, Ok(1));
        assert_eq!(buffer[0], b'4');
        assert_eq!(second.read(&mut buffer).await, Ok(1));
        assert_eq!(buffer[0], b'6');
    });
}

#[test]
fn what_has_no_way_is_refused_at_once() {
    let (stack, _peer) = start_with(Config {
        ipv6: Ipv6Source::Static(Ipv6Config {
            address: STACK_IP6,
            prefix_len: 64,
            gateway: None,
        }),
        ..both_families()
    });
    for (remote, error) in [
        ("2001:db9::1", Error::NetworkUnreachable),
        ("::", Error::InvalidInput),
        ("ff02::1", Error::InvalidInput),
        ("10.0.2.255", Error::InvalidInput),
        ("::ffff:255.255.255.255", Error::InvalidInput),
    ] {
        let remote = SocketAddr::new(remote.parse().unwrap(), 80);
        let connected = block_on(TcpStream::connect(stack, remote));
        assert_eq!(connected.err(), Some(error), "{remote}");
    }
}

#[test]
fn frames_that_nobody_serves_are_counted() {
    let (stack, peer) = start();
    let packet = |protocol| ipv6(PEER_IP6, STACK_IP6, protocol, 64, &[6, 0, 0, 0, 0, 0, 0, 0]);
    let mut all = Vec::new();
    for protocol in [
        IpProtocol::Ipv6Frag,
        IpProtocol::HopByHop,
        IpProtocol::Ipv6Route,
        IpProtocol::Ipv6Opts,
        IpProtocol::Ipv6NoNxt,
    ] {
        all.extend(answer(&peer, packet(protocol)));
    }
    all.extend(answer(&peer, ping6(Ipv6Address::LOCALHOST, STACK_IP6, 1)));
    all.extend(answer(&peer, ping6(PEER_IP6, Ipv6Address::LOCALHOST, 1)));
    let mut martian = ping(PEER_IP, 1);
    martian[30..34].copy_from_slice(&[127, 0, 0, 1]);
    all.extend(answer(&peer, martian));
    let loopback = segment6(
        (Ipv6Address::LOCALHOST, STACK_IP6),
        (9, 80),
        TcpControl::Syn,
        1,
        None,
    );
    all.extend(answer(&peer, loopback));
    all.extend(answer(&peer, solicit(Ipv6Address::UNSPECIFIED, STACK_IP6)));
    // A router cannot have forwarded it.
    let mut forwarded = solicit(PEER_IP6, STACK_IP6);
    forwarded[21] = 254;
    all.extend(answer(&peer, forwarded));
    assert_eq!(all, []);
    let stats = stack.stats();
    assert_eq!(
        (stats.fragments, stats.martians, stats.unsupported),
        (1, 4, 6)
    );
}

/// A reset leaves for a segment to a closed port, but not for each of a flood.
#[test]
fn a_flood_of_segments_for_nobody_is_not_answered_with_a_flood() {
    let (stack, peer) = start();
    answer(&peer, solicit(PEER_IP6, STACK_IP6));
    let mut resets = 0;
    for number in 0..1000 {
        let stray = segment6(
            (PEER_IP6, STACK_IP6),
            (9, 80),
            TcpControl::Syn,
            number,
            None,
        );
        peer.wire.send(stray);
        if number % 20 == 0 {
            host::advance(2 * MS);
            resets += sent(&peer).len();
        }
    }
    assert!((100..400).contains(&resets), "{resets}");
    assert!(stack.stats().resets_limited > 500);
}

#[test]
fn routers_are_told_of_the_groups_that_are_listened_to() {
    let (_stack, peer) = start();
    // A general query of MLDv2 (RFC 3810 §5.1), all answers within 2 s.
    let mut query = vec![58, 0, 5, 2, 0, 0, 1, 0];
    let mut message = vec![130, 0, 0, 0, 0x07, 0xd0, 0, 0];
    message.extend([0; 16]);
    message.extend([0, 0, 0, 0]);
    let [_, message] = [(); 2].map(|()| {
        let frame = icmpv6_bytes(PEER_LINK_LOCAL, ALL_NODES, 1, &message);
        frame[54..].to_vec()
    });
    query.extend(message);
    let query = ipv6(PEER_LINK_LOCAL, ALL_NODES, IpProtocol::HopByHop, 1, &query);
    peer.wire.send(query);
    host::advance(3 * SEC);
    assert_eq!(sent(&peer), [Sent6::Report]);
    // And that was all.
    host::advance(30 * SEC);
    assert_eq!(sent(&peer), []);
    let before = host::timer_interrupts();
    block_on(sleep(60 * SEC));
    assert!(host::timer_interrupts() - before < 5);
}

#[test]
fn segments_never_exceed_what_the_link_carries() {
    let (stack, peer) = start_both_families();
    block_on(async {
        for to in [IpAddr::from(PEER_IP6), PEER_IP.into()] {
            let server = peer.listen(81);
            peer.take_seen();
            let remote = SocketAddr::new(to, 81);
            let mut stream = TcpStream::connect(stack, remote).await.unwrap();
            assert!(server.established().await);
            let writer = spawn(async move {
                stream.write_all(&[7; 50_000]).await.unwrap();
                stream
            });
            assert_eq!(server.read_exactly(50_000).await.len(), 50_000);
            drop(writer.await);
            let longest = peer.take_seen().iter().map(Vec::len).max();
            assert_eq!(longest, Some(1514));
        }
    });
}

/// smoltcp takes no notice of a smaller MTU on the path; at least it holds.
#[test]
fn a_message_that_packets_are_too_big_does_no_harm() {
    let (stack, peer) = start_both_families();
    block_on(async {
        let server = peer.listen(81);
        let remote = SocketAddr::new(PEER_IP6.into(), 81);
        let mut stream = TcpStream::connect(stack, remote).await.unwrap();
        assert!(server.established().await);
        for mtu in [0, 68, 1280, u32::MAX] {
            let quoted = Ipv6Repr {
                src_addr: STACK_IP6,
                dst_addr: PEER_IP6,
                next_header: IpProtocol::Tcp,
                payload_len: 1460,
                hop_limit: 64,
            };
            let too_big = Icmpv6Repr::PktTooBig {
                mtu,
                header: quoted,
                data: &[0; 64],
            };
            peer.wire.send(icmpv6(PEER_IP6, STACK_IP6, 64, too_big));
            stream.write_all(&[7; 3000]).await.unwrap();
            server.read_exactly(3000).await;
        }
    });
    assert_eq!(stack.stats().sockets, 1);
}

/// RFC 4861 §6.3.7: the routers can wait where there is an address to begin with.
#[test]
fn a_host_with_an_address_asks_the_routers_later() {
    let (_stack, peer) = start_with(Config {
        ipv6: Ipv6Source::Slaac,
        ..both_families()
    });
    block_on(yield_now());
    host::advance(99 * MS);
    assert!(!sent(&peer).contains(&Sent6::RouterSolicit));
    host::advance(102 * MS);
    assert!(sent(&peer).contains(&Sent6::RouterSolicit));
}

#[test]
fn a_router_gives_an_address_and_takes_it_away() {
    let (stack, peer) = start_with(Config {
        ipv4: Ipv4Source::Off,
        ipv6: Ipv6Source::Slaac,
        ..Config::default()
    });
    block_on(yield_now());
    host::advance(100 * MS);
    let first = sent(&peer);
    assert!(first.contains(&Sent6::RouterSolicit), "{first:?}");
    assert_eq!(stack.config(), None);
    assert_eq!(stack.addresses(), [IpAddr::from(STACK_LINK_LOCAL)]);
    peer.add_address(PEER_IP6.into(), 64);
    peer.add_address(PEER_LINK_LOCAL.into(), 64);

    let advertise = |router_seconds, prefix_seconds| {
        peer.wire.send(router_advert(&Advertised {
            router_seconds,
            prefix: PREFIX,
            prefix_seconds,
            dns_server: Some(PEER_IP6),
        }));
    };
    block_on(async {
        let waiter = spawn(stack.wait_configured());
        advertise(1800, 10_000);
        let config = waiter.await.unwrap();
        assert_eq!(config.address(), IpAddr::from(STACK_IP6));
        assert_eq!(
            config.to_string(),
            format!("{STACK_IP6}/64 by {PEER_LINK_LOCAL}")
        );
        assert_eq!(stack.dns_servers(), [IpAddr::from(PEER_IP6)]);

        // Beyond the router.
        let far = SocketAddr::new("2001:db9::1".parse().unwrap(), 80);
        let unanswered = firstpoll::time::timeout(SEC, TcpStream::connect(stack, far)).await;
        assert!(unanswered.is_err());

        let listener = TcpListener::bind(stack, 80).unwrap();
        let _client = peer.begin_to(STACK_IP6.into(), 5000, 80, 4096);
        let mut stream = listener.accept().await.unwrap();

        // The router goes, and then the prefix.
        sleep(2000 * SEC).await;
        let connected = TcpStream::connect(stack, far).await;
        assert_eq!(connected.err(), Some(Error::NetworkUnreachable));
        assert!(stack.config().is_some());
        sleep(9000 * SEC).await;
        assert_eq!(stack.config(), None);
        assert!(stack.dns_servers().is_empty());
        let read = stream.read(&mut [0; 8]).await;
        assert_eq!(read, Err(Error::ConnectionAborted));
    });
}

#[test]
fn without_a_router_the_clock_is_not_spun() {
    let (stack, peer) = start_with(Config {
        ipv4: Ipv4Source::Off,
        ..Config::default()
    });
    let _listener = TcpListener::bind(stack, 80).unwrap();
    block_on(yield_now());
    // The card is seen to raise interrupts.
    answer(&peer, solicit(PEER_LINK_LOCAL, STACK_LINK_LOCAL));
    let before = host::timer_interrupts();
    block_on(sleep(600 * SEC));
    let interrupts = host::timer_interrupts() - before;
    assert!(interrupts < 50, "{interrupts}");
    let sent = stack.stats().frames_sent;
    assert!((6..=16).contains(&sent), "{sent}");
}

/// A program on a network of both families wants to wait for IPv4, but not for
/// ever.
#[test]
fn an_address_of_ipv6_will_do_where_dhcp_is_silent() {
    let (stack, peer) = start_with(Config::default());
    block_on(async {
        let waiter = spawn(stack.wait_configured());
        peer.wire.send(router_advert(&Advertised {
            router_seconds: 1800,
            prefix: PREFIX,
            prefix_seconds: 10_000,
            dns_server: None,
        }));
        sleep(5 * SEC).await;
        assert!(stack.addresses().contains(&STACK_IP6.into()));
        assert_eq!(stack.config(), None);
        let config = waiter.await.unwrap();
        assert_eq!(config.address(), IpAddr::from(STACK_IP6));
        let waited = firstpoll::time::Instant::now() - crate::peer::START;
        assert!((10 * SEC..11 * SEC).contains(&waited), "{waited:?}");
    });
}

/// Nothing of IPv6 is answered where it is off.
#[test]
fn off_means_off() {
    let (stack, peer) = start_with(Config {
        ipv6: Ipv6Source::Off,
        ..both_families()
    });
    block_on(yield_now());
    host::advance(10 * SEC);
    assert_eq!(sent(&peer), []);
    assert_eq!(answer(&peer, solicit(PEER_IP6, STACK_LINK_LOCAL)), []);
    assert_eq!(answer(&peer, ping6(PEER_LINK_LOCAL, ALL_NODES, 1)), []);
    let advertised = Advertised {
        router_seconds: 1800,
        prefix: PREFIX,
        prefix_seconds: 10_000,
        dns_server: None,
    };
    assert_eq!(answer(&peer, router_advert(&advertised)), []);
    assert_eq!(stack.addresses(), [IpAddr::from(STACK_IP)]);
    // IPv4 goes on.
    peer.wire
        .send(segment(PEER_IP, (9, 80), TcpControl::Syn, 1, None));
    host::advance(2 * MS);
    assert!(peer.wire.receive().is_some());
}

/// As over IPv4, and the record's answers are whole packets of IPv6.
#[test]
fn a_stream_that_was_dropped_leaves_a_record_that_answers() {
    let (stack, peer) = start_both_families();
    let far = peer.listen(99);
    block_on(async {
        let address = SocketAddr::from((PEER_IP6, 99));
        let near = TcpStream::connect(stack, address).await.unwrap();
        assert!(far.established().await);
        drop(near);
        assert_eq!(far.read().await, Ok(Vec::new()));
        sleep(SEC).await;
        let stats = stack.stats();
        assert_eq!((stats.sockets, stats.closing, stats.time_wait), (0, 1, 0));
        let began = firstpoll::time::Instant::now();
        far.close();
        // Its end has been acknowledged, without another attempt.
        far.closed().await;
        assert!(firstpoll::time::Instant::now() - began < SEC / 2);
        let stats = stack.stats();
        assert_eq!((stats.sockets, stats.closing, stats.time_wait), (0, 1, 1));
    });
}
