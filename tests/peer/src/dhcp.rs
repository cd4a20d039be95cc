//! A DHCP server for one guest (RFC 2131), which does what a script says: it
//! can change its mind, keep silent, and lie.

mod message;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use smoltcp::wire::{
    DHCP_CLIENT_PORT, DHCP_SERVER_PORT, DhcpMessageType, DhcpPacket, DhcpRepr, Ipv4Address,
};

use crate::frame::{self, Host, Parsed};

/// What the server gives to whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The client's address.
    pub ip: Ipv4Address,
    /// The length of the network's part of it.
    pub prefix_len: u8,
    /// The router.
    pub gateway: Option<Ipv4Address>,
    /// Name servers, however many.
    pub dns: Vec<Ipv4Address>,
    /// How long the client may keep the address.
    pub duration: Duration,
    /// After what time it shall ask this server for more (T1).
    pub renew_after: Option<Duration>,
    /// After what time it shall ask any server for more (T2).
    pub rebind_after: Option<Duration>,
}

impl Default for Lease {
    /// What QEMU's user-mode network gives, for an hour.
    fn default() -> Self {
        Self {
            ip: Ipv4Address::new(10, 0, 2, 15),
            prefix_len: 24,
            gateway: Some(Ipv4Address::new(10, 0, 2, 2)),
            dns: vec![Ipv4Address::new(10, 0, 2, 3)],
            duration: Duration::from_secs(3600),
            renew_after: None,
            rebind_after: None,
        }
    }
}

/// Why a client asks (RFC 2131 §4.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It looks for servers.
    Discover,
    /// It takes what was offered.
    Select,
    /// It had an address before it was started again.
    Reboot,
    /// It wants to keep its address, and asks this server.
    Renew,
    /// It wants to keep its address, and asks any server.
    Rebind,
    /// Something that is not answered: it declines, releases or informs.
    Other,
}

/// What a client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When.
    pub at: Duration,
    /// Why.
    pub kind: Kind,
    /// For which address.
    pub wanted: Option<Ipv4Address>,
    /// For which server, if it says so.
    pub server: Option<Ipv4Address>,
    /// Its number of the exchange.
    pub transaction_id: u32,
}

/// What the server does about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Offers the lease, or grants it if the client wants just its address, or
    /// else denies.
    Grant(Lease),
    /// Grants the lease, whatever address the client wants.
    Insist(Lease),
    /// Denies.
    Deny,
    /// Nothing.
    Silence,
    /// What [`Grant`](Self::Grant) does, but for a lie.
    Lie(Lease, Lie),
    /// One after the other.
    Several(Vec<Reply>),
}

/// What is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It belongs to another exchange.
    TransactionId,
    /// It names another server.
    ServerId(Ipv4Address),
    /// It is for another client's card.
    Client,
    /// It does not begin its options as DHCP does.
    Cookie,
    /// It ends after so many bytes.
    Cut(usize),
    /// It lacks an option.
    Without(u8),
    /// An option says that it has so many bytes.
    OptionLength(u8, u8),
    /// It is these bytes instead.
    Garbage(Vec<u8>),
}

type Script = Box<dyn FnMut(&Request) -> Reply + Send>;

/// The server, without a clock or a network.
pub struct Server {
    script: Script,
    requests: Vec<Request>,
    granted: u32,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("requests", &self.requests)
            .field("granted", &self.granted)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A server that asks `script` what to do about each request.
    pub fn new(script: impl FnMut(&Request) -> Reply + Send + 'static) -> Self {
        Self {
            script: Box::new(script),
            requests: Vec::new(),
            granted: 0,
        }
    }

    /// A server that gives `lease` to whoever asks.
    pub fn granting(lease: Lease) -> Self {
        Self::new(move |_| Reply::Grant(lease.clone()))
    }

    /// How many requests were granted, truly or by a lie.
    pub fn granted(&self) -> u32 {
        self.granted
    }

    /// All requests so far.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Looks at what came in: whether it is for a DHCP server, and the frames
    /// that answer it.
    pub fn receive(
        &mut self,
        us: Host,
        parsed: &Parsed<'_>,
        now: Duration,
    ) -> Option<Vec<Vec<u8>>> {
        let Parsed::Udp {
            from,
            to,
            dst_port: DHCP_SERVER_PORT,
            data,
            ..
        } = parsed
        else {
            return None;
        };
        let packet = DhcpPacket::new_unchecked(*data);
        let Ok(asked) = DhcpRepr::parse(&packet) else {
            return Some(Vec::new());
        };
        let request = Request {
            at: now,
            kind: kind(&asked, to.ip == Host::BROADCAST.ip),
            wanted: asked
                .requested_ip
                .or((!asked.client_ip.is_unspecified()).then_some(asked.client_ip)),
            server: asked.server_identifier,
            transaction_id: asked.transaction_id,
        };
        self.requests.push(request);
        if request.server.is_some_and(|server| server != us.ip) || request.kind == Kind::Other {
            return Some(Vec::new());
        }
        let client = Host {
            mac: from.mac,
            ip: if asked.client_ip.is_unspecified() {
                // It has no address yet, but its card has one.
                Ipv4Address::BROADCAST
            } else {
                asked.client_ip
            },
        };
        let reply = (self.script)(&request);
        let messages = self.messages(us, &asked, &request, &reply);
        let ports = (DHCP_SERVER_PORT, DHCP_CLIENT_PORT);
        let frames = messages.iter();
        let frames = frames.map(|bytes| frame::udp(us, client, ports.0, ports.1, bytes));
        Some(frames.collect())
    }

    fn messages(
        &mut self,
        us: Host,
        asked: &DhcpRepr<'_>,
        request: &Request,
        reply: &Reply,
    ) -> Vec<Vec<u8>> {
        let message = match reply {
            Reply::Silence => return Vec::new(),
            Reply::Several(replies) => {
                let messages = replies.iter();
                let messages = messages.flat_map(|reply| self.messages(us, asked, request, reply));
                return messages.collect();
            }
            Reply::Deny => message::denial(us, asked),
            Reply::Grant(lease) => self.grant(us, asked, request, lease, None),
            Reply::Lie(lease, lie) => self.grant(us, asked, request, lease, Some(lie)),
            Reply::Insist(lease) => {
                self.granted += 1;
                message::lease(us, asked, DhcpMessageType::Ack, lease, None)
            }
        };
        vec![message]
    }

    /// Offers or grants, or denies a request for another address.
    fn grant(
        &mut self,
        us: Host,
        asked: &DhcpRepr<'_>,
        request: &Request,
        lease: &Lease,
        lie: Option<&Lie>,
    ) -> Vec<u8> {
        if request.kind == Kind::Discover {
            return message::lease(us, asked, DhcpMessageType::Offer, lease, lie);
        }
        if request.wanted != Some(lease.ip) {
            return message::denial(us, asked);
        }
        self.granted += 1;
        message::lease(us, asked, DhcpMessageType::Ack, lease, lie)
    }
}

fn kind(asked: &DhcpRepr<'_>, broadcast: bool) -> Kind {
    match asked.message_type {
        DhcpMessageType::Discover => Kind::Discover,
        DhcpMessageType::Request if asked.server_identifier.is_some() => Kind::Select,
        DhcpMessageType::Request if asked.requested_ip.is_some() => Kind::Reboot,
        DhcpMessageType::Request if broadcast => Kind::Rebind,
        DhcpMessageType::Request => Kind::Renew,
        _ => Kind::Other,
    }
}
