//! Guests on a network: QEMU's own, or that of a frame-level peer.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use firstpoll_peer::Peer;
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
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("firstpoll-{}-{count}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let peer = Peer::listen(&path)?;
    let options = Options {
        net: Net::Unix(path),
        ..options
    };
    let image = cargo::build_image_for(program, &options.append, Profile::Release)?;
    Ok((Guest::boot(&options, &image)?, peer))
}
