//! `cargo xtask test`: runs the test rings and counts.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::ops::AddAssign;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::cargo::{self, Cargo, Profile};
use crate::cli::TestArgs;
use crate::packages;
use crate::workspace::{QEMU_TESTS, Workspace};

/// The library whose integration tests and models are run.
const LIBRARY: &str = "firstpoll";

/// Why a test may be left out of the usual run: `#[ignore = "long"]`.
const LONG: &str = "long";

/// Which tests are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Those that take seconds.
    Usual,
    /// Those that take minutes, too.
    Long,
}

/// A kind of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ring {
    /// Unit and documentation tests of all libraries.
    Host,
    /// Integration tests of firstpoll on the host.
    Integration,
    /// Models that loom runs in every interleaving.
    Model,
    /// Real boots under QEMU.
    Qemu,
}

/// Runs the verb: prints the table and the line `N passed, N failed`.
///
/// # Errors
///
/// If the workspace cannot be read; a test that fails is no error here.
pub fn run(args: &TestArgs) -> Result<ExitCode> {
    let report = run_rings(args)?;
    print!("\n{report}");
    Ok(if report.total().failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs the rings that `args` select, each whatever became of the others.
///
/// # Errors
///
/// If the workspace cannot be read.
pub fn run_rings(args: &TestArgs) -> Result<Report> {
    let workspace = Workspace::load()?;
    let rings = Ring::value_variants().iter();
    let mut report = Report::default();
    for &ring in rings.filter(|ring| args.rings.is_empty() || args.rings.contains(ring)) {
        eprintln!("\n--- {ring} tests");
        let start = Instant::now();
        let outcome = ring.run(&workspace, args.filter.as_deref(), args.length());
        let outcome = outcome.unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            Outcome::Ran(Tally::FAILURE)
        });
        report.rings.push((ring, outcome, start.elapsed()));
    }
    if args.filter.is_some() && report.total() == Tally::default() {
        eprintln!("error: no test matches the filter");
        report.unmatched = true;
    }
    Ok(report)
}

impl Ring {
    fn run(self, workspace: &Workspace, filter: Option<&str>, length: Length) -> Result<Outcome> {
        let Some(commands) = self.commands(workspace, filter)? else {
            return Ok(Outcome::Nothing);
        };
        let mut tally = Tally::default();
        for cargo in commands {
            if let Err(error) = run_tests(&cargo, length, &mut tally) {
                eprintln!("error: {error:#}");
                tally += Tally::FAILURE;
                break;
            }
        }
        // A ring that tests nothing must not look like one that passes.
        if tally == Tally::default() && filter.is_none() {
            eprintln!("error: the {self} ring has no tests");
            tally = Tally::FAILURE;
        }
        Ok(Outcome::Ran(tally))
    }

    /// What runs this ring; none if there is nothing to run.
    fn commands(self, workspace: &Workspace, filter: Option<&str>) -> Result<Option<Vec<Cargo>>> {
        let cargo = Cargo::test();
        Ok(match self {
            Self::Host => {
                // The kernel's binaries do not link for the host, and cargo
                // wants documentation tests to be alone.
                let cargo = cargo.packages(workspace.libraries()).program_args(filter);
                Some(vec![cargo.clone().targets("--lib"), cargo.targets("--doc")])
            }
            Self::Integration => workspace.has_integration_tests(LIBRARY).then(|| {
                let cargo = cargo.packages([LIBRARY]).targets("--test=*");
                vec![cargo.program_args(filter)]
            }),
            Self::Model => {
                // Only models may run under loom, and the test harness cannot
                // select by two words at once.
                let models = filter.unwrap_or("model");
                models.contains("model").then(|| {
                    let cargo = cargo.packages([LIBRARY]).targets("--lib").optimized();
                    let cargo = cargo.cfg("firstpoll_loom", &workspace.target_dir().join("model"));
                    vec![cargo.program_args([models])]
                })
            }
            Self::Qemu if !workspace.has(QEMU_TESTS) => None,
            Self::Qemu => {
                packages::ensure(&[packages::QEMU, packages::WRK, packages::CURL])?;
                cargo::build_images(workspace, &workspace.programs(), Profile::Release)?;
                // Guests side by side disturb each other's clocks.
                let cargo = cargo.packages([QEMU_TESTS]).optimized();
                let cargo = cargo.program_args(["--test-threads=1"]);
                Some(vec![cargo.program_args(filter)])
            }
        })
    }
}

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Host => "host",
            Self::Integration => "integration",
            Self::Model => "model",
            Self::Qemu => "qemu",
        })
    }
}

