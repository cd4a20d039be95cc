//! The experiment that firstpoll comes from: the same server with the future
//! polled first and with the queued tasks run first.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use netbench_host::{Client, Measured, Plan};

use super::Setup;
use super::bed::{Wire, WireKind};
use super::probe::{Group, Probe, Sample};
use super::system::System;
use super::wrk::Load;

/// The orders, and what the program calls them.
const ORDERS: [(&str, &str); 2] = [("new order", "new"), ("old order", "old")];

/// A server of HTTP and its load.
struct Shape {
    case: &'static str,
    append: &'static str,
    connections: u32,
}

const HTTP: [Shape; 4] = [
    Shape {
        case: "a task per connection",
        append: "shape=tasks",
        connections: 128,
    },
    Shape {
        case: "a block_on per operation",
        append: "shape=syscalls",
        connections: 128,
    },
    Shape {
        case: "a block_on per operation, a task always ready",
        append: "shape=syscalls background=one_set",
        connections: 128,
    },
    Shape {
        case: "blocking",
        append: "shape=blocking",
        connections: 1,
    },
];

/// What the executor did, by the names on the page of the counters.
const COUNTERS: [(&str, &str); 3] = [
    ("executor.passes", "passes"),
    ("executor.polls", "polls of tasks"),
    ("executor.halts", "halts"),
];

/// The counter that the others are divided by: a request is a frame.
const FRAMES: &str = "network.frames_received";

/// What is measured.
///
/// # Errors
///
/// If the program does not build.
pub fn groups<'a>(setup: &'a Setup) -> Result<Vec<Group<'a>>> {
    let load = Load::of(setup.effort);
    let plan = Plan {
        warm_up: Duration::from_millis(500),
        measured: Duration::from_secs(setup.effort.pick(2, 1)),
    };
    let wires = setup.bed.wires();
    // The order shows best where the network costs least.
    let is_tap = |wire: &&Wire| wire.kind() == WireKind::Tap;
    let wire = wires.iter().find(is_tap).or(wires.first());
    let wire = wire.context("no network to measure on")?;
    let mut groups = Vec::new();
    for shape in &HTTP {
        groups.push(group(shape.case, shape.append, load.takes(), |system| {
            Box::new(move || requests(&system, wire, shape, load))
        })?);
    }
    let takes = 2 * (plan.warm_up + plan.measured);
    groups.push(group("bandwidth", "shape=bulk", takes, |system| {
        Box::new(move || bandwidth(&system, wire, plan))
    })?);
    Ok(groups)
}

type Measure<'a> = Box<dyn FnMut() -> Result<Vec<Sample>> + 'a>;

/// Both orders of one shape.
fn group<'a>(
    name: &str,
    append: &str,
    takes: Duration,
    measure: impl Fn(System) -> Measure<'a>,
) -> Result<Group<'a>> {
    let probe = |(name, order): (&str, &str)| {
        let system = System::program(name, "seed", &format!("order={order} {append}"))?;
        Ok(Probe {
            system: name.to_owned(),
            takes: takes + system.boot_takes(),
            measure: measure(system),
        })
    };
    Ok(Group {
        bench: "seed",
        name: name.to_owned(),
        probes: ORDERS.into_iter().map(probe).collect::<Result<_>>()?,
        repeatable: false,
    })
}

/// Both ways, one after the other.
fn bandwidth(system: &System, wire: &Wire, plan: Plan) -> Result<Vec<Sample>> {
    wire.measure(|| {
        let booted = system.boot(wire)?;
        // What the guest's processor time is makes no difference here.
        let mut cpu = || Ok(Duration::ZERO);
        let sent = Client::connect(booted.address)?.send(plan, &mut cpu)?;
        let received = Client::connect(booted.address)?.receive(plan, &mut cpu)?;
        let ways = [("host to guest", sent), ("guest to host", received)];
        let sample = |(case, measured): (&str, Measured)| {
            Sample::new(case, "bandwidth", "Mbit/s", measured.mbit_per_second())
        };
        Ok(ways.map(sample).into())
    })
}

fn requests(system: &System, wire: &Wire, shape: &Shape, load: Load) -> Result<Vec<Sample>> {
    wire.measure(|| {
        let booted = system.boot(wire)?;
        let before = Counters::read(booted.address)?;
        let mut samples = load.run(shape.case, booted.address, shape.connections)?;
        let after = Counters::read(booted.address)?;
        let frames = after.get(FRAMES)? - before.get(FRAMES)?;
        for (counter, metric) in COUNTERS {
            let count = after.get(counter)? - before.get(counter)?;
            let per_frame = count / frames;
            samples.push(Sample::new(
                shape.case,
                metric,
                "per received frame",
                per_frame,
            ));
        }
        Ok(samples)
    })
}

/// The server's page of counters.
struct Counters(String);

impl Counters {
    fn read(server: SocketAddr) -> Result<Self> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /stats HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        Ok(Self(page))
    }

    fn get(&self, name: &str) -> Result<f64> {
        let mut lines = self.0.lines().filter_map(|line| line.split_once(' '));
        let value = lines.find_map(|(found, value)| (found == name).then_some(value));
        let value = value.and_then(|value| value.parse().ok());
        value.with_context(|| format!("no counter {name} in\n{}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() -> Result<()> {
        let page = "HTTP/1.1 200 OK\r\n\r\nuptime_ms 7\nexecutor.passes 12\n";
        let counters = Counters(page.to_owned());
        assert_eq!(counters.get("executor.passes")?, 12.0);
        assert!(counters.get("executor").is_err());
        Ok(())
    }
}
