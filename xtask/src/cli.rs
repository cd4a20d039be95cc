//! The command line, as types.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bench::BenchArgs;
use crate::cargo::Profile;
use crate::qemu::{Accel, Forward, Machine, Net, Options};
use crate::test::{Length, Ring};

/// Build, boot and test firstpoll.
///
/// Each verb sets up what it needs: on Debian, as root, it installs missing
/// packages; elsewhere it prints the command that does.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs of `cargo xtask`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Build a program and boot it under QEMU.
    ///
    /// The guest's console goes to stdout, everything else to stderr. Port 80
    /// of the guest is forwarded from 127.0.0.1, and the address is printed
    /// when the guest listens. Ctrl-C ends QEMU.
    #[command(after_help = RUN_STATUS)]
    Run(RunArgs),
    /// Run the tests; ends with the line `N passed, N failed`.
    ///
    /// The rings are: unit and documentation tests on the host, integration
    /// tests on the host, loom models, and real boots under QEMU. A ring that
    /// does not build, or that has no test, counts as one failure; the others
    /// still run. The status is 1 on any failure.
    ///
    /// Tests that take minutes are marked `#[ignore = "long"]` and run only
    /// with --long. A test that is ignored for any other reason is a failure.
    Test(TestArgs),
    /// Measure, and write figures.
    ///
    /// Systems are measured in turn, five rounds of each, so that the machine's
    /// drift meets all of them; ratios from one run count, absolute times are
    /// for context. The figures go to `target/bench`.
    Bench(BenchArgs),
    /// Run what CI runs: fmt, clippy, docs, instruction counts and test.
    ///
    /// Warnings are errors. Every step runs, whatever became of the others;
    /// then the steps are listed with their durations. The last line is that
    /// of `test`, and the status is 1 if any step failed.
    Ci,
    /// Take each mechanism of the poll-order contract out once, and see that
    /// the tests named for it fail.
    ///
    /// The mechanisms are the patches in `tests/mutants`. Takes some minutes.
    Mutants(MutantsArgs),
}

/// The options of `cargo xtask mutants`.
#[derive(Debug, Args)]
pub struct MutantsArgs {
    /// Only the mutants whose name contains this.
    pub filter: Option<String>,
}

const RUN_STATUS: &str = "\
Exit status:
  The guest's own: 0 for success, 101 after a panic. Besides:
    1    the program could not be built
    2    a bad option, a port that is taken, a missing package
    124  the guest did not end within --timeout
    125  QEMU ended without a status from the guest, as after a triple fault
    126  QEMU failed
    130  interrupted";

/// The options of `cargo xtask run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A program of this workspace, such as `httpd`; where the command line has
    /// `mode=M`, the program NAME-M if there is one; with a `/` in it, the
    /// path of a package of your own, which is built, or of a kernel image
    pub program: String,
    /// QEMU's machine; microvm, which has no PCI, starts soonest
    #[arg(long, value_enum, default_value_t)]
    pub machine: Machine,
    /// QEMU's processor model
    #[arg(long, value_name = "MODEL", default_value = "max")]
    pub cpu: String,
    /// The guest's memory in MiB; an image starts at the second one
    #[arg(long, value_name = "MIB", default_value_t = Options::default().memory_mib,
          value_parser = clap::value_parser!(u32).range(2..))]
    pub mem: u32,
    /// What runs the guest's code; auto is kvm where the processor has vmx or
    /// svm and /dev/kvm is usable, else tcg
    #[arg(long, value_enum, default_value_t)]
    pub accel: AccelChoice,
    /// The guest's network: `user` forwards one port from 127.0.0.1, `tap=IF`
    /// uses an existing tap interface, `unix=PATH` sends each frame with its
    /// length to a unix stream socket that someone listens on, `none` has no
    /// network card
    #[arg(long, value_name = "NET", default_value = "user", value_parser = parse_net)]
    pub net: NetChoice,
    /// The port of 127.0.0.1 that `--net user` forwards to the guest's port
    /// 80; 0 takes any free port
    #[arg(long, value_name = "N", default_value_t = 9975)]
    pub host_port: u16,
    /// The kernel command line, for example "ip=10.0.2.15/24
    /// gateway=10.0.2.2 log=info"; without `ip=` the guest asks DHCP
    #[arg(long, value_name = "CMDLINE", default_value = "")]
    pub append: String,
    /// Record the guest's network traffic in FILE
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Wait for a debugger on port 1234 before the first instruction
    #[arg(long)]
    pub gdb: bool,
    /// Count instructions instead of time: one instruction is one nanosecond
    /// of the guest's clock, which makes runs repeatable (tcg only)
    #[arg(long)]
    pub icount: bool,
    /// End a guest that runs longer, print its last lines and the core's
    /// state, and exit with status 124
    #[arg(long, value_name = "SECS", value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// Build without optimization
    #[arg(long)]
    pub debug: bool,
    /// Print QEMU's command line and do not run it
    #[arg(long)]
    pub print_qemu: bool,
}

impl RunArgs {
    /// The profile to build the program with.
    pub fn profile(&self) -> Profile {
        if self.debug {
            Profile::Dev
        } else {
            Profile::Release
        }
    }

