//! Connections that are established and idle: that they live, what they take,
//! and that nobody else has to pay for them.

use std::time::Duration;

use anyhow::{Result, ensure};
use firstpoll_peer::Connection;
use firstpoll_qemu_tests::crowd::{Audience, Counters};
use firstpoll_qemu_tests::{Run, icount, run};
use xtask::guest::Ending;
use xtask::qemu::Options;

/// How far apart the instructions of a request may be.
const FLAT: f64 = 1.05;

/// What an idle connection may take in all: of the stack, and of the program.
const CONNECTION_BYTES: u64 = 8 << 10;

/// Counts a request beside `idle` connections.
fn beside(idle: usize, memory_mib: u32) -> Result<Run> {
    let options = Options {
        memory_mib,
        ..icount(&format!("idle={idle}"))
    };
    let counted = run("counts", &options)?;
    println!("{}", counted.text());
    ensure!(counted.ending == Ending::Guest(0), "{}", counted.text());
    Ok(counted)
}

/// Counts a request beside each of `numbers` of idle connections.
fn cost_is_flat(numbers: &[usize]) -> Result<()> {
    let runs = numbers.iter().map(|&idle| Ok((idle, beside(idle, 256)?)));
    let runs = runs.collect::<Result<Vec<_>>>()?;
    for connections in [1, 128] {
        let count = |(idle, run): &(usize, Run)| {
            run.value::<f64>(&format!("http_request_{connections}_beside_{idle}"))
        };
        let counts = runs.iter().map(count).collect::<Result<Vec<_>>>()?;
        let least = counts.iter().copied().fold(f64::INFINITY, f64::min);
        let most = counts.iter().copied().fold(0.0, f64::max);
        assert!(most <= least * FLAT, "{counts:?} beside {numbers:?} others");
    }
    Ok(())
}

#[test]
fn a_request_costs_the_same_beside_1000_idle_connections() -> Result<()> {
    cost_is_flat(&[1, 100, 1_000])
}

#[test]
#[ignore = "long"]
fn a_request_costs_the_same_beside_10000_idle_connections() -> Result<()> {
    cost_is_flat(&[1, 100, 1_000, 10_000])
}

/// In one set, as smoltcp has it, it does not, or there would be nothing to show.
#[test]
fn in_one_set_a_request_pays_for_all_connections() -> Result<()> {
    let in_one_set = |idle: usize| -> Result<f64> {
        let counted = run("counts", &icount(&format!("idle={idle} sockets=one-set")))?;
        println!("{}", counted.text());
        counted.value(&format!("http_request_1_beside_{idle}"))
    };
    let (few, many) = (in_one_set(1)?, in_one_set(1_000)?);
    assert!(
        many > few * 5.0,
        "{many} instructions, and {few} beside one"
    );
    Ok(())
}

/// All of it in 128 MiB, with the instructions of those that come later.
#[test]
#[ignore = "long"]
fn ten_thousand_fit_into_128_mib_and_cost_the_others_nothing() -> Result<()> {
    let (none, many) = (beside(0, 128)?, beside(10_000, 128)?);
    let bytes: u64 = many.value("idle_connection_10000_bytes")?;
    assert!(bytes < CONNECTION_BYTES, "{bytes} bytes for each");
    for connections in [1, 128] {
        let name = |idle| format!("http_request_{connections}_beside_{idle}");
        let (alone, beside): (f64, f64) = (none.value(&name(0))?, many.value(&name(10_000))?);
        assert!(beside <= alone * FLAT, "{beside} instead of {alone}");
    }
    Ok(())
}

/// Clients that are connected, each with a request answered, then idle for
/// `time`, then asked again.
fn idle_connections_live(count: usize, time: Duration, memory_mib: u32) -> Result<()> {
    let append = "max_clients=20000 read_timeout_ms=3600000";
    let mut audience = Audience::of_httpd(append, memory_mib)?;
    let observer = audience.connect(1)?[0];
    let before = audience.counters(observer)?;

    let clients = audience.connect(count)?;
    println!(
        "{count} clients, first requests in {:?}",
        audience.greet(&clients)?
    );
    audience.pass(time)?;
    let during = audience.counters(observer)?;
    report(&before, &during, count)?;
    println!("requests after {time:?} in {:?}", audience.greet(&clients)?);
    for &client in &clients {
        assert_eq!(audience.crowd.connection(client), Connection::Open);
    }
    let sockets = |counters: &Counters| counters.get("network.sockets");
    assert_eq!(sockets(&during)?, sockets(&before)? + count as u64);
    let allocated = |counters: &Counters| counters.get("memory.allocated_bytes");
    let each = (allocated(&during)? - allocated(&before)?) / count as u64;
    assert!(each < CONNECTION_BYTES, "{each} bytes for each");

    for client in clients {
        audience.crowd.reset(client);
    }
    audience.pass(Duration::from_secs(1))?;
    let after = audience.counters(observer)?;
    assert_eq!(sockets(&after)?, sockets(&before)?);
    Ok(())
}

/// Prints what each connection has taken, by the counters.
fn report(before: &Counters, during: &Counters, count: usize) -> Result<()> {
    let each = |name: &str| -> Result<u64> {
        Ok(during.get(name)?.saturating_sub(before.get(name)?) / count as u64)
    };
    let all = each("memory.allocated_bytes")?;
    let (sockets, tables) = (each("network.socket_bytes")?, each("network.table_bytes")?);
    let buffers = each("network.buffer_bytes")?;
    println!(
        "bytes per idle connection: {all} in all; sockets {sockets}, tables {tables}, buffers \
         {buffers}, the program {}",
        all.saturating_sub(sockets + tables + buffers)
    );
    Ok(())
}

#[test]
fn idle_connections_live_on() -> Result<()> {
    idle_connections_live(1_000, Duration::from_secs(3), 64)
}

#[test]
#[ignore = "long"]
fn ten_thousand_idle_connections_live_on() -> Result<()> {
    idle_connections_live(10_000, Duration::from_secs(60), 128)
}
