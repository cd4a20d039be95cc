//! The executor on the host beside others: times by criterion, and instructions
//! by callgrind where one thread does it all.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Setup;
use super::probe::{Effort, Group, Probe, Sample};
use crate::workspace::{self, Workspace};
use crate::{cargo, guest, packages};

/// The suite's name in the figures.
const BENCH: &str = "micro";

const PACKAGE: &str = "firstpoll-micro-bench";

/// What is measured.
///
/// # Errors
///
/// If the benchmark does not build, or valgrind is missing and cannot be
/// installed.
pub fn groups<'a>(setup: &'a Setup) -> Result<Vec<Group<'a>>> {
    packages::ensure(&[packages::VALGRIND])?;
    let programs = Rc::new(Programs::build(setup.effort)?);
    let entries = programs.entries()?;
    let mut groups = Vec::new();
    for of_case in entries.chunk_by(|one, other| one.case == other.case) {
        let case = of_case[0].case.as_str();
        groups.push(Group {
            bench: BENCH,
            name: format!("{case}, times"),
            probes: of_case.iter().map(|entry| programs.timed(entry)).collect(),
            repeatable: false,
        });
        let counted = of_case.iter().filter(|entry| entry.one_thread);
        let probes: Vec<_> = counted.map(|entry| programs.counted(entry)).collect();
        if !probes.is_empty() {
            groups.push(Group {
                bench: BENCH,
                name: format!("{case}, instructions"),
                probes,
                // In a hurry, one run is believed.
                repeatable: setup.effort == Effort::Full,
            });
        }
    }
    Ok(groups)
}

/// One case on one system.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    case: String,
    system: String,
    one_thread: bool,
}

impl Entry {
    /// Reads a line of `counts list`.
    fn read(line: &str) -> Result<Self> {
        let fields: Vec<_> = line.split('\t').collect();
        let [case, system, threads @ ("one" | "several")] = fields[..] else {
            anyhow::bail!("{line:?} is no entry of the table");
        };
        Ok(Self {
            case: case.to_owned(),
            system: system.to_owned(),
            one_thread: threads == "one",
        })
    }

    /// How often it is run under callgrind, and three times as often: enough
    /// that what else differs is less than an instruction, and little enough
    /// for one to two seconds at a fiftieth of the speed.
    fn counted_runs(&self) -> u32 {
        match self.case.as_str() {
            case if case.contains("1000") => 1,
            _ => 1_000,
        }
    }
}

/// The package's programs, built.
struct Programs {
    /// The criterion benchmark.
    executors: PathBuf,
    counts: PathBuf,
    /// Where criterion writes its figures.
    criterion: PathBuf,
    effort: Effort,
}

impl Programs {
    fn build(effort: Effort) -> Result<Self> {
        let programs = cargo::build_benches(PACKAGE)?;
        let find = |name: &str| {
            let program = programs.iter().find(|program| is_called(program, name));
            let program = program.cloned();
            program.with_context(|| format!("{PACKAGE} has no program `{name}`"))
        };
        Ok(Self {
            executors: find("executors")?,
            counts: find("counts")?,
            criterion: Workspace::load()?.target_dir().join("criterion"),
            effort,
        })
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        let list = output(Command::new(&self.counts).arg("list"))?;
        list.stdout.lines().map(Entry::read).collect()
    }

    fn timed<'a>(self: &Rc<Self>, entry: &Entry) -> Probe<'a> {
        let (programs, entry) = (Rc::clone(self), entry.clone());
        Probe {
            system: entry.system.clone(),
            takes: Duration::from_millis(programs.effort.pick(650, 350)),
            measure: Box::new(move || programs.time(&entry)),
        }
    }

    fn counted<'a>(self: &Rc<Self>, entry: &Entry) -> Probe<'a> {
        let (programs, entry) = (Rc::clone(self), entry.clone());
        Probe {
            system: entry.system.clone(),
            takes: Duration::from_millis(if entry.counted_runs() == 1 {
                2_000
            } else {
                600
            }),
            measure: Box::new(move || programs.count(&entry)),
        }
    }

