//! What connections that are established and idle cost the others: an HTTP
//! request in instructions, and requests per second.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Setup;
use super::bed::{Wire, WireKind};
use super::guest::{self, Programs};
use super::probe::{Group, Probe, Sample};
use super::system::System;
use super::wrk::Load;
use crate::cargo::{self, Profile};

/// The suite's name in the figures.
const BENCH: &str = "idle";

/// The numbers of idle connections that instructions are counted beside.
const IDLE: [u32; 4] = [1, 100, 1_000, 10_000];

/// The idle connections of real clients.
const HELD: usize = 10_000;

/// Those that are busy meanwhile.
const BUSY: u32 = 128;

/// The guest's memory while they are held.
const MEMORY_MIB: u32 = 128;

/// httpd's options for that.
const APPEND: &str = "max_clients=20000 read_timeout_ms=3600000";

/// Descriptors of this process that are not connections.
const OTHER_FILES: u64 = 256;

/// How long a client waits.
const TIMEOUT: Duration = Duration::from_secs(10);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: guest\r\n\r\n";

/// What is measured. Real clients are too many for QEMU's user-mode network.
///
/// # Errors
///
/// If a program does not build.
pub fn groups<'a>(setup: &'a Setup) -> Result<Vec<Group<'a>>> {
    let mut groups = vec![instructions()?];
    let httpd = System {
        memory_mib: MEMORY_MIB,
        ..System::program("firstpoll", "httpd", APPEND)?
    };
    let load = Load::of(setup.effort);
    for wire in setup.bed.wires() {
        if wire.kind() != WireKind::Tap {
            continue;
        }
        let httpd = httpd.clone();
        groups.push(Group {
            bench: BENCH,
            name: wire.name().to_owned(),
            probes: vec![Probe {
                system: httpd.name.clone(),
                takes: 2 * load.takes() + Duration::from_secs(5),
                measure: Box::new(move || measure(&httpd, wire, load)),
            }],
            repeatable: false,
        });
    }
    Ok(groups)
}

/// Our sets of one connection each beside one set for all.
fn instructions<'a>() -> Result<Group<'a>> {
    let image = cargo::build_image("counts", Profile::Release)?;
    let ours = Programs::build()?.system();
    let probe = |system: String, sockets: &'static str| {
        let image = image.clone();
        let measure = move || {
            let mut samples = Vec::new();
            for idle in IDLE {
                samples.extend(guest::count(&image, &format!("idle={idle}{sockets}"))?);
            }
            Ok(samples)
        };
        Probe {
            system,
            takes: Duration::from_secs(30),
            measure: Box::new(measure),
        }
    };
    Ok(Group {
        bench: BENCH,
        name: "instruction counts".to_owned(),
        probes: vec![
            probe(ours, ""),
            probe("smoltcp, one set".to_owned(), " sockets=one-set"),
        ],
        repeatable: true,
    })
}

/// Requests per second without idle connections, then beside them.
fn measure(httpd: &System, wire: &Wire, load: Load) -> Result<Vec<Sample>> {
    allow_files(HELD as u64 + OTHER_FILES)?;
    wire.measure(|| {
        let booted = httpd.boot(wire)?;
        let case = |held| format!("{}, {BUSY} connections beside {held} idle", wire.name());
        let mut samples = load.run(&case("no"), booted.address, BUSY)?;
        let mut held = Vec::with_capacity(HELD);
        for number in 0..HELD {
            let client = connect(booted.address);
            held.push(client.with_context(|| format!("idle connection {number}"))?);
        }
        samples.extend(load.run(&case("10,000"), booted.address, BUSY)?);
        for (number, client) in held.iter_mut().enumerate() {
            let answered = request(client);
            answered.with_context(|| format!("idle connection {number} is not alive"))?;
        }
        Ok(samples)
    })
}

/// A connection that has had a request answered. It ends with a reset, so that
/// its port can be had again in the next round: there are 28,000.
fn connect(server: SocketAddr) -> Result<TcpStream> {
    let mut client = TcpStream::connect_timeout(&server, TIMEOUT)?;
    set_socket_linger(&client, Some(Duration::ZERO))?;
    client.set_read_timeout(Some(TIMEOUT))?;
    request(&mut client)?;
    Ok(client)
}

/// Has one request answered.
fn request(client: &mut TcpStream) -> Result<()> {
    client.write_all(REQUEST)?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"firstpoll!\n") {
        let mut buffer = [0; 1024];
        let count = client.read(&mut buffer)?;
        ensure!(count > 0, "the connection was closed");
        answer.extend_from_slice(&buffer[..count]);
    }
    ensure!(
        answer.starts_with(b"HTTP/1.1 200 "),
        "{}",
        answer.escape_ascii()
    );
    Ok(())
}

/// Lets this process have `count` files open.
fn allow_files(count: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(count),
        maximum: limit.maximum.map(|maximum| maximum.max(count)),
    };
    setrlimit(Resource::Nofile, raised)
        .with_context(|| format!("{count} open files are not allowed"))
}
