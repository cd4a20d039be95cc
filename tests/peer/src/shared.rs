//! An engine that a thread and its callers share.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::engine::Engine;
use crate::link::Link;
use crate::remote::Remote;

/// Where the link comes from.
pub(crate) enum Source {
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

pub(crate) struct State {
    pub(crate) remote: Remote,
    /// Why there is no link any more.
    ended: Option<ErrorKind>,
}

impl Shared {
    /// Around `engine`; a byte in `wake` makes the thread look.
    pub(crate) fn new(engine: Engine, wake: UnixStream) -> Self {
        Self {
            start: Instant::now(),
            state: Mutex::new(State {
                remote: Remote::new(engine),
                ended: None,
            }),
            changed: Condvar::new(),
            wake,
        }
    }

    /// Changes the engine, and makes the thread send what comes of it.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Engine, Duration) -> T) -> T {
        let result = change(&mut self.lock().remote.engine, self.start.elapsed());
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
            if let Some(result) = attempt(&mut state.remote.engine, self.start.elapsed()) {
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

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked while it held the lock fails anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wake(&self) {
        // A full pipe has woken the thread already.
        let _ = (&self.wake).write(&[0]);
    }

    pub(crate) fn end(&self, why: ErrorKind) {
        self.lock().ended.get_or_insert(why);
        self.changed.notify_all();
    }

    /// The thread: moves frames until the link ends.
    pub(crate) fn run(&self, source: Source, mut woken: &UnixStream) -> io::Result<()> {
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
            let due = state.remote.next_deadline(now);
            let due = due.is_some_and(|due| due <= now);
            let changed = due || !frames.is_empty();
            for frame in frames {
                state.remote.receive(frame, now);
            }
            state.remote.poll(now);
            while let Some(frame) = state.remote.transmit(now) {
                link.send(&frame);
            }
            let deadline = state.remote.next_deadline(now);
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
