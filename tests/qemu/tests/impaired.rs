//! TCP of a guest over a network that loses and reorders frames, to peers that
//! are slow or pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use firstpoll_peer::frame::{Parsed, TcpControl};
use firstpoll_peer::{Config, Direction, Impairment, Peer};
use firstpoll_qemu_tests::network::{self, STATIC};
use xtask::guest::Guest;
use xtask::qemu::Options;

const SECOND: Duration = Duration::from_secs(1);

/// Of connections that shall fill a network.
const BUFFER_BYTES: usize = 256 << 10;

fn services() -> Result<(Guest, Peer)> {
    let options = Options {
        append: format!("{STATIC} buffer_bytes={BUFFER_BYTES}"),
        ..Options::default()
    };
    let config = Config {
        tcp_buffer_bytes: BUFFER_BYTES,
        ..Config::default()
    };
    network::boot_services(options, config)
}

/// Case C5: a response of `total` bytes and the end of the stream, to a slow
/// reader. Each byte is compared.
fn to_a_slow_reader(total: usize) -> Result<()> {
    let (_guest, peer) = services()?;
    network::receive_pattern(&peer, total, |received| {
        // Once in a while it does not read for longer than a probe waits.
        let long = received % 1_000_000 < 16 << 10;
        let pause = if long { SECOND * 3 / 2 } else { SECOND / 2000 };
        std::thread::sleep(pause);
    })
}

#[test]
fn a_slow_reader_gets_every_byte() -> Result<()> {
    to_a_slow_reader(2_500_000)
}

/// Case C5 in full.
#[test]
#[ignore = "long"]
fn a_slow_reader_gets_every_byte_in_full() -> Result<()> {
    to_a_slow_reader(50_000_000)
}

/// Case C6: the reader pauses, and the update that opens its window is lost.
fn after_a_pause(pause: Duration) -> Result<()> {
    let (_guest, peer) = services()?;
    let armed = Arc::new(AtomicU32::new(0));
    let to_lose = Arc::clone(&armed);
    peer.lose(Direction::Outgoing, move |frame| {
        let Some(Parsed::Tcp { segment, .. }) = Parsed::parse(frame) else {
            return false;
        };
        let is_update = segment.payload.is_empty()
            && segment.control == TcpControl::None
            && segment.window_len > 0;
        let less = |count: u32| count.checked_sub(1);
        is_update
            && to_lose
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                .is_ok()
    });
    let mut paused = false;
    network::receive_pattern(&peer, 4 * BUFFER_BYTES, |_| {
        if !paused {
            paused = true;
            std::thread::sleep(pause);
            armed.store(1, Ordering::SeqCst);
        }
    })?;
    ensure!(armed.load(Ordering::SeqCst) == 0, "no update was lost");
    Ok(())
}

#[test]
fn a_pause_with_a_lost_window_update_ends() -> Result<()> {
    after_a_pause(3 * SECOND)
}

/// Case C6 in full.
#[test]
#[ignore = "long"]
fn a_pause_with_a_lost_window_update_ends_in_full() -> Result<()> {
    after_a_pause(20 * SECOND)
}

/// Case C8: `total` bytes out of the guest while 2 % of the frames are lost and
/// others reordered. The other way it is the peer that has to send again.
fn over_a_lossy_network(total: usize) -> Result<()> {
    let (_guest, peer) = services()?;
    let lossy = Impairment {
        loss: 0.02,
        reordering: 0.02,
        hold: SECOND / 1000,
        ..Impairment::default()
    };
    peer.impair(Direction::Incoming, lossy, 1);
    peer.impair(Direction::Outgoing, lossy, 2);
    let start = Instant::now();
    network::receive_pattern(&peer, total, |_| ())?;
    let rate = total as f64 / start.elapsed().as_secs_f64();
    let lost = peer.path_counts(Direction::Incoming).lost;
    println!("{total} bytes, of whose frames {lost} were lost: {rate:.0} bytes/s");
    ensure!(lost > 10, "only {lost} frames were lost");
    ensure!(rate > 1e6, "{rate:.0} bytes/s");
    Ok(())
}

#[test]
fn a_lossy_network_slows_no_more_than_it_must() -> Result<()> {
    over_a_lossy_network(5_000_000)
}

/// Case C8 in full.
#[test]
#[ignore = "long"]
fn a_lossy_network_slows_no_more_than_it_must_in_full() -> Result<()> {
    over_a_lossy_network(100_000_000)
}
