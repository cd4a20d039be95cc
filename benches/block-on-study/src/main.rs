//! Why is one `block_on` faster than another? A receive loop, with one suspect
//! varied at a time.
//!
//! Every line of output is `case metric unit value`, separated by tabs.

mod channel;
mod executor;
mod options;
mod produce;
mod receive;
mod report;
mod steps;
mod system;
mod timer;
mod wakes;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use options::{Options, Study};

fn main() -> ExitCode {
    match run(&Options::parse().study) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(study: &Study) -> Result<()> {
    match study {
        Study::Receive(options) => receive::run(options),
        Study::Steps(options) => steps::run(options.executor),
        Study::Timers(options) => steps::run_timers(options.timer),
        Study::Wakes(options) => wakes::run(options),
    }
}
