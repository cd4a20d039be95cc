//! The peer's state: frames and the time go in, frames come out.

mod probing;
mod queues;
mod services;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use smoltcp::iface::{self, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{ArpOperation, ArpRepr, EthernetAddress, IpCidr, IpEndpoint, Ipv6Address};

use crate::config::Config;
use crate::datagrams::Datagrams;
use crate::dns_stream::DnsStreams;
use crate::frame::ndp::{self, Advertisement};
use crate::frame::{self, Host, Parsed};
use crate::probes::Probes;
use crate::{dhcp, dns};
use queues::Queues;

/// How many connections to a listener may begin at once. Those that have begun
/// wait for as long as it takes.
const BACKLOG: usize = 16;

/// Connections to the other side come from these ports.
const FIRST_PORT: u16 = 40_000;

/// A host on the network, without threads, sockets or a clock.
///
/// Time is what has passed since the engine was made.
pub struct Engine {
    config: Config,
    queues: Queues,
    interface: Interface,
    sockets: SocketSet<'static>,
    /// Sockets that are dropped once they have said goodbye.
    leaving: Vec<SocketHandle>,
    listeners: HashMap<u16, Listener>,
    next_port: u16,
    neighbours: HashMap<IpAddr, EthernetAddress>,
    probes: Probes,
    datagrams: Datagrams,
    advertisement: Option<Advertisement>,
    dhcp: Option<dhcp::Server>,
    dns: Option<dns::Server>,
    dns_streams: DnsStreams,
    captures: HashMap<u64, Captured>,
    next_capture: u64,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("config", &self.config)
            .field("neighbours", &self.neighbours)
            .finish_non_exhaustive()
    }
}

type Filter = Box<dyn Fn(&[u8]) -> bool + Send>;

/// Frames that a filter let through.
struct Captured {
    filter: Filter,
    frames: VecDeque<Vec<u8>>,
}

/// A port that connections are accepted on.
struct Listener {
    listening: Vec<SocketHandle>,
    /// Connections whose handshake is over, in the order of arrival.
    waiting: VecDeque<SocketHandle>,
}

impl Engine {
    /// An idle host.
    pub fn new(config: Config) -> Self {
        let mut queues = Queues::new(config.mtu);
        let hardware = iface::Config::new(config.host.mac.into());
        let mut interface = Interface::new(hardware, &mut queues, Instant::ZERO);
        let link_local = ndp::link_local(config.host.mac);
        interface.update_ip_addrs(|addresses| {
            for address in [
                IpCidr::new(config.host.ip.into(), config.prefix_len),
                IpCidr::new(config.ip6.into(), 64),
                IpCidr::new(link_local.into(), 64),
            ] {
                addresses.push(address).expect("they are the first three");
            }
        });
        Self {
            config,
            queues,
            interface,
            sockets: SocketSet::new(Vec::new()),
            leaving: Vec::new(),
            listeners: HashMap::new(),
            next_port: FIRST_PORT,
            neighbours: HashMap::new(),
            probes: Probes::default(),
            datagrams: Datagrams::default(),
            advertisement: None,
            dhcp: None,
            dns: None,
            dns_streams: DnsStreams::default(),
            captures: HashMap::new(),
            next_capture: 0,
        }
    }

    /// Its addresses of the link and of IPv4.
    pub fn host(&self) -> Host {
        self.config.host
    }

    /// Its addresses of the link and of IPv6: the link-local one or the other.
    pub fn host6(&self, link_local: bool) -> Host<Ipv6Address> {
        let mac = self.config.host.mac;
        let ip = if link_local {
            ndp::link_local(mac)
        } else {
            self.config.ip6
        };
        Host { mac, ip }
    }

    /// Its addresses, as a host with `ip` shall see them.
    pub fn host_for(&self, ip: IpAddr) -> Host<IpAddr> {
        match ip {
            IpAddr::V4(_) => self.host().any(),
            IpAddr::V6(ip) => self.host6(ip.is_unicast_link_local()).any(),
        }
    }

    /// Gives the host one more address.
    ///
    /// # Panics
    ///
    /// If it has eight.
    pub fn add_address(&mut self, ip: IpAddr) {
        let prefix_len = match ip {
            IpAddr::V4(_) => self.config.prefix_len,
            IpAddr::V6(_) => 64,
        };
        self.interface.update_ip_addrs(|addresses| {
            let pushed = addresses.push(IpCidr::new(ip.into(), prefix_len));
            pushed.expect("a host has eight addresses at most");
        });
    }

    /// A frame has arrived.
    pub fn receive(&mut self, frame: Vec<u8>, now: Duration) {
        for capture in self.captures.values_mut() {
            if (capture.filter)(&frame) {
                capture.frames.push_back(frame.clone());
            }
        }
        if let Some(parsed) = Parsed::parse(&frame) {
            self.learn(&parsed);
            if let Some(answers) = self.answer(&parsed, now) {
                self.queues.outgoing.extend(answers);
                return;
            }
        }
        self.queues.incoming.push_back(frame);
    }

    /// Does what is due.
    pub fn poll(&mut self, now: Duration) {
        self.poll_interface(now);
        if self.dns.is_some() {
            self.serve_dns_streams(now);
            self.poll_interface(now);
        }
        let sockets = &mut self.sockets;
        self.leaving.retain(|&handle| {
            let state = sockets.get::<tcp::Socket<'_>>(handle).state();
            // A test's ports are never reused, so nothing waits for old segments.
            let gone = matches!(state, tcp::State::Closed | tcp::State::TimeWait);
            if gone {
                sockets.remove(handle);
            }
            !gone
        });
    }

