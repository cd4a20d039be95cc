//! One TCP connection: a smoltcp socket, and what the stack knows about it.

use core::task::Waker;
use core::time::Duration;

use smoltcp::socket::tcp;
use smoltcp::time::Instant;

use super::closing::Wait;
use super::listeners::ListenerId;
use super::options::{Buffers, StreamOptions};
use super::recovery::Recovery;
use super::ring::Budget;
use super::segment::Marks;
use super::socket::Socket;
use crate::arch::NoMemory;
use crate::net::Error;
use crate::net::frame::Key;
use crate::net::ip::loopback::Link;
use crate::net::wakes::Wakes;

/// How long an acknowledgement waits for data that could carry it. Far below
/// the 10 ms and more that others take: a peer that sends its request in two
/// small parts waits for it (RFC 9293 §3.8.6.3 allows up to 500 ms).
pub(super) const ACK_DELAY: Duration = Duration::from_millis(1);

/// How long unacknowledged data may stay so if the program sets no limit.
const USER_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// How long a half-open connection may stay so.
const HALF_OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection whose stream was dropped waits for the silent peer.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(60);

/// Keep-alive probes that may go unanswered.
const KEEP_ALIVE_PROBES: u32 = 4;

/// Where a connection stands for the stack.
///
/// ```text
///   SYN received → HalfOpen → Queued ─ accept ┐
///   connect ───→ Connecting ──────────────────┴→ Open ─ drop → Orphan → a record
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Phase {
    /// A peer opened it; the handshake is under way.
    HalfOpen(ListenerId),
    /// It is established and waits to be accepted.
    Queued(ListenerId),
    /// The program opened it; the handshake is under way.
    Connecting,
    /// A stream owns it.
    Open,
    /// Its stream was dropped; it closes in the background.
    Orphan,
}

impl Phase {
    /// Whether a stream of the program refers to it.
    pub(in crate::net) fn is_owned(self) -> bool {
        matches!(self, Self::Connecting | Self::Open)
    }
}

/// What a peer may send until an acknowledgement is due at once; no segment is
/// smaller than this if there are larger ones (RFC 9293 §3.7.1).
const PROMPT_ACK_BYTES: u32 = 536;

/// How much may be gathered before it is sent.
const GATHERED_BYTES: usize = 8 << 10;

/// What made a connection's state change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Cause {
    /// A segment from the peer.
    Ingress,
    /// A timer, or something to send.
    Egress,
}

/// A connection.
pub(in crate::net) struct Connection {
    pub(in crate::net) socket: Socket,
    pub(in crate::net) key: Key,
    /// Where its other end is.
    pub(in crate::net) link: Link,
    /// Whether the interface still has the address of this end.
    pub(in crate::net) has_address: bool,
    pub(in crate::net) phase: Phase,
    /// Why it ended, once it has.
    pub(super) failure: Option<Error>,
    /// The state in which it was last seen.
    pub(in crate::net) last_state: tcp::State,
    /// Whether the peer has said that it sends no more. smoltcp forgets this
    /// at the end of TIME-WAIT.
    pub(super) end_seen: bool,
    pub(in crate::net) options: StreamOptions,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    /// When an orphan is given up.
    pub(in crate::net) orphan_until: Option<Instant>,
    /// With what sequence number the peer began to open it, if it did.
    pub(in crate::net) opened_by: Option<u32>,
    /// Whether its sending side was closed.
    pub(in crate::net) is_ending: bool,
    /// How far it has sent and acknowledged since then.
    marks: Option<Marks>,
    /// How much came since anything was sent.
    unacknowledged_bytes: u32,
    /// How much was written that waits for the network task to send it.
    gathered_bytes: usize,
    /// The peer was told of a window from which reading may have to free it.
    has_low_window: bool,
    silence: Silence,
    pub(in crate::net) recovery: Recovery,
}

/// What is needed to count a peer's silence from the right moment.
struct Silence {
    /// How much of it is too much.
    limit: Option<Duration>,
    /// Since when the limit holds.
    limited_at: Instant,
    /// Where smoltcp begins to count: the last segment, or the first data after
    /// a pause.
    counted_from: Instant,
    /// How much later smoltcp believes to have heard from the peer, as it was
    /// shown the last acknowledgement again.
    counted_late: smoltcp::time::Duration,
}

