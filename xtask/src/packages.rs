//! The distribution packages that a verb needs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use xshell::{Shell, cmd};

use crate::usage::Usage;

/// A program and the Debian package it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// The program's file name.
    pub program: &'static str,
    /// The package's name.
    pub package: &'static str,
}

/// The emulator.
pub const QEMU: Tool = Tool {
    program: "qemu-system-x86_64",
    package: "qemu-system-x86",
};
/// The load generator that the QEMU tests use.
pub const WRK: Tool = Tool {
    program: "wrk",
    package: "wrk",
};
/// The HTTP client that the QEMU tests use.
pub const CURL: Tool = Tool {
    program: "curl",
    package: "curl",
};
/// The browser that the long QEMU tests use.
pub const CHROMIUM: Tool = Tool {
    program: "chromium",
    package: "chromium",
};
/// The tool that sets network interfaces up.
pub const IP: Tool = Tool {
    program: "ip",
    package: "iproute2",
};
/// What counts the instructions of a process.
pub const VALGRIND: Tool = Tool {
    program: "valgrind",
    package: "valgrind",
};
/// The linker, where rustup does not bring one.
pub const LLD: Tool = Tool {
    program: "ld.lld",
    package: "lld",
};

/// Installs those of `tools` that are not in `PATH`.
///
/// # Errors
///
/// As [`install`].
pub fn ensure(tools: &[Tool]) -> Result<()> {
    let missing: Vec<_> = tools
        .iter()
        .filter(|tool| find(tool.program).is_none())
        .map(|tool| tool.package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing)
}

/// Installs Debian packages.
///
/// # Errors
///
/// [`Usage`] with the command to run, unless this is Debian and we are root.
/// Otherwise whatever apt-get says.
pub fn install(packages: &[&str]) -> Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || find("apt-get").is_none() {
        return Err(Usage::new(format!(
            "missing packages; on Debian: {}",
            install_command(packages, is_root)
        ))
        .into());
    }
    let shell = Shell::new()?;
    shell.set_var("DEBIAN_FRONTEND", "noninteractive");
    let progress = Progress::start(format!("installing {}", packages.join(" ")));
    // A dead mirror among many is no reason to give up: the install will tell.
    let _ = cmd!(shell, "apt-get update")
        .quiet()
        .ignore_stdout()
        .ignore_stderr()
        .run();
    let output = cmd!(
        shell,
        "apt-get install -y --no-install-recommends {packages...}"
    )
    .quiet()
    .ignore_status()
    .output()
    .context("cannot start apt-get")?;
    progress.finish();
    anyhow::ensure!(
        output.status.success(),
        "apt-get cannot install {}:\n{}",
        packages.join(" "),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

/// The first file in `PATH` called `program`.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| is_file(candidate))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}

fn install_command(packages: &[&str], is_root: bool) -> String {
    let sudo = if is_root { "" } else { "sudo " };
    format!(
        "{sudo}apt-get update && {sudo}apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    )
}

/// A spinner on a terminal, one line elsewhere.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn start(message: String) -> Self {
        let bar = ProgressBar::new_spinner();
        if bar.is_hidden() {
            eprintln!("{message}");
        }
        bar.set_message(message);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    pub(crate) fn finish(self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_command_is_complete() {
        assert_eq!(
            install_command(&["wrk", "curl"], false),
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends wrk curl"
        );
        assert!(install_command(&["wrk"], true).starts_with("apt-get update && apt-get "));
    }

    #[test]
    fn programs_are_found_in_the_path() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program-anywhere"), None);
    }
}
