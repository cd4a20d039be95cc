//! Fetching a resource: resolve, connect, ask, follow, all within a time.

use core::net::SocketAddr;

use firstpoll::net::dns::Family;
use firstpoll::net::{self, Buffers, Stack, TcpOptions, TcpStream};
use firstpoll::time::{Duration, timeout};

use crate::failure::Failure;
use crate::http::{self, Answer};
use crate::url::{Scheme, Url};

/// Requests are small; answers need not be.
const BUFFERS: Buffers = Buffers {
    receive_bytes: 16 << 10,
    send_bytes: 2 << 10,
};

/// What all fetches have in common.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The network.
    pub stack: Stack,
    /// How long connecting may take, to each address of a host.
    pub connect_timeout: Duration,
    /// How long a fetch may take, redirections included.
    pub timeout: Duration,
    /// How many redirections are followed.
    pub redirects: u32,
}

/// A resource that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The status code, which says success.
    pub status: u16,
    /// The length of its body.
    pub body_bytes: u64,
}

impl Client {
    /// Fetches the resource at `url` and throws it away. `buffer` must have
    /// room for the head of an answer.
    ///
    /// Cancel-safe: a connection that is under way is closed.
    ///
    /// # Errors
    ///
    /// Why it could not be fetched.
    pub async fn fetch(&self, url: &str, buffer: &mut [u8]) -> Result<Fetched, Failure> {
        match timeout(self.timeout, self.follow(url, buffer)).await {
            Ok(fetched) => fetched,
            Err(_) => Err(Failure::TimedOut),
        }
    }

    async fn follow(&self, url: &str, buffer: &mut [u8]) -> Result<Fetched, Failure> {
        let mut url = Url::parse(url)?;
        let mut left = self.redirects;
        loop {
            if url.scheme != Scheme::Http {
                return Err(Failure::Scheme);
            }
            let mut stream = connect(self.stack, &url, self.connect_timeout).await?;
            let answer = http::get(&mut stream, &url, buffer, |_| {}).await?;
            match answer {
                Answer {
                    status: 301 | 302 | 303 | 307 | 308,
                    location: Some(location),
                    ..
                } => {
                    left = left.checked_sub(1).ok_or(Failure::Redirected)?;
                    url = url.join(&location)?;
                }
                Answer {
                    status: status @ 200..=299,
                    body_bytes,
                    ..
                } => return Ok(Fetched { status, body_bytes }),
                Answer { status, .. } => return Err(Failure::Status(status)),
            }
        }
    }
}

/// Connects to the server of `url`, to the first of its addresses that answers.
///
/// Cancel-safe.
///
/// # Errors
///
/// Why none of them did; of the last, if there are several.
pub async fn connect(stack: Stack, url: &Url, patience: Duration) -> Result<TcpStream, Failure> {
    let options = TcpOptions {
        connect_timeout: patience,
        buffers: BUFFERS,
        ..TcpOptions::default()
    };
    let addresses = stack.resolve(&url.host, Family::Any).await;
    let addresses = addresses.map_err(Failure::Unresolved)?;
    let mut failure = Failure::Unresolved(net::Error::NameWithoutAddress);
    for &address in addresses.iter() {
        let remote = SocketAddr::new(address, url.port);
        match TcpStream::connect_with(stack, remote, options).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}
