//! What a program can choose for its listeners and streams.

use core::time::Duration;

use smoltcp::socket::tcp;

use crate::arch::PAGE_BYTES;

/// The smallest buffer; smaller requests are raised to it.
const MIN_BUFFER_BYTES: usize = PAGE_BYTES;
/// The largest buffer, which a window can span (RFC 7323 §2.3).
const MAX_BUFFER_BYTES: usize = 1 << 30;

/// The largest sizes that a stream's buffers can grow to, in whole pages of 4 KiB.
///
/// They are set with the stream and never changed. A buffer takes memory page by
/// page, as data comes to lie in it, and gives it back within a second or so once
/// it is empty; so a stream that waits for a request has none, whatever its
/// sizes. Throughput over a distance needs large ones, as a stream carries at
/// most one buffer per round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// For data that was received and not read yet.
    pub receive_bytes: usize,
    /// For data that was written and not acknowledged yet.
    pub send_bytes: usize,
}

impl Buffers {
    /// Whole pages, within what TCP can use.
    pub(super) fn clamped(self) -> Self {
        let pages = |bytes: usize| {
            let bytes = bytes.clamp(MIN_BUFFER_BYTES, MAX_BUFFER_BYTES);
            bytes.next_multiple_of(PAGE_BYTES)
        };
        Self {
            receive_bytes: pages(self.receive_bytes),
            send_bytes: pages(self.send_bytes),
        }
    }
}

impl Default for Buffers {
    /// 16 KiB each way.
    fn default() -> Self {
        Self {
            receive_bytes: 16 << 10,
            send_bytes: 16 << 10,
        }
    }
}

/// What can be changed while a stream is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// Send small segments at once, instead of collecting data while earlier
    /// data is not acknowledged (Nagle's algorithm). On by default. While the
    /// network card is still busy with earlier frames, small writes in a row are
    /// gathered until the program waits, for 1 ms at most.
    pub nodelay: bool,
    /// Probe the peer after so much silence, and give it up with
    /// [`TimedOut`](crate::net::Error::TimedOut) when four probes in a row go
    /// unanswered. Off by default: a silent connection lasts for ever.
    pub keep_alive: Option<Duration>,
    /// Give the peer up with [`TimedOut`](crate::net::Error::TimedOut) when data
    /// that was sent stays unacknowledged and the peer silent for so long;
    /// 15 minutes unless set (RFC 5482).
    pub user_timeout: Option<Duration>,
    /// How long a stream that was dropped may go on in the background to
    /// deliver what was written and the end of the stream; what the peer has not
    /// acknowledged by then is given up, and the peer reset. Zero resets it at
    /// once. Up to five minutes unless set, and never longer. Dropping the
    /// stream never waits.
    pub linger: Option<Duration>,
    /// How the amount of data in flight adapts to the network. Changing it
    /// during a transfer begins anew.
    pub congestion_control: CongestionControl,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            nodelay: true,
            keep_alive: None,
            user_timeout: None,
            linger: None,
            congestion_control: CongestionControl::default(),
        }
    }
}

/// How the amount of data in flight adapts to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CongestionControl {
    /// It begins small, grows while the peer acknowledges, and shrinks when
    /// segments get lost (RFC 5681).
    #[default]
    Reno,
    /// It does not: as much is sent as the peer has room for. For links that
    /// lose nothing and are shared with nobody.
    Off,
}

impl From<CongestionControl> for tcp::CongestionControl {
    fn from(control: CongestionControl) -> Self {
        match control {
            CongestionControl::Reno => Self::Reno,
            CongestionControl::Off => Self::None,
        }
    }
}

/// Options of [`TcpListener::bind_with`](crate::net::TcpListener::bind_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerOptions {
    /// How many connections may wait to be accepted. Beyond that, attempts go
    /// unanswered until there is room; the peer repeats them. Connections that
    /// are under way already come on top.
    pub backlog: usize,
    /// The buffers of each connection.
    pub buffers: Buffers,
    /// The options that each accepted stream starts with.
    pub stream: StreamOptions,
}

impl Default for ListenerOptions {
    /// A backlog of 1,024.
    fn default() -> Self {
        Self {
            backlog: 1024,
            buffers: Buffers::default(),
            stream: StreamOptions::default(),
        }
    }
}

/// Options of [`TcpStream::connect_with`](crate::net::TcpStream::connect_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// The buffers of the connection.
    pub buffers: Buffers,
    /// The options that the stream starts with.
    pub stream: StreamOptions,
}

impl Default for TcpOptions {
    /// 30 s to connect.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            buffers: Buffers::default(),
            stream: StreamOptions::default(),
        }
    }
}
