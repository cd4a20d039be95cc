//! The poll-order contract on the machine: ready first, and the deferral that
//! makes up for it. The guest's clock counts instructions, so that what these
//! tests measure does not depend on the machine that runs them.

use anyhow::Result;
use firstpoll_qemu_tests::{Run, icount, run};
use xtask::guest::Ending;

/// The deferral bound D.
const BOUND_NS: u64 = 1_000_000;
/// What rule 5 adds to it: another task's poll, the longest masked section.
const SLACK_NS: u64 = 50_000;

fn deferral(append: &str) -> Result<Run> {
    let run = run("deferral", &icount(append))?;
    assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
    assert!(run.has("done"));
    Ok(run)
}

/// What must hold of interrupt-safe tasks, whatever the program does.
fn interrupt_safe_tasks_are_in_time(run: &Run) -> Result<bool> {
    let (raised, seen): (u64, u64) = (run.value("safe_raised")?, run.value("safe_seen")?);
    let latest: u64 = run.value("safe_latest_ns")?;
    let lateness: u64 = run.value("safe_lateness_ns")?;
    let ticks: u64 = run.value("ticks")?;
    assert!(raised > 50, "the program was not awake: {}", run.text());
    // The last may have come right before the end.
    Ok(seen + 1 >= raised
        && latest <= BOUND_NS + SLACK_NS
        && lateness <= BOUND_NS + SLACK_NS
        && (15..=20).contains(&ticks))
}

#[test]
fn interrupt_safe_tasks_are_polled_within_the_bound() -> Result<()> {
    for shape in ["plain", "ready", "task"] {
        let run = deferral(&format!("shape={shape}"))?;
        assert!(
            interrupt_safe_tasks_are_in_time(&run)?,
            "{shape}:\n{}",
            run.text()
        );
        assert!(run.value::<u64>("bottom_halves")? > 0, "{shape}");
        assert_eq!(run.value::<u64>("halts")?, 0, "{shape}");
    }
    Ok(())
}

#[test]
fn without_the_deferral_they_are_not() -> Result<()> {
    for shape in ["plain", "ready", "task"] {
        let run = deferral(&format!("shape={shape} deferral=off"))?;
        assert!(
            !interrupt_safe_tasks_are_in_time(&run)?,
            "{shape}:\n{}",
            run.text()
        );
    }
    Ok(())
}

/// Ordinary tasks never run on top of other code; the first `block_on` after
/// the bound runs them.
#[test]
fn the_first_block_on_runs_overdue_ordinary_tasks() -> Result<()> {
    let run = deferral("shape=plain")?;
    assert_eq!(run.value::<u64>("ordinary_seen")?, 0, "{}", run.text());
    let raised: u64 = run.value("ordinary_raised")?;
    assert_eq!(run.value::<u64>("ordinary_seen_after")?, raised);
    let lateness: u64 = run.value("ordinary_lateness_ns")?;
    // Since the first wake, which came at the start of the 200 ms.
    assert!((190_000_000..201_000_000).contains(&lateness), "{lateness}");

    let off = deferral("shape=plain deferral=off")?;
    assert_eq!(
        off.value::<u64>("ordinary_seen_after")?,
        0,
        "{}",
        off.text()
    );
    Ok(())
}

#[test]
fn ready_block_ons_run_overdue_ordinary_tasks_within_the_bound() -> Result<()> {
    let run = deferral("shape=ready")?;
    let (raised, seen): (u64, u64) = (run.value("ordinary_raised")?, run.value("ordinary_seen")?);
    assert!(seen + 1 >= raised, "{}", run.text());
    let latest: u64 = run.value("ordinary_latest_ns")?;
    assert!(latest <= BOUND_NS + SLACK_NS, "{latest}");
    assert!(run.value::<u64>("overdue_passes")? > 0);

    let off = deferral("shape=ready deferral=off")?;
    assert_eq!(off.value::<u64>("ordinary_seen")?, 0, "{}", off.text());
    Ok(())
}

/// At most one arming and one interrupt per bound.
#[test]
fn the_deferral_interrupts_at_most_once_per_bound() -> Result<()> {
    let run = deferral("shape=plain")?;
    let interrupts: u64 = run.value("timer_interrupts")?;
    // 200 ms are 200 bounds; timers of 10 ms add two each: one for the
    // deadline, one for the task that it wakes.
    assert!(interrupts < 200, "{interrupts}");
    Ok(())
}

#[test]
fn a_ready_block_on_costs_the_same_whatever_is_queued() -> Result<()> {
    let run = run("ready", &icount(""))?;
    assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
    println!("{}", run.text());
    let mut costs = Vec::new();
    for queued in [0, 1, 64] {
        costs.push(run.value::<u64>(&format!("ready_first_{queued}"))?);
    }
    let (least, most) = (costs.iter().min(), costs.iter().max());
    assert!(most <= Some(&24), "{costs:?}");
    assert!(
        most.zip(least)
            .is_some_and(|(most, least)| most - least <= 2),
        "{costs:?}"
    );
    // The order that this one replaces pays for every queued task.
    let pass_first: u64 = run.value("pass_first_64")?;
    assert!(pass_first > 64 * 10, "{pass_first}");
    Ok(())
}
