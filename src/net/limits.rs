//! How much peers can make the stack keep, and who gives way beyond that.

use super::state::State;
use crate::arch::{self, Memory};

/// How many half-open connections there may be; the oldest gives way to the
/// newest. An honest client answers within a round trip and gets through while
/// a flood's entries grow old.
const MAX_HALF_OPEN: usize = 1024;

/// How many connections without a stream there may be, with their buffers: a
/// peer that answers nothing keeps one for long. The oldest gives way.
const MAX_ORPHANS: usize = 1024;

/// How many of them may stay in TIME-WAIT.
const MAX_TIME_WAIT: usize = 128;

/// How many orphans give way at once when memory is short.
const RECLAIMED_ORPHANS: usize = 16;

/// The part of the heap that connections of peers leave free: one in so many.
const RESERVE: usize = 8;

impl State {
    /// Makes room for one more half-open connection; whether there is any.
    pub(super) fn admits_half_open(&mut self) -> bool {
        if self.table.half_open.len() >= MAX_HALF_OPEN {
            self.evict_half_open();
        }
        // Where nothing else is to be had, it takes the place of another.
        !memory_is_short() || (self.reclaim() && !memory_is_short()) || self.evict_half_open()
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
        if self.table.orphans.len() > MAX_ORPHANS {
            self.evict_orphan();
        }
    }

    fn evict_orphan(&mut self) {
        if let Some(oldest) = self.table.orphans.first() {
            self.stats.orphans_evicted += 1;
            self.discard(oldest);
        }
    }

    /// Notes that an orphan is in TIME-WAIT.
    pub(super) fn note_time_wait(&mut self, index: u32) {
        self.table.time_wait.push(index);
        if self.table.time_wait.len() > MAX_TIME_WAIT
            && let Some(oldest) = self.table.time_wait.first()
        {
            self.discard(oldest);
        }
    }

    /// Makes room by letting go of connections that only wait for late
    /// segments, or else of the oldest whose stream is gone. Returns whether
    /// there were any.
    pub(super) fn reclaim(&mut self) -> bool {
        let before = self.table.len();
        while let Some(index) = self.table.time_wait.pop() {
            self.discard(index);
        }
        if self.table.len() == before {
            for _ in 0..RECLAIMED_ORPHANS {
                self.evict_orphan();
            }
        }
        self.table.len() < before
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
