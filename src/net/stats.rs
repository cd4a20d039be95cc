//! What the stack counts.

/// Counters of the network stack since its start, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Frames received, those that were dropped included.
    pub frames_received: u64,
    /// Frames sent.
    pub frames_sent: u64,
    /// Received frames dropped: a header is cut short or contradicts itself, or
    /// the checksum of TCP or UDP is wrong.
    pub malformed: u64,
    /// Received frames dropped: a fragment of a packet.
    pub fragments: u64,
    /// Received frames dropped: an address that has no place on a wire, as that
    /// of a loopback interface.
    pub martians: u64,
    /// Received frames dropped: a protocol or address that nobody serves.
    pub unsupported: u64,
    /// Segments for no connection that were not answered with a reset, as too
    /// many such answers had been sent already.
    pub resets_limited: u64,
    /// Connection attempts left unanswered: the listener's backlog was full.
    pub backlog_full: u64,
    /// Connections refused for want of memory, of which peers get seven eighths.
    pub out_of_memory: u64,
    /// Segments dropped for want of memory for their data; the peer repeats them.
    pub unreceived: u64,
    /// Times that a stream had to wait with its data for want of memory.
    pub unsent: u64,
    /// Connections refused: as many existed as
    /// [`Limits::connections`](super::Limits::connections) allows.
    pub refused_connections: u64,
    /// Connections refused: their buffers would have exceeded
    /// [`Limits::buffer_bytes`](super::Limits::buffer_bytes).
    pub refused_buffers: u64,
    /// Half-open connections that gave way to newer ones.
    pub half_open_evicted: u64,
    /// Half-open connections whose peer never answered.
    pub half_open_expired: u64,
    /// Half-open connections that their peer reset.
    pub half_open_reset: u64,
    /// Half-open connections whose peer began anew from the same port.
    pub half_open_restarted: u64,
    /// Connections whose stream was dropped and whose peer would not let go, which
    /// gave way to newer ones.
    pub orphans_evicted: u64,
    /// Packets that the guest has sent to itself.
    pub loopback_packets: u64,
    /// Those of them lost for want of memory.
    pub loopback_lost: u64,
    /// Records of closed connections that gave way to newer ones.
    pub closing_evicted: u64,
    /// Segments for closed connections that were not acknowledged once more, as
    /// too many had been already.
    pub challenges_limited: u64,
    /// Answers dropped, as the card's send queue was full.
    pub send_queue_full: u64,
    /// Times that a frame was found which no interrupt had announced.
    pub unannounced: u64,
    /// Queues of the card that were stopped, as it broke the rules.
    pub card_faults: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were opened from here.
    pub connected: u64,
    /// Connections that exist now, in whatever state.
    pub sockets: usize,
    /// Those of them whose handshake is under way, by a peer's wish.
    pub half_open: usize,
    /// Those of them whose stream was dropped.
    pub orphans: usize,
    /// Records of closed connections that exist now.
    pub closing: usize,
    /// Those of them that only wait for late segments.
    pub time_wait: usize,
    /// The memory that they take, without that of their buffers.
    pub socket_bytes: usize,
    /// The memory that their buffers, in whole pages, and queues of datagrams have
    /// now.
    pub buffer_bytes: usize,
    /// The most that there ever was.
    pub buffer_bytes_most: usize,
    /// The memory for finding connections, and room for as many as there ever were.
    pub table_bytes: usize,
    /// Datagrams received for a socket, and answers to pings.
    pub datagrams_received: u64,
    /// Datagrams and pings sent.
    pub datagrams_sent: u64,
    /// Received datagrams dropped: their socket's queue was full, or there was no
    /// memory for them within the limits.
    pub datagrams_dropped: u64,
    /// Received datagrams that no socket wanted.
    pub datagrams_unclaimed: u64,
    /// Datagrams and pings not sent: their neighbour never told its address.
    pub datagrams_unreachable: u64,
    /// Datagrams for no socket that were not answered with "port unreachable", as
    /// too many such answers had been sent already.
    pub unreachables_limited: u64,
    /// Pings that were not answered, as too many had been already.
    pub echoes_limited: u64,
    /// UDP sockets and pings under way that exist now.
    pub datagram_sockets: usize,
}
