//! The log: the `log` crate's macros, written to the console.
//!
//! ```text
//! [   0.012345 INFO  firstpoll::net] listening
//! ```

use log::{LevelFilter, Log, Metadata, Record};

use crate::arch::Instant;
use crate::drivers::console;

/// What is logged unless the command line says otherwise.
pub const DEFAULT_LEVEL: LevelFilter = LevelFilter::Warn;

static LOGGER: Logger = Logger;

struct Logger;

/// Makes the log go to the console, from `level` up. Calling it again changes
/// the level.
pub fn start(level: LevelFilter) {
    // Fails if it was set already, which does no harm.
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(level);
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let time = Instant::now() - Instant::ZERO;
        let (seconds, micros) = (time.as_secs(), time.subsec_micros());
        console::print(format_args!(
            "[{seconds:4}.{micros:06} {:<5} {}] {}\n",
            record.level(),
            record.target(),
            record.args()
        ));
    }

    fn flush(&self) {}
}
