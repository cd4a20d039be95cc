//! Thousands of TCP clients of one guest, each from an address of its own.
//!
//! They live behind a router, which is the crowd's only card. A client is what
//! little one has to remember, so ten thousand of them cost the machine nothing;
//! nobody runs them but [`Crowd::run`].

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smoltcp::wire::{ArpOperation, ArpRepr, Ipv4Address, TcpControl, TcpRepr, TcpSeqNumber};

use crate::config::Config;
use crate::frame::{self, Host, Parsed};
use crate::link::Link;

/// The clients' addresses begin here.
const FIRST_CLIENT: Ipv4Address = Ipv4Address::new(172, 16, 0, 1);

/// Those of whoever opens connections and never answers (RFC 2544 has them
/// for tests).
const FIRST_STRANGER: Ipv4Address = Ipv4Address::new(198, 18, 0, 1);

/// How long a client waits for an acknowledgement before it repeats itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often an ARP request is repeated.
const ARP_INTERVAL: Duration = Duration::from_millis(100);

/// Clients behind a router.
pub struct Crowd {
    link: Link,
    router: Host,
    guest: Option<Host>,
    clients: Vec<Client>,
    by_end: HashMap<SocketAddrV4, usize>,
    /// Who may have to repeat something, and when it was sent: the oldest first.
    sent: VecDeque<(Instant, usize)>,
    repeated: u64,
    strangers: u32,
    strangers_answered: u64,
}

impl fmt::Debug for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crowd")
            .field("clients", &self.clients.len())
            .field("strangers", &self.strangers)
            .finish_non_exhaustive()
    }
}

/// One of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(usize);

/// Where a client's connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Its SYN has not been answered.
    Opening,
    /// It is established.
    Open,
    /// The guest has ended it in an orderly way.
    Ended,
    /// The guest has reset it.
    Reset,
}

struct Client {
    end: SocketAddrV4,
    port: u16,
    connection: Connection,
    /// The number of the first byte in `unacknowledged`.
    acknowledged: TcpSeqNumber,
    unacknowledged: Vec<u8>,
    /// The number of the next byte to come.
    expected: TcpSeqNumber,
    received: Vec<u8>,
    sent_at: Instant,
}

impl Crowd {
    /// A crowd on the other end of a guest's link, behind the router of `config`.
    ///
    /// # Errors
    ///
    /// If the socket cannot be made non-blocking.
    pub fn on(stream: UnixStream, config: Config) -> io::Result<Self> {
        Ok(Self {
            link: Link::new(stream)?,
            router: config.host,
            guest: None,
            clients: Vec::new(),
            by_end: HashMap::new(),
            sent: VecDeque::new(),
            repeated: 0,
            strangers: 0,
            strangers_answered: 0,
        })
    }

