//! HTTP requests per second, by wrk.

use anyhow::Result;

use super::Setup;
use super::bed::Wire;
use super::probe::{Group, Probe, Sample};
use super::system::System;
use super::wrk::Load;

/// The numbers of connections.
const CONNECTIONS: [u32; 3] = [1, 16, 128];

/// What is measured.
///
/// # Errors
///
/// If a system does not build.
pub fn groups<'a>(setup: &'a Setup) -> Result<Vec<Group<'a>>> {
    let load = Load::of(setup.effort);
    let blocking = System::program("firstpoll blocking", "httpd", "mode=blocking")?;
    let mut systems = vec![
        (System::program("firstpoll", "httpd", "")?, &CONNECTIONS[..]),
        // It serves one connection after the other.
        (blocking, &CONNECTIONS[..1]),
    ];
    if let Some(linux) = &setup.linux {
        let others = linux.http_systems().into_iter();
        systems.extend(others.map(|system| (system, &CONNECTIONS[..])));
    }
    let group = |wire: &'a Wire| {
        let probe = |(system, connections): &(System, &'static [u32])| {
            let (system, connections) = (system.clone(), *connections);
            Probe {
                system: system.name.clone(),
                takes: load.takes() * connections.len() as u32 + system.boot_takes(),
                measure: Box::new(move || measure(&system, wire, connections, load)),
            }
        };
        Group {
            bench: "httpd",
            name: wire.name().to_owned(),
            probes: systems.iter().map(probe).collect(),
            repeatable: false,
        }
    };
    Ok(setup.bed.wires().iter().map(group).collect())
}

fn measure(system: &System, wire: &Wire, connections: &[u32], load: Load) -> Result<Vec<Sample>> {
    wire.measure(|| {
        let booted = system.boot(wire)?;
        let mut samples = Vec::new();
        for &count in connections {
            let plural = if count == 1 { "" } else { "s" };
            let case = format!("{}, {count} connection{plural}", wire.name());
            samples.extend(load.run(&case, booted.address, count)?);
        }
        Ok(samples)
    })
}
