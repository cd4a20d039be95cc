//! A DNS server (RFC 1035) that does what a script says: it can fail, keep
//! silent, and lie.

mod message;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::frame::{self, Host, Parsed};

/// The server's port, of UDP and of TCP.
pub const PORT: u16 = 53;

/// A port that the server is not asked at.
const ANOTHER_PORT: u16 = 5353;

/// What a client asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// When.
    pub at: Duration,
    /// The question's number.
    pub id: u16,
    /// The name that it is about, without a dot at its end.
    pub name: String,
    /// The type of the records that it is about.
    pub kind: u16,
    /// The address that was asked.
    pub server: IpAddr,
    /// The client's port.
    pub port: u16,
    /// Whether it was asked over TCP.
    pub over_tcp: bool,
}

/// The types of records (RFC 1035 §3.2.2, RFC 3596 §2.1).
pub mod kind {
    /// An IPv4 address.
    pub const A: u16 = 1;
    /// Another name of the host.
    pub const CNAME: u16 = 5;
    /// An IPv6 address.
    pub const AAAA: u16 = 28;
}

/// Why a query has no answer (RFC 1035 §4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The query is malformed.
    Format = 1,
    /// The server has a problem.
    Server = 2,
    /// There is no such name.
    Name = 3,
    /// The server does not want to.
    Refused = 5,
}

/// What a server knows about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name.
    pub name: String,
    /// For how many seconds it may be remembered.
    pub ttl_seconds: u32,
    /// What is known.
    pub data: Data,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// An IPv4 address.
    A(Ipv4Addr),
    /// An IPv6 address.
    Aaaa(Ipv6Addr),
    /// Another name of the host.
    Cname(String),
    /// Anything: the type of the record, and its content.
    Other(u16, Vec<u8>),
}

impl Record {
    /// What is known about `name`, for a minute.
    pub fn new(name: &str, data: Data) -> Self {
        Self {
            name: name.to_owned(),
            ttl_seconds: 60,
            data,
        }
    }
}

/// What the server does about a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Answers with these records; without any, the name has none of the type.
    Answer(Vec<Record>),
    /// Says why there is no answer.
    Failure(Failure),
    /// Answers with these records, and that there are more to be had by TCP.
    Truncated(Vec<Record>),
    /// Nothing.
    Silence,
    /// What [`Answer`](Self::Answer) does, but for a lie.
    Lie(Vec<Record>, Lie),
    /// One after the other.
    Several(Vec<Reply>),
}

/// What is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It has another number than the query.
    Id,
    /// It repeats another name than the query has.
    Question,
    /// It repeats another type than the query has.
    QuestionKind,
    /// It says that it is a query.
    NoResponse,
    /// It comes from another port.
    SourcePort,
    /// It comes from another address.
    SourceAddress(IpAddr),
    /// It goes to another port.
    ClientPort,
    /// It has a name that goes on where it begins.
    Loop,
    /// It says that it has so many records more than it has.
    Missing(u16),
    /// It ends after so many bytes.
    Cut(usize),
    /// It is these bytes instead.
    Garbage(Vec<u8>),
}

type Script = Box<dyn FnMut(&Query) -> Reply + Send>;

/// The server, without a clock or a network.
pub struct Server {
    script: Script,
    queries: Vec<Query>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("queries", &self.queries)
            .finish_non_exhaustive()
    }
}

/// Where an answer comes from and goes to.
#[derive(Clone, Copy)]
struct Ends {
    server: Host<IpAddr>,
    server_port: u16,
    client: Host<IpAddr>,
    client_port: u16,
}

impl Server {
    /// A server that asks `script` what to do about each query.
    pub fn new(script: impl FnMut(&Query) -> Reply + Send + 'static) -> Self {
        Self {
            script: Box::new(script),
            queries: Vec::new(),
        }
    }

    /// A server that knows `records`, and follows chains of names.
    pub fn knowing(records: Vec<Record>) -> Self {
        Self::new(move |query| answer_from(&records, query))
    }

    /// All queries so far.
    pub fn queries(&self) -> &[Query] {
        &self.queries
    }

    /// Looks at what came in: whether it is for a DNS server, and the frames
    /// that answer it.
    pub fn receive(&mut self, parsed: &Parsed<'_>, now: Duration) -> Option<Vec<Vec<u8>>> {
        let &Parsed::Udp {
            from,
            to,
            src_port,
            dst_port: PORT,
            data,
        } = parsed
        else {
            return None;
        };
        let Some(query) = message::parse(data, now, to.ip, src_port, false) else {
            return Some(Vec::new());
        };
        let ends = Ends {
            server: to,
            server_port: PORT,
            client: from,
            client_port: src_port,
        };
        let reply = self.ask(&query);
        let mut frames = Vec::new();
        for_each(&reply, &mut |reply| {
            let message = message::answer(&query, reply)?;
            frames.push(datagram(ends, reply, &message));
            Some(())
        });
        Some(frames)
    }

    /// Answers a query that came over TCP, without the length before it.
    pub fn answer_stream(
        &mut self,
        query: &[u8],
        now: Duration,
        server: IpAddr,
        port: u16,
    ) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        if let Some(query) = message::parse(query, now, server, port, true) {
            let reply = self.ask(&query);
            for_each(&reply, &mut |reply| {
                messages.push(message::answer(&query, reply)?);
                Some(())
            });
        }
        messages
    }

    fn ask(&mut self, query: &Query) -> Reply {
        self.queries.push(query.clone());
        (self.script)(query)
    }
}

/// The simple replies in `reply`.
fn for_each(reply: &Reply, act: &mut impl FnMut(&Reply) -> Option<()>) {
    if let Reply::Several(replies) = reply {
        for reply in replies {
            for_each(reply, act);
        }
    } else {
        act(reply);
    }
}

fn datagram(mut ends: Ends, reply: &Reply, message: &[u8]) -> Vec<u8> {
    match reply {
        Reply::Lie(_, Lie::SourcePort) => ends.server_port = ANOTHER_PORT,
        Reply::Lie(_, Lie::SourceAddress(ip)) => ends.server.ip = *ip,
        Reply::Lie(_, Lie::ClientPort) => ends.client_port ^= 1,
        _ => {}
    }
    let Ends {
        server,
        server_port,
        client,
        client_port,
    } = ends;
    frame::udp(server, client, server_port, client_port, message)
}

/// The records that answer `query`: those of its name, and where that is
/// another name of a host, those of that one.
fn answer_from(records: &[Record], query: &Query) -> Reply {
    let mut name = query.name.clone();
    let mut answer: Vec<Record> = Vec::new();
    loop {
        let of_name = records
            .iter()
            .filter(|record| record.name.eq_ignore_ascii_case(&name));
        let Some(first) = of_name.clone().next() else {
            break;
        };
        match &first.data {
            Data::Cname(next) if query.kind != kind::CNAME && answer.len() < records.len() => {
                answer.push(first.clone());
                name.clone_from(next);
            }
            _ => {
                let of_kind = of_name.filter(|record| record.data.kind() == query.kind);
                answer.extend(of_kind.cloned());
                return Reply::Answer(answer);
            }
        }
    }
    if answer.is_empty() {
        Reply::Failure(Failure::Name)
    } else {
        Reply::Answer(answer)
    }
}

impl Data {
    /// The type of a record with this content.
    pub fn kind(&self) -> u16 {
        match self {
            Self::A(_) => kind::A,
            Self::Aaaa(_) => kind::AAAA,
            Self::Cname(_) => kind::CNAME,
            Self::Other(kind, _) => *kind,
        }
    }
}
