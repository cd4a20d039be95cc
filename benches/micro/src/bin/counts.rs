//! Runs one case on one system: `counts CASE SYSTEM TIMES`, for an instruction
//! counter. `counts list` prints the table, one entry a line: case, system and
//! `one` or `several`, the threads, with tabs between them.

use std::process::ExitCode;
use std::time::Duration;

use firstpoll_micro_bench::{Run, Threads, entries};

const USAGE: &str = "usage: counts list | counts CASE SYSTEM TIMES";

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["list"] => {
            list();
            Ok(())
        }
        [case, system, times] => match times.parse() {
            Ok(times) => run(case, system, times),
            Err(_) => Err(USAGE.to_owned()),
        },
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn list() {
    for entry in entries() {
        let threads = match entry.threads {
            Threads::One => "one",
            Threads::Several => "several",
        };
        println!("{}\t{}\t{threads}", entry.case, entry.system);
    }
}

fn run(case: &str, system: &str, times: u64) -> Result<(), String> {
    let mut entries = entries().into_iter();
    let entry = entries.find(|entry| entry.case == case && entry.system == system);
    let entry = entry.ok_or_else(|| format!("no case `{case}` on `{system}`: see counts list"))?;
    let mut prepared = (entry.prepare)();
    println!("{:?}", counted_run(&mut prepared, times));
    Ok(())
}

/// What is counted, by its name: not the start, in which a clock may be
/// calibrated, which takes more instructions one time than another.
#[inline(never)]
fn counted_run(run: &mut Run, times: u64) -> Duration {
    run(times)
}
