//! The peer against itself, on a pair of sockets and on a wire.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddrV4;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::frame::{self, EthernetAddress, Ipv4Address, Parsed, TcpControl, TcpRepr};
use crate::wire::Wire;
use crate::{Config, Connection, Crowd, Engine, Host, Peer};

const SECOND: Duration = Duration::from_secs(1);

const OTHER: Config = Config {
    host: Host {
        mac: EthernetAddress([2, 0, 0, 0, 0, 15]),
        ip: Ipv4Address::new(10, 0, 2, 15),
    },
    prefix_len: 24,
};

fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(OTHER.host.ip, port)
}

/// A peer, and another in the guest's place.
fn pair() -> io::Result<(Peer, Peer)> {
    let (ours, theirs) = UnixStream::pair()?;
    let peer = Peer::on(ours, Config::default())?;
    Ok((peer, Peer::on(theirs, OTHER)?))
}

#[test]
fn addresses_are_resolved_and_pings_are_timed() -> io::Result<()> {
    let (peer, other) = pair()?;
    assert_eq!(peer.resolve(OTHER.host.ip, SECOND), Some(OTHER.host));
    for seq in 0..100 {
        let time = peer.ping(OTHER.host.ip, seq, SECOND);
        assert!(time.is_some_and(|time| time < SECOND), "{seq}: {time:?}");
    }
    let nobody = Ipv4Address::new(10, 0, 2, 77);
    assert_eq!(peer.ping(nobody, 0, SECOND / 4), None);
    drop(other);
    assert_eq!(peer.ping(OTHER.host.ip, 0, SECOND), None);
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
    let all = other.capture(|_| true);
    let segment = TcpRepr {
        payload: b"out of the blue",
        ack_number: Some(frame::TcpSeqNumber(1)),
        ..frame::segment(1234, 80, TcpControl::None)
    };
    let other_host = peer.resolve(OTHER.host.ip, SECOND);
    assert_eq!(other_host, Some(OTHER.host));
    assert!(all.next(SECOND).is_some(), "it saw the ARP request");
    let sent = frame::tcp(peer.host(), OTHER.host, &segment);
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
    let other = Peer::on(UnixStream::connect(&path)?, OTHER)?;
    assert!(peer.ping(OTHER.host.ip, 1, SECOND).is_some());
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
            ..OTHER
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
    assert!(crowd.meet(OTHER.host.ip, SECOND)?);
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
    let mut wire = Wire::new(Engine::new(Config::default()), Engine::new(OTHER));
    wire.left.ask_for(OTHER.host.ip);
    wire.run(Duration::ZERO);
    let to = wire.left.neighbour(OTHER.host.ip).expect("it answers ARP");
    let now = wire.now();
    wire.left.ping(to, 1, now);
    wire.run(Duration::ZERO);
    assert_eq!(wire.left.take_pong(to.ip, 1), Some(Duration::ZERO));

    wire.right.listen(80);
    let socket = wire.left.connect(at(80));
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
