//! Network cards that refuse features, and those that cannot be used.

use anyhow::{Context, Result, ensure};
use firstpoll_peer::Config;
use firstpoll_qemu_tests::network::{self, STATIC};
use firstpoll_qemu_tests::{MACHINES, run};
use xtask::guest::Ending;
use xtask::qemu::{Machine, Net, Options};

/// Bytes each way: more than the queues hold.
const TOTAL: usize = 1_000_000;

fn card(machine: Machine, properties: &[&str]) -> Options {
    let device = machine.virtio("net");
    let global = |property| ["-global".to_owned(), format!("{device}.{property}")];
    Options {
        machine,
        append: STATIC.to_owned(),
        extra: properties.iter().flat_map(global).collect(),
        ..Options::default()
    }
}

#[test]
fn a_card_may_refuse_what_it_likes() -> Result<()> {
    let refusals: [&[&str]; 7] = [
        &["event_idx=off"],
        &["indirect_desc=off"],
        &["event_idx=off", "indirect_desc=off", "mrg_rxbuf=off"],
        &["packed=on"],
        &["rx_queue_size=1024", "status=off"],
        &["mrg_rxbuf=off", "status=off", "host_tso4=off"],
        &[
            "csum=off",
            "guest_csum=off",
            "guest_tso4=off",
            "guest_tso6=off",
        ],
    ];
    let of_pci: [&[&str]; 3] = [
        &["vectors=0"],
        &["vectors=2", "event_idx=off"],
        &["disable-legacy=on", "ioeventfd=off"],
    ];
    for machine in MACHINES {
        let of_pci = of_pci.iter().filter(|_| machine != Machine::Microvm);
        for properties in refusals.iter().chain(of_pci) {
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
        let options = match machine {
            Machine::Microvm => Options {
                extra: ["-global", "virtio-mmio.force-legacy=true"]
                    .map(str::to_owned)
                    .into(),
                ..card(machine, &[])
            },
            _ => card(machine, &["disable-modern=on", "disable-legacy=off"]),
        };
        let run = run("httpd", &options)?;
        assert_eq!(run.ending, Ending::Guest(1), "{}", run.text());
        assert!(run.has("only the legacy interface"), "{}", run.text());
    }
    Ok(())
}

#[test]
fn a_missing_card_is_told_in_one_line() -> Result<()> {
    for machine in MACHINES {
        let options = Options {
            net: Net::None,
            ..card(machine, &[])
        };
        let run = run("httpd", &options)?;
        assert_eq!(run.ending, Ending::Guest(1), "{}", run.text());
        assert!(run.has("no such device"), "{}", run.text());
    }
    Ok(())
}

/// Options as QEMU adds them on a machine without PCI.
#[test]
fn places_of_devices_that_are_none_are_passed_over() -> Result<()> {
    // Memory, the null page, nobody's place, the local APIC's, and no place.
    const NAMED: [&str; 5] = [
        "512@0x100000:5",
        "512@0x800:5",
        "512@0xfe000000:5",
        "4K@0xfee00000:5",
        "512@feb00e00:12",
    ];
    for machine in MACHINES {
        let named = NAMED.map(|place| format!(" virtio_mmio.device={place}"));
        let options = Options {
            append: format!("{STATIC}{}", named.concat()),
            ..card(machine, &[])
        };
        let (guest, peer) = network::boot_services(options, Config::default())?;
        network::send_pattern(&peer, TOTAL)?;
        let warnings = guest.lines().iter().filter(|line| line.contains("WARN"));
        let warnings: Vec<_> = warnings.collect();
        ensure!(
            warnings.len() == 1 && warnings[0].contains("=512@feb00e00:12` is ignored"),
            "{machine:?}: {warnings:?}"
        );
    }
    Ok(())
}
