//! The clock and the deadline timer.

use std::time::{Duration, Instant};

use anyhow::Result;
use firstpoll_qemu_tests::{LIMIT, MACHINES, icount, options, run};
use xtask::cargo::{self, Profile};
use xtask::guest::{Ending, Guest};
use xtask::qemu::Options;

#[test]
fn sleeps_end_at_their_own_time() -> Result<()> {
    let run = run("timers", &icount("test=order"))?;
    assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
    let (short, long): (u64, u64) = (run.value("short_ns")?, run.value("long_ns")?);
    assert!((20_000_000..20_200_000).contains(&short), "{short}");
    assert!((1_000_000_000..1_000_200_000).contains(&long), "{long}");
    Ok(())
}

#[test]
fn deadlines_that_are_past_or_far_are_legal() -> Result<()> {
    for machine in MACHINES {
        let run = run(
            "timers",
            &Options {
                machine,
                ..options("test=deadlines")
            },
        )?;
        assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
    }
    Ok(())
}

#[test]
fn a_timer_interrupt_with_nothing_armed_is_counted() -> Result<()> {
    let run = run("timers", &icount("test=stray"))?;
    assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
    assert_eq!(run.value::<u64>("stray")?, 100);
    assert!(run.value::<u64>("timer_interrupts")? > 100);
    Ok(())
}

#[test]
fn an_idle_core_is_not_interrupted() -> Result<()> {
    let run = run("timers", &options("test=idle"))?;
    assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
    assert!(run.value::<u64>("slept_ns")? >= 10_000_000_000);
    let interrupts: u64 = run.value("interrupts")?;
    assert!(interrupts < 50, "{interrupts} interrupts in 10 s");
    Ok(())
}

#[test]
fn the_clock_keeps_time() -> Result<()> {
    let image = cargo::build_image("timers", Profile::Release)?;
    for machine in MACHINES {
        let mut guest = Guest::boot(
            &Options {
                machine,
                ..options("test=clock")
            },
            &image,
        )?;
        guest.wait_for_line("start", LIMIT)?;
        let start = Instant::now();
        guest.wait_for_line("end", LIMIT)?;
        let seconds = start.elapsed().as_secs_f64();
        // Lines arrive late when the host is busy.
        assert!((1.9..2.1).contains(&seconds), "2 s took {seconds} s");
        assert_eq!(guest.wait(Duration::from_secs(10))?, Ending::Guest(0));
    }
    Ok(())
}

#[test]
fn interrupts_leave_registers_and_flags_as_they_were() -> Result<()> {
    for options in [options("test=registers"), icount("test=registers")] {
        let run = run("timers", &options)?;
        assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
        assert!(run.value::<u64>("bottom_halves")? > 1_000, "{}", run.text());
    }
    Ok(())
}

/// QEMU's translation buffer holds 1 MiB of pages until it is flushed now and
/// then, which the timer interrupt does.
#[test]
fn a_busy_core_makes_the_emulator_remember_more_pages() -> Result<()> {
    let run = run("pages", &options(""))?;
    assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
    let (first, last): (u64, u64) = (run.value("first_ns")?, run.value("last_ns")?);
    assert!(2 * last < first, "{first} and then {last} ns per page");
    Ok(())
}
