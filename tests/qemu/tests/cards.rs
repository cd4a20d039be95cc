//! Network cards that refuse features, and those that cannot be used.

use anyhow::{Context, Result, ensure};
use firstpoll_peer::Config;
use firstpoll_qemu_tests::network::{self, STATIC};
use firstpoll_qemu_tests::{MACHINES, run};
use xtask::guest::Ending;
use xtask::qemu::{Machine, Options};

/// Bytes each way: more than the queues hold.
const TOTAL: usize = 1_000_000;

fn card(machine: Machine, properties: &[&str]) -> Options {
    let global = |property| ["-global".to_owned(), format!("virtio-net-pci.{property}")];
    Options {
        machine,
        append: STATIC.to_owned(),
        extra: properties.iter().flat_map(global).collect(),
        ..Options::default()
    }
}

#[test]
fn a_card_may_refuse_what_it_likes() -> Result<()> {
    let refusals: [&[&str]; 8] = [
        &["event_idx=off"],
        &["indirect_desc=off"],
        &["event_idx=off", "indirect_desc=off", "mrg_rxbuf=off"],
        &["packed=on"],
        &["rx_queue_size=1024", "vectors=0"],
        &["disable-legacy=on", "ioeventfd=off", "status=off"],
        &["mrg_rxbuf=off", "status=off", "host_tso4=off"],
        &[
            "csum=off",
            "guest_csum=off",
            "guest_tso4=off",
            "guest_tso6=off",
        ],
    ];
    for machine in MACHINES {
        for properties in refusals {
            let what = || format!("{machine:?}, {properties:?}");
            let options = card(machine, properties);
            let (_guest, peer) =
                network::boot_services(options, Config::default()).with_context(what)?;
            network::send_pattern(&peer, TOTAL).with_context(what)?;
            network::receive_pattern(&peer, TOTAL, |_| ()).with_context(what)?;
            for counter in ["unannounced", "card_faults"] {
                let count = network::reported(&peer, counter)?;
                ensure!(count == 0, "{}: {counter} {count}", what());
            }
        }
    }
    Ok(())
}

/// Where it has only the interface from before virtio 1.0, which is not spoken.
#[test]
fn a_card_that_is_too_old_is_refused_in_one_line() -> Result<()> {
    for machine in MACHINES {
        let options = card(machine, &["disable-modern=on", "disable-legacy=off"]);
        let run = run("httpd", &options)?;
        assert_eq!(run.ending, Ending::Guest(1), "{}", run.text());
        assert!(run.has("only the legacy interface"), "{}", run.text());
    }
    Ok(())
}