/// Runs the tests of `cargo` and adds their results to `tally`; at
/// [`Length::Long`] also those that [`LONG`] marks.
///
/// # Errors
///
/// If cargo ends without success and without naming a test that failed: the
/// tests do not build, or one took the others down. If a long test is listed and
/// does not run.
fn run_tests(cargo: &Cargo, length: Length, tally: &mut Tally) -> Result<()> {
    let ignored = count_tests(cargo, tally)?;
    let (long, others): (Vec<_>, Vec<_>) = ignored.into_iter().partition(Ignored::is_long);
    for Ignored { name, reason } in others {
        // Nobody would notice that it never runs.
        eprintln!("error: {name} is ignored as {reason:?}; only {LONG:?} may be left out");
        *tally += Tally::FAILURE;
    }
    if length == Length::Usual || long.is_empty() {
        return Ok(());
    }
    let names = long.iter().map(|test| test.name.as_str());
    let cargo = cargo.clone().program_args(["--ignored", "--exact"]);
    let mut of_long = Tally::default();
    let counted = count_tests(&cargo.program_args(names), &mut of_long);
    tally.ignored = tally.ignored.saturating_sub(long.len() as u32);
    *tally += of_long;
    counted?;
    ensure!(
        (of_long.passed + of_long.failed) as usize == long.len(),
        "of {} long tests {} ran",
        long.len(),
        of_long.passed + of_long.failed
    );
    Ok(())
}

/// Runs `cargo`, passes its output on and adds its results to `tally`; the
/// tests that were left out.
///
/// # Errors
///
/// If cargo ends without success and without naming a test that failed.
fn count_tests(cargo: &Cargo, tally: &mut Tally) -> Result<Vec<Ignored>> {
    let mut child = cargo
        .command()
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let output = BufReader::new(child.stdout.take().context("cargo has no stdout")?);
    let failed_before = tally.failed;
    let mut ignored = Vec::new();
    let mut stdout = std::io::stdout().lock();
    for line in output.split(b'\n') {
        let line = line?;
        stdout.write_all(&line)?;
        stdout.write_all(b"\n")?;
        let line = String::from_utf8_lossy(&line);
        ignored.extend(Ignored::parse(&line));
        if let Some(result) = Tally::parse(&line) {
            *tally += result;
        }
    }
    let status = child.wait()?;
    ensure!(
        status.success() || tally.failed > failed_before,
        "cargo test did not get to its results: {status}"
    );
    Ok(ignored)
}

/// A test that the harness left out.
#[derive(Debug, PartialEq, Eq)]
struct Ignored {
    name: String,
    /// What stands in its `#[ignore = "…"]`.
    reason: String,
}

impl Ignored {
    /// Reads `test NAME ... ignored, REASON`.
    fn parse(line: &str) -> Option<Self> {
        let (name, reason) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
        let reason = match reason {
            "" => "",
            _ => reason.strip_prefix(", ")?,
        };
        // The harness adds how it is to end.
        let name = name.strip_suffix(" - should panic").unwrap_or(name);
        Some(Self {
            name: name.to_owned(),
            reason: reason.to_owned(),
        })
    }

    fn is_long(&self) -> bool {
        self.reason == LONG
    }
}

/// How many tests ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u32,
    /// Tests that failed, and rings that did not get to run theirs.
    pub failed: u32,
    /// Tests that are marked as ignored.
    pub ignored: u32,
}

impl Tally {
    const FAILURE: Self = Self {
        passed: 0,
        failed: 1,
        ignored: 0,
    };

    /// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    fn parse(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| {
            let mut counts = counts.split("; ");
            counts.find_map(|count| count.strip_suffix(what)?.trim_end().parse().ok())
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            ignored: count("ignored")?,
        })
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// What became of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It has no targets yet, or the filter leaves it out.
    Nothing,
    /// It was run.
    Ran(Tally),
}

/// What became of all rings that were run.
///
/// It displays as a table, then the line `N passed, N failed`.
#[derive(Debug, Default)]
pub struct Report {
    rings: Vec<(Ring, Outcome, Duration)>,
    /// Whether there was a filter that no test matched.
    unmatched: bool,
}

