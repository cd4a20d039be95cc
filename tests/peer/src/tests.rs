//! The peer against itself, on a pair of sockets and on a wire.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::frame::ndp::{self, Advertisement};
use crate::frame::{self, EthernetAddress, Ipv4Address, Parsed, TcpControl, TcpRepr};
use crate::wire::Wire;
use crate::{
    Config, Connection, Crowd, Direction, Engine, Host, Impairment, Lease, Peer, dhcp, dns,
};

const SECOND: Duration = Duration::from_secs(1);

const OTHER: Host = Host {
    mac: EthernetAddress([2, 0, 0, 0, 0, 15]),
    ip: Ipv4Address::new(10, 0, 2, 15),
};

const OTHER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 15);

fn other() -> Config {
    Config {
        host: OTHER,
        ip6: OTHER6,
        ..Config::default()
    }
}

fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(OTHER.ip, port)
}

/// A peer, and another in the guest's place.
fn pair() -> io::Result<(Peer, Peer)> {
    let (ours, theirs) = UnixStream::pair()?;
    let peer = Peer::on(ours, Config::default())?;
    Ok((peer, Peer::on(theirs, other())?))
}

#[test]
fn addresses_are_resolved_and_pings_are_timed() -> io::Result<()> {
    let (peer, other) = pair()?;
    assert_eq!(peer.resolve(OTHER.ip, SECOND), Some(OTHER));
    for seq in 0..100 {
        let time = peer.ping(OTHER.ip, seq, SECOND);
        assert!(time.is_some_and(|time| time < SECOND), "{seq}: {time:?}");
    }
    let nobody = Ipv4Address::new(10, 0, 2, 77);
    assert_eq!(peer.ping(nobody, 0, SECOND / 4), None);
    drop(other);
    assert_eq!(peer.ping(OTHER.ip, 0, SECOND), None);
    Ok(())
}

#[test]
fn bytes_arrive_both_ways() -> io::Result<()> {
    let (peer, other) = pair()?;
    let listener = other.accept_on(80);
    let mut client = peer.connect(at(80), SECOND)?;
    let mut server = listener.accept(SECOND)?;
    let data: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let echo = std::thread::spawn(move || -> io::Result<Vec<u8>> {
        let mut received = Vec::new();
        server.read_to_end(&mut received)?;
        server.write_all(&received)?;
        Ok(received)
    });
    client.write_all(&data)?;
    client.shutdown();
    let mut received = Vec::new();
    client.read_to_end(&mut received)?;
    assert!(received == data);
    assert!(echo.join().expect("the other side does not panic")? == data);
    assert_eq!(client.bytes_read(), 1_000_000);
    assert_eq!(client.bytes_written(), 1_000_000);
    Ok(())
}

#[test]
fn refusals_resets_and_silence_are_told_apart() -> io::Result<()> {
    let (peer, other) = pair()?;
    let refused = peer.connect(at(81), SECOND).expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

    let listener = other.accept_on(80);
    let mut client = peer.connect(at(80), SECOND)?;
    listener.accept(SECOND)?.reset();
    let reset = client.read(&mut [0; 10]).expect_err("it was reset");
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);

    let mut client = peer.connect(at(80), SECOND)?;
    let server = listener.accept(SECOND)?;
    client.set_timeout(SECOND / 10);
    let silence = client.read(&mut [0; 10]).expect_err("nothing was sent");
    assert_eq!(silence.kind(), ErrorKind::TimedOut);
    drop(server);
    assert_eq!(client.read(&mut [0; 10])?, 0);

    drop(other);
    assert!(peer.connect(at(80), SECOND).is_err());
    Ok(())
}

#[test]
fn a_thousand_connections_one_after_the_other() -> io::Result<()> {
    let (peer, other) = pair()?;
    let listener = other.accept_on(80);
    for _ in 0..1000 {
        let mut client = peer.connect(at(80), SECOND)?;
        let mut server = listener.accept(SECOND)?;
        client.write_all(b"x")?;
        let mut byte = [0];
        server.read_exact(&mut byte)?;
        assert_eq!(byte, *b"x");
    }
    Ok(())
}

