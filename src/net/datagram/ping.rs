//! Asking a host whether it is there: ICMP echo.

use alloc::vec::Vec;
use core::future::poll_fn;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::task::Poll;
use core::time::Duration;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr};

use super::endpoints::{Endpoint, EndpointId, Protocol};
use super::queue::{Bounds, zeroes};
use crate::net::stack::Outlook;
use crate::net::state::now;
use crate::net::{Error, Stack};
use crate::time;

/// The header of an echo message, in bytes.
const HEADER_BYTES: usize = 8;

/// More than any packet holds.
const MAX_DATA_BYTES: usize = 65_535;

/// How many replies may wait that are not the right one.
const REPLIES: usize = 4;

/// Options of [`ping`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingOptions {
    /// How long to wait for the answer; 5 s by default.
    pub timeout: Duration,
    /// How much random data to send along; 56 bytes by default.
    pub data_bytes: usize,
    /// How many routers the question may pass, at least 1; 64 by default.
    pub hop_limit: u8,
}

impl Default for PingOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            data_bytes: 56,
            hop_limit: 64,
        }
    }
}

/// Asks `host` for an echo and returns how long it took, to the microsecond. That
/// includes asking for the address of a neighbour, if it has to be.
///
/// Only an answer counts that comes from `host` and carries the same random
/// identifier, number and data.
///
/// Cancel-safe: dropping the future gives the attempt up.
///
/// # Errors
///
/// - [`Error::TimedOut`] without an answer in time,
/// - [`Error::NetworkUnreachable`] without an address or a route,
/// - [`Error::MessageTooLong`] if the question would need more than one packet,
/// - [`Error::InvalidInput`] if `host` is not a single host, or for a hop limit
///   of 0,
/// - [`Error::AddrNotAvailable`] if 65,536 others are under way,
/// - [`Error::OutOfMemory`].
pub async fn ping(stack: Stack, host: IpAddr, options: PingOptions) -> Result<Duration, Error> {
    let host = host.to_canonical();
    if host.is_unspecified() || host.is_multicast() || options.hop_limit == 0 {
        return Err(Error::InvalidInput);
    }
    let echo = Echo::new(stack, host, &options)?;
    let sent_at = now();
    let reply = async {
        echo.send().await?;
        let replied_at = echo.reply().await?;
        Ok(Duration::from(replied_at - sent_at))
    };
    match time::timeout(options.timeout, reply).await {
        Ok(result) => result,
        Err(time::Elapsed) => Err(Error::TimedOut),
    }
}

/// A question under way.
struct Echo {
    stack: Stack,
    id: EndpointId,
    /// The message as it is sent, and as it must come back but for its type and
    /// checksum.
    message: Vec<u8>,
}

impl Echo {
    fn new(stack: Stack, host: IpAddr, options: &PingOptions) -> Result<Self, Error> {
        if options.data_bytes > MAX_DATA_BYTES {
            return Err(Error::MessageTooLong);
        }
        let mut data = zeroes(options.data_bytes).ok_or(Error::OutOfMemory)?;
        let bounds = Bounds {
            datagrams: REPLIES,
            bytes: REPLIES * (HEADER_BYTES + options.data_bytes),
        };
        let mut endpoint =
            Endpoint::new(Protocol::Echo, Ipv6Addr::UNSPECIFIED.into(), bounds, bounds);
        endpoint.peer = Some(SocketAddr::new(host, 0));
        endpoint.hop_limit = options.hop_limit;
        let (id, ident, number) = stack.shared.visit(|state, _| {
            for chunk in data.chunks_mut(8) {
                let random = state.random.draw().to_be_bytes();
                chunk.copy_from_slice(&random[..chunk.len()]);
            }
            let id = state.open_endpoint(endpoint, 0)?;
            let ident = state.endpoints.by_id(id).map(|endpoint| endpoint.number);
            Ok::<_, Error>((id, ident.unwrap_or_default(), state.random.draw() as u16))
        })?;
        let mut echo = Self {
            stack,
            id,
            message: Vec::new(),
        };
        echo.message = question(host, ident, number, &data).ok_or(Error::OutOfMemory)?;
        Ok(echo)
    }

    /// Hands the question to the stack.
    async fn send(&self) -> Result<(), Error> {
        poll_fn(|context| {
            self.stack.shared.poll(
                context,
                Outlook::Ready,
                |state| state.writer_of(self.id),
                |state, wakes| {
                    state.send_datagram(now(), self.id, &self.message, (None, None), wakes)
                },
            )
        })
        .await
    }

    /// Waits for the answer; returns when it came.
    async fn reply(&self) -> Result<smoltcp::time::Instant, Error> {
        let mut buffer = zeroes(self.message.len()).ok_or(Error::OutOfMemory)?;
        poll_fn(|context| {
            loop {
                let taken = self.stack.shared.poll(
                    context,
                    Outlook::Ready,
                    |state| state.reader_of(self.id),
                    |state, _| state.take_datagram(self.id, &mut buffer),
                );
                match taken {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    // The stack has looked at the type and the identifier.
                    Poll::Ready(Ok(taken)) => {
                        let is_it =
                            taken.len == self.message.len() && buffer[4..] == self.message[4..];
                        if is_it {
                            return Poll::Ready(Ok(taken.at));
                        }
                    }
                }
            }
        })
        .await
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let endpoint = self
            .stack
            .shared
            .visit(|state, _| state.close_endpoint(self.id));
        drop(endpoint);
    }
}

/// The echo request for `host`, but for its checksum, which is made when it is
/// sent.
fn question(host: IpAddr, ident: u16, number: u16, data: &[u8]) -> Option<Vec<u8>> {
    let caps = ChecksumCapabilities::ignored();
    match host {
        IpAddr::V4(_) => {
            let request = Icmpv4Repr::EchoRequest {
                ident,
                seq_no: number,
                data,
            };
            let mut message = zeroes(request.buffer_len())?;
            request.emit(&mut Icmpv4Packet::new_unchecked(&mut message[..]), &caps);
            Some(message)
        }
        IpAddr::V6(host) => {
            let request = Icmpv6Repr::EchoRequest {
                ident,
                seq_no: number,
                data,
            };
            let mut message = zeroes(request.buffer_len())?;
            let packet = &mut Icmpv6Packet::new_unchecked(&mut message[..]);
            // The addresses are for the checksum.
            request.emit(&Ipv6Addr::UNSPECIFIED, &host, packet, &caps);
            Some(message)
        }
    }
}
