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
    let routes = System::program("firstpoll routes", "httpd", "mode=routes")?;
    let mut systems = vec![
        (
            System::program("firstpoll", "httpd", "")?,
            "/",
            &CONNECTIONS[..],
        ),
        // It serves one connection after the other.
        (blocking, "/", &CONNECTIONS[..1]),
        // Its greeting is not at the root.
        (routes, "/hello", &CONNECTIONS[..]),
    ];
    if let Some(linux) = &setup.linux {
        let others = linux.http_systems().into_iter();
        systems.extend(others.map(|system| (system, "/", &CONNECTIONS[..])));
    }
    let group = |wire: &'a Wire| {
        let probe = |(system, path, connections): &(System, &'static str, &'static [u32])| {
            let (system, path, connections) = (system.clone(), *path, *connections);
            Probe {
                system: system.name.clone(),
                takes: load.takes() * connections.len() as u32 + system.boot_takes(),
                measure: Box::new(move || measure(&system, wire, path, connections, load)),
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

fn measure(
    system: &System,
    wire: &Wire,
    path: &str,
    connections: &[u32],
    load: Load,
) -> Result<Vec<Sample>> {
    wire.measure(|| {
        let booted = system.boot(wire)?;
        let mut samples = Vec::new();
        for &count in connections {
            let plural = if count == 1 { "" } else { "s" };
            let case = format!("{}, {count} connection{plural}", wire.name());
            samples.extend(load.run_on(&case, booted.address, path, count)?);
        }
        Ok(samples)
    })
}