    fn poll_interface(&mut self, now: Duration) {
        self.interface
            .poll(instant(now), &mut self.queues, &mut self.sockets);
        self.promote();
    }

    /// The next frame to send.
    pub fn transmit(&mut self) -> Option<Vec<u8>> {
        self.queues.outgoing.pop_front()
    }

    /// When [`poll`](Self::poll) has something to do, if no frame arrives.
    pub fn next_deadline(&mut self, now: Duration) -> Option<Duration> {
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        let at = u64::try_from(at.total_micros()).unwrap_or(0);
        Some(Duration::from_micros(at))
    }

    /// Sends a frame as it is.
    pub fn send_frame(&mut self, frame: Vec<u8>) {
        self.queues.outgoing.push_back(frame);
    }

    /// Keeps copies of the frames that arrive from now on and that `filter`
    /// lets through.
    pub fn capture(&mut self, filter: impl Fn(&[u8]) -> bool + Send + 'static) -> u64 {
        let id = self.next_capture;
        self.next_capture += 1;
        let captured = Captured {
            filter: Box::new(filter),
            frames: VecDeque::new(),
        };
        self.captures.insert(id, captured);
        id
    }

    /// The oldest captured frame.
    pub fn take_captured(&mut self, capture: u64) -> Option<Vec<u8>> {
        self.captures.get_mut(&capture)?.frames.pop_front()
    }

    /// Captures no more.
    pub fn end_capture(&mut self, capture: u64) {
        self.captures.remove(&capture);
    }

    /// Asks who has `ip`.
    pub fn ask_for(&mut self, ip: IpAddr) {
        let frame = match ip {
            IpAddr::V4(ip) => frame::arp_request(self.host(), ip),
            IpAddr::V6(ip) => {
                let from = self.host6(ip.is_unicast_link_local());
                ndp::neighbor_solicitation(from, ip)
            }
        };
        self.send_frame(frame);
    }

    /// The host that has `ip`, if it was ever heard of.
    pub fn neighbour<A: Copy + Into<IpAddr>>(&self, ip: A) -> Option<Host<A>> {
        let mac = *self.neighbours.get::<IpAddr>(&ip.into())?;
        Some(Host { mac, ip })
    }

    /// Begins to connect; the socket tells how it went.
    pub fn connect(&mut self, to: SocketAddr) -> SocketHandle {
        let remote = IpEndpoint::from(to);
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
        let mut socket = socket(&self.config);
        socket
            .connect(self.interface.context(), remote, port)
            .expect("the socket is new and the ports are not zero");
        self.sockets.add(socket)
    }

    /// Accepts connections to `port`.
    pub fn listen(&mut self, port: u16) {
        let (config, sockets) = (&self.config, &mut self.sockets);
        let places = (0..BACKLOG).map(|_| listening(config, sockets, port));
        let listening = places.collect();
        let listener = Listener {
            listening,
            waiting: VecDeque::new(),
        };
        self.listeners.insert(port, listener);
    }

    /// A connection to `port`, whose handshake is over.
    pub fn accept(&mut self, port: u16) -> Option<SocketHandle> {
        self.listeners.get_mut(&port)?.waiting.pop_front()
    }

    /// Accepts no more connections to `port`; those that wait are reset.
    pub fn end_listening(&mut self, port: u16) {
        let listener = self.listeners.remove(&port);
        let handles = listener.map(|listener| [listener.listening, listener.waiting.into()]);
        for handle in handles.into_iter().flatten().flatten() {
            self.socket(handle).abort();
            self.leave(handle);
        }
    }

    /// A TCP socket.
    pub fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Drops a socket once it has said goodbye; it must have been closed or
    /// aborted.
    pub fn leave(&mut self, handle: SocketHandle) {
        self.leaving.push(handle);
    }

    /// Puts another in the place of each listening socket that has a connection.
    fn promote(&mut self) {
        for (&port, listener) in &mut self.listeners {
            for place in &mut listener.listening {
                let state = self.sockets.get::<tcp::Socket<'_>>(*place).state();
                if !matches!(state, tcp::State::Listen | tcp::State::SynReceived) {
                    let next = listening(&self.config, &mut self.sockets, port);
                    listener.waiting.push_back(std::mem::replace(place, next));
                }
            }
        }
    }

    /// Remembers who is who.
    fn learn(&mut self, parsed: &Parsed<'_>) {
        if let Parsed::Neighbor { from, .. } = *parsed
            && !from.ip.is_unspecified()
        {
            self.neighbours.insert(from.ip.into(), from.mac);
        }
        if let Parsed::Arp(ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply | ArpOperation::Request,
            source_hardware_addr: mac,
            source_protocol_addr: ip,
            ..
        }) = *parsed
        {
            self.neighbours.insert(ip.into(), mac);
        }
    }
}

fn instant(since_start: Duration) -> Instant {
    let micros = since_start.as_micros();
    Instant::from_micros(i64::try_from(micros).expect("no test runs for 290,000 years"))
}

/// A socket that listens on `port`.
fn listening(config: &Config, sockets: &mut SocketSet<'static>, port: u16) -> SocketHandle {
    let mut socket = socket(config);
    socket
        .listen(port)
        .expect("the socket is new and the port is not zero");
    sockets.add(socket)
}

fn socket(config: &Config) -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; config.tcp_buffer_bytes]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    // A test tool must not add waits of its own.
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket
}
