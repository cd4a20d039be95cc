//! Frames that the guest sends straight back from the driver: the limit of the
//! machine's virtual network card.

use std::time::Duration;

use anyhow::Result;
use netbench_host::{Flight, Plan, reflect};

use super::Setup;
use super::bed::Wire;
use super::probe::{Group, Probe, Sample};
use super::system::System;

/// How many datagrams are in flight.
const IN_FLIGHT: [u64; 4] = [1, 16, 128, 256];

/// The sizes of their contents, in bytes.
const DATAGRAM_BYTES: [usize; 3] = [100, 600, 1400];

const WARM_UP: Duration = Duration::from_millis(100);

/// What is measured.
///
/// # Errors
///
/// If the reflector does not build.
pub fn groups<'a>(setup: &'a Setup) -> Result<Vec<Group<'a>>> {
    let system = System::program("reflector", "netbench", "mode=reflect")?;
    let plan = Plan {
        warm_up: WARM_UP,
        measured: Duration::from_millis(setup.effort.pick(700, 200)),
    };
    let group = |wire: &'a Wire| {
        let system = system.clone();
        let cases = (IN_FLIGHT.len() * DATAGRAM_BYTES.len()) as u32;
        let probe = Probe {
            system: system.name.clone(),
            takes: system.boot_takes() + (plan.warm_up + plan.measured) * cases,
            measure: Box::new(move || measure(&system, wire, plan)),
        };
        Group {
            bench: "reflector",
            name: wire.name().to_owned(),
            probes: vec![probe],
            repeatable: false,
        }
    };
    Ok(setup.bed.wires().iter().map(group).collect())
}

fn measure(system: &System, wire: &Wire, plan: Plan) -> Result<Vec<Sample>> {
    wire.measure(|| {
        let booted = system.boot(wire)?;
        let mut samples = Vec::new();
        for datagram_bytes in DATAGRAM_BYTES {
            for in_flight in IN_FLIGHT {
                let case = format!(
                    "{}, {datagram_bytes} bytes, {in_flight} in flight",
                    wire.name()
                );
                let flight = Flight {
                    in_flight,
                    datagram_bytes,
                    plan,
                };
                let mut server_cpu = || booted.guest.cpu_time();
                let reflected = reflect(booted.address, flight, &mut server_cpu)?;
                let rate = reflected.measured.per_second();
                let lost = reflected.lost as f64;
                samples.push(Sample::new(&*case, "frames", "frames/s", rate));
                samples.push(Sample::new(&*case, "lost", "frames", lost));
                if in_flight == 1 {
                    let round_trips = reflected.round_trips;
                    for (metric, time) in [
                        ("round trip p50", round_trips.p50),
                        ("round trip p99", round_trips.p99),
                    ] {
                        let us = time.as_secs_f64() * 1e6;
                        samples.push(Sample::new(&*case, metric, "µs", us));
                    }
                }
            }
        }
        Ok(samples)
    })
}
