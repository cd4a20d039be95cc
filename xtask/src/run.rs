//! `cargo xtask run`: boots a program and shows what it says.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cargo;
use crate::cli::{NetChoice, RunArgs};
use crate::console::Console;
use crate::guest::{Ending, Guest, Output};
use crate::packages;
use crate::qemu::{self, Options};
use crate::symbols;
use crate::usage::Usage;

/// The guest did not end in time.
const STATUS_TIMEOUT: u8 = 124;
/// QEMU ended without a status from the guest.
const STATUS_NO_STATUS: u8 = 125;
/// QEMU failed.
const STATUS_QEMU_FAILED: u8 = 126;
/// We were interrupted.
const STATUS_INTERRUPTED: u8 = 130;

/// How long a guest may be silent in the middle of a line before the part is
/// shown; also how soon a signal is noticed.
const PATIENCE: Duration = Duration::from_millis(100);

/// Runs the verb.
///
/// # Errors
///
/// [`Usage`] for bad options; otherwise if the program does not build or QEMU
/// cannot be started.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let host_port = match args.net {
        // A port that is only printed may be taken.
        NetChoice::User if !args.print_qemu || args.host_port == 0 => {
            qemu::free_port(args.host_port)?
        }
        _ => args.host_port,
    };
    let options = args.options(host_port);
    options.check()?;
    if !args.print_qemu {
        // Before the build, which takes longer.
        options.check_host()?;
        packages::ensure(&[packages::QEMU])?;
    }
    let image = image(args)?;
    if args.print_qemu {
        println!("{}", qemu::shell_quoted(&options.command(&image)));
        return Ok(ExitCode::SUCCESS);
    }
    if args.gdb {
        let image = image.display();
        eprintln!("waiting for a debugger: gdb {image} -ex 'target remote :1234'");
    }
    boot(&options, &image, args.timeout)
}

/// The image of the program, built unless it is an image already.
fn image(args: &RunArgs) -> Result<PathBuf> {
    if !args.program.contains('/') {
        return cargo::build_image_for(&args.program, &args.append, args.profile());
    }
    let path = PathBuf::from(&args.program);
    if path.join("Cargo.toml").is_file() {
        cargo::build_image_in(&path, args.profile())
    } else if path.is_file() {
        Ok(path)
    } else {
        let path = path.display();
        Err(Usage::new(format!("{path} is neither an image nor a package")).into())
    }
}

/// Boots `image` and follows it to its end.
fn boot(options: &Options, image: &Path, timeout: Option<Duration>) -> Result<ExitCode> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut guest = Guest::boot(options, image)?;
    let mut console = Console::new(std::io::stdout(), options.net.clone(), image);
    loop {
        match guest.next_output(PATIENCE) {
            Output::Bytes(bytes) => console.feed(&bytes)?,
            Output::Quiet => console.flush()?,
            Output::Ended => break,
        }
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            console.flush()?;
            report_hang(&mut guest, &mut console, timeout.unwrap_or_default());
            return Ok(STATUS_TIMEOUT.into());
        }
    }
    console.flush()?;
    if interrupted.load(Ordering::Relaxed) {
        return Ok(STATUS_INTERRUPTED.into());
    }
    Ok(status(guest.ending()?).into())
}

/// Our status for QEMU's end, with a line about it unless it is the guest's.
fn status(ending: Ending) -> u8 {
    match ending {
        Ending::Guest(status) => status,
        Ending::NoStatus => {
            eprintln!("error: the machine ended without a status, as after a triple fault");
            STATUS_NO_STATUS
        }
        Ending::QemuFailed(code) => {
            eprintln!("error: QEMU failed with status {code}");
            STATUS_QEMU_FAILED
        }
        Ending::Signal(signal) => {
            eprintln!("error: signal {signal} ended QEMU");
            STATUS_QEMU_FAILED
        }
    }
}

/// Prints where a guest is that does not end.
fn report_hang<W: Write>(guest: &mut Guest, console: &mut Console<W>, timeout: Duration) {
    eprintln!("\nerror: the guest did not end within {timeout:?}; its last lines:");
    for line in console.last_lines() {
        eprintln!("    {line}");
    }
    match guest.registers() {
        Ok(registers) => {
            eprintln!("the core's state:\n{registers}");
            let address = symbols::instruction_pointer(&registers);
            let symbols = console.symbols();
            if let Some(place) = address.and_then(|address| symbols?.describe(address)) {
                eprintln!("RIP is in {place}");
            }
        }
        Err(error) => eprintln!("the core's state is not known: {error:#}"),
    }
}
