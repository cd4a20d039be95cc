//! From the names of hosts to their addresses (RFC 1034, RFC 1035).
//!
//! | file | what it holds |
//! |---|---|
//! | `name` | a name, checked |
//! | `addresses` | what comes out |
//! | `resolver` | a lookup from beginning to end |
//! | `message` | a question and its answer in bytes |
//! | `exchange` | asking servers until one answers |
//! | `cache` | answers that are still good |
//! | `connect` | connecting to a host by its name |
//!
//! Each question goes out from a port of its own and with an identifier of its
//! own; an answer counts only from the server that was asked, to that port, with
//! that identifier and the same question. smoltcp's types read and write the
//! messages.

mod addresses;
mod cache;
mod connect;
mod exchange;
mod message;
mod name;
mod resolver;

use core::net::{IpAddr, Ipv4Addr};

pub use addresses::{Addresses, Family};
pub use resolver::Resolver;

use super::state::{State, now};
use super::{Error, Stack};
use cache::Cache;
use message::Question;

/// How many servers are kept.
const MAX_SERVERS: usize = 8;

/// What the stack knows about names.
#[derive(Debug)]
pub(super) struct Dns {
    cache: Cache,
    /// Those who told what is in the cache.
    servers: Servers,
}

impl Dns {
    pub(super) const fn new() -> Self {
        Self {
            cache: Cache::new(),
            servers: Servers::NONE,
        }
    }
}

impl Stack {
    /// Looks up the addresses of the host `name`, in the order in which to try
    /// them.
    ///
    /// Names are complete as they are, with or without a dot at their end: nothing
    /// is appended to them. Only letters, digits, `-` and `_` are allowed in them;
    /// others have to be brought into that form before (RFC 3492). An address in
    /// place of a name, and `localhost`, are answered without a server. Answers are
    /// remembered for as long as their server says.
    ///
    /// Takes at most 5 s. Cancel-safe: dropping the future gives the lookup up.
    ///
    /// # Errors
    ///
    /// - [`Error::InvalidName`] if no host can have that name,
    /// - [`Error::NameNotFound`] if none has it,
    /// - [`Error::NameWithoutAddress`] if it has no address of that family,
    /// - [`Error::NoNameServer`] if no server is known,
    /// - [`Error::NameServerFailed`] if all servers say that they cannot answer, or
    ///   none listens,
    /// - [`Error::TimedOut`] if none answered in time,
    /// - [`Error::NetworkUnreachable`] without an address or a route to a server,
    /// - [`Error::OutOfMemory`] and [`Error::AddrNotAvailable`] as sockets give
    ///   them.
    pub async fn resolve(self, name: &str, family: Family) -> Result<Addresses, Error> {
        Resolver::new(self).resolve(name, family).await
    }

    /// Sets the servers that are asked for names, in that order, before those that
    /// the network tells of. Of all of them the first 8 count.
    pub fn set_dns_servers(self, servers: &[IpAddr]) {
        let mut servers = servers.to_vec();
        self.shared
            .visit(|state, _| core::mem::swap(&mut state.addresses.dns_servers, &mut servers));
    }
}

impl State {
    /// The answer to `question`, if it is known, and the servers to ask if not.
    fn known(&mut self, question: &Question) -> (Option<Addresses>, Servers) {
        let servers = Servers::new(self.addresses.dns_servers());
        let dns = &mut self.dns;
        if dns.servers != servers {
            // Others may see other names.
            dns.servers = servers;
            dns.cache.clear();
        }
        (dns.cache.get(now(), question), servers)
    }
}

/// A copy of the list of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Servers {
    list: [IpAddr; MAX_SERVERS],
    len: usize,
}

impl Servers {
    const NONE: Self = Self {
        list: [IpAddr::V4(Ipv4Addr::UNSPECIFIED); MAX_SERVERS],
        len: 0,
    };

    fn new(servers: impl Iterator<Item = IpAddr>) -> Self {
        let mut all = Self::NONE;
        let usable = |server: &IpAddr| !server.is_unspecified() && !server.is_multicast();
        for server in servers.filter(usable) {
            if all.len < MAX_SERVERS && !all.as_slice().contains(&server) {
                all.list[all.len] = server;
                all.len += 1;
            }
        }
        all
    }

    fn as_slice(&self) -> &[IpAddr] {
        &self.list[..self.len]
    }
}
