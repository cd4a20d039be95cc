//! The peer's state: frames and the time go in, frames come out.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddrV4;
use std::time::Duration;

use smoltcp::iface::{self, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{
    ArpOperation, ArpRepr, EthernetAddress, IpAddress, IpCidr, IpEndpoint, Ipv4Address,
};

use crate::dhcp::{Lease, Server};
use crate::frame::{self, Host, Parsed};
use crate::probes::Probes;

/// Of an Ethernet frame with an MTU of 1500.
const MAX_FRAME_BYTES: usize = 1514;

/// Of each direction of a connection.
const TCP_BUFFER_BYTES: usize = 64 * 1024;

/// How many connections to a listener may wait to be accepted.
const BACKLOG: usize = 16;

/// Connections to the other side come from these ports.
const FIRST_PORT: u16 = 40_000;

/// Who the peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its addresses.
    pub host: Host,
    /// The length of the network's part of its IP address.
    pub prefix_len: u8,
}

impl Default for Config {
    /// 10.0.2.2/24, where QEMU's user-mode network has the host.
    fn default() -> Self {
        Self {
            host: Host {
                mac: EthernetAddress([0x52, 0x55, 0x0a, 0x00, 0x02, 0x02]),
                ip: Ipv4Address::new(10, 0, 2, 2),
            },
            prefix_len: 24,
        }
    }
}

/// A host on the network, without threads, sockets or a clock.
///
/// Time is what has passed since the engine was made.
pub struct Engine {
    host: Host,
    queues: Queues,
    interface: Interface,
    sockets: SocketSet<'static>,
    /// Sockets that are dropped once they have said goodbye.
    leaving: Vec<SocketHandle>,
    listeners: HashMap<u16, Vec<SocketHandle>>,
    next_port: u16,
    neighbours: HashMap<Ipv4Address, EthernetAddress>,
    probes: Probes,
    dhcp: Option<Server>,
    captures: HashMap<u64, Captured>,
    next_capture: u64,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("host", &self.host)
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

impl Engine {
    /// An idle host.
    pub fn new(config: Config) -> Self {
        let mut queues = Queues::default();
        let hardware = iface::Config::new(config.host.mac.into());
        let mut interface = Interface::new(hardware, &mut queues, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            let address = IpCidr::new(config.host.ip.into(), config.prefix_len);
            addresses.push(address).expect("it is the first address");
        });
        Self {
            host: config.host,
            queues,
            interface,
            sockets: SocketSet::new(Vec::new()),
            leaving: Vec::new(),
            listeners: HashMap::new(),
            next_port: FIRST_PORT,
            neighbours: HashMap::new(),
            probes: Probes::default(),
            dhcp: None,
            captures: HashMap::new(),
            next_capture: 0,
        }
    }

