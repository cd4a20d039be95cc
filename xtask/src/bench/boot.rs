//! The time from the start of QEMU to the first answer, and how far that is
//! above a kernel that only exits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Setup;
use super::bed::Wire;
use super::linux::{Mitigations, Server};
use super::probe::{Group, Probe, Sample};
use super::system::System;
use crate::guest::{Ending, Guest};
use crate::qemu::{Machine, Net, Options};

/// How long a boot may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// About how long a kernel takes that only exits.
const EXIT_TAKES: Duration = Duration::from_millis(200);

/// The machines that a kernel which only exits is booted on.
const MACHINES: [Machine; 3] = [Machine::Q35, Machine::Pc, Machine::Microvm];
/// Those that firstpoll's first answer is measured on. The Linux guest has
/// drivers for the first alone.
const ANSWERING: [Machine; 2] = [Machine::Q35, Machine::Microvm];

/// What is measured.
///
/// # Errors
///
/// If a system does not build.
pub fn groups<'a>(setup: &'a Setup) -> Result<Vec<Group<'a>>> {
    let exit = System::program("exit only", "exit", "")?;
    let httpd = System::program("firstpoll", "httpd", "")?;
    let mut servers = Vec::from(ANSWERING.map(|machine| System {
        machine,
        ..httpd.clone()
    }));
    if let Some(linux) = &setup.linux {
        servers.push(linux.system(Server::Epoll, Mitigations::Off));
    }
    let mut groups = Vec::new();
    for wire in setup.bed.wires() {
        let mut probes = Vec::new();
        for server in servers.clone() {
            let exit = exit.clone();
            probes.push(Probe {
                system: server.name.clone(),
                takes: server.boot_takes() + EXIT_TAKES,
                measure: Box::new(move || first_answer(&server, &exit, wire)),
            });
        }
        if groups.is_empty() {
            // No network has a part in it.
            probes.extend(MACHINES.map(|machine| exit_probe(&exit, wire, machine)));
        }
        groups.push(Group {
            bench: "boot",
            name: wire.name().to_owned(),
            probes,
            repeatable: false,
        });
    }
    Ok(groups)
}

fn exit_probe<'a>(system: &System, wire: &'a Wire, machine: Machine) -> Probe<'a> {
    let system = system.clone();
    Probe {
        system: system.name.clone(),
        takes: EXIT_TAKES,
        measure: Box::new(move || {
            let time = wire.measure_start(|| exit_only(&system, machine))?;
            Ok(vec![ms(format!("{}, exit", machine.name()), time)])
        }),
    }
}

/// The floor: a kernel that does nothing but exit.
fn exit_only(system: &System, machine: Machine) -> Result<Duration> {
    let options = Options {
        machine,
        net: Net::None,
        ..Options::default()
    };
    let start = Instant::now();
    let mut guest = Guest::boot(&options, &system.image)?;
    let ending = guest.wait(TIMEOUT)?;
    let time = start.elapsed();
    ensure!(
        ending == Ending::Guest(0),
        "the kernel ended with {ending:?}"
    );
    Ok(time)
}

/// The floor is measured right before.
fn first_answer(system: &System, exit: &System, wire: &Wire) -> Result<Vec<Sample>> {
    wire.measure_start(|| {
        let floor = exit_only(exit, system.machine)?;
        let start = Instant::now();
        let booted = system.start(wire)?;
        request(booted.address)?;
        let time = start.elapsed();
        let case = format!("{}, {}, first answer", system.machine.name(), wire.name());
        // Less than the floor is the machine's noise.
        let above = ms(format!("{case}, above exit"), time.saturating_sub(floor));
        Ok(vec![ms(case, time), above])
    })
}

fn request(server: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: guest\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    ensure!(head == *b"HTTP/1.1 200", "answer: {}", head.escape_ascii());
    Ok(())
}

fn ms(case: String, time: Duration) -> Sample {
    Sample::new(case, "time", "ms", time.as_secs_f64() * 1e3)
}