impl Connection {
    /// A connection between the ends of `key` that has not begun.
    pub(in crate::net) fn new(
        now: Instant,
        key: Key,
        phase: Phase,
        buffers: Buffers,
        options: StreamOptions,
        budget: &'static Budget,
    ) -> Result<Self, NoMemory> {
        let mut socket = Socket::new(buffers, budget)?;
        socket.tcp_mut().set_ack_delay(Some(ACK_DELAY.into()));
        let mut connection = Self {
            socket,
            key,
            link: Link::Card,
            has_address: true,
            phase,
            failure: None,
            last_state: tcp::State::Closed,
            end_seen: false,
            options,
            reader: None,
            writer: None,
            orphan_until: None,
            opened_by: None,
            is_ending: false,
            marks: None,
            unacknowledged_bytes: 0,
            gathered_bytes: 0,
            has_low_window: false,
            silence: Silence {
                limit: None,
                limited_at: now,
                counted_from: now,
                counted_late: smoltcp::time::Duration::ZERO,
            },
            recovery: Recovery::default(),
        };
        connection.apply_options(now);
        Ok(connection)
    }

    pub(in crate::net) fn tcp(&self) -> &tcp::Socket<'static> {
        self.socket.tcp()
    }

    pub(in crate::net) fn tcp_mut(&mut self) -> &mut tcp::Socket<'static> {
        self.socket.tcp_mut()
    }

    /// Makes changed options take effect.
    pub(super) fn apply_options(&mut self, now: Instant) {
        let StreamOptions {
            nodelay,
            keep_alive,
            congestion_control,
            ..
        } = self.options;
        let socket = self.tcp_mut();
        socket.set_nagle_enabled(!nodelay);
        let congestion_control = congestion_control.into();
        if socket.congestion_control() != congestion_control {
            socket.set_congestion_control(congestion_control);
        }
        if socket.keep_alive() != keep_alive.map(Into::into) {
            socket.set_keep_alive(keep_alive.map(Into::into));
        }
        self.update_timeout(now);
    }

    /// Notes that smoltcp counts the peer's silence from `now` on.
    pub(in crate::net) fn restart_silence(&mut self, now: Instant) {
        self.silence.counted_from = now;
        self.silence.counted_late = smoltcp::time::Duration::ZERO;
    }

    /// Notes that smoltcp wrongly believes to have heard from the peer.
    pub(super) fn discount(&mut self, now: Instant) {
        if now > self.silence.counted_from {
            self.silence.counted_late = now - self.silence.counted_from;
        }
    }

    /// Sets the silence after which smoltcp gives the connection up. smoltcp
    /// counts it whether or not anything is outstanding, so it is set and
    /// cleared with that; the silence before that comes on top.
    pub(in crate::net) fn update_timeout(&mut self, now: Instant) {
        use tcp::State::*;
        let socket = self.tcp();
        let outstanding = socket.send_queue() > 0
            || matches!(socket.state(), SynSent | FinWait1 | Closing | LastAck);
        let limit = match self.phase {
            Phase::HalfOpen(_) => Some(HALF_OPEN_TIMEOUT),
            Phase::Orphan => Some(ORPHAN_TIMEOUT),
            _ if outstanding => Some(self.options.user_timeout.unwrap_or(USER_TIMEOUT)),
            _ => self
                .options
                .keep_alive
                .map(|interval| interval.saturating_mul(KEEP_ALIVE_PROBES)),
        };
        let silence = &mut self.silence;
        if silence.limit != limit {
            silence.limit = limit;
            silence.limited_at = now;
        }
        let before = if silence.limited_at > silence.counted_from {
            silence.limited_at - silence.counted_from
        } else {
            smoltcp::time::Duration::ZERO
        };
        let late = silence.counted_late;
        let timeout = limit.map(|limit| (before + limit.into()).max(late) - late);
        if self.tcp().timeout() != timeout {
            self.tcp_mut().set_timeout(timeout);
        }
    }

    /// Notes whether the peer has said that it sends no more, and why a
    /// connection that has ended did so.
    pub(in crate::net) fn note_end(&mut self, cause: Cause) {
        use tcp::State::*;
        let state = self.tcp().state();
        let last = core::mem::replace(&mut self.last_state, state);
        match state {
            CloseWait | Closing | LastAck | TimeWait => self.end_seen = true,
            Closed if self.failure.is_none() => {
                self.failure = Some(match (last, cause) {
                    (SynSent, Cause::Ingress) => Error::ConnectionRefused,
                    // The orderly end.
                    (LastAck, Cause::Ingress) | (TimeWait, Cause::Egress) => Error::NotConnected,
                    (_, Cause::Ingress) => Error::ConnectionReset,
                    (_, Cause::Egress) if !self.has_address => Error::ConnectionAborted,
                    (_, Cause::Egress) => Error::TimedOut,
                });
            }
            _ => {}
        }
    }

    /// Whether it is in the middle of a conversation, in which segments come and
    /// go and no timer but those of smoltcp itself runs.
    #[inline]
    fn is_steady(&self) -> bool {
        self.phase == Phase::Open
            && self.last_state == tcp::State::Established
            && self.tcp().state() == tcp::State::Established
            && self.has_address
            && !self.is_ending
            && self.options.keep_alive.is_none()
            && self.options.user_timeout.is_none()
    }

    /// Notes that a segment with so many bytes came. Returns whether nothing is
    /// to be sent for it now, nor within the delay of acknowledgements.
    #[inline]
    pub(in crate::net) fn note_received(&mut self, bytes: u32) -> bool {
        self.unacknowledged_bytes = self.unacknowledged_bytes.saturating_add(bytes);
        let socket = self.tcp();
        let is_low = socket.recv_queue() > socket.recv_capacity() / 4;
        let has_unsent = socket.send_queue() > 0;
        self.has_low_window |= is_low;
        !has_unsent && self.unacknowledged_bytes <= PROMPT_ACK_BYTES && self.is_steady()
    }

    /// Notes that the program has read. Returns whether the peer may have to be
    /// told of a larger window.
    #[inline]
    pub(super) fn note_read(&mut self) -> bool {
        // While less than a quarter is in use, a larger window is never twice as
        // large as the one that the peer knows, and smoltcp keeps it to itself.
        let may_tell = self.has_low_window || !self.is_steady();
        self.has_low_window &= self.tcp().recv_queue() > 0;
        may_tell
    }

    /// Whether so many bytes that were written behind others may wait for what is
    /// written next.
    #[inline]
    pub(super) fn gather(&mut self, bytes: usize) -> bool {
        self.gathered_bytes += bytes;
        let may_wait = self.link == Link::Card && self.gathered_bytes < GATHERED_BYTES;
        may_wait && self.is_steady()
    }

    /// Notes that segments were sent, `all` of what there was to send. Returns
    /// whether nothing more is to be sent until the recovery's soonest timer.
    #[inline]
    pub(in crate::net) fn note_transmitted(&mut self, all: bool) -> bool {
        self.unacknowledged_bytes = 0;
        self.gathered_bytes = 0;
        all && self.is_steady()
    }

    /// Collects the wakers of those who can go on; `false` if one found no room.
    pub(in crate::net) fn wake(&mut self, wakes: &mut Wakes) -> bool {
        let socket = self.tcp();
        if matches!(
            socket.state(),
            tcp::State::SynSent | tcp::State::SynReceived
        ) {
            return true;
        }
        let readable = self.is_readable();
        // Not for every byte that becomes free.
        let free = socket.send_capacity() - socket.send_queue();
        let writable = free >= socket.send_capacity() / 4 || !socket.may_send();
        (!readable || wakes.take(&mut self.reader)) && (!writable || wakes.take(&mut self.writer))
    }

    /// Whether a reader has something to read, be it the end or an error.
    pub(super) fn is_readable(&self) -> bool {
        let socket = self.tcp();
        socket.can_recv() || !socket.may_recv()
    }

    /// Closes the sending side.
    pub(super) fn close(&mut self) {
        self.is_ending = true;
        self.tcp_mut().close();
    }

    /// Whether the peer has ended its stream, and only has to acknowledge that
    /// ours has ended.
    pub(in crate::net) fn awaits_last_acknowledgement(&self) -> bool {
        use tcp::State::{Closing, LastAck};
        matches!(self.tcp().state(), Closing | LastAck)
    }

    /// Notes the segment that was sent last, while it is ending.
    #[cold]
    pub(in crate::net) fn note_sent(&mut self, mut sent: Marks) {
        if let Some(before) = self.marks
            && before.end > sent.end
        {
            // A part was sent once more.
            sent.end = before.end;
        }
        self.marks = Some(sent);
    }

    /// What a record of it, whose stream is gone, needs to know, if it has only to
    /// wait; smoltcp wants to do something for it at `next`.
    #[cold]
    pub(in crate::net) fn remains(
        &self,
        now: Instant,
        next: Option<Instant>,
    ) -> Option<(Wait, Marks)> {
        let wait = match self.tcp().state() {
            tcp::State::FinWait2 => Wait::Fin,
            tcp::State::TimeWait => Wait::Time,
            _ => return None,
        };
        // An acknowledgement that is still to leave is not in the marks.
        if next.is_some_and(|next| next <= now + ACK_DELAY.into()) {
            return None;
        }
        Some((wait, self.marks?))
    }

    /// Whether it must be left alone: the end of TIME-WAIT would throw away
    /// what the program has not read yet.
    pub(in crate::net) fn is_paused(&self) -> bool {
        let socket = self.tcp();
        self.phase.is_owned() && socket.state() == tcp::State::TimeWait && socket.can_recv()
    }

    /// Whether the socket has nothing more to send or to receive, ever.
    pub(in crate::net) fn is_finished(&self) -> bool {
        let socket = self.tcp();
        socket.state() == tcp::State::Closed && socket.remote_endpoint().is_none()
    }
}
