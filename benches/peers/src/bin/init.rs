//! The first and only process that the Linux guest's kernel starts.
#![forbid(unsafe_code)]

use std::io;

use firstpoll_bench_peers::boot;
use rustix::system::RebootCommand;

fn main() {
    if let Err(error) = boot::run() {
        eprintln!("error: {error:#}");
    }
    // The machine's end would take what the console has not yet sent; a console
    // that cannot tell has nothing to lose.
    let _ = rustix::termios::tcdrain(io::stderr());
    if let Err(error) = rustix::system::reboot(RebootCommand::PowerOff) {
        eprintln!("error: cannot power off: {error}");
    }
}
