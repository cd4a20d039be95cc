//! How much the stack may hold, and who gives way beyond that.

use super::Error;
use super::state::State;
use super::stats::Stats;
use crate::arch::{self, Memory};

/// How many orphans give way at once when something is short.
const RECLAIMED_ORPHANS: usize = 16;

/// The part of the heap that connections of peers leave free: one in so many.
const RESERVE: usize = 8;

/// What the stack may hold at most.
///
/// At a limit the newcomer is refused, and what is established goes on: a
/// peer's attempt goes unanswered, a call of the program fails with
/// [`Error::LimitReached`]. First, though, connections give way that nobody
/// owns any more, or that are not established yet, the oldest first. Each such
/// case has a counter in [`Stats`].
///
/// A limit of zero counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory in the buffers of all connections, in whole pages, and in
    /// the queues of datagrams. What is to be read or not acknowledged has
    /// memory. Newcomers are refused at seven eighths; at all of it, what peers
    /// send is dropped, and writers wait.
    pub buffer_bytes: usize,
    /// Connections, in whatever state.
    pub connections: usize,
    /// Of them, those whose handshake is under way by a peer's wish. The oldest
    /// gives way to the newest: an honest client answers within a round trip
    /// and gets through while a flood's entries grow old.
    pub half_open: usize,
    /// Of them, those whose stream was dropped and that have not been closed
    /// yet: a peer that answers nothing keeps one, with its buffers, for long.
    /// The oldest gives way.
    pub orphans: usize,
    /// Records of connections that have been closed and only wait, about
    /// 100 bytes each: for the peer's end of the stream, 60 s, or for late
    /// segments, 10 s. The oldest gives way.
    pub closing_records: usize,
}

impl Limits {
    /// Limits that suit a heap of so many bytes, or no limits but those of
    /// number if its size is not known (0).
    ///
    /// Three quarters of the heap for buffers; a connection for each 4 KiB; a
    /// record for each 8 KiB, at most 65,536; 1,024 half-open connections and as
    /// many orphans.
    pub const fn for_heap(bytes: usize) -> Self {
        let bytes = if bytes == 0 { usize::MAX } else { bytes };
        let records = bytes / 8192;
        Self {
            buffer_bytes: bytes / 4 * 3,
            connections: bytes / 4096,
            half_open: 1024,
            orphans: 1024,
            closing_records: if records < 65_536 { records } else { 65_536 },
        }
    }

    /// The command line's options for them.
    pub(super) const OPTIONS: [&str; 5] = [
        "max_buffer_bytes",
        "max_connections",
        "max_half_open",
        "max_orphans",
        "max_closing_records",
    ];

    /// The limits that those options set.
    pub(super) fn places(&mut self) -> [&mut usize; Self::OPTIONS.len()] {
        [
            &mut self.buffer_bytes,
            &mut self.connections,
            &mut self.half_open,
            &mut self.orphans,
            &mut self.closing_records,
        ]
    }

    /// Limits that can be worked with.
    pub(super) fn clamped(self) -> Self {
        Self {
            buffer_bytes: self.buffer_bytes.max(1),
            connections: self.connections.max(1),
            half_open: self.half_open.max(1),
            orphans: self.orphans.max(1),
            closing_records: self.closing_records.max(1),
        }
    }
}

impl Default for Limits {
    /// Those that suit the heap as it is now.
    fn default() -> Self {
        Self::for_heap(arch::memory().heap_bytes)
    }
}

/// What keeps a connection from being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shortage {
    Connections,
    Buffers,
    Memory,
}

impl Shortage {
    /// Counts a connection that was refused for it.
    pub(super) fn count(self, stats: &mut Stats) {
        *match self {
            Self::Connections => &mut stats.refused_connections,
            Self::Buffers => &mut stats.refused_buffers,
            Self::Memory => &mut stats.out_of_memory,
        } += 1;
    }
}

impl From<Shortage> for Error {
    fn from(shortage: Shortage) -> Self {
        match shortage {
            Shortage::Connections | Shortage::Buffers => Self::LimitReached,
            Shortage::Memory => Self::OutOfMemory,
        }
    }
}

impl State {
    /// Makes room for one more half-open connection.
    pub(super) fn admit_half_open(&mut self) -> Result<(), Shortage> {
        if self.table.half_open.len() >= self.limits.half_open {
            self.evict_half_open();
        }
        let shortage = |state: &Self| match state.shortage() {
            None if memory_is_short() => Some(Shortage::Memory),
            shortage => shortage,
        };
        if shortage(self).is_none() || (self.reclaim() && shortage(self).is_none()) {
            return Ok(());
        }
        match shortage(self) {
            None => Ok(()),
            // Half-open connections have none.
            Some(Shortage::Buffers) => Err(Shortage::Buffers),
            // Where nothing else is to be had, it takes the place of another.
            Some(_) if self.evict_half_open() => Ok(()),
            Some(shortage) => Err(shortage),
        }
    }

    /// Makes room for a connection that the program opens.
    pub(super) fn admit_outgoing(&mut self) -> Result<(), Shortage> {
        while let Some(shortage) = self.shortage() {
            if !self.reclaim() {
                return Err(shortage);
            }
        }
        Ok(())
    }

    /// Which limit one more connection would exceed.
    fn shortage(&self) -> Option<Shortage> {
        if self.table.len() >= self.limits.connections {
            Some(Shortage::Connections)
        } else if self.budget.is_short() {
            Some(Shortage::Buffers)
        } else {
            None
        }
    }

    /// Lets go of the oldest half-open connection; whether there was one.
    pub(super) fn evict_half_open(&mut self) -> bool {
        let oldest = self.table.half_open.first();
        if let Some(oldest) = oldest {
            self.stats.half_open_evicted += 1;
            self.discard(oldest);
        }
        oldest.is_some()
    }

    /// Notes that a connection's stream is gone.
    pub(super) fn note_orphan(&mut self, index: u32) {
        self.table.orphans.push(index);
        if self.table.orphans.len() > self.limits.orphans {
            self.evict_orphan();
        }
    }

    fn evict_orphan(&mut self) -> bool {
        let oldest = self.table.orphans.first();
        if let Some(oldest) = oldest {
            self.stats.orphans_evicted += 1;
            self.discard(oldest);
        }
        oldest.is_some()
    }

    /// Makes room by letting go of the oldest connections whose stream is gone.
    /// Returns whether there were any.
    pub(super) fn reclaim(&mut self) -> bool {
        let mut any = false;
        for _ in 0..RECLAIMED_ORPHANS {
            any |= self.evict_orphan();
        }
        any
    }
}

impl State {
    /// Whether queues of datagrams may grow by so many bytes.
    pub(super) fn has_buffers(&self, bytes: usize) -> bool {
        let held = self.budget.used_bytes();
        self.limits.buffer_bytes.saturating_sub(held) >= bytes
    }
}

/// Whether peers shall get no more memory: most allocations of the program end
/// it if they fail, and peers must not bring that about.
pub(super) fn memory_is_short() -> bool {
    let Memory {
        heap_bytes,
        allocated_bytes,
    } = arch::memory();
    heap_bytes.saturating_sub(allocated_bytes) < heap_bytes / RESERVE
}
