//! Shows that the tests of the contract can fail.
//!
//! Each patch in `tests/mutants` takes one mechanism out of the source and
//! names the tests that must notice:
//!
//! ```text
//! # rule: 2, an overdue task runs before a ready future's value is returned
//! # must fail: contract::overdue::an_overdue_task_is_polled_before_the_return
//! diff --git …
//! ```
//!
//! The tests are named by cargo's test target and their path in it. The work is
//! done on a copy of the tracked source below the target directory.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cli::MutantsArgs;
use crate::workspace;

/// Where the patches are, from the root of the workspace.
const PATCHES: &str = "tests/mutants";

/// How long one test may take; a mutant that hangs has failed it.
const TEST_LIMIT: Duration = Duration::from_secs(60);

/// Runs the verb: applies each mutant that was asked for, and runs the tests
/// that must fail then.
///
/// # Errors
///
/// If a mutant survives a test, a patch does not apply, a mutant does not
/// build, or a named test does not pass without mutants.
pub fn run(args: &MutantsArgs) -> Result<ExitCode> {
    let root = &workspace::root();
    let filter = args.filter.as_deref();
    let mutants: Vec<_> = read_mutants(&root.join(PATCHES))?
        .into_iter()
        .filter(|mutant| filter.is_none_or(|filter| mutant.name.contains(filter)))
        .collect();
    ensure!(!mutants.is_empty(), "no mutant in {PATCHES} has that name");

    let copy = Copy::of(root)?;
    let tests: Vec<_> = mutants
        .iter()
        .flat_map(|mutant| &mutant.must_fail)
        .collect();
    let built = copy.build(&tests).context("the source without mutants")?;
    for test in &tests {
        let outcome = built.run(test)?;
        ensure!(
            outcome == Outcome::Passed,
            "{} {outcome} without any mutant",
            test.full_name()
        );
    }

    println!("{:<44} {:<10} test", "mutant", "");
    let mut bad = 0;
    for mutant in &mutants {
        let rows = match copy.judge(mutant) {
            Ok(rows) => rows,
            Err(error) => {
                bad += 1;
                println!("{:<44} {:<10} {error:#}", mutant.name, "UNUSABLE");
                continue;
            }
        };
        for (test, outcome) in rows {
            let verdict = match outcome {
                Outcome::Failed => "killed",
                Outcome::Hung => "hung",
                Outcome::Passed | Outcome::Missing => {
                    bad += 1;
                    "SURVIVED"
                }
            };
            println!("{:<44} {verdict:<10} {}", mutant.name, test.full_name());
        }
    }
    ensure!(
        bad == 0,
        "{bad} of the mutants' tests did not fail as they must"
    );
    println!("all {} mutants are noticed", mutants.len());
    Ok(ExitCode::SUCCESS)
}

/// One patch.
struct Mutant {
    name: String,
    patch: PathBuf,
    must_fail: Vec<Test>,
}

/// A test that must fail.
struct Test {
    target: String,
    path: String,
}

impl Test {
    fn parse(name: &str) -> Result<Self> {
        let (target, path) = name
            .split_once("::")
            .with_context(|| format!("{name}: not TARGET::PATH"))?;
        Ok(Self {
            target: target.into(),
            path: path.into(),
        })
    }

    fn full_name(&self) -> String {
        format!("{}::{}", self.target, self.path)
    }
}

