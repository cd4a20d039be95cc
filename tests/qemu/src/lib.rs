//! What the QEMU tests share: boot a program, wait for its end, read what it
//! printed.

pub mod agent;
pub mod crowd;
pub mod http;
pub mod network;
pub mod origin;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use xtask::cargo::{self, Profile};
use xtask::guest::{Ending, Guest};
use xtask::qemu::{Machine, Net, Options};
use xtask::symbols::{Frame, Symbols};

/// The machines that everything runs on.
pub const MACHINES: [Machine; 3] = [Machine::Q35, Machine::Pc, Machine::Microvm];

/// How long a guest may take that has nothing to wait for. Far more than it
/// needs: the machine that tests may be busy.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The status of a panic or an exception.
pub const FAILURE: Ending = Ending::Guest(101);

/// A machine without a network, with a kernel command line.
pub fn options(append: &str) -> Options {
    Options {
        net: Net::None,
        append: append.to_owned(),
        ..Options::default()
    }
}

/// The same whose clock counts instructions.
pub fn icount(append: &str) -> Options {
    Options {
        icount: true,
        ..options(append)
    }
}

/// What a guest did from boot to end.
#[derive(Debug)]
pub struct Run {
    /// The image that was booted.
    pub image: PathBuf,
    /// What it printed.
    pub lines: Vec<String>,
    /// How it ended.
    pub ending: Ending,
}

/// Boots the program `name` and waits for its end.
///
/// # Errors
///
/// If it does not build, does not boot, or does not end in time.
pub fn run(name: &str, options: &Options) -> Result<Run> {
    let image = cargo::build_image(name, Profile::Release)?;
    run_image(image, options)
}

/// Boots an image and waits for its end.
///
/// # Errors
///
/// If it does not boot, or does not end in time.
pub fn run_image(image: PathBuf, options: &Options) -> Result<Run> {
    let mut guest = Guest::boot(options, &image)?;
    let ending = guest.wait(LIMIT)?;
    Ok(Run {
        lines: guest.lines().to_vec(),
        image,
        ending,
    })
}

impl Run {
    /// All that was printed.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// Whether a line contains `text`.
    pub fn has(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }

    /// The value in the line `name value`.
    ///
    /// # Errors
    ///
    /// If there is no such line; the message has all lines.
    pub fn value<T: FromStr>(&self, name: &str) -> Result<T> {
        let mut words = self.lines.iter().filter_map(|line| line.split_once(' '));
        let value = words.find_map(|(found, value)| (found == name).then_some(value));
        let value = value.and_then(|value| value.parse().ok());
        value.with_context(|| format!("no value {name} in\n{}", self.text()))
    }

    /// The places in the program that the backtrace names, from the inside out.
    ///
    /// # Errors
    ///
    /// If the image has no debug information.
    pub fn backtrace(&self) -> Result<Vec<String>> {
        let symbols = Symbols::load(&self.image).context("the image has no symbols")?;
        let frames = self.lines.iter().filter_map(|line| Frame::parse(line));
        Ok(frames
            .map(|frame| symbols.describe_frame(frame).unwrap_or_default())
            .collect())
    }
}
