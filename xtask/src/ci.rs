//! `cargo xtask ci`: everything that must hold before a change goes in.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::bench::check;
use crate::cargo::Cargo;
use crate::cli::TestArgs;
use crate::test::{self, Report};
use crate::workspace::Workspace;

/// Picks the kernel's side of the architecture facade on a host target, so
/// that clippy sees the kernel's files without a kernel toolchain.
const KERNEL_CFG: &str = r#"firstpoll_arch="x86_64""#;

/// Runs the verb: all steps, then the list of steps, then the tests' report.
///
/// # Errors
///
/// If the workspace cannot be read; a step that fails is no error here.
pub fn run() -> Result<ExitCode> {
    let mut done = Vec::new();
    for (name, cargo) in steps(&Workspace::load()?) {
        done.push(step(name, || cargo.run().map(|()| true)));
    }
    done.push(step("instruction counts", check::passes));
    let mut report = Report::default();
    done.push(step("test", || {
        report = test::run_rings(&TestArgs::default())?;
        Ok(report.total().failed == 0)
    }));

    println!();
    for step in &done {
        println!("{}", step.line());
    }
    print!("\n{report}");
    Ok(if done.iter().all(|step| step.passed) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs a step, which returns whether it passed.
fn step(name: &'static str, run: impl FnOnce() -> Result<bool>) -> Done {
    eprintln!("\n=== {name}");
    let start = Instant::now();
    let passed = run().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        false
    });
    Done::new(name, passed, start.elapsed())
}

/// The steps of cargo alone.
fn steps(workspace: &Workspace) -> Vec<(&'static str, Cargo)> {
    let kernel = workspace.kernel_packages();
    let libraries = workspace.libraries();
    let with_library = kernel.iter().filter(|name| libraries.contains(name));

    let mut steps = vec![
        ("fmt", Cargo::fmt_check()),
        (
            "clippy for the host",
            Cargo::clippy()
                .workspace()
                .exclude(&kernel)
                .targets("--all-targets"),
        ),
    ];
    if with_library.clone().next().is_some() {
        // Their binaries compile only for the kernel.
        let cargo = Cargo::clippy().packages(with_library);
        let cargo = cargo.targets("--lib").targets("--tests");
        steps.push(("clippy for the programs' libraries", cargo));
    }
    steps.push((
        "clippy for the kernel",
        Cargo::clippy()
            .packages(["firstpoll"])
            .packages(&kernel)
            .targets("--lib")
            .targets("--bins")
            .panic_abort()
            .cfg(KERNEL_CFG, &workspace.target_dir().join("clippy-kernel")),
    ));
    let cargo = Cargo::doc().workspace().exclude(&kernel).targets("--lib");
    steps.push(("docs", cargo));
    steps
}

/// A step that was run.
struct Done {
    name: &'static str,
    passed: bool,
    time: Duration,
}

impl Done {
    fn new(name: &'static str, passed: bool, time: Duration) -> Self {
        Self { name, passed, time }
    }

    fn line(&self) -> String {
        let verdict = if self.passed { "ok" } else { "FAILED" };
        let seconds = self.time.as_secs_f64();
        format!("{:<36} {verdict:<6} {seconds:4.0} s", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_its_own_name() -> Result<()> {
        let steps = steps(&Workspace::load()?);
        let mut names: Vec<_> = steps.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), steps.len());
        Ok(())
    }

    #[test]
    fn a_failed_step_stands_out() {
        let done = Done::new("fmt", false, Duration::from_secs(2));
        assert_eq!(done.line(), format!("{:<36} FAILED    2 s", "fmt"));
    }
}
