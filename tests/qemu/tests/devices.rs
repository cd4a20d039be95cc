//! Interrupts of devices.

use anyhow::Result;
use firstpoll_qemu_tests::{MACHINES, options, run};
use xtask::guest::Ending;
use xtask::qemu::Options;

/// Also one that was asserted before its driver was there.
#[test]
fn every_interrupt_of_a_device_arrives_once() -> Result<()> {
    for machine in MACHINES {
        let run = run(
            "devices",
            &Options {
                machine,
                ..options("")
            },
        )?;
        assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
        assert_eq!(run.value::<u64>("device_interrupts")?, 1_000);
        assert_eq!(run.value::<u64>("spurious_interrupts")?, 0);
    }
    Ok(())
}
