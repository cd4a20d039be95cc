//! netbench for people: a server on this machine, or a client.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use netbench_host::{Client, Flight, Plan, reflect, serve};
use netbench_protocol::{MESSAGE_SIZES, PACE};

/// The network benchmarks' other end.
#[derive(Debug, Parser)]
#[command(name = "netbench-host")]
enum Verb {
    /// Serve the TCP tests on this machine.
    Serve {
        /// The TCP port to listen on.
        #[arg(long, default_value_t = 9978)]
        port: u16,
    },
    /// Measure a server by all TCP tests.
    Measure {
        /// Where it listens.
        address: SocketAddr,
        /// How long each direction of the bandwidth is measured, in seconds.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Measure a reflector of UDP datagrams.
    Reflect {
        /// Where it is.
        address: SocketAddr,
        /// How long each case is measured, in seconds.
        #[arg(long, default_value_t = 2)]
        seconds: u64,
    },
}

fn main() -> ExitCode {
    match run(Verb::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<()> {
    match verb {
        Verb::Serve { port } => {
            let listener = TcpListener::bind(("0.0.0.0", port))
                .with_context(|| format!("cannot listen on port {port}"))?;
            println!("listening on port {}", listener.local_addr()?.port());
            std::io::stdout().flush()?;
            serve(&listener)
        }
        Verb::Measure { address, seconds } => measure(address, plan(seconds)),
        Verb::Reflect { address, seconds } => reflect_all(address, plan(seconds)),
    }
}

fn plan(seconds: u64) -> Plan {
    Plan {
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(seconds),
    }
}

/// The processor time of a server that may be anywhere.
fn unknown() -> Result<Duration> {
    Ok(Duration::ZERO)
}

fn measure(address: SocketAddr, plan: Plan) -> Result<()> {
    for (name, measured) in [
        ("to", Client::connect(address)?.send(plan, &mut unknown)?),
        (
            "from",
            Client::connect(address)?.receive(plan, &mut unknown)?,
        ),
    ] {
        let rate = measured.mbit_per_second();
        let cpu = measured.client_cpu;
        println!("bandwidth {name} the server: {rate:.0} Mbit/s, {cpu:.1?} of processor time here");
    }
    let mut client = Client::connect(address)?;
    println!("round trip of 1 byte: {}", client.round_trips(2000)?);
    for size in MESSAGE_SIZES {
        let latency = client.latency(size, 100, PACE)?;
        let messages = client.messages(size, Duration::from_millis(500))?;
        let rate = messages.per_second();
        println!("{size:#x} bytes: {latency}; {rate:.0} messages/s");
    }
    for size in MESSAGE_SIZES {
        let tasks = client.tasks(size, 100)?;
        let rate = tasks.messages.per_second();
        println!(
            "{size:#x} bytes between tasks: {}; {rate:.0} messages/s",
            tasks.latency
        );
    }
    Ok(())
}

fn reflect_all(address: SocketAddr, plan: Plan) -> Result<()> {
    for datagram_bytes in [100, 600, 1400] {
        for in_flight in [1, 16, 128, 256] {
            let flight = Flight {
                in_flight,
                datagram_bytes,
                plan,
            };
            let reflected = reflect(address, flight, &mut unknown)?;
            print!(
                "{datagram_bytes} bytes, {in_flight} in flight: {:.0} frames/s, {} lost",
                reflected.measured.per_second(),
                reflected.lost
            );
            if in_flight == 1 {
                print!("; {}", reflected.round_trips);
            }
            println!();
        }
    }
    Ok(())
}
