//! What can be chosen at boot.

use core::net::Ipv4Addr;
use core::num::NonZero;
use core::str::FromStr;

use firstpoll::runtime::Args;

/// The address that QEMU's user-mode network gives a guest.
const DEFAULT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);

const DEFAULT_BUFFER_BYTES: usize = 256 << 10;

/// The program's options, each from a word `name=value` on the kernel's command
/// line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `mode=serve` (the default) or `mode=reflect`.
    pub mode: Mode,
    /// `port=80`: where to listen.
    pub port: u16,
    /// `buffer_kib=256`: the size of each of a connection's two buffers. Bulk
    /// data wants them large.
    pub buffer_bytes: usize,
    /// The reflector's address: that of `ip=10.0.2.15/24`, whose prefix length
    /// it needs not.
    pub address: Ipv4Addr,
}

fn bytes(kib: NonZero<u16>) -> usize {
    usize::from(kib.get()) << 10
}

/// What the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A server of the TCP tests.
    Serve,
    /// A reflector of UDP datagrams.
    Reflect,
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        match name {
            "serve" => Ok(Self::Serve),
            "reflect" => Ok(Self::Reflect),
            _ => Err(UnknownMode),
        }
    }
}

/// The program has no such mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMode;

impl Options {
    /// Reads the options. Whatever has no value that can be used is reported,
    /// and keeps its default.
    pub fn read(args: Args) -> Self {
        let address = args.get("ip").and_then(|ip| {
            let address = ip
                .split('/')
                .next()
                .and_then(|address| address.parse().ok());
            if address.is_none() {
                log::warn!("`ip={ip}` is ignored: it is not of the form 10.0.2.15/24");
            }
            address
        });
        Self {
            mode: args.parse("mode").unwrap_or(Mode::Serve),
            port: args.parse("port").map_or(80, NonZero::get),
            buffer_bytes: args.parse("buffer_kib").map_or(DEFAULT_BUFFER_BYTES, bytes),
            address: address.unwrap_or(DEFAULT_ADDRESS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &'static str) -> Options {
        Options::read(Args::new(line.as_bytes()))
    }

    #[test]
    fn every_option_can_be_set() {
        let options = read("mode=reflect port=7 buffer_kib=64 ip=10.1.0.2/16");
        let wanted = Options {
            mode: Mode::Reflect,
            port: 7,
            buffer_bytes: 1 << 16,
            address: Ipv4Addr::new(10, 1, 0, 2),
        };
        assert_eq!(options, wanted);
        assert_eq!(read("mode=serve").mode, Mode::Serve);
    }

    #[test]
    fn nonsense_changes_nothing() {
        for line in [
            "mode=both",
            "port=0",
            "port=65536",
            "buffer_kib=0",
            "buffer_kib=65536",
            "ip=",
            "ip=10.1/16",
        ] {
            assert_eq!(read(line), read(""), "{line}");
        }
    }
}
