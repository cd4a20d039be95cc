//! Connections that end in every way, by the thousand (case C3).

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use firstpoll_peer::frame::{Parsed, TcpControl};
use firstpoll_peer::{Config, Direction, Impairment, Peer, Stream};
use firstpoll_qemu_tests::network::{self, STATIC, connect};
use xtask::qemu::Options;

const SECOND: Duration = Duration::from_secs(1);

/// In how many ways the connections of a batch end.
const WAYS: usize = 5;

/// How many of a batch end in the same way.
const ALIKE: usize = 10;

/// The same in the batches of the warm-up, which let tables grow to a size that
/// they keep. The hash table for 125 connections has room for 224, and grows no
/// further for at most two of the later batches at once: up to the half of its
/// room, it clears the gaps that removed entries have left.
const WARM_UP_ALIKE: usize = 25;

const WARM_UP_BATCHES: usize = 10;

/// How long the guest's side of a connection that both sides close takes to us.
const ONE_WAY: Duration = Duration::from_millis(10);

/// Longer than closed connections are waited for, and their records kept.
const UNTIL_QUIET: Duration = Duration::from_secs(90);

/// Longer than TIME-WAIT and what its end may be late, so that a report that
/// was asked for so long ago has left nothing.
const BETWEEN_REPORTS: Duration = Duration::from_secs(12);

/// What is the same whenever nothing goes on.
const AT_REST: [&str; 7] = [
    "sockets",
    "half_open",
    "orphans",
    "closing",
    "socket_bytes",
    "buffer_bytes",
    "allocated_bytes",
];

/// A batch of connections of which `alike` end in each way; whether those that
/// both sides close were closed at once.
fn batch(peer: &Peer, alike: usize) -> Result<bool> {
    let open = |port| -> Result<Vec<Stream>> {
        let streams = (0..alike).map(|_| connect(peer, port));
        streams.collect()
    };
    let (by_peer, by_guest, by_both) = (open(7)?, open(19)?, open(19)?);
    let (reset_by_peer, reset_by_guest) = (open(7)?, open(19)?);
    for mut stream in by_peer {
        stream.shutdown();
        ensure!(stream.read(&mut [0])? == 0, "the guest closes after us");
    }
    for mut stream in by_guest {
        stream.write_all(b"0\n")?;
        ensure!(stream.read(&mut [0])? == 0, "the guest closes first");
    }
    let crossed = close_at_once(peer, by_both)?;
    for mut stream in reset_by_peer {
        stream.write_all(b"x")?;
        stream.reset();
    }
    for stream in reset_by_guest {
        have_reset(peer, stream)?;
    }
    Ok(crossed)
}

/// Closes `streams` while the guest's ends of them are under way; whether all
/// still were.
fn close_at_once(peer: &Peer, mut streams: Vec<Stream>) -> Result<bool> {
    let late = Impairment {
        delay: ONE_WAY,
        ..Impairment::default()
    };
    peer.impair(Direction::Incoming, late, 0);
    let ends = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ends);
    peer.lose(Direction::Incoming, move |frame| {
        let is_end = is_with(frame, TcpControl::Fin);
        counted.fetch_add(is_end.into(), Ordering::Relaxed);
        false
    });
    let start = Instant::now();
    for stream in &mut streams {
        stream.write_all(b"0\n")?;
    }
    while ends.load(Ordering::Relaxed) < streams.len() {
        ensure!(start.elapsed() < 5 * SECOND, "the guest does not close");
        std::thread::sleep(ONE_WAY / 20);
    }
    for stream in &mut streams {
        stream.shutdown();
    }
    let crossed = start.elapsed() < ONE_WAY;
    for mut stream in streams {
        ensure!(stream.read(&mut [0])? == 0, "the guest closes as well");
    }
    peer.impair(Direction::Incoming, Impairment::default(), 0);
    Ok(crossed)
}

fn is_with(frame: &[u8], control: TcpControl) -> bool {
    matches!(Parsed::parse(frame), Some(Parsed::Tcp { segment, .. })
        if segment.control == control)
}

/// Sends what the guest does not read before it closes.
fn have_reset(peer: &Peer, mut stream: Stream) -> Result<()> {
    let resets = peer.capture(|frame| is_with(frame, TcpControl::Rst));
    stream.write_all(b"0\nnobody reads this")?;
    // The end of the stream may come before.
    match stream.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => ensure!(false, "{other:?}"),
    }
    resets
        .next(5 * SECOND)
        .context("the guest does not reset")?;
    Ok(())
}

/// What the guest has when it does nothing and remembers nothing, and how many
/// connections it has accepted so far.
fn quiet_report(peer: &Peer) -> Result<(Vec<(&'static str, u64)>, u64)> {
    let end = Instant::now() + UNTIL_QUIET;
    loop {
        std::thread::sleep(BETWEEN_REPORTS);
        let report = network::report(peer)?;
        let get = |name| report.get(name).copied().context(name);
        if get("sockets")? == 1 && get("closing")? == 0 {
            let values = AT_REST.map(|name| Ok((name, get(name)?)));
            let values = values.into_iter().collect::<Result<_>>()?;
            return Ok((values, get("accepted")?));
        }
        ensure!(Instant::now() < end, "something is left: {report:?}");
    }
}

/// Case C3: `count` connections that end in mixed ways leave neither sockets
/// nor records nor memory behind.
fn connections_end_in_mixed_ways(count: usize) -> Result<()> {
    let options = Options {
        append: STATIC.to_owned(),
        ..Options::default()
    };
    let (_guest, peer) = network::boot_services(options, Config::default())?;
    for number in 0..WARM_UP_BATCHES {
        batch(&peer, WARM_UP_ALIKE).with_context(|| format!("warm-up batch {number}"))?;
    }
    let (before, accepted) = quiet_report(&peer)?;
    let (start, mut crossed) = (Instant::now(), 0);
    let batches = count.div_ceil(WAYS * ALIKE);
    for number in 0..batches {
        let crosses = batch(&peer, ALIKE).with_context(|| format!("batch {number}"))?;
        crossed += usize::from(crosses);
    }
    let took = start.elapsed();
    let (after, accepted_later) = quiet_report(&peer)?;
    let accepted = accepted_later - accepted;
    println!(
        "{accepted} connections in {took:?}, ends crossed in {crossed} of {batches} batches; \
         before {before:?}, after {after:?}"
    );
    ensure!(crossed > 0, "no connection was closed by both at once");
    ensure!(accepted >= count as u64, "{accepted} connections");
    ensure!(after == before, "{before:?} became {after:?}");
    Ok(())
}

#[test]
fn connections_end_in_every_way_and_leave_nothing_behind() -> Result<()> {
    connections_end_in_mixed_ways(2000)
}

/// Case C3 in full.
#[test]
#[ignore = "long"]
fn connections_end_in_every_way_and_leave_nothing_behind_in_full() -> Result<()> {
    connections_end_in_mixed_ways(100_000)
}
