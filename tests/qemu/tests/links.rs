//! Network cards with and without offloads, and links of other sizes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use firstpoll_peer::Config;
use firstpoll_peer::frame::{Parsed, TcpControl};
use firstpoll_qemu_tests::network::{self, STATIC};
use xtask::qemu::Options;

/// What the card does not offer when it offers no offload.
const OFFLOADS: [&str; 11] = [
    "csum",
    "guest_csum",
    "gso",
    "guest_tso4",
    "guest_tso6",
    "guest_ecn",
    "guest_ufo",
    "host_tso4",
    "host_tso6",
    "host_ecn",
    "host_ufo",
];

fn card(offloads: bool, mtu: u16) -> Options {
    let mut properties = vec![format!("host_mtu={mtu}")];
    if !offloads {
        properties.extend(OFFLOADS.map(|offload| format!("{offload}=off")));
        properties.push("mrg_rxbuf=off".to_owned());
    }
    let global = |property| ["-global".to_owned(), format!("virtio-net-pci.{property}")];
    Options {
        append: STATIC.to_owned(),
        extra: properties.into_iter().flat_map(global).collect(),
        ..Options::default()
    }
}

/// Sends `total` bytes each way, and compares each, with each kind of card.
fn every_card_carries(total: usize) -> Result<()> {
    for mtu in [576, 1500, 9000] {
        for offloads in [true, false] {
            let config = Config {
                mtu: mtu.into(),
                ..Config::default()
            };
            let (_guest, peer) = network::boot_services(card(offloads, mtu), config)?;
            let synchronized = peer.capture(|frame| {
                matches!(Parsed::parse(frame), Some(Parsed::Tcp { segment, .. })
                    if segment.control == TcpControl::Syn)
            });
            let what = format!("MTU {mtu}, offloads {offloads}");
            network::send_pattern(&peer, total).with_context(|| what.clone())?;
            network::receive_pattern(&peer, total, |_| ()).with_context(|| what.clone())?;
            let frame = synchronized.next(Duration::ZERO);
            let frame = frame.context("there was no handshake")?;
            let Some(Parsed::Tcp { segment, .. }) = Parsed::parse(&frame) else {
                unreachable!("it was one when it was captured");
            };
            let largest = segment.max_seg_size.context("no segment size was told")?;
            println!("{what}: segments of {largest} bytes");
            ensure!(largest <= mtu - 40, "{what}: segments of {largest} bytes");
            // The driver's buffers may be smaller than what the card offers.
            ensure!(
                largest >= mtu.min(1500) - 40,
                "{what}: segments of {largest} bytes"
            );
        }
    }
    Ok(())
}

#[test]
fn every_card_carries_every_byte() -> Result<()> {
    every_card_carries(1_000_000)
}

/// Case N7 in full.
#[test]
#[ignore = "long"]
fn every_card_carries_every_byte_in_full() -> Result<()> {
    every_card_carries(10_000_000)
}
