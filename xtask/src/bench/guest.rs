//! What the kernel's operations cost, in instructions that QEMU counts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Setup;
use super::probe::{Group, Probe, Sample};
use crate::cargo::{self, Profile};
use crate::guest::{Ending, Guest};
use crate::qemu::{Net, Options};
use crate::toolchain::Toolchain;

/// The suite's name in the figures.
pub const BENCH: &str = "guest";

/// The programs that count, with their options; each prints lines of `name
/// instructions`.
const PROGRAMS: [(&str, &str); 4] = [
    ("ready", ""),
    ("counts", ""),
    // What a request costs must not depend on how many others are idle.
    ("counts", "idle=1"),
    ("counts", "idle=1000"),
];

/// How long one of them may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// What is measured.
///
/// # Errors
///
/// If a program does not build.
pub fn groups<'a>(_: &'a Setup) -> Result<Vec<Group<'a>>> {
    let programs = Programs::build()?;
    let probe = Probe {
        system: programs.system(),
        takes: Duration::from_secs(2),
        measure: Box::new(move || programs.count()),
    };
    Ok(vec![Group {
        bench: BENCH,
        name: "instruction counts".to_owned(),
        probes: vec![probe],
        repeatable: true,
    }])
}

/// The programs, built, with their options.
pub struct Programs {
    images: Vec<(PathBuf, &'static str)>,
    compiler: String,
}

impl Programs {
    /// Builds them.
    ///
    /// # Errors
    ///
    /// If they do not build.
    pub fn build() -> Result<Self> {
        let image = |(name, append)| Ok((cargo::build_image(name, Profile::Release)?, append));
        Ok(Self {
            images: PROGRAMS.into_iter().map(image).collect::<Result<_>>()?,
            compiler: Toolchain::detect()?.rustc_version()?,
        })
    }

    /// What is counted: the compiler is a part of it.
    pub fn system(&self) -> String {
        format!("firstpoll by rustc {}", self.compiler)
    }

    /// Counts once.
    ///
    /// # Errors
    ///
    /// If a program fails or prints anything but counts.
    pub fn count(&self) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for (image, append) in &self.images {
            samples.extend(count(image, append)?);
        }
        Ok(samples)
    }
}

/// Runs a program that counts.
///
/// # Errors
///
/// If it fails or prints anything but counts.
pub fn count(image: &Path, append: &str) -> Result<Vec<Sample>> {
    let options = Options {
        icount: true,
        net: Net::None,
        append: append.to_owned(),
        ..Options::default()
    };
    let mut guest = Guest::boot(&options, image)?;
    let ending = guest.wait(TIMEOUT)?;
    let lines = guest.lines();
    ensure!(
        ending == Ending::Guest(0),
        "{} ended with {ending:?}\n{}",
        image.display(),
        lines.join("\n")
    );
    lines.iter().map(|line| sample(line)).collect()
}

/// Reads `name instructions`, or `name bytes` where the name ends so.
fn sample(line: &str) -> Result<Sample> {
    let count = line.split_once(' ');
    let count = count.and_then(|(name, count)| Some((name, count.parse::<u32>().ok()?)));
    let (name, count) = count.with_context(|| format!("{line:?} is no count"))?;
    let (metric, unit) = if name.ends_with("_bytes") {
        ("memory", "bytes")
    } else {
        ("instructions", "instructions")
    };
    Ok(Sample::new(name, metric, unit, count.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() -> Result<()> {
        let expected = Sample::new("ready_first_0", "instructions", "instructions", 16.0);
        assert_eq!(sample("ready_first_0 16")?, expected);
        let expected = Sample::new("idle_bytes", "memory", "bytes", 9000.0);
        assert_eq!(sample("idle_bytes 9000")?, expected);
        for bad in ["", "ready_first_0", "ready_first_0 -1", "panicked at x"] {
            assert!(sample(bad).is_err(), "{bad:?}");
        }
        Ok(())
    }
}
