//! Connecting to a host by its name.

use core::net::SocketAddr;

use super::addresses::Family;
use super::resolver::{Resolver, TIMEOUT};
use crate::net::{Error, Stack, TcpOptions, TcpStream};
use crate::time::Instant;

impl TcpStream {
    /// Connects to `port` of the host `name`, with the default options.
    ///
    /// The addresses of the host are tried one after another, those of the two
    /// families in turn, each for its share of the time that is left.
    ///
    /// Cancel-safe: dropping the future gives the attempt up.
    ///
    /// # Errors
    ///
    /// Those of [`Stack::resolve`], and those of [`connect`](Self::connect) for the
    /// address that was tried last.
    pub async fn connect_host(stack: Stack, name: &str, port: u16) -> Result<Self, Error> {
        Self::connect_host_with(stack, name, port, TcpOptions::default()).await
    }

    /// Connects to `port` of the host `name`; the time for connecting is for the
    /// lookup and all addresses together.
    ///
    /// # Errors
    ///
    /// As [`connect_host`](Self::connect_host).
    pub async fn connect_host_with(
        stack: Stack,
        name: &str,
        port: u16,
        options: TcpOptions,
    ) -> Result<Self, Error> {
        let deadline = Instant::now() + options.connect_timeout;
        let lookup = options.connect_timeout.min(TIMEOUT);
        let resolver = Resolver::new(stack).timeout(lookup);
        let addresses = resolver.resolve(name, Family::Any).await?;
        let mut failure = Error::NameWithoutAddress;
        for (place, &address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = TcpOptions {
                connect_timeout: left / (addresses.len() - place) as u32,
                ..options
            };
            let remote = SocketAddr::new(address, port);
            match Self::connect_with(stack, remote, share).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}