#[test]
fn handshakes_by_hand_are_timed_and_leave_nothing_behind() -> io::Result<()> {
    let (peer, other) = pair()?;
    let listener = other.accept_on(80);
    for _ in 0..20 {
        let times = peer.handshakes(at(80), 10, SECOND);
        assert!(times.iter().all(Option::is_some), "{times:?}");
        while listener.accept(Duration::from_millis(20)).is_ok() {}
    }
    let times = peer.handshakes(at(81), 3, SECOND / 10);
    assert_eq!(times, [None; 3]);
    Ok(())
}

#[test]
fn any_frame_can_be_sent_and_seen() -> io::Result<()> {
    let (peer, other) = pair()?;
    let resets = peer.capture(|bytes| {
        matches!(
            Parsed::parse(bytes),
            Some(Parsed::Tcp { segment, .. }) if segment.control == TcpControl::Rst
        )
    });
    // But for IPv6 multicasts: reports of groups come when they like.
    let all = other.capture(|bytes| !bytes.starts_with(&[0x33, 0x33]));
    let segment = TcpRepr {
        payload: b"out of the blue",
        ack_number: Some(frame::TcpSeqNumber(1)),
        ..frame::segment(1234, 80, TcpControl::None)
    };
    let other_host = peer.resolve(OTHER.ip, SECOND);
    assert_eq!(other_host, Some(OTHER));
    assert!(all.next(SECOND).is_some(), "it saw the ARP request");
    let sent = frame::tcp(peer.host(), OTHER, &segment);
    peer.send_frame(sent.clone());
    assert_eq!(all.next(SECOND), Some(sent));
    assert!(resets.next(SECOND).is_some());
    Ok(())
}

#[test]
fn a_listening_peer_serves_whoever_connects() -> io::Result<()> {
    let directory = std::env::temp_dir();
    let path = directory.join(format!("peer-{}.sock", std::process::id()));
    let peer = Peer::listen(&path)?;
    let other = Peer::on(UnixStream::connect(&path)?, other())?;
    assert!(peer.ping(OTHER.ip, 1, SECOND).is_some());
    drop(peer);
    assert!(!path.exists());
    drop(other);
    drop(Peer::listen(&path)?);
    assert!(
        !path.exists(),
        "a peer that nobody connects to ends as well"
    );
    Ok(())
}

#[test]
fn a_crowd_connects_talks_and_ends() -> io::Result<()> {
    // The other side finds out their hardware addresses at one a second.
    const CLIENTS: usize = 2;

    let (ours, theirs) = UnixStream::pair()?;
    let mut crowd = Crowd::on(ours, Config::default())?;
    // It has no router, so everybody must be its neighbour.
    let other = Peer::on(
        theirs,
        Config {
            prefix_len: 0,
            ..other()
        },
    )?;
    let listener = other.accept_on(80);
    let server = std::thread::spawn(move || -> io::Result<()> {
        for _ in 0..CLIENTS {
            let mut stream = listener.accept(5 * SECOND)?;
            let mut word = [0; 5];
            stream.read_exact(&mut word)?;
            stream.write_all(&word)?;
        }
        Ok(())
    });
    assert!(crowd.meet(OTHER.ip, SECOND)?);
    let clients: Vec<_> = (0..CLIENTS).map(|_| crowd.open(80)).collect();
    let all_are = |crowd: &mut Crowd, wanted| {
        let mut clients = clients.iter();
        clients.all(|&client| crowd.connection(client) == wanted)
    };
    assert!(crowd.run(10 * SECOND, |crowd| all_are(crowd, Connection::Open))?);
    for &client in &clients {
        crowd.send(client, b"hello");
    }
    assert!(crowd.run(5 * SECOND, |crowd| all_are(crowd, Connection::Ended))?);
    for &client in &clients {
        assert_eq!(crowd.received(client), b"hello");
    }
    server.join().expect("the server does not panic")?;

    let refused = crowd.open(81);
    let is_reset = |crowd: &mut Crowd| crowd.connection(refused) == Connection::Reset;
    assert!(crowd.run(10 * SECOND, is_reset)?);

    let _listener = other.accept_on(82);
    crowd.open_as_stranger(82);
    assert!(crowd.run(10 * SECOND, |crowd| crowd.strangers_answered() > 0)?);
    Ok(())
}

