//! Putting the layers together: boot, the program, its end.

use core::fmt;

use hermit_sync::OnceCell;
use log::info;

use crate::arch::{self, Due, Handlers};
use crate::drivers::{self, virtio_net};
use crate::executor::interrupt;
use crate::net::{self, Config, ConfigError, Device, Stack};
use crate::{logger, random, stages, time};

pub use crate::args::{Args, Opt};
pub use crate::fatal::{exception, panic};

/// Boots the machine, runs the program `main` and ends with its status.
///
/// [`entry!`](crate::entry) calls it; `options` are those of the program.
pub fn boot<T: Termination>(main: fn(Runtime) -> T, options: &[&str]) -> ! {
    stages::add("entry", arch::ticks_at_entry());
    stages::run("traps", arch::start_traps); // Exceptions are reported from here on.
    stages::run("memory", arch::start_memory); // There is a heap from here on.
    stages::run("interrupts", arch::start_interrupts);
    let clock = stages::run("reference", arch::begin_clock);
    let args = stages::run("options", || read_options(options));
    stages::run("clock", || arch::start_clock(clock)); // Time stamps are right from here on.
    stages::run("timers", init);
    arch::enable_interrupts();
    stages::report();
    info!("{} KiB of memory are free", arch::memory().heap_bytes >> 10);
    let status = main(Runtime { args }).status();
    arch::exit(status.code())
}

/// The command line, with the log's level set by it.
fn read_options(options: &[&str]) -> Args {
    let args = Args::new(arch::command_line());
    logger::start(logger::DEFAULT_LEVEL);
    logger::start(args.parse("log").unwrap_or(logger::DEFAULT_LEVEL));
    args.warn_about_unknown(options);
    args
}

/// Makes interrupts drive the executor and the timers.
///
/// The boot of the kernel calls it before the program; on the host, call it
/// on each thread before its first use. Calling it again is harmless.
pub fn init() {
    static HANDLERS: Handlers = Handlers {
        enter: interrupt::enter,
        leave: interrupt::leave,
        timer,
        bottom_half: interrupt::bottom_half,
    };
    arch::set_handlers(&HANDLERS);
    time::start();
}

/// The timer interrupt. Expiring timers comes first: it queues the expiry task,
/// for which the bottom half is then wanted.
fn timer(due: Due) -> bool {
    if due.timer_queue {
        time::on_deadline();
    }
    interrupt::timer(due)
}

/// What the boot has made, for the program.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    args: Args,
}

impl Runtime {
    /// The options on the kernel command line.
    pub fn args(self) -> Args {
        self.args
    }

    /// The network, which the first call starts: a virtio network card, with
    /// the addresses that the [command line](Config::from_options) gives, or
    /// else by DHCP and from routers. [`Stack::wait_configured`] waits for one.
    ///
    /// A program that does not call it pays nothing for the network, and runs
    /// on a machine that has none.
    ///
    /// # Errors
    ///
    /// A [`NetworkError`] if there is no network to be had.
    pub fn network(self) -> Result<Stack, NetworkError> {
        if let Some(&stack) = NETWORK.get() {
            return Ok(stack);
        }
        let options = self.args.options();
        let options = options.map(|option| (option.name, option.value));
        let config = Config::from_options(options).map_err(NetworkError::Config)?;
        let seed = stages::run("seed", seed).map_err(NetworkError::NoRandomness)?;
        let device = if config.needs_card() {
            let card = stages::run("network card", virtio_net::probe);
            Device::virtio(card.map_err(NetworkError::Card)?)
        } else {
            Device::none()
        };
        let stack = stages::run("network", || net::start(device, config, seed));
        stages::report();
        Ok(*NETWORK.get_or_init(|| stack))
    }

    /// A network of the guest with itself, by way of 127.0.0.1 and ::1, for a
    /// program that needs no other: there need not be a card. The
    /// [network](Self::network), if there is one, is apart from it, and can do
    /// the same.
    ///
    /// # Errors
    ///
    /// [`NetworkError::NoRandomness`].
    pub fn loopback(self) -> Result<Stack, NetworkError> {
        if let Some(&stack) = LOOPBACK.get() {
            return Ok(stack);
        }
        let seed = seed().map_err(NetworkError::NoRandomness)?;
        let stack = net::start(Device::none(), Config::loopback(), seed);
        Ok(*LOOPBACK.get_or_init(|| stack))
    }
}

