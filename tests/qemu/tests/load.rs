//! Load that must not wear a guest out: connections by the thousand, floods,
//! and more of both than there is memory for.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use firstpoll_peer::frame::{self, Parsed};
use firstpoll_peer::{Config, Held, Peer};
use firstpoll_qemu_tests::http::Client;
use firstpoll_qemu_tests::network::{self, BOOT_TIMEOUT, GUEST, STATIC, connect, guest, reported};
use xtask::qemu::Options;

const SECOND: Duration = Duration::from_secs(1);

/// Longer than TIME-WAIT lasts.
const UNTIL_IDLE: Duration = Duration::from_secs(150);

/// How many datagrams of a flood are sent at once, with a question after them
/// whose answer tells that the guest has taken them.
const BATCH: u64 = 256;

/// How many such questions may be unanswered.
const BATCHES_UNDER_WAY: u32 = 4;

fn append(command_line: &str) -> Options {
    Options {
        append: command_line.to_owned(),
        ..Options::default()
    }
}

/// Sends datagrams to a port of the guest that nobody has, as fast as the
/// guest takes them, until `ended`; how many.
///
/// QEMU reads on while its card is full and queues without end, so that a flood
/// faster than the guest would fill that queue, and time it, not the guest.
fn flood(peer: &Peer, ended: &AtomicBool) -> Result<u64> {
    let to = peer.resolve(GUEST, SECOND).context("the guest is gone")?;
    let datagram = frame::udp(peer.host(), to, 9999, 9999, &[b'f'; 64]);
    let replies = peer.capture(|frame| matches!(Parsed::parse(frame), Some(Parsed::Arp(_))));
    let mut sent = 0;
    let mut unanswered = 0;
    while !ended.load(Ordering::Relaxed) {
        let batch = (0..BATCH).map(|_| datagram.clone());
        let question = frame::arp_request(peer.host(), GUEST);
        peer.send_frames(batch.chain([question]));
        sent += BATCH;
        unanswered += 1;
        while unanswered == BATCHES_UNDER_WAY {
            replies.next(10 * SECOND).context("a question was lost")?;
            unanswered -= 1;
        }
    }
    Ok(sent)
}

/// Does `work` while a flood goes on; how many datagrams there were.
fn during_a_flood(peer: &Peer, work: impl FnOnce() -> Result<()>) -> Result<u64> {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(peer, &ended));
        let worked = work();
        ended.store(true, Ordering::Relaxed);
        let flooded = flooding.join().expect("the flood does not panic");
        worked.and(flooded)
    })
}

/// Case N2: a UDP flood to a closed port while HTTP is served.
#[test]
fn http_is_served_during_a_flood() -> Result<()> {
    let append_line = format!("{STATIC} read_timeout_ms=2000");
    let (mut httpd, peer) = network::boot_with_peer("httpd", &append_line)?;
    httpd.wait_for_line("listening on port 80", BOOT_TIMEOUT)?;
    let mut times = Vec::new();
    let flooded = during_a_flood(&peer, || {
        let mut client = Client::new(peer.connect(guest(80), 5 * SECOND)?);
        let end = Instant::now() + 5 * SECOND;
        while Instant::now() < end {
            let start = Instant::now();
            ensure!(client.get("/")?.status == 200);
            times.push(start.elapsed());
        }
        // A timer of the guest, of two seconds.
        let start = Instant::now();
        let mut slow = Client::new(peer.connect(guest(80), 5 * SECOND)?);
        slow.send("GET / HTTP")?;
        ensure!(slow.response()?.status == 408);
        let late = start.elapsed();
        ensure!(late < 3 * SECOND, "the timer fired after {late:?}");
        Ok(())
    })?;
    times.sort_unstable();
    let p99 = times[times.len() * 99 / 100];
    println!("{flooded} datagrams; {} requests, p99 {p99:?}", times.len());
    ensure!(flooded > 10_000, "{flooded} datagrams are no flood");
    ensure!(p99 < SECOND, "{p99:?}");
    Ok(())
}

/// Case N2: timers fire on time during such a flood.
#[test]
fn timers_fire_during_a_flood() -> Result<()> {
    let (_guest, peer) = network::boot_services(append(STATIC), Config::default())?;
    let flooded = during_a_flood(&peer, || {
        let (start, before) = (Instant::now(), reported(&peer, "ticks")?);
        std::thread::sleep(3 * SECOND);
        let ticks = reported(&peer, "ticks")? - before;
        let due = start.elapsed().as_millis() as u64 / 10;
        println!("{ticks} of {due} ticks");
        ensure!(ticks + 100 > due, "{ticks} of {due} ticks");
        Ok(())
    })?;
    println!("{flooded} datagrams");
    ensure!(flooded > 10_000, "{flooded} datagrams are no flood");
    Ok(())
}

/// One exchange over a connection of its own.
fn exchange(peer: &Peer) -> Result<()> {
    let mut stream = connect(peer, 7)?;
    stream.write_all(b"hello")?;
    stream.shutdown();
    let mut echoed = Vec::new();
    stream.read_to_end(&mut echoed)?;
    ensure!(echoed == b"hello");
    Ok(())
}

/// Case N6: `count` connections one after another in a small guest, then as
/// many at once as it takes.
fn memory_lasts(count: usize) -> Result<()> {
    let options = Options {
        memory_mib: 64,
        ..append(STATIC)
    };
    let (mut machine, peer) = network::boot_services(options, Config::default())?;
    let measured = |count: usize| -> Result<u64> {
        for number in 0..count {
            exchange(&peer).with_context(|| format!("connection {number}"))?;
        }
        network::wait_until_idle(&peer, UNTIL_IDLE)?;
        reported(&peer, "allocated_bytes")
    };
    let before = measured(500)?;
    let after = measured(count)?;
    println!("{count} connections: {before} bytes in use before, {after} after");
    ensure!(after <= before, "{before} bytes became {after}");

    // One that was there before the crowd.
    let mut established = connect(&peer, 7)?;
    let mut held: Vec<Held> = Vec::new();
    let full = loop {
        let more = peer.hold(guest(7), 250, 2 * SECOND);
        let more = more.context("the guest is gone")?;
        let (got, wanted) = (more.established(), more.times().len());
        held.push(more);
        if got < wanted {
            break held.iter().map(Held::established).sum::<usize>();
        }
        ensure!(held.len() < 70, "there is no end to the memory");
    };
    println!("{full} connections at once are all that 64 MiB take");
    ensure!(full > 500);
    established.write_all(b"still here")?;
    established.read_exact(&mut [0; 10])?;
    drop(held);
    let start = Instant::now();
    while exchange(&peer).is_err() {
        ensure!(start.elapsed() < 10 * SECOND, "service does not return");
    }
    drop(established);
    network::wait_until_idle(&peer, UNTIL_IDLE)?;
    println!("service is back after {:?}", start.elapsed());
    let report = network::report(&peer)?;
    let counters = [
        "out_of_memory",
        "refused_connections",
        "refused_buffers",
        "half_open_evicted",
    ];
    println!("{counters:?}: {:?}", counters.map(|name| report[name]));
    ensure!(counters.iter().any(|&name| report[name] > 0));
    ensure!(machine.wait(SECOND / 10).is_err(), "the guest has ended");
    Ok(())
}

#[test]
fn memory_lasts_and_comes_back() -> Result<()> {
    memory_lasts(1000)
}

/// Case N6 in full.
#[test]
#[ignore = "long"]
fn memory_lasts_and_comes_back_in_full() -> Result<()> {
    memory_lasts(10_000)
}