    /// The machine to boot, with `host_port` forwarded to the guest's port 80.
    pub fn options(&self, host_port: u16) -> Options {
        Options {
            machine: self.machine,
            cpu: self.cpu.clone(),
            memory_mib: self.mem,
            accel: match self.accel {
                AccelChoice::Auto => Accel::detect(),
                AccelChoice::Kvm => Accel::Kvm,
                AccelChoice::Tcg => Accel::Tcg,
            },
            net: match &self.net {
                NetChoice::User => Net::User(vec![Forward::tcp(host_port, 80)]),
                NetChoice::Tap(interface) => Net::Tap(interface.clone()),
                NetChoice::Unix(path) => Net::Unix(path.clone()),
                NetChoice::None => Net::None,
            },
            append: self.append.clone(),
            pcap: self.pcap.clone(),
            gdb: self.gdb,
            icount: self.icount,
            ..Options::default()
        }
    }
}

/// The values of `--accel`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum AccelChoice {
    /// kvm where it works well, else tcg.
    #[default]
    Auto,
    /// Hardware virtualization.
    Kvm,
    /// Software emulation.
    Tcg,
}

/// The values of `--net`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetChoice {
    /// QEMU's user-mode network, with one forwarded port.
    User,
    /// A tap interface.
    Tap(String),
    /// A unix stream socket.
    Unix(PathBuf),
    /// No network card.
    None,
}

/// The options of `cargo xtask test`.
#[derive(Debug, Default, Args)]
pub struct TestArgs {
    /// Run only this ring; may be given several times
    #[arg(long = "ring", value_enum, value_name = "RING")]
    pub rings: Vec<Ring>,
    /// Run also the tests that take minutes
    #[arg(long)]
    pub long: bool,
    /// Run only tests whose name contains this; models run only if it
    /// contains `model`, as their names do
    pub filter: Option<String>,
}

impl TestArgs {
    /// Which tests are run.
    pub fn length(&self) -> Length {
        if self.long {
            Length::Long
        } else {
            Length::Usual
        }
    }
}

impl Cli {
    /// Reads the command line of this process.
    ///
    /// # Errors
    ///
    /// The status to exit with: 0 after `--help`, 2 after a bad option. What
    /// there is to say has been printed.
    pub fn read() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                // If nobody reads the help, nobody misses it.
                let _ = error.print();
                ExitCode::from(u8::from(error.use_stderr()) * 2)
            }
            _ => {
                eprintln!("{}", one_line(&error.to_string()));
                ExitCode::from(2)
            }
        })
    }
}

/// The first paragraph of clap's message, on one line.
fn one_line(message: &str) -> String {
    let paragraph = message.split("\n\n").next().unwrap_or(message);
    let lines: Vec<_> = paragraph.lines().map(str::trim).collect();
    lines.join(" ")
}

fn parse_net(value: &str) -> Result<NetChoice, String> {
    match value.split_once('=') {
        None if value == "user" => Ok(NetChoice::User),
        None if value == "none" => Ok(NetChoice::None),
        Some(("tap", interface)) if !interface.is_empty() => {
            Ok(NetChoice::Tap(interface.to_owned()))
        }
        Some(("unix", path)) if !path.is_empty() => Ok(NetChoice::Unix(path.into())),
        _ => Err("expected user, tap=IF, unix=PATH or none".to_owned()),
    }
}

fn parse_seconds(value: &str) -> Result<Duration, String> {
    let seconds: f64 = value.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|timeout| !timeout.is_zero())
        .ok_or_else(|| "expected a number of seconds above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn run_args(args: &[&str]) -> RunArgs {
        let line = ["xtask", "run", "httpd"].iter().chain(args);
        match Cli::try_parse_from(line).expect("parses").verb {
            Verb::Run(args) => args,
            other => panic!("not run: {other:?}"),
        }
    }

    #[test]
    fn definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_defaults_are_those_of_the_options() {
        let args = run_args(&["--accel", "tcg"]);
        assert_eq!(args.options(9975), Options::default().forward_http(9975));
        assert_eq!(args.host_port, 9975);
        assert_eq!(args.timeout, None);
    }

    #[test]
    fn every_kind_of_network_parses() {
        assert_eq!(parse_net("user"), Ok(NetChoice::User));
        assert_eq!(parse_net("none"), Ok(NetChoice::None));
        assert_eq!(parse_net("tap=tap0"), Ok(NetChoice::Tap("tap0".into())));
        assert_eq!(
            parse_net("unix=/tmp/a=b"),
            Ok(NetChoice::Unix("/tmp/a=b".into()))
        );
        for bad in ["", "tap", "tap=", "unix=", "user=1", "bridge"] {
            assert!(parse_net(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn seconds_are_positive() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "x", "nan", "inf", ""] {
            assert!(parse_seconds(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bad_options_make_one_line() {
        for args in [
            &["xtask", "run"][..],
            &["xtask", "run", "a", "--machine", "vax"],
            &["xtask", "run", "a", "--mem", "0"],
            &["xtask", "run", "a", "--nett", "user"],
            &["xtask", "fly"],
        ] {
            let error = Cli::try_parse_from(args).expect_err("a bad option");
            let line = one_line(&error.to_string());
            assert!(line.starts_with("error: "), "{line}");
            assert!(!line.contains('\n'), "{line}");
        }
    }
}
