//! The host at the far end of the wire: smoltcp, with calls as futures.

mod udp;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use firstpoll::arch::{self, host};
use firstpoll::net::{self, Config, Ipv4Config, Ipv4Source, Ipv6Config, Ipv6Source, Limits, Stack};
use firstpoll::runtime;
use firstpoll_peer::frame::Parsed;
use firstpoll_peer::{Direction, Impairment, Path};
use smoltcp::iface::{self, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{self, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address};

use crate::frames6::{PEER_LINK_LOCAL, STACK_IP6};
use crate::wire::Wire;

pub use udp::PeerSocket;

pub const PEER_MAC: EthernetAddress = EthernetAddress([0x52, 0x54, 0, 0, 0, 2]);
pub const PEER_IP: Ipv4Address = Ipv4Address::new(10, 0, 2, 2);
pub const STACK_IP: Ipv4Address = Ipv4Address::new(10, 0, 2, 15);

/// The clock stands here when a test begins.
pub const START: arch::Instant = arch::Instant::from_nanos(1_000_000_000);

/// What the far host has; handles to it are cheap copies.
#[derive(Clone)]
pub struct Peer {
    pub wire: Wire,
    inner: Rc<RefCell<Inner>>,
}

struct Inner {
    iface: Interface,
    sockets: SocketSet<'static>,
    port: Port,
    /// What happens to frames on their way to the far host, and from it.
    incoming: Path,
    outgoing: Path,
    services: Vec<Service>,
    wakers: Vec<Waker>,
    next_port: u16,
    /// Frames that the stack has sent, for tests that look at them.
    seen: VecDeque<Vec<u8>>,
}

/// Looks at a frame: whether it is for it, and the frames that answer it.
type Service = Box<dyn FnMut(&Parsed<'_>, std::time::Duration) -> Option<Vec<Vec<u8>>>>;

#[derive(Default)]
struct Port {
    arrived: VecDeque<Vec<u8>>,
    departing: VecDeque<Vec<u8>>,
}

/// A stack with a static address, on a clock that stands still until the core
/// halts, and the host at the other end of its wire.
pub fn start() -> (Stack, Peer) {
    start_limited(Limits::default())
}

/// The same, with a stack that may hold less.
pub fn start_limited(limits: Limits) -> (Stack, Peer) {
    start_with(Config {
        limits,
        ..Config::from(Ipv4Config {
            address: STACK_IP,
            prefix_len: 24,
            gateway: Some(PEER_IP),
        })
    })
}

pub fn start_with(config: Config) -> (Stack, Peer) {
    host::set_clock(START);
    runtime::init();
    let (wire, device) = Wire::new();
    let stack = net::start(device, config, 0x5eed);
    let peer = Peer::new(wire);
    // Whenever the core would halt, the far host gets its turn, and time moves
    // on to whatever comes first.
    let halted = peer.clone();
    host::on_halt(move |programmed| halted.turn(programmed));
    (stack, peer)
}

/// The time that has passed, as paths count it.
fn path_now() -> std::time::Duration {
    std::time::Duration::from_nanos(arch::Instant::now().as_nanos())
}

pub fn smol_now() -> Instant {
    Instant::from_micros((arch::Instant::now().as_nanos() / 1000) as i64)
}

impl Peer {
    fn new(wire: Wire) -> Self {
        let mut port = Port::default();
        let mut config = iface::Config::new(PEER_MAC.into());
        config.random_seed = 42;
        let mut iface = Interface::new(config, &mut port, smol_now());
        iface.update_ip_addrs(|addresses| {
            addresses
                .push(IpCidr::new(IpAddress::Ipv4(PEER_IP), 24))
                .unwrap();
        });
        let inner = Inner {
            iface,
            sockets: SocketSet::new(Vec::new()),
            port,
            incoming: Path::default(),
            outgoing: Path::default(),
            services: Vec::new(),
            wakers: Vec::new(),
            next_port: 1024,
            seen: VecDeque::new(),
        };
        Self {
            wire,
            inner: Rc::new(RefCell::new(inner)),
        }
    }

    /// Gives the far host another address.
    pub fn add_address(&self, address: IpAddress, prefix_len: u8) {
        self.with(|inner| {
            inner.iface.update_ip_addrs(|addresses| {
                addresses.push(IpCidr::new(address, prefix_len)).unwrap();
            });
        });
    }

    /// Lets the far host work on what has arrived; whether it sent anything.
    pub fn poll(&self) -> bool {
        let now = path_now();
        let mut inner = self.inner.borrow_mut();
        let Inner {
            iface,
            sockets,
            port,
            incoming,
            outgoing,
            services,
            wakers,
            seen,
            ..
        } = &mut *inner;
        while let Some(frame) = self.wire.receive() {
            seen.push_back(frame.clone());
            incoming.send(frame, now);
        }
        while let Some(frame) = incoming.receive(now) {
            let parsed = Parsed::parse(&frame);
            let answers = parsed.and_then(|parsed| {
                let mut services = services.iter_mut();
                services.find_map(|service| service(&parsed, now))
            });
            match answers {
                Some(answers) => answers
                    .into_iter()
                    .for_each(|answer| outgoing.send(answer, now)),
                None => port.arrived.push_back(frame),
            }
        }
        iface.poll(smol_now(), port, sockets);
        for frame in port.departing.drain(..) {
            outgoing.send(frame, now);
        }
        let arriving: Vec<_> = std::iter::from_fn(|| outgoing.receive(now)).collect();
        let wakers = std::mem::take(wakers);
        drop(inner);
        for frame in arriving {
            self.wire.send(frame);
        }
        let woken = !wakers.is_empty();
        for waker in wakers {
            waker.wake();
        }
        woken || self.wire.is_busy()
    }

    /// The far host's turn at a halt: works, and if that leads to nothing,
    /// moves the clock to its own next deadline if that comes first.
    pub fn turn(&self, programmed: Option<arch::Instant>) -> bool {
        // Woken futures that make no progress must not hold up the clock.
        let before = self.inner.borrow().seen.len();
        let woken = self.poll();
        if self.wire.is_busy() || (woken && self.inner.borrow().seen.len() > before) {
            return true;
        }
        let Some(at) = self.next_deadline() else {
            return false;
        };
        let at = at.max(arch::Instant::now());
        if programmed.is_some_and(|programmed| programmed <= at) {
            return false;
        }
        host::set_clock(at);
        self.poll();
        true
    }

    /// When the far host has something to do, or a frame arrives.
    fn next_deadline(&self) -> Option<arch::Instant> {
        self.with(|inner| {
            let host = inner.iface.poll_at(smol_now(), &inner.sockets);
            let host = host.map(|at| at.total_micros() as u64 * 1000);
            let arrivals = [&inner.incoming, &inner.outgoing].map(Path::next_arrival);
            let arrivals = arrivals.into_iter().flatten();
            let arrivals = arrivals.map(|at| at.as_nanos() as u64);
            arrivals.chain(host).min().map(arch::Instant::from_nanos)
        })
    }

    /// Changes what happens to frames on their way, as the far host sees it.
    pub fn impair(&self, direction: Direction, impairment: Impairment, seed: u64) {
        self.with_path(direction, |path| path.impair(impairment, seed));
    }

    /// Shows each frame to `service` before the far host sees it.
    pub fn serve(
        &self,
        service: impl FnMut(&Parsed<'_>, std::time::Duration) -> Option<Vec<Vec<u8>>> + 'static,
    ) {
        self.with(|inner| inner.services.push(Box::new(service)));
    }

    /// Does what is called for to one of the ways.
    pub fn with_path<R>(&self, direction: Direction, body: impl FnOnce(&mut Path) -> R) -> R {
        self.with(|inner| match direction {
            Direction::Incoming => body(&mut inner.incoming),
            Direction::Outgoing => body(&mut inner.outgoing),
        })
    }

    /// The frames that the stack has sent since the last call.
    pub fn take_seen(&self) -> Vec<Vec<u8>> {
        self.poll();
        self.inner.borrow_mut().seen.drain(..).collect()
    }

    fn with<R>(&self, body: impl FnOnce(&mut Inner) -> R) -> R {
        body(&mut self.inner.borrow_mut())
    }

    /// Waits until `attempt` has a result, trying whenever something happened.
    async fn until<R>(&self, mut attempt: impl FnMut(&mut Inner) -> Option<R>) -> R {
        poll_fn(|context| {
            self.with(|inner| match attempt(inner) {
                Some(result) => Poll::Ready(result),
                None => {
                    inner.wakers.push(context.waker().clone());
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// Begins to connect to the stack's `port`; an even port number at the far
    /// side, one after the other.
    pub fn begin(&self, port: u16) -> PeerStream {
        self.begin_with(port, 64 << 10)
    }

    pub fn begin_with(&self, port: u16, buffer: usize) -> PeerStream {
        let from = self.with(|inner| {
            inner.next_port = inner.next_port.checked_add(2).unwrap_or(1024);
            inner.next_port
        });
        self.begin_as(from, port, buffer)
    }

    /// Begins to connect from a chosen port.
    pub fn begin_from(&self, from: u16, port: u16) -> PeerStream {
        self.begin_as(from, port, 64 << 10)
    }

    fn begin_as(&self, from: u16, port: u16, buffer: usize) -> PeerStream {
        self.begin_to(STACK_IP.into(), from, port, buffer)
    }

    /// Begins to connect to any of the stack's addresses.
    pub fn begin_to(&self, to: IpAddress, from: u16, port: u16, buffer: usize) -> PeerStream {
        self.with(|inner| {
            let mut socket = new_socket(buffer);
            socket
                .connect(inner.iface.context(), (to, port), from)
                .unwrap();
            PeerStream {
                handle: inner.sockets.add(socket),
                peer: self.clone(),
            }
        })
    }

    /// Connects to the stack's `port`; `None` if it was refused.
    pub async fn connect(&self, port: u16) -> Option<PeerStream> {
        let stream = self.begin(port);
        stream.established().await.then_some(stream)
    }

    /// Listens on `port` for one connection.
    pub fn listen(&self, port: u16) -> PeerStream {
        self.listen_with(port, 64 << 10)
    }

    /// Listens on `port` for one connection, with buffers of this size.
    pub fn listen_with(&self, port: u16, buffer: usize) -> PeerStream {
        self.with(|inner| {
            let mut socket = new_socket(buffer);
            socket.listen(port).unwrap();
            PeerStream {
                handle: inner.sockets.add(socket),
                peer: self.clone(),
            }
        })
    }

    /// The number of sockets that the far host still has.
    pub fn forget_closed(&self) {
        self.with(|inner| {
            let closed: Vec<_> = inner
                .sockets
                .iter()
                .filter_map(|(handle, socket)| {
                    let smoltcp::socket::Socket::Tcp(socket) = socket else {
                        return None;
                    };
                    matches!(socket.state(), State::Closed | State::TimeWait).then_some(handle)
                })
                .collect();
            for handle in closed {
                inner.sockets.remove(handle);
            }
        });
    }
}

fn new_socket(buffer: usize) -> Socket<'static> {
    let mut socket = Socket::new(
        SocketBuffer::new(vec![0; buffer]),
        SocketBuffer::new(vec![0; buffer]),
    );
    socket.set_nagle_enabled(false);
    socket
}

/// A connection, or a listening socket, of the far host.
pub struct PeerStream {
    peer: Peer,
    handle: SocketHandle,
}

impl PeerStream {
    fn with<R>(&self, body: impl FnOnce(&mut Socket<'static>) -> R) -> R {
        self.peer
            .with(|inner| body(inner.sockets.get_mut(self.handle)))
    }

    async fn until<R>(&self, mut attempt: impl FnMut(&mut Socket<'static>) -> Option<R>) -> R {
        self.peer
            .until(|inner| attempt(inner.sockets.get_mut(self.handle)))
            .await
    }

    pub fn state(&self) -> State {
        self.with(|socket| socket.state())
    }

    /// Waits until the connection is established; `false` if it was refused.
    pub async fn established(&self) -> bool {
        self.until(|socket| match socket.state() {
            State::Listen | State::SynSent | State::SynReceived => None,
            State::Closed => Some(false),
            _ => Some(true),
        })
        .await
    }

    pub async fn write_all(&self, mut data: &[u8]) {
        while !data.is_empty() {
            let count = self
                .until(|socket| match socket.send_slice(data).unwrap() {
                    0 => None,
                    count => Some(count),
                })
                .await;
            data = &data[count..];
        }
    }

    /// Reads what there is; empty at the end of the stream.
    pub async fn read(&self) -> Result<Vec<u8>, tcp::RecvError> {
        self.until(|socket| {
            let mut buffer = vec![0; 1 << 16];
            match socket.recv_slice(&mut buffer) {
                Ok(0) => None,
                Ok(count) => {
                    buffer.truncate(count);
                    Some(Ok(buffer))
                }
                Err(tcp::RecvError::Finished) => Some(Ok(Vec::new())),
                Err(error) => Some(Err(error)),
            }
        })
        .await
    }

    pub async fn read_to_end(&self) -> Result<Vec<u8>, tcp::RecvError> {
        let mut all = Vec::new();
        loop {
            let part = self.read().await?;
            if part.is_empty() {
                return Ok(all);
            }
            all.extend(part);
        }
    }

    pub async fn read_exactly(&self, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            let part = self.read().await.unwrap();
            assert!(!part.is_empty(), "the stream ended early");
            all.extend(part);
        }
        all
    }

    /// How many bytes were written and not acknowledged.
    pub fn send_queue(&self) -> usize {
        self.with(|socket| socket.send_queue())
    }

    pub fn close(&self) {
        self.with(|socket| socket.close());
    }

    pub fn abort(&self) {
        self.with(|socket| socket.abort());
    }

    /// Waits until the connection is over.
    pub async fn closed(&self) {
        self.until(|socket| {
            matches!(socket.state(), State::Closed | State::TimeWait).then_some(())
        })
        .await;
    }
}

impl phy::Device for Port {
    type RxToken<'a> = RxToken;
    type TxToken<'a> = TxToken<'a>;

    fn receive(&mut self, _: Instant) -> Option<(RxToken, TxToken<'_>)> {
        let frame = self.arrived.pop_front()?;
        Some((RxToken(frame), TxToken(&mut self.departing)))
    }

    fn transmit(&mut self, _: Instant) -> Option<TxToken<'_>> {
        Some(TxToken(&mut self.departing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

pub struct RxToken(Vec<u8>);
pub struct TxToken<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::RxToken for RxToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push_back(frame);
        result
    }
}

/// Given addresses of both families, with routers.
pub fn both_families() -> Config {
    Config {
        ipv4: Ipv4Source::Static(Ipv4Config {
            address: STACK_IP,
            prefix_len: 24,
            gateway: Some(PEER_IP),
        }),
        ipv6: Ipv6Source::Static(Ipv6Config {
            address: STACK_IP6,
            prefix_len: 64,
            gateway: Some(PEER_LINK_LOCAL),
        }),
        ..Config::default()
    }
}
