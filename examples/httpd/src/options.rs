//! What can be chosen at boot.

use core::num::NonZero;
use core::str::FromStr;
use core::time::Duration;

use firstpoll::runtime::Args;

/// The server's options, each from a word `name=value` on the kernel's command
/// line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `mode=async`, `mode=blocking` or `mode=routes`. The last is a program of
    /// its own, which `cargo xtask run` picks.
    pub mode: Mode,
    /// `port=80`: where to listen.
    pub port: u16,
    /// `max_clients=512`: how many are served at once, but in
    /// `mode=blocking`; others are answered with 503.
    pub max_clients: usize,
    /// `read_timeout_ms=10000`: how long a request may take to arrive, counted
    /// from the last answer, and an answer to leave.
    pub read_timeout: Duration,
}

/// The forms of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A task for every connection.
    Async,
    /// One connection after the other, with a `block_on` for every operation.
    Blocking,
    /// A task for every connection, in which picoserve routes the requests.
    Routes,
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        match name {
            "async" => Ok(Self::Async),
            "blocking" => Ok(Self::Blocking),
            "routes" => Ok(Self::Routes),
            _ => Err(UnknownMode),
        }
    }
}

/// The server has no such form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMode;

impl Options {
    /// Reads the options. Whatever has no value that can be used is reported,
    /// and keeps its default, which is `mode` for the mode.
    pub fn read(args: Args, mode: Mode) -> Self {
        Self {
            mode: args.parse("mode").unwrap_or(mode),
            port: args.parse("port").map_or(80, NonZero::get),
            max_clients: args.parse("max_clients").map_or(512, NonZero::get),
            read_timeout: args
                .parse("read_timeout_ms")
                .map_or(Duration::from_secs(10), |ms: NonZero<u64>| {
                    Duration::from_millis(ms.get())
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &'static str) -> Options {
        Options::read(Args::new(line.as_bytes()), Mode::Async)
    }

    #[test]
    fn every_option_can_be_set() {
        let options = read("mode=blocking port=8080 max_clients=3 read_timeout_ms=250");
        let wanted = Options {
            mode: Mode::Blocking,
            port: 8080,
            max_clients: 3,
            read_timeout: Duration::from_millis(250),
        };
        assert_eq!(options, wanted);
        assert_eq!(read("mode=async").mode, Mode::Async);
        assert_eq!(read("mode=routes").mode, Mode::Routes);
    }

    #[test]
    fn nonsense_changes_nothing() {
        for line in [
            "mode=sync",
            "port=0",
            "port=65536",
            "port=",
            "max_clients=-1",
            "max_clients=0",
            "read_timeout_ms=1s",
            "colour=red",
        ] {
            assert_eq!(read(line), read(""), "{line}");
        }
    }
}
