//! Taking memory away from buffers that hold nothing, and finding some where it
//! is short.
//!
//! It is not taken away as soon as a buffer is empty: request and answer would
//! pay for that each time. Connections whose buffers have memory are on a list,
//! and about once a second all on the list are trimmed to what they hold. Where
//! memory is short, that happens when it is missing.

use smoltcp::time::{Duration, Instant};

use crate::arch::NoMemory;
use crate::net::frame::Span;
use crate::net::state::State;

/// How often connections are trimmed.
const INTERVAL: Duration = Duration::from_secs(1);

/// How many connections are trimmed when memory is missing.
const TRIMMED_AT_ONCE: usize = 16;

/// When a stream looks again whether there is memory for its data.
const RETRY: Duration = Duration::from_millis(50);

/// smoltcp's end of time.
const NEVER: Instant = Instant::from_micros_const(i64::MAX);

/// When the next connections are trimmed.
#[derive(Debug)]
pub(in crate::net) struct Sweep {
    at: Instant,
    /// How many are still to be trimmed in the round that has begun.
    left: usize,
}

impl Default for Sweep {
    fn default() -> Self {
        Self { at: NEVER, left: 0 }
    }
}

impl Sweep {
    /// When connections want to be trimmed. The network task need not be woken
    /// for that: it runs anyway once what has just been written is acknowledged.
    pub(in crate::net) fn at(&self) -> Option<Instant> {
        (self.at != NEVER).then_some(self.at)
    }
}

impl State {
    /// Notes that a connection's buffers were given memory.
    #[cold]
    pub(super) fn note_warm(&mut self, now: Instant, index: u32) {
        self.table.warm.push(index);
        if self.sweep.at == NEVER {
            self.sweep.at = now + INTERVAL;
        }
    }

    /// Trims connections if it is time, at most `limit`. Returns whether more
    /// are to be trimmed now.
    #[inline]
    pub(in crate::net) fn trim_due(&mut self, now: Instant, limit: usize) -> bool {
        self.sweep.at <= now && self.trim_some(now, limit)
    }

    #[cold]
    fn trim_some(&mut self, now: Instant, limit: usize) -> bool {
        if self.sweep.left == 0 {
            self.sweep.left = self.table.warm.len();
        }
        for _ in 0..self.sweep.left.min(limit) {
            self.sweep.left -= 1;
            if let Some(index) = self.table.warm.pop() {
                self.trim(index);
            }
        }
        if self.sweep.left > 0 {
            return true;
        }
        self.sweep.at = if self.table.warm.is_empty() {
            NEVER
        } else {
            now + INTERVAL
        };
        false
    }

    /// Takes memory away where it is not used; whether there was any.
    fn trim(&mut self, index: u32) -> bool {
        let Some(connection) = self.table.get_mut(index) else {
            return false;
        };
        let freed = connection.socket.trim();
        if connection.socket.has_memory() {
            self.table.warm.push(index);
        }
        freed
    }

    /// Gives a connection's buffer memory for a segment's data; whether there
    /// was enough.
    #[inline]
    pub(in crate::net) fn make_room(&mut self, now: Instant, index: u32, span: Span) -> bool {
        let Some(connection) = self.table.get_mut(index) else {
            return false;
        };
        match connection.socket.make_room(span) {
            Ok(false) => true,
            Ok(true) => {
                self.note_warm(now, index);
                true
            }
            Err(NoMemory) => self.make_room_of_others(now, index, span),
        }
    }

    #[cold]
    fn make_room_of_others(&mut self, now: Instant, index: u32, span: Span) -> bool {
        (self.find_room(index) && self.retry(now, index, span))
            // Those whose stream is gone are the last to be served.
            || (self.reclaim() && self.retry(now, index, span))
    }

    fn retry(&mut self, now: Instant, index: u32, span: Span) -> bool {
        let Some(connection) = self.table.get_mut(index) else {
            return false;
        };
        let made = connection.socket.make_room(span).is_ok();
        // Even if there was not enough.
        self.note_warm(now, index);
        made
    }

    /// Finds memory for a connection that lacks some, in its own buffers and in
    /// those of others that were touched; whether there was any.
    pub(super) fn find_room(&mut self, index: u32) -> bool {
        let mut found = self.trim(index);
        for _ in 0..TRIMMED_AT_ONCE.min(self.table.warm.len()) {
            let Some(warm) = self.table.warm.pop() else {
                break;
            };
            found |= self.trim(warm);
        }
        self.sweep.left = self.sweep.left.min(self.table.warm.len());
        found
    }

    /// Has a connection's writer try again a little later, when there may be
    /// memory for its data.
    pub(super) fn wait_for_room(&mut self, now: Instant, index: u32) {
        self.stats.unsent += 1;
        self.table.deadlines.set(index, Some(now + RETRY));
    }
}
