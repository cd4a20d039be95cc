//! `cargo xtask`: see `cargo xtask --help`.

use std::process::ExitCode;

use xtask::cli::{Cli, Verb};
use xtask::{Usage, bench, ci, mutants, run, test};

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let status = match cli.verb {
        Verb::Run(args) => run::run(&args),
        Verb::Test(args) => test::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Ci => ci::run(),
        Verb::Mutants(args) => mutants::run(&args),
    };
    status.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
    })
}
