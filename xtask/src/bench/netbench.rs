//! TCP bandwidth and latency, and messages of dora's sizes.

use std::time::Duration;

use anyhow::Result;
use netbench_host::{Client, Distribution, Measured, Messages, Plan};
use netbench_protocol::{FULL_SPEED, MESSAGE_SIZES, PACE};

use super::Setup;
use super::bed::WireKind;
use super::linux::{Mitigations, Server};
use super::probe::{Effort, Group, Probe, Sample};
use super::system::{Booted, System};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Amount {
    bandwidth: Plan,
    round_trips: usize,
    /// The latencies of each size.
    samples: usize,
    /// How long messages of each size are sent at full speed.
    full_speed: Duration,
}

impl Amount {
    /// What a run on a wire of `kind` measures. The user-mode network is the
    /// less interesting one.
    fn of(effort: Effort, kind: WireKind) -> Self {
        let seconds = match kind {
            WireKind::Tap => effort.pick(10, 2),
            WireKind::User => effort.pick(3, 1),
        };
        Self {
            bandwidth: Plan {
                warm_up: Duration::from_millis(effort.pick(1000, 300)),
                measured: Duration::from_secs(seconds),
            },
            round_trips: effort.pick(5000, 500),
            samples: effort.pick(100, 10),
            full_speed: Duration::from_millis(effort.pick(300, 100)),
        }
    }

    /// About how long [`over_the_wire`] takes.
    fn takes(self) -> Duration {
        let sizes = MESSAGE_SIZES.len() as u32;
        // The largest messages take far longer than the pause.
        let latencies = (PACE * sizes + Duration::from_millis(35)) * self.samples as u32;
        let round_trips = Duration::from_micros(150) * self.round_trips as u32;
        (self.bandwidth.warm_up + self.bandwidth.measured) * 2
            + round_trips
            + latencies
            + self.full_speed * sizes
    }

    /// About how long [`between_tasks`] takes.
    fn tasks_take(self) -> Duration {
        (PACE * self.samples as u32 + FULL_SPEED) * MESSAGE_SIZES.len() as u32
    }
}

/// What is measured.
///
/// # Errors
///
/// If a system does not build.
pub fn groups<'a>(setup: &'a Setup) -> Result<Vec<Group<'a>>> {
    let mut systems = vec![System::program("firstpoll", "netbench", "")?];
    if let Some(linux) = &setup.linux {
        systems.push(linux.system(Server::Netbench, Mitigations::Off));
    }
    let mut groups = Vec::new();
    for wire in setup.bed.wires() {
        let amount = Amount::of(setup.effort, wire.kind());
        // No network has a part in what two tasks tell each other.
        let has_tasks = groups.is_empty();
        let probe = |system: &System| {
            let system = system.clone();
            let tasks_take = amount.tasks_take() * u32::from(has_tasks);
            Probe {
                system: system.name.clone(),
                takes: system.boot_takes() + amount.takes() + tasks_take,
                measure: Box::new(move || {
                    wire.measure(|| {
                        let booted = system.boot(wire)?;
                        let mut samples = over_the_wire(&booted, wire.name(), amount)?;
                        if has_tasks {
                            samples.extend(between_tasks(&booted, amount)?);
                        }
                        Ok(samples)
                    })
                }),
            }
        };
        groups.push(Group {
            bench: "netbench",
            name: wire.name().to_owned(),
            probes: systems.iter().map(probe).collect(),
            repeatable: false,
        });
    }
    Ok(groups)
}

fn over_the_wire(booted: &Booted, wire: &str, amount: Amount) -> Result<Vec<Sample>> {
    let address = booted.address;
    let mut server_cpu = || booted.guest.cpu_time();
    let to = Client::connect(address)?.send(amount.bandwidth, &mut server_cpu)?;
    let from = Client::connect(address)?.receive(amount.bandwidth, &mut server_cpu)?;
    let mut samples = Vec::new();
    for (metric, direction, measured) in [
        ("bandwidth to guest", "to the guest", to),
        ("bandwidth from guest", "from the guest", from),
    ] {
        samples.push(Sample::new(
            wire,
            metric,
            "Mbit/s",
            measured.mbit_per_second(),
        ));
        samples.extend(cpu(format!("{wire}, {direction}"), measured));
    }

    let mut client = Client::connect(address)?;
    let round_trips = client.round_trips(amount.round_trips)?;
    samples.extend(times(
        format!("{wire}, 1 byte"),
        round_trips,
        [
            "round trip p50",
            "round trip p90",
            "round trip p99",
            "round trip max",
        ],
    ));
    for size in MESSAGE_SIZES {
        let case = format!("{wire}, {size} bytes");
        let distribution = client.latency(size, amount.samples, PACE)?;
        let messages = client.messages(size, amount.full_speed)?;
        samples.extend(latency(case.clone(), distribution));
        samples.push(rate(case, messages));
    }
    Ok(samples)
}

fn between_tasks(booted: &Booted, amount: Amount) -> Result<Vec<Sample>> {
    let mut client = Client::connect(booted.address)?;
    let mut samples = Vec::new();
    for size in MESSAGE_SIZES {
        let case = format!("in the guest, {size} bytes");
        let tasks = client.tasks(size, amount.samples)?;
        samples.extend(latency(case.clone(), tasks.latency));
        samples.push(rate(case, tasks.messages));
    }
    Ok(samples)
}

/// The processor time of both ends, as a share of one processor.
fn cpu(case: String, measured: Measured) -> [Sample; 2] {
    let share = |cpu: Duration| 100.0 * cpu.as_secs_f64() / measured.elapsed.as_secs_f64();
    [
        Sample::new(&*case, "cpu guest", "%", share(measured.server_cpu)),
        Sample::new(case, "cpu host", "%", share(measured.client_cpu)),
    ]
}

fn latency(case: String, distribution: Distribution) -> [Sample; 4] {
    times(
        case,
        distribution,
        ["latency p50", "latency p90", "latency p99", "latency max"],
    )
}

fn times(case: String, distribution: Distribution, metrics: [&'static str; 4]) -> [Sample; 4] {
    let Distribution {
        p50, p90, p99, max, ..
    } = distribution;
    let [a, b, c, d] = metrics;
    [(a, p50), (b, p90), (c, p99), (d, max)]
        .map(|(metric, time)| Sample::new(&*case, metric, "µs", time.as_secs_f64() * 1e6))
}

fn rate(case: String, messages: Messages) -> Sample {
    Sample::new(case, "messages", "messages/s", messages.per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rounds_of_two_systems_take_less_than_14_minutes() {
        for (effort, most_seconds) in [(Effort::Full, 14 * 60), (Effort::Quick, 60)] {
            let wires = [WireKind::User, WireKind::Tap].map(|kind| Amount::of(effort, kind));
            let round = wires[0].takes() + wires[0].tasks_take() + wires[1].takes();
            let all = round * 2 * effort.rounds() as u32;
            assert!(all < Duration::from_secs(most_seconds), "{all:?}");
        }
    }
}