#[test]
fn time_on_a_wire_is_moved_by_hand() {
    let mut wire = Wire::new(Engine::new(Config::default()), Engine::new(other()));
    wire.left.ask_for(OTHER.ip.into());
    wire.run(Duration::ZERO);
    let to = wire.left.neighbour(OTHER.ip).expect("it answers ARP");
    let now = wire.now();
    wire.left.ping(to, 1, now);
    wire.run(Duration::ZERO);
    assert_eq!(wire.left.take_pong(to.ip.into(), 1), Some(Duration::ZERO));

    wire.right.listen(80);
    let socket = wire.left.connect(at(80).into());
    wire.run(Duration::ZERO);
    assert!(wire.left.socket(socket).may_send());
    let accepted = wire.right.accept(80).expect("the handshake is over");
    wire.left
        .socket(socket)
        .send_slice(b"hello")
        .expect("it is open");
    wire.run(SECOND * 3600);
    let mut buffer = [0; 10];
    assert_eq!(wire.right.socket(accepted).recv_slice(&mut buffer), Ok(5));
}

/// Two engines that know each other, on a wire.
fn wire() -> Wire {
    let mut wire = Wire::new(Engine::new(Config::default()), Engine::new(other()));
    wire.left.ask_for(OTHER.ip.into());
    wire.run(Duration::ZERO);
    wire
}

/// Sends `data` from the right to the left; how long that took.
fn transfer(wire: &mut Wire, data: &[u8]) -> Duration {
    wire.right.listen(80);
    let reader = wire.left.connect(at(80).into());
    let start = wire.now();
    let mut writer = None;
    let (mut sent, mut received) = (0, Vec::new());
    while received.len() < data.len() {
        wire.run(SECOND / 1000);
        writer = writer.or_else(|| wire.right.accept(80));
        if let Some(writer) = writer {
            let writer = wire.right.socket(writer);
            sent += writer.send_slice(&data[sent..]).expect("it is open");
        }
        let mut buffer = vec![0; 1 << 16];
        if let Ok(count) = wire.left.socket(reader).recv_slice(&mut buffer) {
            received.extend_from_slice(&buffer[..count]);
        }
        assert!(wire.now() - start < 600 * SECOND, "{}", received.len());
    }
    assert!(received == data);
    wire.now() - start
}

#[test]
fn bytes_arrive_over_paths_that_do_everything_to_frames() {
    let mut wire = wire();
    let impairment = Impairment {
        loss: 0.02,
        duplication: 0.02,
        reordering: 0.05,
        hold: SECOND / 200,
        delay: SECOND / 1000,
        jitter: SECOND / 1000,
    };
    wire.to_left.impair(impairment, 1);
    wire.to_right.impair(impairment, 2);
    let data: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    transfer(&mut wire, &data);
    for counts in [wire.to_left.counts(), wire.to_right.counts()] {
        assert!(counts.lost > 0 && counts.doubled > 0 && counts.held_back > 0);
    }
}

#[test]
fn a_delay_is_seen_in_the_round_trip() -> io::Result<()> {
    let (peer, _other) = pair()?;
    let impairment = Impairment {
        delay: Duration::from_millis(30),
        ..Impairment::default()
    };
    peer.impair(Direction::Incoming, impairment, 1);
    peer.impair(Direction::Outgoing, impairment, 1);
    let time = peer.ping(OTHER.ip, 1, 5 * SECOND);
    assert!(
        time.is_some_and(|time| time >= Duration::from_millis(60)),
        "{time:?}"
    );
    peer.lose(Direction::Outgoing, |_| true);
    assert_eq!(peer.ping(OTHER.ip, 2, SECOND / 4), None);
    assert!(peer.path_counts(Direction::Outgoing).lost > 0);
    Ok(())
}

#[test]
fn ipv6_has_all_that_ipv4_has() -> io::Result<()> {
    let (peer, other) = pair()?;
    for ip in [OTHER6, ndp::link_local(OTHER.mac)] {
        let expected = Host { mac: OTHER.mac, ip };
        assert_eq!(peer.resolve(ip, SECOND), Some(expected));
        assert!(peer.ping(ip, 1, SECOND).is_some(), "{ip}");
    }
    let listener = other.accept_on(80);
    let address = SocketAddr::from((OTHER6, 80));
    let mut client = peer.connect(address, SECOND)?;
    let mut server = listener.accept(SECOND)?;
    client.write_all(b"hello")?;
    let mut received = [0; 5];
    server.read_exact(&mut received)?;
    assert_eq!(&received, b"hello");
    let times = peer.handshakes(address, 5, SECOND);
    assert!(times.iter().all(Option::is_some), "{times:?}");
    Ok(())
}