impl Report {
    /// All tests of all rings.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for (_, outcome, _) in &self.rings {
            if let Outcome::Ran(tally) = outcome {
                total += *tally;
            }
        }
        if self.unmatched {
            total += Tally::FAILURE;
        }
        total
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ring         passed  failed  ignored    time")?;
        for (ring, outcome, time) in &self.rings {
            write!(f, "{ring:<11}  ")?;
            match outcome {
                Outcome::Nothing => writeln!(f, "nothing to run")?,
                Outcome::Ran(Tally {
                    passed,
                    failed,
                    ignored,
                }) => {
                    let seconds = time.as_secs_f64();
                    writeln!(f, "{passed:6}  {failed:6}  {ignored:7}  {seconds:4.0} s")?;
                }
            }
        }
        let Tally { passed, failed, .. } = self.total();
        writeln!(f, "{passed} passed, {failed} failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_the_test_harness_are_counted() {
        let ok = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; \
                  2 filtered out; finished in 0.01s";
        let counts = |passed, failed, ignored| Tally {
            passed,
            failed,
            ignored,
        };
        assert_eq!(Tally::parse(ok), Some(counts(12, 0, 1)));
        let failed = "test result: FAILED. 3 passed; 4 failed; 0 ignored; 0 measured; \
                      0 filtered out; finished in 2.50s";
        assert_eq!(Tally::parse(failed), Some(counts(3, 4, 0)));
        for other in [
            "",
            "test a ... ok",
            "test result: ",
            "test result: ok. 1 passed",
        ] {
            assert_eq!(Tally::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn tests_that_are_left_out_are_found() {
        let ignored = |line| {
            let found = Ignored::parse(line)?;
            Some((found.name, found.reason))
        };
        let test = |name: &str, reason: &str| Some((name.to_owned(), reason.to_owned()));
        for (line, wanted) in [
            ("test a::b ... ignored, long", test("a::b", "long")),
            ("test a ... ignored", test("a", "")),
            (
                "test a ... ignored, not yet, sorry",
                test("a", "not yet, sorry"),
            ),
            ("test a - should panic ... ignored, long", test("a", "long")),
            (
                "test src/a.rs - A (line 3) ... ignored",
                test("src/a.rs - A (line 3)", ""),
            ),
            ("test a ... ok", None),
            ("running 1 test", None),
        ] {
            assert_eq!(ignored(line), wanted, "{line}");
        }
    }

    #[test]
    fn only_the_mark_makes_a_test_long() {
        for (line, is_long) in [
            ("test a ... ignored, long", true),
            ("test a ... ignored, longer", false),
            ("test a ... ignored", false),
        ] {
            let ignored = Ignored::parse(line).expect("it is ignored");
            assert_eq!(ignored.is_long(), is_long, "{line}");
        }
    }

    #[test]
    fn the_report_ends_with_the_sums() {
        let ran = |passed, failed| {
            Outcome::Ran(Tally {
                passed,
                failed,
                ignored: 1,
            })
        };
        let report = Report {
            rings: vec![
                (Ring::Host, ran(10, 0), Duration::from_secs(3)),
                (Ring::Integration, Outcome::Nothing, Duration::ZERO),
                (Ring::Model, ran(5, 2), Duration::from_secs(61)),
            ],
            unmatched: false,
        };
        assert_eq!(
            report.to_string(),
            "ring         passed  failed  ignored    time\n\
             host             10       0        1     3 s\n\
             integration  nothing to run\n\
             model             5       2        1    61 s\n\
             15 passed, 2 failed\n"
        );
    }

    #[test]
    fn a_filter_that_matches_nothing_fails() {
        let report = Report {
            rings: vec![(Ring::Host, Outcome::Ran(Tally::default()), Duration::ZERO)],
            unmatched: true,
        };
        assert_eq!(report.total(), Tally::FAILURE);
    }

    #[test]
    fn models_run_only_if_the_filter_names_them() -> Result<()> {
        let workspace = Workspace::load()?;
        for (filter, runs) in [
            (None, true),
            (Some("model::queue"), true),
            (Some("x"), false),
        ] {
            let commands = Ring::Model.commands(&workspace, filter)?;
            assert_eq!(commands.is_some(), runs, "{filter:?}");
        }
        Ok(())
    }
}
