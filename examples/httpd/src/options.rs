//! What can be chosen at boot.

use core::time::Duration;

/// The server's options, each from a word `name=value` on the kernel's command
/// line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `mode=async` (the default) or `mode=blocking`.
    pub mode: Mode,
    /// `port=80`: where to listen.
    pub port: u16,
    /// `max_connections=512`: how many are served at once in `mode=async`;
    /// others are answered with 503.
    pub max_connections: usize,
    /// `read_timeout_ms=10000`: how long a request may take to arrive, counted
    /// from the last answer, and an answer to leave.
    pub read_timeout: Duration,
}

/// The two forms of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A task for every connection.
    Async,
    /// One connection after the other, with a `block_on` for every operation.
    Blocking,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Async,
            port: 80,
            max_connections: 512,
            read_timeout: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// Takes one option; whether it is one of ours and well-formed. If not,
    /// nothing changes.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        self.try_set(name, value).is_some()
    }

    fn try_set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "mode" => {
                self.mode = match value {
                    "async" => Mode::Async,
                    "blocking" => Mode::Blocking,
                    _ => return None,
                }
            }
            "port" => self.port = positive(value)?.try_into().ok()?,
            "max_connections" => self.max_connections = positive(value)?.try_into().ok()?,
            "read_timeout_ms" => self.read_timeout = Duration::from_millis(positive(value)?),
            _ => return None,
        }
        Some(())
    }
}

fn positive(value: &str) -> Option<u64> {
    value.parse().ok().filter(|&value| value != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_can_be_set() {
        let mut options = Options::default();
        for (name, value) in [
            ("mode", "blocking"),
            ("port", "8080"),
            ("max_connections", "3"),
            ("read_timeout_ms", "250"),
        ] {
            assert!(options.set(name, value), "{name}={value}");
        }
        let wanted = Options {
            mode: Mode::Blocking,
            port: 8080,
            max_connections: 3,
            read_timeout: Duration::from_millis(250),
        };
        assert_eq!(options, wanted);
        assert!(options.set("mode", "async"));
        assert_eq!(options.mode, Mode::Async);
    }

    #[test]
    fn nonsense_changes_nothing() {
        let mut options = Options::default();
        for (name, value) in [
            ("mode", "sync"),
            ("port", "0"),
            ("port", "65536"),
            ("port", ""),
            ("max_connections", "-1"),
            ("max_connections", "0"),
            ("read_timeout_ms", "1s"),
            ("colour", "red"),
        ] {
            assert!(!options.set(name, value), "{name}={value}");
        }
        assert_eq!(options, Options::default());
    }
}
