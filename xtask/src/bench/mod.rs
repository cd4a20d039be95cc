//! `cargo xtask bench`: measures firstpoll, and others beside it.
//!
//! Each suite says what it measures as [groups](probe::Group) of systems that
//! are compared; the harness measures a group's systems in turn, round by round,
//! and writes the figures.

mod bed;
mod block_on;
mod boot;
pub mod check;
mod guest;
mod httpd;
mod machine;
mod page;
mod plot;
mod probe;
mod record;
mod results;
mod rounds;
mod system;
mod table;
mod wrk;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

use self::bed::{Bed, WireKind};
use self::probe::{Effort, Group};
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
    /// The networks to measure on; a tap needs root
    #[arg(long, value_enum, value_delimiter = ',', default_value = "user,tap")]
    pub net: Vec<WireKind>,
    /// Write the figures to FILE, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Put the figures into benches/RESULTS.md, and instruction counts into
    /// benches/baseline.json
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
    /// The time from the start to the first answer
    Boot,
    /// What the kernel's operations cost, in instructions
    Guest,
    /// Why one block_on is faster than another: docs/block_on.md
    #[value(name = "block_on")]
    BlockOn,
    /// All of these
    All,
}

/// What the suites measure with.
#[derive(Debug)]
struct Setup {
    effort: Effort,
    bed: Bed,
}

impl Suite {
    /// The suites, in the order in which they are run.
    const ORDER: [Self; 4] = [Self::Guest, Self::BlockOn, Self::Boot, Self::Httpd];

    fn groups(self, setup: &Setup) -> Result<Vec<Group<'_>>> {
        match self {
            Self::Httpd => httpd::groups(setup),
            Self::Boot => boot::groups(setup),
            Self::Guest => guest::groups(setup),
            Self::BlockOn => block_on::groups(setup),
            Self::All => unreachable!("`all` stands for the others"),
        }
    }
}

/// Runs the verb.
///
/// # Errors
///
/// [`Usage`](crate::Usage) for bad options; otherwise if something does not
/// build or the figures cannot be written.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    if args.check {
        return check::run();
    }
    let effort = if args.quick {
        Effort::Quick
    } else {
        Effort::Full
    };
    let setup = Setup {
        effort,
        bed: Bed::open(&args.net)?,
    };
    let wanted = |suite: &Suite| args.suites.contains(suite) || args.suites.contains(&Suite::All);
    let mut groups = Vec::new();
    for suite in Suite::ORDER.into_iter().filter(wanted) {
        groups.extend(suite.groups(&setup)?);
    }
    let outcome = rounds::run(&mut groups, effort);

    let directory = Workspace::load()?.target_dir().join("bench");
    fs::create_dir_all(&directory)?;
    let default = directory.join("records.json");
    for file in [Some(default.as_path()), args.json.as_deref()] {
        write_records(file, &outcome.records)?;
    }
    if let Some(plots) = &args.plots {
        block_on::write_plots(plots, &outcome.records)?;
    }
    let index = directory.join("index.html");
    fs::write(&index, page::html(&outcome.records, &outcome.failures)?)?;
    if args.record {
        let file = workspace::root().join("benches/RESULTS.md");
        results::record(&file, &outcome.records, effort.name())?;
        check::record_baseline(&outcome.records)?;
    }
    for failure in &outcome.failures {
        eprintln!("error: {failure}");
    }
    println!("{}", index.display());
    Ok(if outcome.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn write_records(file: Option<&Path>, records: &[record::Record]) -> Result<()> {
    match file {
        Some(file) => record::write(file, records),
        None => Ok(()),
    }
}
