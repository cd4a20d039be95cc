//! Load that must not wear a guest out: connections by the thousand, floods,
//! and more of both than there is memory for.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use firstpoll_peer::{Config, Held, Peer, frame};
use firstpoll_qemu_tests::network::{self, GUEST, STATIC, connect, guest, reported};
use xtask::qemu::Options;

const SECOND: Duration = Duration::from_secs(1);

/// Longer than TIME-WAIT lasts.
const UNTIL_IDLE: Duration = Duration::from_secs(150);

fn append(command_line: &str) -> Options {
    Options {
        append: command_line.to_owned(),
        ..Options::default()
    }
}

/// Sends datagrams to a port of the guest that nobody has, as fast as the
/// guest takes them, until `ended`; how many.
fn flood(peer: &Peer, ended: &AtomicBool) -> Result<u64> {
    let to = peer.resolve(GUEST, SECOND).context("the guest is gone")?;
    let datagram = frame::udp(peer.host(), to, 9999, 9999, &[b'f'; 64]);
    let mut sent = 0;
    while !ended.load(Ordering::Relaxed) {
        if peer.unsent_bytes() > 16 << 10 {
            std::thread::sleep(SECOND / 10_000);
            continue;
        }
        peer.send_frames((0..64).map(|_| datagram.clone()));
        sent += 64;
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

/// Case N2, its timers: they fire on time during a flood to a closed port.
#[test]
fn timers_fire_during_a_flood() -> Result<()> {
    let (_guest, peer) = network::boot_services(append(STATIC), Config::default())?;
    during_a_flood(&peer, || {
        let (start, before) = (Instant::now(), reported(&peer, "ticks")?);
        std::thread::sleep(3 * SECOND);
        let ticks = reported(&peer, "ticks")? - before;
        let due = start.elapsed().as_millis() as u64 / 10;
        println!("{ticks} of {due} ticks");
        ensure!(ticks + 100 > due, "{ticks} of {due} ticks");
        Ok(())
    })?;
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
    let refused = reported(&peer, "out_of_memory")?;
    println!(
        "service is back after {:?}; {refused} were refused",
        start.elapsed()
    );
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
