//! A busy program does not starve the network, and the deferral is why.

use std::time::{Duration, Instant};

use anyhow::Result;
use firstpoll_qemu_tests::network::{self, BOOT_TIMEOUT, GUEST, STATIC, guest};
use xtask::guest::Ending;

const SECOND: Duration = Duration::from_secs(1);

/// How long the program is busy.
const BUSY: Duration = Duration::from_secs(5);

const PINGS: u16 = 200;
const HANDSHAKES: usize = 100;
const HANDSHAKES_IN_TIME: usize = 95;
const IN_TIME: Duration = Duration::from_millis(50);

/// What the network did while the program was busy.
#[derive(Debug)]
struct Seen {
    /// How long each answered ping took, up to the first that was not answered.
    pings: Vec<Duration>,
    handshakes_in_time: usize,
    /// Whether all that was over before the program was.
    while_busy: bool,
}

impl Seen {
    fn is_alive(&self) -> bool {
        self.pings.len() == usize::from(PINGS)
            && self.handshakes_in_time >= HANDSHAKES_IN_TIME
            && self.while_busy
    }
}

/// Tries the network of a program that is busy in `shape`.
fn watch(shape: &str, deferral: &str) -> Result<Seen> {
    let command_line = format!("{STATIC} shape={shape} deferral={deferral}");
    let (mut program, peer) = network::boot_with_peer("starve", &command_line)?;
    program.wait_for_line("busy", BOOT_TIMEOUT)?;
    let start = Instant::now();
    let pings = (0..PINGS).map_while(|seq| peer.ping(GUEST, seq, SECOND));
    let pings: Vec<_> = pings.collect();
    let handshakes = peer.handshakes(guest(80), HANDSHAKES, SECOND);
    let in_time = handshakes.iter().flatten().filter(|&&time| time < IN_TIME);
    let seen = Seen {
        handshakes_in_time: in_time.count(),
        while_busy: start.elapsed() < BUSY - SECOND,
        pings,
    };
    assert_eq!(program.wait(BUSY + 10 * SECOND)?, Ending::Guest(0));
    println!("{shape}: {seen:?}\n{}", program.lines().join("\n"));
    Ok(seen)
}

fn with_deferral(shape: &str) -> Result<()> {
    let seen = watch(shape, "on")?;
    assert!(seen.is_alive(), "{seen:?}");
    Ok(())
}

/// A test that cannot fail shows nothing: without the mechanism it must.
fn without_deferral(shape: &str) -> Result<()> {
    let seen = watch(shape, "off")?;
    assert!(!seen.is_alive(), "{seen:?}");
    Ok(())
}

#[test]
fn ready_futures_starve_nothing() -> Result<()> {
    with_deferral("ready")
}

#[test]
fn a_computation_starves_nothing() -> Result<()> {
    with_deferral("compute")
}

#[test]
fn a_computing_task_starves_nothing() -> Result<()> {
    with_deferral("task")
}

#[test]
fn without_the_deferral_ready_futures_starve_the_network() -> Result<()> {
    without_deferral("ready")
}

#[test]
fn without_the_deferral_a_computation_starves_the_network() -> Result<()> {
    without_deferral("compute")
}

#[test]
fn without_the_deferral_a_computing_task_starves_the_network() -> Result<()> {
    without_deferral("task")
}
