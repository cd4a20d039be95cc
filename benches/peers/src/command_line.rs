//! The words of the kernel command line that are meant for this guest.
//!
//! They are firstpoll's own where those exist, so that both are started alike.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, bail, ensure};

/// Where the servers listen unless `port=` says otherwise.
const DEFAULT_PORT: u16 = 80;

/// What this guest is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `server=epoll`: what to start.
    pub server: Server,
    /// `port=80`: where it listens.
    pub port: u16,
    /// `ip=10.0.2.15/24`: the address of the network card.
    pub address: Ipv4Addr,
    /// The second part of `ip=`.
    pub prefix_length: u8,
    /// `gateway=10.0.2.2`: the way to everywhere else.
    pub gateway: Option<Ipv4Addr>,
}

/// The servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// axum on tokio's `current_thread` runtime.
    Axum,
    /// The least that answers HTTP.
    Epoll,
    /// netbench's other end.
    Netbench,
}

impl Options {
    /// Reads `/proc/cmdline`; the words of others are passed over.
    ///
    /// # Errors
    ///
    /// If a word is missing that has no default, or has no value that can be
    /// used.
    pub fn read(command_line: &str) -> Result<Self> {
        let value = |name: &str| {
            let mut words = command_line.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let ip = value("ip").context("the command line has no ip=")?;
        let (address, prefix_length) = interface(ip).with_context(|| format!("bad ip={ip}"))?;
        let server = value("server").context("the command line has no server=")?;
        Ok(Self {
            server: Server::read(server)?,
            port: number("port", value("port"))?.unwrap_or(DEFAULT_PORT),
            address,
            prefix_length,
            gateway: number("gateway", value("gateway"))?,
        })
    }
}

/// The parameters for a module: `napi_tx=0` for `virtio_net.napi_tx=0`.
pub fn module_parameters(command_line: &str, module: &str) -> String {
    let words = command_line.split_ascii_whitespace();
    let parameters = words.filter_map(|word| word.strip_prefix(module)?.strip_prefix('.'));
    parameters.collect::<Vec<_>>().join(" ")
}

impl Server {
    fn read(name: &str) -> Result<Self> {
        Ok(match name {
            "axum" => Self::Axum,
            "epoll" => Self::Epoll,
            "netbench" => Self::Netbench,
            _ => bail!("server={name} is none of axum, epoll, netbench"),
        })
    }

    /// The program and its arguments.
    pub fn command(self, port: u16) -> (&'static str, Vec<String>) {
        let port = port.to_string();
        match self {
            Self::Axum => ("/bin/axum-server", vec![port]),
            Self::Epoll => ("/bin/epoll-server", vec![port]),
            Self::Netbench => (
                "/bin/netbench-host",
                vec!["serve".into(), "--port".into(), port],
            ),
        }
    }
}

fn number<T: std::str::FromStr>(name: &str, value: Option<&str>) -> Result<Option<T>> {
    let Some(value) = value else { return Ok(None) };
    match value.parse() {
        Ok(value) => Ok(Some(value)),
        Err(_) => bail!("bad {name}={value}"),
    }
}

fn interface(text: &str) -> Result<(Ipv4Addr, u8)> {
    let (address, prefix_length) = text.split_once('/').context("it has no prefix length")?;
    let prefix_length = prefix_length.parse()?;
    ensure!(prefix_length <= 32, "the prefix is too long");
    Ok((address.parse()?, prefix_length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firstpolls_words_are_read_among_the_kernels() {
        let line = "console=ttyS0 quiet ip=10.0.2.15/24 gateway=10.0.2.2 server=epoll x.ip=1";
        let options = Options::read(line).expect("all is there");
        assert_eq!(options.server, Server::Epoll);
        assert_eq!(options.port, 80);
        assert_eq!(options.address, Ipv4Addr::new(10, 0, 2, 15));
        assert_eq!(options.prefix_length, 24);
        assert_eq!(options.gateway, Some(Ipv4Addr::new(10, 0, 2, 2)));
    }

    #[test]
    fn a_module_gets_its_own_parameters() {
        let line = "quiet virtio_net.napi_tx=0 virtio.a=1 virtio_net.csum=off virtio_net=x";
        let parameters = module_parameters(line, "virtio_net");
        assert_eq!(parameters, "napi_tx=0 csum=off");
        assert_eq!(module_parameters(line, "virtio_pci"), "");
    }

    #[test]
    fn every_server_has_a_command() {
        for (name, program, args) in [
            ("axum", "/bin/axum-server", "9"),
            ("epoll", "/bin/epoll-server", "9"),
            ("netbench", "/bin/netbench-host", "serve --port 9"),
        ] {
            let line = format!("ip=10.0.0.1/8 server={name} port=9");
            let options = Options::read(&line).expect("all is there");
            let (found, found_args) = options.server.command(options.port);
            assert_eq!((found, found_args.join(" ").as_str()), (program, args));
        }
    }

    #[test]
    fn what_is_missing_or_bad_is_named() {
        for (line, named) in [
            ("server=axum", "ip="),
            ("ip=10.0.2.15/24", "server="),
            ("server=axum ip=10.0.2.15", "ip=10.0.2.15"),
            ("server=axum ip=10.0.2.15/33", "ip=10.0.2.15/33"),
            ("server=axum ip=10.0.2/24", "ip=10.0.2/24"),
            ("server=nginx ip=10.0.2.15/24", "server=nginx"),
            ("server=axum ip=10.0.2.15/24 gateway=x", "gateway=x"),
            ("server=axum ip=10.0.2.15/24 port=65536", "port=65536"),
        ] {
            let error = Options::read(line).expect_err(line);
            assert!(format!("{error:#}").contains(named), "{line}: {error:#}");
        }
    }
}