fn read_mutants(directory: &Path) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let patch = entry?.path();
        if patch
            .extension()
            .is_some_and(|extension| extension == "patch")
        {
            mutants.push(read_mutant(patch)?);
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

fn read_mutant(patch: PathBuf) -> Result<Mutant> {
    let text =
        fs::read_to_string(&patch).with_context(|| format!("cannot read {}", patch.display()))?;
    let name = patch
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let header = text.lines().take_while(|line| line.starts_with('#'));
    let must_fail = header
        .filter_map(|line| line.strip_prefix("# must fail: "))
        .map(Test::parse)
        .collect::<Result<Vec<_>>>()?;
    ensure!(
        !must_fail.is_empty(),
        "{name}: names no test that must fail"
    );
    Ok(Mutant {
        name,
        patch,
        must_fail,
    })
}

/// The copy of the source that the mutants are made in.
struct Copy {
    source: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Brings the copy up to date with the tracked files below `root`.
    ///
    /// Files that are the same already stay untouched, so that cargo does not
    /// build them again.
    fn of(root: &Path) -> Result<Self> {
        let base = root.join("target/mutants");
        let copy = Self {
            source: base.join("src"),
            target: base.join("target"),
        };
        let listed = Command::new("git")
            .args(["ls-files", "-z"])
            .current_dir(root)
            .output()
            .context("cannot run git")?;
        ensure!(listed.status.success(), "git ls-files failed");
        let listed = String::from_utf8(listed.stdout).context("a file's name is not UTF-8")?;
        for name in listed.split_terminator('\0') {
            let (from, to) = (root.join(name), copy.source.join(name));
            let Ok(content) = fs::read(&from) else {
                continue; // Tracked, but deleted in the work tree.
            };
            if fs::read(&to).is_ok_and(|there| there == content) {
                continue;
            }
            let directory = to.parent().context("a tracked file has no directory")?;
            fs::create_dir_all(directory)?;
            fs::write(&to, content).with_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(copy)
    }

    /// Runs the tests of `mutant` on the source with its patch.
    fn judge<'a>(&self, mutant: &'a Mutant) -> Result<Vec<(&'a Test, Outcome)>> {
        self.git_apply(mutant, &[])?;
        let tests: Vec<_> = mutant.must_fail.iter().collect();
        let rows = self.build(&tests).and_then(|built| {
            let rows = tests.iter().map(|test| Ok((*test, built.run(test)?)));
            rows.collect()
        });
        self.git_apply(mutant, &["--reverse"])?;
        rows
    }

    fn git_apply(&self, mutant: &Mutant, options: &[&str]) -> Result<()> {
        // Below the repository git would take the patch's paths for those of
        // the original.
        let applied = Command::new("git")
            .arg("apply")
            .args(options)
            .arg(&mutant.patch)
            .current_dir(&self.source)
            .env(
                "GIT_CEILING_DIRECTORIES",
                self.source.parent().unwrap_or(&self.source),
            )
            .env_remove("GIT_DIR")
            .output()
            .context("cannot run git")?;
        ensure!(
            applied.status.success(),
            "the patch does not apply: {}",
            String::from_utf8_lossy(&applied.stderr).trim()
        );
        Ok(())
    }

    /// Builds the targets of `tests`.
    fn build(&self, tests: &[&Test]) -> Result<Built> {
        let mut targets: Vec<_> = tests.iter().map(|test| test.target.as_str()).collect();
        targets.sort_unstable();
        targets.dedup();
        let mut executables = Vec::new();
        for target in targets {
            let built = Command::new("cargo")
                .args([
                    "test",
                    "--package",
                    "firstpoll",
                    "--test",
                    target,
                    "--no-run",
                ])
                .current_dir(&self.source)
                .env("CARGO_TARGET_DIR", &self.target)
                .env("CARGO_TERM_COLOR", "never")
                .env("CARGO_PROFILE_TEST_DEBUG", "0")
                .env("CARGO_PROFILE_DEV_DEBUG", "0")
                .output()
                .context("cannot run cargo")?;
            let messages = String::from_utf8_lossy(&built.stderr);
            ensure!(built.status.success(), "does not build:\n{messages}");
            let executable = messages
                .lines()
                .find_map(executable)
                .with_context(|| format!("cargo names no executable for {target}"))?;
            executables.push((String::from(target), executable.into()));
        }
        Ok(Built {
            directory: self.source.clone(),
            executables,
        })
    }
}

/// The path in a line like `  Executable tests/a.rs (target/debug/deps/a-1234)`.
fn executable(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("Executable ")?;
    let (_, path) = rest.rsplit_once('(')?;
    path.strip_suffix(')')
}

/// Test executables, by their targets.
struct Built {
    directory: PathBuf,
    executables: Vec<(String, PathBuf)>,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Hung,
    /// There is no test of that name.
    Missing,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Passed => "passes",
            Self::Failed => "fails",
            Self::Hung => "hangs",
            Self::Missing => "does not exist",
        })
    }
}

impl Built {
    fn run(&self, test: &Test) -> Result<Outcome> {
        let (_, executable) = self
            .executables
            .iter()
            .find(|(target, _)| *target == test.target)
            .context("every target was built")?;
        let mut child = Command::new(executable)
            .args(["--exact", &test.path])
            .current_dir(&self.directory)
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", executable.display()))?;
        let mut stdout = child.stdout.take().context("stdout is piped")?;
        let output = thread::spawn(move || {
            let mut output = Vec::new();
            let _ = stdout.read_to_end(&mut output);
            output
        });
        let Some(success) = wait(&mut child)? else {
            return Ok(Outcome::Hung);
        };
        let Ok(output) = output.join() else {
            bail!("reading the output of {} failed", test.full_name());
        };
        // One test is run or none; a mutant may also abort the process.
        Ok(
            match (
                success,
                String::from_utf8_lossy(&output).contains("running 1 test"),
            ) {
                (_, false) => Outcome::Missing,
                (true, true) => Outcome::Passed,
                (false, true) => Outcome::Failed,
            },
        )
    }
}

/// Whether `child` succeeds; `None` if it takes too long and was killed.
fn wait(child: &mut Child) -> Result<Option<bool>> {
    let end = Instant::now() + TEST_LIMIT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}
