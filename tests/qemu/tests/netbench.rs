//! netbench moves exact numbers of bytes, and its reflector sends back what it
//! gets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Result, ensure};
use firstpoll_qemu_tests::network::{BOOT_TIMEOUT, STATIC};
use netbench_host::{Client, Flight, Plan, reflect};
use netbench_protocol::{MESSAGE_SIZES, Test};
use xtask::cargo::{self, Profile};
use xtask::guest::Guest;
use xtask::qemu::{self, Forward, Net, Options};

/// Where the guest listens.
const PORT: u16 = 80;

const PLAN: Plan = Plan {
    warm_up: Duration::from_millis(100),
    measured: Duration::from_millis(500),
};

fn boot(command_line: &str, forwards: Vec<Forward>) -> Result<Guest> {
    let options = Options {
        net: Net::User(forwards),
        append: format!("{STATIC} {command_line}"),
        ..Options::default()
    };
    let image = cargo::build_image("netbench", Profile::Release)?;
    let mut guest = Guest::boot(&options, &image)?;
    guest.wait_for_line(&format!("listening on port {PORT}"), BOOT_TIMEOUT)?;
    Ok(guest)
}

/// The server, and where the host reaches it.
fn serve() -> Result<(Guest, SocketAddr)> {
    let port = qemu::free_port(0)?;
    let guest = boot("", vec![Forward::tcp(port, PORT)])?;
    Ok((guest, SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
}

/// A free UDP port of 127.0.0.1.
fn free_udp_port() -> Result<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(socket.local_addr()?.port())
}

/// Case C9. The counts of both ends are compared by the client.
#[test]
fn every_byte_is_counted_at_both_ends() -> Result<()> {
    let (_guest, address) = serve()?;
    let mut client = Client::connect(address)?;
    for size in MESSAGE_SIZES {
        let content: Vec<_> = (0..size).map(|index| (index % 251) as u8).collect();
        client.echo(&content)?;
        let latency = client.latency(size, 3, Duration::ZERO)?;
        assert_eq!(latency.samples, 3);
        let messages = client.messages(size, Duration::from_millis(20))?;
        assert!(messages.count > 0);
        assert_eq!(messages.bytes, messages.count * u64::from(size));
    }
    assert_eq!(client.round_trips(100)?.samples, 100);
    Ok(())
}

#[test]
fn bulk_data_flows_both_ways() -> Result<()> {
    let (_guest, address) = serve()?;
    let mut no_cpu = || Ok(Duration::ZERO);
    let to = Client::connect(address)?.send(PLAN, &mut no_cpu)?;
    let from = Client::connect(address)?.receive(PLAN, &mut no_cpu)?;
    println!(
        "to the guest {:.0} Mbit/s, from it {:.0}",
        to.mbit_per_second(),
        from.mbit_per_second()
    );
    assert!(to.count > 0 && from.count > 0);
    Ok(())
}

#[test]
fn two_tasks_exchange_messages_of_all_sizes() -> Result<()> {
    let (_guest, address) = serve()?;
    let mut client = Client::connect(address)?;
    for size in MESSAGE_SIZES {
        let tasks = client.tasks(size, 3)?;
        println!(
            "{size:#x} bytes: {}; {:.0} messages/s",
            tasks.latency,
            tasks.messages.per_second()
        );
        assert_eq!(tasks.latency.samples, 3);
        // To the last message: the next of the largest may take long.
        assert!(tasks.messages.elapsed >= Duration::from_millis(20));
    }
    Ok(())
}

/// Who does not speak the protocol, or stops in the middle, harms nobody.
#[test]
fn strangers_are_closed() -> Result<()> {
    let (_guest, address) = serve()?;
    let mut too_much = Test::Source { block_bytes: 1 }.encode();
    too_much[8] = 0xff;
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: guest\r\n\r\n"[..],
        &[0; 4096],
        &too_much,
    ] {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(bytes)?;
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        assert_eq!(answer, b"");
    }
    let source = Test::Source {
        block_bytes: 1 << 20,
    };
    for _ in 0..10 {
        // Dropped with the blocks unread.
        TcpStream::connect(address)?.write_all(&source.encode())?;
    }
    Client::connect(address)?.echo(b"still there")
}

#[test]
fn the_reflector_returns_datagrams_unchanged() -> Result<()> {
    let (port, other_port) = (free_udp_port()?, free_udp_port()?);
    let forwards = vec![Forward::udp(port, PORT), Forward::udp(other_port, PORT + 1)];
    let mut guest = boot("mode=reflect", forwards)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    for (datagram_bytes, in_flight) in [(8, 1), (100, 16), (1400, 1), (1400, 64)] {
        let flight = Flight {
            in_flight,
            datagram_bytes,
            plan: PLAN,
        };
        // It compares the contents.
        let reflected = reflect(address, flight, &mut || Ok(Duration::ZERO))?;
        println!("{datagram_bytes} bytes, {in_flight} in flight: {reflected:?}");
    }

    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    stranger.set_read_timeout(Some(Duration::from_millis(300)))?;
    stranger.send_to(b"not for you", (Ipv4Addr::LOCALHOST, other_port))?;
    let answer = stranger.recv(&mut [0; 100]);
    assert!(answer.is_err(), "another port was reflected: {answer:?}");
    loop {
        let line = guest.wait_for_line("reflected ", BOOT_TIMEOUT)?;
        let dropped = line.rsplit(' ').next().and_then(|count| count.parse().ok());
        ensure!(dropped.is_some(), "no counts in {line}");
        if dropped > Some(0) {
            return Ok(());
        }
    }
}
