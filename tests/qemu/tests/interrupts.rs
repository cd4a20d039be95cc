//! The ways in which a network card interrupts, and what makes a driver take
//! another.

use anyhow::{Context, Result, ensure};
use firstpoll_qemu_tests::LIMIT;
use firstpoll_qemu_tests::network::BOOT_TIMEOUT;
use xtask::cargo::{self, Profile};
use xtask::guest::{Guest, Link};
use xtask::qemu::{Machine, Net, Options};

/// A machine, a property of its card, and the way that is taken.
const WAYS: [(Machine, Option<&str>, &str); 9] = [
    (Machine::Q35, None, "3 interrupt messages"),
    (Machine::Q35, Some("vectors=0"), "interrupt line"),
    // One would not tell the configuration from a queue.
    (Machine::Q35, Some("vectors=1"), "interrupt line"),
    (Machine::Q35, Some("vectors=2"), "2 interrupt messages"),
    (Machine::Q35, Some("vectors=3"), "3 interrupt messages"),
    (Machine::Pc, None, "3 interrupt messages"),
    (Machine::Pc, Some("vectors=0"), "interrupt line"),
    (Machine::Pc, Some("vectors=2"), "2 interrupt messages"),
    (Machine::Microvm, None, "interrupt line"),
];

#[test]
fn every_way_tells_of_frames_and_of_the_link() -> Result<()> {
    for (machine, property, way) in WAYS {
        let what = || format!("{machine:?}, {property:?}");
        interrupts(machine, property, way).with_context(what)?;
    }
    Ok(())
}

fn interrupts(machine: Machine, property: Option<&str>, way: &str) -> Result<()> {
    let device = machine.virtio("net");
    let global = |property| ["-global".to_owned(), format!("{device}.{property}")];
    let options = Options {
        machine,
        net: Net::User(Vec::new()),
        append: "log=info".to_owned(),
        extra: property.into_iter().flat_map(global).collect(),
        ..Options::default()
    };
    let image = cargo::build_image("card", Profile::Release)?;
    let mut guest = Guest::boot(&options, &image)?;
    guest.wait_for_line("ready", LIMIT)?;
    let lines = guest.lines();
    let told = lines.iter().find(|line| line.contains("network card "));
    ensure!(told.context("no card")?.contains(way), "{told:?}");
    let sent = lines
        .iter()
        .find_map(|line| line.strip_prefix("send_interrupts "));
    let sent: u64 = sent.context("no count")?.parse()?;
    ensure!(sent > 0, "no frame that was sent interrupted");
    ensure!(!lines.iter().any(|line| line.contains("WARN")), "{lines:?}");

    let mut all = sent;
    for link in [Link::Down, Link::Up, Link::Down] {
        guest.set_link(link)?;
        guest.wait_for_line("the configuration has changed", BOOT_TIMEOUT)?;
        let line = guest.wait_for_line("interrupts ", BOOT_TIMEOUT)?;
        all = line.trim_start_matches("interrupts ").parse()?;
    }
    // One that is not taken back comes again and again.
    let others = all - sent;
    ensure!(
        (3..20).contains(&others),
        "{others} interrupts for 3 changes"
    );
    Ok(())
}