static NETWORK: OnceCell<Stack> = OnceCell::new();
static LOOPBACK: OnceCell<Stack> = OnceCell::new();

/// What the network's random numbers are drawn from.
fn seed() -> Result<u64, drivers::Error> {
    let mut seed = [0; size_of::<u64>()];
    random::fill(&mut seed)?;
    Ok(u64::from_le_bytes(seed))
}

/// Why there is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkError {
    /// An option on the command line is of no use.
    Config(ConfigError),
    /// Neither the processor nor an entropy device gives random numbers, without
    /// which connections could be guessed.
    NoRandomness(drivers::Error),
    /// There is no network card that can be used.
    Card(drivers::Error),
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::NoRandomness(error) => write!(
                f,
                "no network: the processor has no RDRAND, and the entropy device: {error}"
            ),
            Self::Card(error) => write!(f, "no network: the network card: {error}"),
        }
    }
}

impl core::error::Error for NetworkError {}

/// The status that the machine ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus(u8);

impl ExitStatus {
    /// All went well.
    pub const SUCCESS: Self = Self(0);
    /// Something went wrong.
    pub const FAILURE: Self = Self(1);

    /// The status `code`. QEMU hands on those up to 0x6f; higher ones become
    /// that.
    pub const fn new(code: u8) -> Self {
        Self(code)
    }

    /// The status as a number.
    pub const fn code(self) -> u8 {
        self.0
    }
}

/// What a program can return.
pub trait Termination {
    /// The status that it stands for.
    fn status(self) -> ExitStatus;
}

impl Termination for () {
    fn status(self) -> ExitStatus {
        ExitStatus::SUCCESS
    }
}

impl Termination for ExitStatus {
    fn status(self) -> ExitStatus {
        self
    }
}

/// An error is printed, and is a failure.
impl<T: Termination, E: fmt::Display> Termination for Result<T, E> {
    fn status(self) -> ExitStatus {
        match self {
            Ok(value) => value.status(),
            Err(error) => {
                crate::println!("error: {error}");
                ExitStatus::FAILURE
            }
        }
    }
}

/// Makes a function the program of a kernel image.
///
/// The function takes the [`Runtime`] and returns a [`Termination`]: nothing,
/// an [`ExitStatus`], or a `Result` of one. It runs with interrupts enabled;
/// when it returns, the machine ends.
///
/// Options that the program reads from the command line are named here, so
/// that all others can be reported as unknown.
///
/// The macro also defines the panic handler, which reports and ends with
/// status 101.
///
/// # Examples
///
/// ```text
/// #![no_std]
/// #![no_main]
///
/// use firstpoll::runtime::{ExitStatus, Runtime};
///
/// firstpoll::entry!(main, options: ["mode"]);
///
/// fn main(runtime: Runtime) -> ExitStatus {
///     match runtime.args().get("mode") {
///         Some("good") | None => ExitStatus::SUCCESS,
///         Some(_) => ExitStatus::FAILURE,
///     }
/// }
/// ```
#[macro_export]
macro_rules! entry {
    ($main:path $(, options: [$($option:expr),* $(,)?])? $(,)?) => {
        const _: () = {
            #[unsafe(no_mangle)]
            fn firstpoll_boot() -> ! {
                $crate::runtime::boot($main, &[$($($option),*)?])
            }

            #[unsafe(no_mangle)]
            fn firstpoll_exception(
                report: &dyn ::core::fmt::Display,
                backtrace: &$crate::arch::Backtrace,
            ) -> ! {
                $crate::runtime::exception(report, backtrace)
            }

            #[panic_handler]
            fn panic(info: &::core::panic::PanicInfo<'_>) -> ! {
                $crate::runtime::panic(info)
            }
        };
    };
}
