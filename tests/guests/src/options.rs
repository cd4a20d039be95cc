//! Prints its options, logs at every level, and ends with `status=`, or with
//! the error `error=`.

#![no_std]
#![no_main]

use firstpoll::println;
use firstpoll::runtime::{ExitStatus, Runtime};
use log::{debug, error, info, trace, warn};

firstpoll::entry!(main, options: ["status", "error", "mode"]);

fn main(runtime: Runtime) -> Result<ExitStatus, &'static str> {
    let args = runtime.args();
    for option in args.options() {
        println!("option {option}");
    }
    println!("mode {:?}", args.get("mode"));
    error!("logged");
    warn!("logged");
    info!("logged");
    debug!("logged");
    trace!("logged");
    match args.get("error") {
        Some(error) => Err(error),
        None => Ok(ExitStatus::new(args.parse("status").unwrap_or(0))),
    }
}
