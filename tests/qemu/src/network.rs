//! Guests on a network: QEMU's own, or that of a frame-level peer.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use firstpoll_peer::{Config, Peer, Stream};
use xtask::cargo::{self, Profile};
use xtask::guest::Guest;
use xtask::qemu::{self, Net, Options};

/// The guest's address, on both networks.
pub const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);

/// The command line that gives it this address without DHCP.
pub const STATIC: &str = "ip=10.0.2.15/24 gateway=10.0.2.2";

/// How long a boot may take on a busy machine.
pub const BOOT_TIMEOUT: Duration = Duration::from_secs(20);

/// A port of the guest, as the peer sees it.
pub fn guest(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(GUEST, port)
}

/// httpd on QEMU's user-mode network, and where the host reaches it.
#[derive(Debug)]
pub struct Served {
    /// The guest.
    pub guest: Guest,
    /// Its port 80.
    pub address: SocketAddr,
}

/// Boots httpd on QEMU's user-mode network and waits until it listens.
///
/// # Errors
///
/// If it does not.
pub fn serve(options: Options) -> Result<Served> {
    let port = qemu::free_port(0)?;
    let image = cargo::build_image_for("httpd", &options.append, Profile::Release)?;
    let mut guest = Guest::boot(&options.forward_http(port), &image)?;
    guest.wait_for_line("listening on port 80", BOOT_TIMEOUT)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Ok(Served { guest, address })
}

/// Boots `program` with nobody but a peer on its network.
///
/// # Errors
///
/// If QEMU cannot be started.
pub fn boot_with_peer(program: &str, command_line: &str) -> Result<(Guest, Peer)> {
    let options = Options {
        append: command_line.to_owned(),
        ..Options::default()
    };
    boot_on_peer(program, options)
}

/// As [`boot_with_peer`], on a machine of one's own choice.
///
/// # Errors
///
/// If QEMU cannot be started.
pub fn boot_on_peer(program: &str, options: Options) -> Result<(Guest, Peer)> {
    boot_with(program, options, Config::default())
}

/// As [`boot_on_peer`], with a peer of one's own choice.
///
/// # Errors
///
/// If QEMU cannot be started.
pub fn boot_with(program: &str, options: Options, config: Config) -> Result<(Guest, Peer)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("firstpoll-{}-{count}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let peer = Peer::listen_as(&path, config)?;
    let options = Options {
        net: Net::Unix(path),
        ..options
    };
    let image = cargo::build_image_for(program, &options.append, Profile::Release)?;
    Ok((Guest::boot(&options, &image)?, peer))
}

/// Boots `services` with a peer on its network, and waits until it listens.
///
/// # Errors
///
/// If it does not.
pub fn boot_services(options: Options, config: Config) -> Result<(Guest, Peer)> {
    let (mut guest, peer) = boot_with("services", options, config)?;
    guest.wait_for_line("ready", BOOT_TIMEOUT)?;
    Ok((guest, peer))
}

/// A connection to a port of the guest.
///
/// # Errors
///
/// If it is refused or not answered.
pub fn connect(peer: &Peer, port: u16) -> Result<Stream> {
    let stream = peer.connect(guest(port), Duration::from_secs(5));
    stream.with_context(|| format!("port {port}"))
}

/// Byte n of what `services` send and want is this of n.
pub fn pattern_byte(n: usize) -> u8 {
    (n % 251) as u8
}

/// Sends `total` bytes to the sink of `services`, and lets it check them.
///
/// # Errors
///
/// If they do not arrive as they were sent.
pub fn send_pattern(peer: &Peer, total: usize) -> Result<()> {
    let mut sink = connect(peer, 9)?;
    sink.set_timeout(Duration::from_secs(60));
    let mut sent = 0;
    while sent < total {
        let end = total.min(sent + (1 << 16));
        let part: Vec<u8> = (sent..end).map(pattern_byte).collect();
        sink.write_all(&part)?;
        sent = end;
    }
    sink.shutdown();
    let mut answer = String::new();
    sink.read_to_string(&mut answer)?;
    ensure!(answer == format!("{total} bytes, 0 wrong"), "{answer}");
    Ok(())
}

/// Gets `total` bytes from the source of `services` and checks each;
/// `pause` is called with the count of bytes that have come so far.
///
/// # Errors
///
/// If they do not arrive as they were sent, or the end does not follow.
pub fn receive_pattern(peer: &Peer, total: usize, mut pause: impl FnMut(usize)) -> Result<()> {
    let mut source = connect(peer, 19)?;
    source.set_timeout(Duration::from_secs(60));
    source.write_all(format!("{total}\n").as_bytes())?;
    let mut received = 0;
    let mut buffer = vec![0; 16 << 10];
    loop {
        let count = source.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        let expected = (received..).map(pattern_byte);
        let is_equal = buffer[..count].iter().copied().eq(expected.take(count));
        ensure!(is_equal, "other bytes than were sent, after {received}");
        received += count;
        pause(received);
    }
    ensure!(received == total, "{received} of {total} bytes came");
    Ok(())
}

/// What `services` tell of the stack and the heap, by name.
///
/// # Errors
///
/// If they do not answer.
pub fn report(peer: &Peer) -> Result<HashMap<String, u64>> {
    let mut report = String::new();
    connect(peer, 11)?.read_to_string(&mut report)?;
    let lines = report.lines().map(|line| {
        let (name, value) = line.split_once(' ').context("no value")?;
        Ok((name.to_owned(), value.parse()?))
    });
    let values: Result<_> = lines.collect();
    values.with_context(|| format!("the report is\n{report}"))
}

/// What the report of `services` says of `name`.
///
/// # Errors
///
/// If it does not answer, or says nothing of it.
pub fn reported(peer: &Peer, name: &str) -> Result<u64> {
    let report = report(peer)?;
    let value = report.get(name).copied();
    value.with_context(|| format!("no {name} in {report:?}"))
}

/// Waits until `services` have no connection left but that of the report, not
/// even one that waits for late segments.
///
/// # Errors
///
/// If some stay.
pub fn wait_until_idle(peer: &Peer, timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = reported(peer, "sockets")?;
        if left <= 1 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{left} connections are left");
        std::thread::sleep(Duration::from_millis(200));
    }
}
