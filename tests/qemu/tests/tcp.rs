//! TCP between a guest and a peer that sees every frame.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use firstpoll_peer::dhcp::Server;
use firstpoll_peer::frame::{self, EthernetAddress, Parsed};
use firstpoll_peer::{Lease, Peer, Stream};
use firstpoll_qemu_tests::network::{self, BOOT_TIMEOUT, GUEST, STATIC, guest};
use xtask::guest::{Ending, Guest};

const SECOND: Duration = Duration::from_secs(1);

/// What QEMU's first network card has, unless it is told otherwise.
const GUEST_MAC: EthernetAddress = EthernetAddress([0x52, 0x54, 0x00, 0x12, 0x34, 0x56]);

fn connect(peer: &Peer, port: u16) -> Result<Stream> {
    let stream = peer.connect(guest(port), 5 * SECOND);
    stream.with_context(|| format!("port {port}"))
}

fn services() -> Result<(Guest, Peer)> {
    let (mut guest, peer) = network::boot_with_peer("services", STATIC)?;
    guest.wait_for_line("ready", BOOT_TIMEOUT)?;
    Ok((guest, peer))
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

/// Case N1: the first frame comes from a host that the guest never heard of.
#[test]
fn the_first_ping_of_a_stranger_is_answered() -> Result<()> {
    let (_guest, peer) = services()?;
    let guest = firstpoll_peer::Host {
        mac: GUEST_MAC,
        ip: GUEST,
    };
    let replies = peer.capture(|bytes| {
        matches!(
            Parsed::parse(bytes),
            Some(Parsed::EchoReply { ident: 7, .. })
        )
    });
    peer.send_frame(frame::echo_request(peer.host(), guest, 7, 1, b"hello"));
    assert!(replies.next(3 * SECOND).is_some());
    Ok(())
}

#[test]
fn an_address_is_leased() -> Result<()> {
    let (mut guest, peer) = network::boot_with_peer("services", "")?;
    peer.serve_dhcp(Server::granting(Lease::default()));
    guest.wait_for_line("ready", BOOT_TIMEOUT)?;
    assert_eq!(peer.granted_leases(), 1);
    assert!(peer.ping(GUEST, 1, SECOND).is_some());
    Ok(())
}

/// Case C9: exact byte counts both ways.
#[test]
fn every_byte_arrives() -> Result<()> {
    let (_guest, peer) = services()?;
    for length in [
        0, 8, 0x40, 0x200, 0x800, 0x1000, 0x4000, 0xa000, 0x64000, 0x3e_8000,
    ] {
        let data = pattern(length);

        let mut sink = connect(&peer, 9)?;
        sink.write_all(&data)?;
        sink.shutdown();
        let mut answer = String::new();
        sink.read_to_string(&mut answer)?;
        assert_eq!(answer, format!("{length} bytes, 0 wrong"));

        let mut source = connect(&peer, 19)?;
        source.write_all(format!("{length}\n").as_bytes())?;
        let mut received = Vec::new();
        source.read_to_end(&mut received)?;
        assert_eq!(received.len(), length);
        assert!(received == data, "{length} bytes arrived, but not as sent");
    }
    Ok(())
}

#[test]
fn an_echo_returns_everything() -> Result<()> {
    let (_guest, peer) = services()?;
    let data = pattern(200_000);
    let mut stream = connect(&peer, 7)?;
    let mut received = Vec::new();
    for piece in data.chunks(10_000) {
        stream.write_all(piece)?;
        let mut echoed = vec![0; piece.len()];
        stream.read_exact(&mut echoed)?;
        received.extend(echoed);
    }
    assert!(received == data);
    stream.shutdown();
    assert_eq!(stream.read(&mut [0])?, 0);
    Ok(())
}

/// Case C11: what was written leaves by itself, at once.
#[test]
fn a_write_needs_no_flush() -> Result<()> {
    let (_guest, peer) = services()?;
    let mut times = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&peer, 13)?;
        let start = Instant::now();
        let mut greeting = [0; 5];
        stream.read_exact(&mut greeting)?;
        times.push(start.elapsed());
        assert_eq!(&greeting, b"hello");
    }
    times.sort_unstable();
    println!("a written greeting arrived after {times:?}");
    // A delayed acknowledgement or a poll timer would show in all of them.
    assert!(times[10] < Duration::from_millis(8), "{times:?}");
    Ok(())
}

/// Cases C10 and C12: each failure has its own error.
#[test]
fn failures_are_told_apart() -> Result<()> {
    let command_line = format!("{STATIC} peer=10.0.2.2 nobody=10.0.2.77");
    let (mut guest, peer) = network::boot_with_peer("client", &command_line)?;
    let listener = peer.accept_on(80);
    let mut stream = listener.accept(BOOT_TIMEOUT)?;
    stream.read_exact(&mut [0])?;
    stream.reset();
    assert_eq!(guest.wait(10 * SECOND)?, Ending::Guest(0));
    let lines = guest.lines().join("\n");
    for wanted in [
        "bound twice: AddrInUse",
        "closed port: ConnectionRefused",
        "reset: ConnectionReset",
        "nobody: TimedOut after 30",
    ] {
        assert!(lines.contains(wanted), "no {wanted:?} in\n{lines}");
    }
    Ok(())
}

/// Case C13: what is dropped in the middle of its work leaves nothing behind.
#[test]
fn drops_are_orderly() -> Result<()> {
    let (mut program, peer) = network::boot_with_peer("drops", STATIC)?;
    let step = || connect(&peer, 1).map(drop);

    program.wait_for_line("next: a stream", BOOT_TIMEOUT)?;
    let mut stream = connect(&peer, 80)?;
    assert_eq!(stream.read(&mut [0])?, 0, "an orderly end");
    drop(stream);

    program.wait_for_line("next: a stream with unread data", SECOND * 5)?;
    let mut stream = connect(&peer, 80)?;
    stream.write_all(b"unread")?;
    stream.flush()?;
    step()?;
    let error = stream.read(&mut [0]).expect_err("data was thrown away");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    program.wait_for_line("next: a pending read", SECOND * 5)?;
    let mut stream = connect(&peer, 80)?;
    program.wait_for_line("the read was pending", SECOND * 5)?;
    stream.write_all(b"x")?;
    program.wait_for_line("read 1 after that", SECOND * 5)?;
    assert_eq!(stream.read(&mut [0])?, 0, "an orderly end");
    drop(stream);

    program.wait_for_line("next: a stream after that", SECOND * 5)?;
    let mut stream = connect(&peer, 80)?;
    assert_eq!(stream.read(&mut [0])?, 0, "an orderly end");
    drop(stream);

    program.wait_for_line("next: a listener", SECOND * 5)?;
    let mut waiting = connect(&peer, 80)?;
    step()?;
    let error = waiting.read(&mut [0]).expect_err("nobody accepts any more");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let error = peer.connect(guest(80), SECOND).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    step()?;

    assert_eq!(program.wait(SECOND * 10)?, Ending::Guest(0));
    let lines = program.lines().join("\n");
    for wanted in [
        "the accept was pending",
        "bound again: true",
        "nothing is left",
    ] {
        assert!(lines.contains(wanted), "no {wanted:?} in\n{lines}");
    }
    Ok(())
}
