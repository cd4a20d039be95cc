//! A thread that runs an engine on a unix socket.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddrV4;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::dhcp::Lease;
use crate::engine::{Config, Engine};
use crate::frame::{Host, Ipv4Address};
use crate::link::Link;
use crate::tcp::{Listener, Stream};

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
        let shared = Arc::new(Shared {
            start: Instant::now(),
            state: Mutex::new(State {
                engine: Engine::new(config),
                ended: None,
            }),
            changed: Condvar::new(),
            wake,
        });
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

    /// Our addresses.
    pub fn host(&self) -> Host {
        self.shared.with(|engine, _| engine.host())
    }

    /// Finds out who has `ip`, by ARP.
    pub fn resolve(&self, ip: Ipv4Address, timeout: Duration) -> Option<Host> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(host) = self.shared.with(|engine, _| engine.neighbour(ip)) {
                return Some(host);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            self.shared.with(|engine, _| engine.ask_for(ip));
            let wait = left.min(ARP_INTERVAL);
            match self.shared.wait(wait, |engine, _| engine.neighbour(ip)) {
                Ok(host) => return Some(host),
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                Err(_) => return None,
            }
        }
    }

    /// Sends one echo request; how long its answer took.
    pub fn ping(&self, ip: Ipv4Address, seq: u16, timeout: Duration) -> Option<Duration> {
        let to = self.resolve(ip, timeout)?;
        self.shared.with(|engine, now| engine.ping(to, seq, now));
        let pong = self
            .shared
            .wait(timeout, |engine, _| engine.take_pong(ip, seq));
        pong.ok()
    }

    /// Sends `count` SYNs at once, acknowledges their answers, and resets the
    /// connections in the end; how long each waited for its answer.
    pub fn handshakes(
        &self,
        to: SocketAddrV4,
        count: usize,
        timeout: Duration,
    ) -> Vec<Option<Duration>> {
        let Some(host) = self.resolve(*to.ip(), timeout) else {
            return vec![None; count];
        };
        let ports: Vec<u16> = self.shared.with(|engine, now| {
            let ports = (0..count).map(|_| engine.handshake(host, to.port(), now));
            ports.collect()
        });
        // Whether or not all answers come, those that came count.
        let _ = self.shared.wait(timeout, |engine, _| {
            let mut ports = ports.iter();
            ports
                .all(|&port| engine.handshake_time(port).is_some())
                .then_some(())
        });
        self.shared.with(|engine, _| {
            let times = ports.iter().map(|&port| {
                let time = engine.handshake_time(port);
                engine.forget(port);
                time
            });
            times.collect()
        })
    }

    /// Sends a frame as it is.
    pub fn send_frame(&self, frame: Vec<u8>) {
        self.shared.with(|engine, _| engine.send_frame(frame));
    }

    /// Sends frames as they are, all at once.
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
    pub fn connect(&self, to: SocketAddrV4, timeout: Duration) -> io::Result<Stream> {
        Stream::connect(Arc::clone(&self.shared), to, timeout)
    }

    /// Accepts connections to `port`.
    pub fn accept_on(&self, port: u16) -> Listener {
        Listener::new(Arc::clone(&self.shared), port)
    }

    /// Gives `lease` to whoever asks for an address.
    pub fn serve_dhcp(&self, lease: Lease) {
        self.shared.with(|engine, _| engine.serve_dhcp(lease));
    }

    /// How many requests for an address were granted.
    pub fn granted_leases(&self) -> u32 {
        self.shared.with(|engine, _| engine.granted_leases())
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

/// Where the link comes from.
enum Source {
    Listener(UnixListener),
    Stream(UnixStream),
}

/// What the thread and the callers share.
pub(crate) struct Shared {
    start: Instant,
    state: Mutex<State>,
    /// Notified when frames arrived, something was due, or the link ended.
    changed: Condvar,
    /// Makes the thread look at the engine.
    wake: UnixStream,
}

struct State {
    engine: Engine,
    /// Why there is no link any more.
    ended: Option<ErrorKind>,
}

impl Shared {
    /// Changes the engine, and makes the thread send what comes of it.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Engine, Duration) -> T) -> T {
        let result = change(&mut self.lock().engine, self.start.elapsed());
        self.wake();
        result
    }

    /// Calls `attempt` until it has a result, which it may have changed the
    /// engine for.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or why the link ended.
    pub(crate) fn wait<T>(
        &self,
        timeout: Duration,
        mut attempt: impl FnMut(&mut Engine, Duration) -> Option<T>,
    ) -> io::Result<T> {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            if let Some(result) = attempt(&mut state.engine, self.start.elapsed()) {
                self.wake();
                return Ok(result);
            }
            if let Some(ended) = state.ended {
                return Err(ended.into());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked while it held the lock fails anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A full pipe has woken the thread already.
        let _ = (&self.wake).write(&[0]);
    }

    fn end(&self, why: ErrorKind) {
        self.lock().ended.get_or_insert(why);
        self.changed.notify_all();
    }

    /// The thread: moves frames until the link ends.
    fn run(&self, source: Source, mut woken: &UnixStream) -> io::Result<()> {
        let stream = match source {
            Source::Stream(stream) => stream,
            Source::Listener(listener) => {
                while !wait_for(&listener, PollFlags::IN, woken, None)? {
                    drain(&mut woken);
                    if self.lock().ended.is_some() {
                        return Ok(());
                    }
                }
                listener.accept()?.0
            }
        };
        let mut link = Link::new(stream)?;
        loop {
            let frames = link.receive()?;
            let mut state = self.lock();
            if state.ended.is_some() {
                return Ok(());
            }
            let now = self.start.elapsed();
            let due = state
                .engine
                .next_deadline(now)
                .is_some_and(|due| due <= now);
            let changed = due || !frames.is_empty();
            for frame in frames {
                state.engine.receive(frame, now);
            }
            state.engine.poll(now);
            while let Some(frame) = state.engine.transmit() {
                link.send(&frame);
            }
            let deadline = state.engine.next_deadline(now);
            drop(state);
            if changed {
                self.changed.notify_all();
            }
            link.flush()?;
            let flags = if link.has_outgoing() {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            };
            let wait = deadline.map(|deadline| deadline.saturating_sub(self.start.elapsed()));
            wait_for(link.stream(), flags, woken, wait)?;
            drain(&mut woken);
        }
    }
}

/// Waits until `source` has `flags`, which is what it returns, or until
/// `woken` is readable or the time is up.
fn wait_for(
    source: &impl std::os::fd::AsFd,
    flags: PollFlags,
    woken: &UnixStream,
    timeout: Option<Duration>,
) -> io::Result<bool> {
    let mut fds = [
        PollFd::new(source, flags),
        PollFd::new(woken, PollFlags::IN),
    ];
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(!fds[0].revents().is_empty())
}

fn drain(woken: &mut &UnixStream) {
    let mut bytes = [0; 64];
    while matches!(woken.read(&mut bytes), Ok(1..)) {}
}