#[test]
fn held_connections_last_until_they_are_dropped() -> io::Result<()> {
    let (peer, other) = pair()?;
    let listener = other.accept_on(80);
    let held = peer.hold(at(80), 10, SECOND).expect("the address is known");
    assert_eq!(held.established(), 10);
    let mut accepted = listener.accept(SECOND)?;
    accepted.set_timeout(SECOND);
    drop(held);
    let error = accepted.read(&mut [0]).expect_err("it is reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let refused = peer.hold(at(81), 3, SECOND).expect("the address is known");
    assert_eq!(refused.established(), 0);
    Ok(())
}

#[test]
fn datagrams_are_sent_and_taken() -> io::Result<()> {
    let (peer, other) = pair()?;
    let (ours, theirs) = (peer.bind(1000), other.bind(2000));
    assert!(ours.send_to(b"too early", at(2000)).is_err());
    assert!(peer.resolve(OTHER.ip, SECOND).is_some());
    assert!(peer.resolve(OTHER6, SECOND).is_some());
    for to in [at(2000).into(), SocketAddr::from((OTHER6, 2000))] {
        ours.send_to(b"hello", to)?;
        let datagram = theirs.receive(SECOND)?;
        assert_eq!((&*datagram.data, datagram.to), (&b"hello"[..], to));
        assert_eq!(datagram.from.port(), 1000);
    }
    ours.send_to(b"nobody looks", at(2001))?;
    assert!(theirs.receive(SECOND / 10).is_err());
    Ok(())
}

#[test]
fn the_router_is_told_of_when_somebody_asks() {
    let mut wire = wire();
    let advertisement = Advertisement {
        router_lifetime: 600 * SECOND,
        prefix: "2001:db8::".parse().expect("it is an address"),
        prefix_len: 64,
        valid: 600 * SECOND,
        preferred: 300 * SECOND,
    };
    wire.left.advertise(advertisement);
    let told = wire.right.capture(|frame| frame.get(54) == Some(&134));
    wire.run(SECOND);
    let frame = wire.right.take_captured(told).expect("all are told");
    let router = wire.left.host6(true);
    assert_eq!(frame, ndp::router_advertisement(router, advertisement));
    let asker = wire.right.host6(true);
    wire.right.send_frame(ndp::router_solicitation(asker));
    wire.run(SECOND);
    assert!(wire.right.take_captured(told).is_some(), "who asks is told");
}

#[test]
fn servers_answer_over_the_wire() {
    let mut wire = wire();
    let found = Ipv4Addr::new(10, 0, 2, 80);
    let records = vec![dns::Record::new("a.example", dns::Data::A(found))];
    wire.left.serve_dns(dns::Server::knowing(records));
    wire.left
        .serve_dhcp(dhcp::Server::granting(Lease::default()));
    wire.left
        .add_address(IpAddr::V4(Ipv4Addr::new(10, 0, 2, 3)));
    wire.right.ask_for(IpAddr::V4(Ipv4Addr::new(10, 0, 2, 3)));
    wire.run(SECOND);

    let query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
    let server = SocketAddr::from(([10, 0, 2, 3], dns::PORT));
    wire.right.bind(3000);
    assert!(wire.right.send_datagram(3000, server, query));
    wire.run(SECOND);
    let answer = wire.right.take_datagram(3000).expect("it is answered");
    assert_eq!(answer.from, server);
    assert!(answer.data.ends_with(&found.octets()));

    let stream = wire.right.connect(server);
    wire.run(SECOND);
    let message = [&[0, query.len() as u8][..], query].concat();
    for half in message.chunks(10) {
        let sent = wire.right.socket(stream).send_slice(half);
        assert_eq!(sent, Ok(half.len()));
        wire.run(SECOND);
    }
    let mut received = [0; 100];
    let count = wire.right.socket(stream).recv_slice(&mut received);
    let count = count.expect("it is answered");
    assert_eq!(received[2..count], answer.data);
    let dns = wire.left.dns().expect("there is a server");
    assert!(dns.queries()[1].over_tcp);
}