    /// Finds out the hardware address of the guest, which has `ip`; whether it
    /// answers in time.
    ///
    /// # Errors
    ///
    /// If the link ends.
    pub fn meet(&mut self, ip: Ipv4Address, timeout: Duration) -> io::Result<bool> {
        let end = Instant::now() + timeout;
        while self.guest.is_none_or(|guest| guest.ip != ip) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.link.send(&frame::arp_request(self.router, ip));
            self.run(left.min(ARP_INTERVAL), |crowd| {
                crowd.guest.is_some_and(|guest| guest.ip == ip)
            })?;
        }
        Ok(true)
    }

    /// Begins to connect to a port of the guest.
    ///
    /// # Panics
    ///
    /// If the crowd has not met the guest.
    pub fn open(&mut self, port: u16) -> ClientId {
        let number = self.clients.len();
        let end = SocketAddrV4::new(
            Ipv4Address::from_bits(FIRST_CLIENT.to_bits() + number as u32),
            40_000,
        );
        let initial = TcpSeqNumber((number as i32).wrapping_mul(0x0101_0101));
        self.clients.push(Client {
            end,
            port,
            connection: Connection::Opening,
            acknowledged: initial,
            unacknowledged: Vec::new(),
            expected: TcpSeqNumber(0),
            received: Vec::new(),
            sent_at: Instant::now(),
        });
        self.by_end.insert(end, number);
        self.send_outstanding(number);
        ClientId(number)
    }

    /// Sends data on an open connection.
    ///
    /// # Panics
    ///
    /// If it is more than one segment takes, or an earlier one is not
    /// acknowledged.
    pub fn send(&mut self, client: ClientId, data: &[u8]) {
        let it = &mut self.clients[client.0];
        assert!(it.unacknowledged.is_empty() && data.len() <= 1460);
        it.unacknowledged.extend_from_slice(data);
        self.send_outstanding(client.0);
    }

    /// Resets a connection.
    pub fn reset(&mut self, client: ClientId) {
        self.clients[client.0].connection = Connection::Reset;
        self.answer(client.0, TcpControl::Rst);
    }

    /// Where a client's connection stands.
    pub fn connection(&self, client: ClientId) -> Connection {
        self.clients[client.0].connection
    }

    /// What a client has received and nobody has taken away.
    pub fn received(&mut self, client: ClientId) -> &mut Vec<u8> {
        &mut self.clients[client.0].received
    }

    /// Sends a SYN to a port of the guest, from an address that is new each time
    /// and will not answer.
    ///
    /// # Panics
    ///
    /// If the crowd has not met the guest.
    pub fn open_as_stranger(&mut self, port: u16) {
        let ip = Ipv4Address::from_bits(FIRST_STRANGER.to_bits() + self.strangers);
        let src_port = 1_024 + (self.strangers % 60_000) as u16;
        self.strangers += 1;
        let syn = TcpRepr {
            max_seg_size: Some(1460),
            ..frame::segment(src_port, port, TcpControl::Syn)
        };
        let from = Host { ip, ..self.router };
        self.link.send(&frame::tcp(from, self.guest(), &syn));
    }

    /// How many answers strangers have got.
    pub fn strangers_answered(&self) -> u64 {
        self.strangers_answered
    }

    /// How many segments clients had to repeat.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Runs all clients until `done` says so; whether it does in time.
    ///
    /// # Errors
    ///
    /// If the link ends.
    pub fn run(
        &mut self,
        timeout: Duration,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> io::Result<bool> {
        let end = Instant::now() + timeout;
        loop {
            for bytes in self.link.receive()? {
                if let Some(parsed) = Parsed::parse(&bytes) {
                    self.receive(&parsed);
                }
            }
            self.repeat();
            self.link.flush()?;
            if done(self) {
                return Ok(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.wait(left)?;
        }
    }

    /// Waits for the link, or until something may have to be repeated.
    fn wait(&self, at_most: Duration) -> io::Result<()> {
        let due = self.sent.front().map(|&(at, _)| at + PATIENCE);
        let due = due.map(|due| due.saturating_duration_since(Instant::now()));
        let wait = due.map_or(at_most, |due| due.min(at_most));
        let flags = if self.link.has_outgoing() {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        let timeout = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        match poll(
            &mut [PollFd::new(self.link.stream(), flags)],
            Some(&timeout),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn guest(&self) -> Host {
        self.guest.expect("the crowd has met the guest")
    }

    fn receive(&mut self, parsed: &Parsed<'_>) {
        match parsed {
            Parsed::Arp(arp) => self.receive_arp(arp),
            Parsed::Tcp { to, segment, .. } => {
                let IpAddr::V4(ip) = to.ip else {
                    return;
                };
                match self.by_end.get(&SocketAddrV4::new(ip, segment.dst_port)) {
                    Some(&number) => self.receive_segment(number, segment),
                    None => self.strangers_answered += 1,
                }
            }
            _ => {}
        }
    }

    fn receive_arp(&mut self, arp: &ArpRepr) {
        let &ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: mac,
            source_protocol_addr: ip,
            target_protocol_addr,
            ..
        } = arp
        else {
            return;
        };
        let guest = Host { mac, ip };
        self.guest = Some(guest);
        if operation == ArpOperation::Request && target_protocol_addr != ip {
            // The router stands for everybody else (RFC 1027).
            let router = Host {
                ip: target_protocol_addr,
                ..self.router
            };
            self.link.send(&frame::arp_reply(router, guest));
        }
    }

    fn receive_segment(&mut self, number: usize, segment: &TcpRepr<'_>) {
        let client = &mut self.clients[number];
        if segment.src_port != client.port {
            return;
        }
        match (client.connection, segment.control) {
            (Connection::Reset | Connection::Ended, _) => {}
            (_, TcpControl::Rst) => client.connection = Connection::Reset,
            (Connection::Opening, TcpControl::Syn) => {
                if segment.ack_number == Some(client.acknowledged + 1) {
                    client.acknowledged += 1;
                    client.expected = segment.seq_number + 1;
                    client.connection = Connection::Open;
                    self.answer(number, TcpControl::None);
                }
            }
            (Connection::Opening, _) => {}
            // It has not got what acknowledged its own.
            (Connection::Open, TcpControl::Syn) => self.answer(number, TcpControl::None),
            (Connection::Open, _) => self.receive_data(number, segment),
        }
    }

    fn receive_data(&mut self, number: usize, segment: &TcpRepr<'_>) {
        let client = &mut self.clients[number];
        if let Some(ack) = segment.ack_number
            && ack > client.acknowledged
        {
            let count = (ack - client.acknowledged).min(client.unacknowledged.len());
            client.unacknowledged.drain(..count);
            client.acknowledged = ack;
        }
        let is_end = segment.control == TcpControl::Fin;
        if segment.payload.is_empty() && !is_end {
            return;
        }
        let mut control = TcpControl::None;
        if segment.seq_number == client.expected {
            client.received.extend_from_slice(segment.payload);
            client.expected += segment.payload.len();
            if is_end {
                client.expected += 1;
                client.connection = Connection::Ended;
                control = TcpControl::Fin;
            }
        }
        self.answer(number, control);
    }

    /// Sends a segment without data.
    fn answer(&mut self, number: usize, control: TcpControl) {
        let client = &self.clients[number];
        let segment = TcpRepr {
            seq_number: client.acknowledged + client.unacknowledged.len(),
            ack_number: Some(client.expected),
            ..frame::segment(client.end.port(), client.port, control)
        };
        self.transmit(number, &segment);
    }

    /// Sends what is not acknowledged, and notes when.
    fn send_outstanding(&mut self, number: usize) {
        let now = Instant::now();
        let client = &mut self.clients[number];
        client.sent_at = now;
        self.sent.push_back((now, number));
        let data = client.unacknowledged.clone();
        let (port, client_port) = (client.port, client.end.port());
        let seq_number = client.acknowledged;
        let segment = match client.connection {
            Connection::Opening => TcpRepr {
                seq_number,
                max_seg_size: Some(1460),
                ..frame::segment(client_port, port, TcpControl::Syn)
            },
            _ => TcpRepr {
                seq_number,
                ack_number: Some(client.expected),
                payload: &data,
                ..frame::segment(client_port, port, TcpControl::Psh)
            },
        };
        self.transmit(number, &segment);
    }

    fn transmit(&mut self, number: usize, segment: &TcpRepr<'_>) {
        let from = Host {
            ip: *self.clients[number].end.ip(),
            ..self.router
        };
        self.link.send(&frame::tcp(from, self.guest(), segment));
    }

    /// Sends again what has waited too long for its acknowledgement.
    fn repeat(&mut self) {
        let now = Instant::now();
        while let Some(&(sent_at, number)) = self.sent.front()
            && now >= sent_at + PATIENCE
        {
            self.sent.pop_front();
            let client = &self.clients[number];
            let waits = match client.connection {
                Connection::Opening => true,
                Connection::Open => !client.unacknowledged.is_empty(),
                Connection::Ended | Connection::Reset => false,
            };
            if waits && client.sent_at == sent_at {
                self.repeated += 1;
                self.send_outstanding(number);
            }
        }
    }
}