    /// The median that criterion finds.
    fn time(&self, entry: &Entry) -> Result<Vec<Sample>> {
        let Entry { case, system, .. } = entry;
        // As criterion names directories.
        let directory = self.criterion.join(case.replace('/', "_")).join(system);
        let estimates = directory.join("new/estimates.json");
        // If it goes wrong, the figure of an earlier run is none of this one.
        match std::fs::remove_file(&estimates) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context(estimates.display().to_string());
            }
            _ => {}
        }
        output(
            Command::new(&self.executors)
                .current_dir(workspace::root())
                .env("CRITERION_HOME", &self.criterion)
                .args(["--bench", "--noplot", "--sample-size", "10"])
                .args(["--nresamples", "2000"])
                .args(["--warm-up-time", self.effort.pick("0.1", "0.05")])
                .args(["--measurement-time", self.effort.pick("0.3", "0.1")])
                .args(["--exact", &format!("{case}/{system}")]),
        )?;
        let text = std::fs::read_to_string(&estimates)
            .with_context(|| format!("criterion wrote no {}", estimates.display()))?;
        let nanos = median(&text).with_context(|| estimates.display().to_string())?;
        Ok(vec![Sample::new(case, "time", "ns", nanos)])
    }

    /// The instructions of one run, as the difference between many and more.
    fn count(&self, entry: &Entry) -> Result<Vec<Sample>> {
        let runs = entry.counted_runs();
        let few = self.callgrind(entry, runs)?;
        let many = self.callgrind(entry, 3 * runs)?;
        let counts = [few.count()?, many.count()?];
        let instructions = (counts[1] - counts[0]) / f64::from(2 * runs);
        Ok(vec![Sample::new(
            &entry.case,
            "instructions",
            "instructions",
            instructions,
        )])
    }

    /// Starts `runs` runs under callgrind. Several can count side by side.
    fn callgrind(&self, entry: &Entry, runs: u32) -> Result<Counting> {
        let mut command = Command::new(packages::VALGRIND.program);
        command
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg("--toggle-collect=*counted_run*")
            .arg(&self.counts)
            .args([&entry.case, &entry.system, &runs.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        guest::end_with_us(&mut command);
        let child = command.spawn().context("cannot start valgrind")?;
        Ok(Counting { child })
    }
}

/// A run of callgrind.
struct Counting {
    child: std::process::Child,
}

impl Counting {
    fn count(self) -> Result<f64> {
        let output = self.child.wait_with_output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "valgrind failed:\n{stderr}");
        collected(&stderr).with_context(|| format!("valgrind counted nothing:\n{stderr}"))
    }
}

/// Whether cargo made `program` from the target `name`: it adds a hash to the
/// names of benchmarks.
fn is_called(program: &Path, name: &str) -> bool {
    let stem = program.file_stem().and_then(|stem| stem.to_str());
    stem.is_some_and(|stem| stem == name || stem.rsplit_once('-').is_some_and(|s| s.0 == name))
}

struct Output {
    stdout: String,
}

/// Runs `command` to its end.
fn output(command: &mut Command) -> Result<Output> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(Output {
        stdout: String::from_utf8(output.stdout)?,
    })
}

/// The median in criterion's `estimates.json`, in nanoseconds.
fn median(text: &str) -> Result<f64> {
    let estimates: Value = serde_json::from_str(text)?;
    let median = &estimates["median"]["point_estimate"];
    median.as_f64().context("it has no median")
}

/// The count in callgrind's messages.
fn collected(messages: &str) -> Option<f64> {
    let mut lines = messages.lines();
    lines.find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read() -> Result<()> {
        let entry = Entry::read("block_on/ready\ttokio current_thread\tone")?;
        assert_eq!(entry.system, "tokio current_thread");
        assert!(entry.one_thread);
        for bad in ["", "a\tb", "a\tb\tc", "a\tb\tone\td"] {
            assert!(Entry::read(bad).is_err(), "{bad:?}");
        }
        Ok(())
    }

    #[test]
    fn figures_are_read() -> Result<()> {
        let estimates = r#"{"mean":{"point_estimate":1.5},"median":{"point_estimate":2.5}}"#;
        assert_eq!(median(estimates)?, 2.5);
        assert!(median("{}").is_err());
        assert_eq!(collected("==7== Collected : 123\n"), Some(123.0));
        assert_eq!(collected("==7== \n"), None);
        Ok(())
    }

    #[test]
    fn programs_are_told_apart() {
        assert!(is_called(
            Path::new("/t/deps/executors-05bf42"),
            "executors"
        ));
        assert!(is_called(Path::new("/t/counts"), "counts"));
        assert!(!is_called(Path::new("/t/counts"), "executors"));
    }
}