    /// Its addresses.
    pub fn host(&self) -> Host {
        self.host
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
            let answer = self.probes.receive(self.host, &parsed, now);
            let answer = answer.or_else(|| self.dhcp.as_mut()?.receive(self.host, &parsed));
            if let Some(answer) = answer {
                self.queues.outgoing.extend(answer);
                return;
            }
        }
        self.queues.incoming.push_back(frame);
    }

    /// Does what is due.
    pub fn poll(&mut self, now: Duration) {
        let now = instant(now);
        self.interface
            .poll(now, &mut self.queues, &mut self.sockets);
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
    pub fn ask_for(&mut self, ip: Ipv4Address) {
        self.send_frame(frame::arp_request(self.host, ip));
    }

    /// The host that has `ip`, if it was ever heard of.
    pub fn neighbour(&self, ip: Ipv4Address) -> Option<Host> {
        let mac = *self.neighbours.get(&ip)?;
        Some(Host { mac, ip })
    }

    /// Sends an echo request.
    pub fn ping(&mut self, to: Host, seq: u16, now: Duration) {
        let frame = self.probes.ping(self.host, to, seq, now);
        self.send_frame(frame);
    }

    /// How long the answer to an echo request took, once it is there.
    pub fn take_pong(&mut self, ip: Ipv4Address, seq: u16) -> Option<Duration> {
        self.probes.take_pong(ip, seq)
    }

    /// Begins a TCP handshake by hand; the port of ours that it comes from.
    ///
    /// Its answer is acknowledged, so that the other side has an established
    /// connection. It stays so until [`forget`](Self::forget).
    pub fn handshake(&mut self, to: Host, port: u16, now: Duration) -> u16 {
        let (local_port, syn) = self.probes.syn(self.host, to, port, now);
        self.send_frame(syn);
        local_port
    }

    /// How long the SYN from `local_port` waited for its answer.
    pub fn handshake_time(&self, local_port: u16) -> Option<Duration> {
        self.probes.answered(local_port)
    }

    /// Resets a connection that [`handshake`](Self::handshake) made.
    pub fn forget(&mut self, local_port: u16) {
        let reset = self.probes.forget(self.host, local_port);
        self.queues.outgoing.extend(reset);
    }

    /// Gives `lease` to whoever asks for an address.
    pub fn serve_dhcp(&mut self, lease: Lease) {
        self.dhcp = Some(Server::new(lease));
    }

    /// How many requests for an address were granted.
    pub fn granted_leases(&self) -> u32 {
        self.dhcp.as_ref().map_or(0, Server::acknowledged)
    }

    /// Begins to connect; the socket tells how it went.
    pub fn connect(&mut self, to: SocketAddrV4) -> SocketHandle {
        let remote = IpEndpoint::new(IpAddress::Ipv4(*to.ip()), to.port());
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
        let mut socket = socket();
        socket
            .connect(self.interface.context(), remote, port)
            .expect("the socket is new and the ports are not zero");
        self.sockets.add(socket)
    }

    /// Accepts connections to `port`.
    pub fn listen(&mut self, port: u16) {
        let handles = (0..BACKLOG).map(|_| listening(&mut self.sockets, port));
        let handles = handles.collect();
        self.listeners.insert(port, handles);
    }

    /// A connection to `port`, whose handshake is over.
    pub fn accept(&mut self, port: u16) -> Option<SocketHandle> {
        let handles = self.listeners.get_mut(&port)?;
        let ready = handles.iter_mut().find(|handle| {
            let state = self.sockets.get::<tcp::Socket<'_>>(**handle).state();
            !matches!(state, tcp::State::Listen | tcp::State::SynReceived)
        })?;
        let accepted = *ready;
        *ready = listening(&mut self.sockets, port);
        Some(accepted)
    }

    /// Accepts no more connections to `port`; those that wait are reset.
    pub fn end_listening(&mut self, port: u16) {
        for handle in self.listeners.remove(&port).unwrap_or_default() {
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

    /// Remembers who is who.
    fn learn(&mut self, parsed: &Parsed<'_>) {
        if let Parsed::Arp(ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply | ArpOperation::Request,
            source_hardware_addr: mac,
            source_protocol_addr: ip,
            ..
        }) = *parsed
        {
            self.neighbours.insert(ip, mac);
        }
    }
}

fn instant(since_start: Duration) -> Instant {
    let micros = since_start.as_micros();
    Instant::from_micros(i64::try_from(micros).expect("no test runs for 290,000 years"))
}

fn socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; TCP_BUFFER_BYTES]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    // A test tool must not add waits of its own.
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket
}

fn listening(sockets: &mut SocketSet<'static>, port: u16) -> SocketHandle {
    let mut socket = socket();
    socket
        .listen(port)
        .expect("the socket is new and the port is not zero");
    sockets.add(socket)
}

/// The frames between smoltcp and the wire.
#[derive(Debug, Default)]
struct Queues {
    incoming: VecDeque<Vec<u8>>,
    outgoing: VecDeque<Vec<u8>>,
}

impl phy::Device for Queues {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sender<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sender<'_>)> {
        let frame = self.incoming.pop_front()?;
        Some((Received(frame), Sender(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sender<'_>> {
        Some(Sender(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MAX_FRAME_BYTES;
        capabilities
    }
}

#[derive(Debug)]
struct Received(Vec<u8>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

#[derive(Debug)]
struct Sender<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::TxToken for Sender<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        self.0.push_back(frame);
        result
    }
}
