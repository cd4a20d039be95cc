//! The guest's network with itself.

use anyhow::Result;
use firstpoll_qemu_tests::{MACHINES, options, run};
use xtask::guest::Ending;
use xtask::qemu::Options;

#[test]
fn without_a_card_the_guest_reaches_itself() -> Result<()> {
    for machine in MACHINES {
        let run = run(
            "loopback",
            &Options {
                machine,
                ..options("")
            },
        )?;
        assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
        for address in ["127.0.0.1", "127.1.2.3", "::1"] {
            assert_eq!(run.value::<usize>(address)?, 100_000);
        }
    }
    Ok(())
}
