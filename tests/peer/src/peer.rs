//! A thread that runs an engine on a unix socket.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::engine::Engine;
use crate::frame::Host;
use crate::held::Held;
use crate::impair::{Counts, Impairment};
use crate::remote::Direction;
use crate::shared::{Shared, Source};
use crate::tcp::{Listener, Stream};
use crate::udp::UdpSocket;
use crate::{dhcp, dns};

/// How often an ARP request is repeated.
const ARP_INTERVAL: Duration = Duration::from_millis(100);

/// A host on the network of one guest, run by a thread of its own.
///
/// It answers ARP and keeps its connections going all the time; the methods
/// block. Dropping it ends the link, which QEMU survives.
pub struct Peer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    path: Option<PathBuf>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Peer {
    /// Waits in the background for QEMU to connect to a unix socket at `path`,
    /// which must not exist yet and is removed in the end.
    ///
    /// # Errors
    ///
    /// If the socket cannot be made.
    pub fn listen(path: &Path) -> io::Result<Self> {
        Self::listen_as(path, Config::default())
    }

    /// As [`listen`](Self::listen), with addresses of one's own.
    ///
    /// # Errors
    ///
    /// If the socket cannot be made.
    pub fn listen_as(path: &Path, config: Config) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let mut peer = Self::start(config, Source::Listener(listener))?;
        peer.path = Some(path.to_owned());
        Ok(peer)
    }

    /// A peer on one end of a pair of sockets.
    ///
    /// # Errors
    ///
    /// If the operating system refuses a thread or a pipe.
    pub fn on(stream: UnixStream, config: Config) -> io::Result<Self> {
        Self::start(config, Source::Stream(stream))
    }

    fn start(config: Config, source: Source) -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let shared = Arc::new(Shared::new(Engine::new(config), wake));
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("peer".to_owned())
            .spawn(move || {
                let error = for_thread.run(source, &woken).err();
                for_thread.end(error.map_or(ErrorKind::BrokenPipe, |error| error.kind()));
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
            path: None,
        })
    }

    /// Our addresses of the link and of IPv4.
    pub fn host(&self) -> Host {
        self.shared.with(|engine, _| engine.host())
    }

    /// Does what is called for to the engine: what has no method here.
    pub fn with<T>(&self, change: impl FnOnce(&mut Engine, Duration) -> T) -> T {
        self.shared.with(change)
    }

    /// Changes what happens to frames on their way.
    pub fn impair(&self, direction: Direction, impairment: Impairment, seed: u64) {
        let mut state = self.shared.lock();
        state.remote.path(direction).impair(impairment, seed);
    }

    /// Loses the frames that `filter` picks from now on.
    pub fn lose(&self, direction: Direction, filter: impl FnMut(&[u8]) -> bool + Send + 'static) {
        self.shared.lock().remote.path(direction).lose(filter);
    }

    /// What has become of the frames so far.
    pub fn path_counts(&self, direction: Direction) -> Counts {
        self.shared.lock().remote.path(direction).counts()
    }

    /// Finds out who has `ip`, by ARP or the like.
    pub fn resolve<A: Copy + Into<IpAddr>>(&self, ip: A, timeout: Duration) -> Option<Host<A>> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(host) = self.shared.with(|engine, _| engine.neighbour(ip)) {
                return Some(host);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            self.shared.with(|engine, _| engine.ask_for(ip.into()));
            let wait = left.min(ARP_INTERVAL);
            match self.shared.wait(wait, |engine, _| engine.neighbour(ip)) {
                Ok(host) => return Some(host),
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                Err(_) => return None,
            }
        }
    }

    /// Sends one echo request; how long its answer took.
    pub fn ping(
        &self,
        ip: impl Copy + Into<IpAddr>,
        seq: u16,
        timeout: Duration,
    ) -> Option<Duration> {
        let to = self.resolve(ip, timeout)?;
        self.shared.with(|engine, now| engine.ping(to, seq, now));
        let pong = self
            .shared
            .wait(timeout, |engine, _| engine.take_pong(ip.into(), seq));
        pong.ok()
    }

    /// Sends `count` SYNs at once, acknowledges their answers, and resets the
    /// connections in the end; how long each waited for its answer.
    pub fn handshakes(
        &self,
        to: impl Into<SocketAddr>,
        count: usize,
        timeout: Duration,
    ) -> Vec<Option<Duration>> {
        match self.hold(to, count, timeout) {
            Some(held) => held.times(),
            None => vec![None; count],
        }
    }

    /// Sends `count` SYNs at once, acknowledges their answers, waits until all
    /// are answered or refused or the time is up, and keeps the connections.
    ///
    /// `None` if nobody has the address.
    pub fn hold(&self, to: impl Into<SocketAddr>, count: usize, timeout: Duration) -> Option<Held> {
        let to = to.into();
        let host = self.resolve(to.ip(), timeout)?;
        Some(Held::new(
            Arc::clone(&self.shared),
            host,
            to.port(),
            count,
            timeout,
        ))
    }

    /// Sends a frame as it is.
    pub fn send_frame(&self, frame: Vec<u8>) {
        self.shared.with(|engine, _| engine.send_frame(frame));
    }

    /// Sends frames as they are, all at once. The peer stands still while they
    /// are made.
    pub fn send_frames(&self, frames: impl IntoIterator<Item = Vec<u8>>) {
        self.shared.with(|engine, _| {
            frames
                .into_iter()
                .for_each(|frame| engine.send_frame(frame))
        });
    }

    /// Keeps copies of the frames that arrive from now on and that `filter`
    /// lets through.
    pub fn capture(&self, filter: impl Fn(&[u8]) -> bool + Send + 'static) -> Capture {
        Capture {
            id: self.shared.with(|engine, _| engine.capture(filter)),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Connects to the guest.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused`, `TimedOut`, or why the link ended.
    pub fn connect(&self, to: impl Into<SocketAddr>, timeout: Duration) -> io::Result<Stream> {
        Stream::connect(Arc::clone(&self.shared), to.into(), timeout)
    }

    /// Accepts connections to `port`.
    pub fn accept_on(&self, port: u16) -> Listener {
        Listener::new(Arc::clone(&self.shared), port)
    }

    /// Takes the datagrams to `port`.
    pub fn bind(&self, port: u16) -> UdpSocket {
        UdpSocket::new(Arc::clone(&self.shared), port)
    }

    /// Serves DHCP from now on.
    pub fn serve_dhcp(&self, server: dhcp::Server) {
        self.shared.with(|engine, _| engine.serve_dhcp(server));
    }

    /// The requests that the DHCP server has got so far.
    pub fn dhcp_requests(&self) -> Vec<dhcp::Request> {
        let requests = |engine: &mut Engine, _| {
            let server = engine.dhcp();
            server.map_or(Vec::new(), |server| server.requests().to_vec())
        };
        self.shared.with(requests)
    }

    /// How many requests for an address were granted.
    pub fn granted_leases(&self) -> u32 {
        self.shared
            .with(|engine, _| engine.dhcp().map_or(0, dhcp::Server::granted))
    }

    /// Serves DNS from now on, at all addresses of ours.
    pub fn serve_dns(&self, server: dns::Server) {
        self.shared.with(|engine, _| engine.serve_dns(server));
    }

    /// The queries that the DNS server has got so far.
    pub fn dns_queries(&self) -> Vec<dns::Query> {
        let queries = |engine: &mut Engine, _| {
            let server = engine.dns();
            server.map_or(Vec::new(), |server| server.queries().to_vec())
        };
        self.shared.with(queries)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.end(ErrorKind::BrokenPipe);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
        if let Some(path) = &self.path {
            // It may be gone with its directory.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Frames that a filter lets through. Dropping it ends the capture.
pub struct Capture {
    shared: Arc<Shared>,
    id: u64,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Capture {
    /// Waits for the next frame.
    pub fn next(&self, timeout: Duration) -> Option<Vec<u8>> {
        let frame = self
            .shared
            .wait(timeout, |engine, _| engine.take_captured(self.id));
        frame.ok()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.shared.with(|engine, _| engine.end_capture(self.id));
    }
}
