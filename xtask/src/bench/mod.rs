//! `cargo xtask bench`: measures firstpoll, and others beside it.
//!
//! Each suite says what it measures as groups of systems that
//! are compared; the harness measures a group's systems in turn, round by round,
//! and writes the figures.

mod bed;
mod block_on;
mod boot;
pub mod check;
mod guest;
mod httpd;
mod idle;
mod linux;
mod machine;
mod micro;
mod netbench;
mod page;
mod plot;
mod probe;
mod record;
mod reflector;
mod results;
mod rounds;
mod seed;
mod shares;
mod system;
mod table;
mod wrk;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use self::bed::{Bed, WireKind};
use self::linux::Linux;
use self::probe::{Effort, Group};
use crate::usage::Usage;
use crate::workspace::{self, Workspace};

/// The options of `cargo xtask bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure; several can be given
    #[arg(value_enum, default_value = "all", value_name = "SUITE")]
    pub suites: Vec<Suite>,
    /// One short round instead of five
    #[arg(long)]
    pub quick: bool,
    /// The networks to measure on; both by default, without root only `user`
    #[arg(long, value_enum, value_delimiter = ',')]
    pub net: Vec<WireKind>,
    /// Measure this system beside firstpoll
    #[arg(long, value_enum, value_name = "SYSTEM")]
    pub versus: Option<Versus>,
    /// Write the figures to FILE, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Put the figures into benches/RESULTS.md, and instruction counts into
    /// benches/baseline.json: those of suites of which all could be measured
    #[arg(long, conflicts_with = "quick")]
    pub record: bool,
    /// Draw the plots of docs/block_on.md into DIR
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Only compare instruction counts with benches/baseline.json; the status
    /// is 1 if one rose by more than 3 %
    #[arg(long, exclusive = true)]
    pub check: bool,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// HTTP requests per second
    Httpd,
    /// TCP bandwidth and latency, and messages of many sizes
    Netbench,
    /// Frames per second from the driver: the limit of the virtual network card
    Reflector,
    /// The time from the start to the first answer
    Boot,
    /// What the kernel's operations cost, in instructions
    Guest,
    /// What idle connections cost the others
    Idle,
    /// The future first beside the tasks first
    Seed,
    /// The executor on the host beside others, by time and by instructions
    Micro,
    /// Why one block_on is faster than another: docs/block_on.md
    #[value(name = "block_on")]
    BlockOn,
    /// All of these
    All,
}

/// Another system to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Versus {
    /// A Linux guest with Debian's kernel
    Linux,
}

/// What the suites measure with.
#[derive(Debug)]
struct Setup {
    effort: Effort,
    /// The Linux guest, if it is asked for.
    linux: Option<Linux>,
    bed: Bed,
}

impl Suite {
    /// The suites, in the order in which they are run.
    const ORDER: [Self; 9] = [
        Self::Micro,
        Self::BlockOn,
        Self::Guest,
        Self::Idle,
        Self::Boot,
        Self::Reflector,
        Self::Httpd,
        Self::Netbench,
        Self::Seed,
    ];

    fn groups(self, setup: &Setup) -> Result<Vec<Group<'_>>> {
        match self {
            Self::Httpd => httpd::groups(setup),
            Self::Netbench => netbench::groups(setup),
            Self::Reflector => reflector::groups(setup),
            Self::Boot => boot::groups(setup),
            Self::Guest => guest::groups(setup),
            Self::Idle => idle::groups(setup),
            Self::Seed => seed::groups(setup),
            Self::Micro => micro::groups(setup),
            Self::BlockOn => block_on::groups(setup),
            Self::All => unreachable!("`all` stands for the others"),
        }
    }
}

/// Runs the verb.
///
/// # Errors
///
/// [`Usage`] for bad options; otherwise if something does not
/// build or the figures cannot be written.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    if args.check {
        return check::run();
    }
    let wanted = |suite: Suite| args.suites.contains(&suite) || args.suites.contains(&Suite::All);
    machine::description();
    // Better now than after an hour.
    if let Some(file) = &args.json {
        record::write(file, &[])?;
    }
    if let Some(plots) = &args.plots {
        if !wanted(Suite::BlockOn) {
            return Err(
                Usage::new("--plots is for the suite block_on, which is not measured").into(),
            );
        }
        fs::create_dir_all(plots).with_context(|| format!("cannot make {}", plots.display()))?;
    }
    let effort = if args.quick {
        Effort::Quick
    } else {
        Effort::Full
    };
    let networks = match args.net[..] {
        [] => WireKind::possible(),
        _ => args.net.clone(),
    };
    let linux = match args.versus {
        Some(Versus::Linux) => Some(Linux::prepare()?),
        None => None,
    };
    let setup = Setup {
        effort,
        linux,
        bed: Bed::open(&networks)?,
    };
    let mut groups = Vec::new();
    for suite in Suite::ORDER.into_iter().filter(|&suite| wanted(suite)) {
        groups.extend(suite.groups(&setup)?);
    }
    let mut outcome = rounds::run(&mut groups, effort);
    let shares = shares::of_the_reflector(&outcome.records);
    outcome.records.extend(shares);

    let directory = Workspace::load()?.target_dir().join("bench");
    fs::create_dir_all(&directory)?;
    record::write(&directory.join("records.json"), &outcome.records)?;
    if let Some(file) = &args.json {
        record::write(file, &outcome.records)?;
    }
    if let Some(plots) = &args.plots {
        block_on::write_plots(plots, &outcome.records)?;
    }
    let index = directory.join("index.html");
    fs::write(
        &index,
        page::html(&outcome.records, &outcome.failures, effort.name())?,
    )?;
    if args.record {
        let incomplete = |bench: &str| outcome.failures.iter().any(|lost| lost.bench == bench);
        // Figures that are missing would take the place of committed ones.
        let whole = outcome.records.iter();
        let whole = whole.filter(|record| !incomplete(&record.bench));
        let whole: Vec<_> = whole.cloned().collect();
        let file = workspace::root().join("benches/RESULTS.md");
        let words: Vec<_> = std::env::args().skip(1).collect();
        let command = format!("cargo xtask {}", words.join(" "));
        results::record(&file, &whole, &command)?;
        check::record_baseline(&whole)?;
    }
    for failure in &outcome.failures {
        eprintln!("error: {}", failure.line);
    }
    if args.record && !outcome.failures.is_empty() {
        eprintln!("error: suites of which not all was measured are not recorded");
    }
    println!("{}", index.display());
    Ok(if outcome.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
