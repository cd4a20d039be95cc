//! Why is one `block_on` faster than another? The figures of `docs/block_on.md`.
//!
//! On the host the program `block-on-study` measures one configuration per
//! call, ahead of all else on the machine; in the guest the program `paced`
//! does.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Setup;
use super::bed;
use super::plot;
use super::probe::{Group, Probe, Sample};
use super::record::Record;
use super::table;
use crate::cargo::{self, Cargo, Profile};
use crate::guest::{Ending, Guest};
use crate::qemu::{Net, Options};
use crate::workspace::Workspace;

mod cases;

use cases::{Case, Host};

/// The host's program and its package.
const PACKAGE: &str = "firstpoll-block-on-study";
const PROGRAM: &str = "block-on-study";

/// How long the guest's program may take.
const TIMEOUT: Duration = Duration::from_secs(60);

const GUEST: &str = "block_on: guest";

/// The metrics and units that the programs print and that are kept.
const KEPT: [(&str, &str); 8] = [
    ("time", "ns"),
    ("p50", "µs"),
    ("p90", "µs"),
    ("throughput", "messages/s"),
    ("cpu", "µs/message"),
    ("switches", "1/message"),
    ("switches", "1/call"),
    ("halts", "1/message"),
];

/// The plots of the page in `docs`.
const PLOTS: [(&str, &str); 7] = [
    (cases::STEPS, "time"),
    (cases::WAKES, "p50"),
    (cases::EXECUTORS, "p50"),
    (cases::LOOPS, "p50"),
    (cases::LOOPS, "throughput"),
    (cases::TIMERS, "time"),
    (cases::AROUND, "p50"),
];

/// What is measured.
///
/// # Errors
///
/// If a program does not build.
pub fn groups<'a>(setup: &'a Setup) -> Result<Vec<Group<'a>>> {
    Cargo::build().packages([PACKAGE]).optimized().run()?;
    let program = Workspace::load()?
        .target_dir()
        .join("release")
        .join(PROGRAM);
    let samples = setup.effort.pick(30, 20);
    let mut groups: Vec<Group<'_>> = cases::all(samples)
        .into_iter()
        .map(|host| group(&program, host))
        .collect();
    groups.push(guest()?);
    Ok(groups)
}

fn group<'a>(program: &Path, host: Host) -> Group<'a> {
    let probes = host.systems.into_iter().map(|(system, cases)| {
        let program = program.to_owned();
        Probe {
            system,
            takes: cases.iter().map(|case| case.takes).sum(),
            measure: Box::new(move || {
                let mut samples = Vec::new();
                for case in &cases {
                    samples.extend(run(&program, case)?);
                }
                Ok(samples)
            }),
        }
    });
    Group {
        bench: host.bench,
        name: "on the host".to_owned(),
        probes: probes.collect(),
        repeatable: false,
    }
}

fn run(program: &Path, case: &Case) -> Result<Vec<Sample>> {
    let mut command = Command::new(program);
    command.args(case.args.split_whitespace());
    let output = bed::ahead(|| command.output().context("cannot start the study"))?;
    ensure!(
        output.status.success(),
        "{PROGRAM} {}: {}",
        case.args,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let stdout = String::from_utf8(output.stdout)?;
    figures(stdout.lines(), &case.name)
}

/// Reads lines of `case metric unit value`, separated by tabs.
fn figures<'a>(lines: impl Iterator<Item = &'a str>, prefix: &str) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for line in lines {
        let fields = line.split('\t').collect::<Vec<_>>();
        let [case, metric, unit, value] = fields[..] else {
            anyhow::bail!("{line:?} is no figure");
        };
        let value = value
            .parse()
            .with_context(|| format!("{line:?} is no figure"))?;
        let case = [prefix, case]
            .iter()
            .filter(|part| !part.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        if let Some(&(metric, unit)) = KEPT.iter().find(|&&kept| kept == (metric, unit)) {
            samples.push(Sample::new(case, metric, unit, value));
        }
    }
    ensure!(!samples.is_empty(), "there are no figures");
    Ok(samples)
}

/// The guest's loop, by its clock and by instructions.
fn guest<'a>() -> Result<Group<'a>> {
    let image = cargo::build_image("paced", Profile::Release)?;
    let probe = |system: &str, icount| {
        let image = image.clone();
        Probe {
            system: system.to_owned(),
            takes: Duration::from_secs(3),
            measure: Box::new(move || boot(&image, icount)) as Box<dyn FnMut() -> _>,
        }
    };
    Ok(Group {
        bench: GUEST,
        name: "in the guest".to_owned(),
        probes: vec![
            probe("firstpoll under TCG", false),
            probe("firstpoll, 1 instruction = 1 ns", true),
        ],
        repeatable: false,
    })
}

fn boot(image: &Path, icount: bool) -> Result<Vec<Sample>> {
    let options = Options {
        icount,
        net: Net::None,
        ..Options::default()
    };
    bed::ahead(|| {
        let mut guest = Guest::boot(&options, image)?;
        let ending = guest.wait(TIMEOUT)?;
        let lines = guest.lines();
        ensure!(
            ending == Ending::Guest(0),
            "paced ended with {ending:?}\n{}",
            lines.join("\n")
        );
        figures(lines.iter().map(String::as_str), "")
    })
}

/// Draws the plots of `docs/block_on.md` into `directory`, those for which
/// `records` has figures: what is missing was told as a failure.
///
/// # Errors
///
/// If one cannot be drawn or written.
pub fn write_plots(directory: &Path, records: &[Record]) -> Result<()> {
    let tables = table::tables(records);
    for (bench, metric) in PLOTS {
        let of_plot = |table: &&table::Table<'_>| table.bench == bench && table.metric == metric;
        if let Some(table) = tables.iter().find(of_plot) {
            let name = format!("{bench}-{metric}.svg").replace(": ", "-");
            let file = directory.join(name);
            fs::write(&file, plot::draw(table)?)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() -> Result<()> {
        let lines = ["paced\tp50\tµs\t1.5", "paced\tmax\tµs\t9"];
        let expected = [Sample::new("hold, paced", "p50", "µs", 1.5)];
        assert_eq!(figures(lines.into_iter(), "hold")?, expected);
        for bad in ["", "paced\tp50\tµs", "paced\tp50\tµs\tx", "panicked at x"] {
            assert!(figures([bad].into_iter(), "").is_err(), "{bad}");
        }
        Ok(())
    }
}
