//! Connections in the middle of a conversation, whose timers nobody has asked
//! for yet.
//!
//! A request and its answer move a connection's timers four times: data has
//! come and is to be acknowledged, it was read, an answer was sent and is to be
//! acknowledged. Hardly one of these timers ever fires, yet to ask smoltcp for
//! the next one and to note it costs as much each time as a checksum of a whole
//! frame. So they are not asked for at once. The connection goes to the end of
//! a list and is looked at a while later, sooner than any of its timers may
//! fire; one that goes on talking moves to the end again and again, and is never
//! looked at.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use smoltcp::time::{Duration, Instant};

use super::connection::ACK_DELAY;
use super::recovery::MIN_SILENCE;
use crate::net::deadlines::sooner;
use crate::net::index_list::IndexList;

/// After data has come, its acknowledgement is the next timer.
const HEARD: Duration = Duration::from_micros(ACK_DELAY.as_micros() as u64);

/// After data was sent, the soonest timer is that of the recovery.
pub(super) const SENT: Duration = MIN_SILENCE;

/// The connections, in the order in which they are to be looked at.
#[derive(Debug)]
pub(in crate::net) struct Unsettled {
    heard: IndexList,
    sent: IndexList,
    /// When each was put into its list.
    since: Vec<Instant>,
}

impl Unsettled {
    pub(super) const fn new() -> Self {
        Self {
            heard: IndexList::new(),
            sent: IndexList::new(),
            since: Vec::new(),
        }
    }

    /// Makes place for the indices below `count`.
    pub(super) fn grow(&mut self, count: usize) -> Result<(), TryReserveError> {
        self.heard.grow(count)?;
        self.sent.grow(count)?;
        if count > self.since.len() {
            self.since.try_reserve(count - self.since.len())?;
            self.since.resize(count, Instant::ZERO);
        }
        Ok(())
    }

    /// The memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.heard.memory_bytes()
            + self.sent.memory_bytes()
            + self.since.capacity() * size_of::<Instant>()
    }

    /// A segment came for `index`. One that waits for longer is left where it
    /// is: its acknowledgement is due sooner.
    #[inline]
    pub(in crate::net) fn note_heard(&mut self, now: Instant, index: u32) {
        self.sent.remove(index);
        if self.heard.push(index) {
            self.since[index as usize] = now;
        }
    }

    /// All that `index` had to send was sent.
    #[inline]
    pub(in crate::net) fn note_sent(&mut self, now: Instant, index: u32) {
        self.heard.remove(index);
        self.sent.remove(index);
        self.sent.push(index);
        self.since[index as usize] = now;
    }

    /// Forgets `index`.
    #[inline]
    pub(in crate::net) fn remove(&mut self, index: u32) {
        let _ = self.heard.remove(index) || self.sent.remove(index);
    }

    /// When the next one is to be looked at.
    #[inline]
    pub(in crate::net) fn earliest(&self) -> Option<Instant> {
        let at = |list: &IndexList, horizon| {
            let first = list.first()?;
            Some(self.since[first as usize] + horizon)
        };
        sooner(at(&self.heard, HEARD), at(&self.sent, SENT))
    }

    /// Takes out one that is to be looked at now.
    #[inline]
    pub(in crate::net) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        for (list, horizon) in [(&mut self.heard, HEARD), (&mut self.sent, SENT)] {
            if let Some(first) = list.first()
                && self.since[first as usize] + horizon <= now
            {
                list.remove(first);
                return Some(first);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Instant {
        Instant::from_millis(millis)
    }

    fn unsettled() -> Unsettled {
        let mut unsettled = Unsettled::new();
        unsettled.grow(4).unwrap();
        unsettled
    }

    #[test]
    fn what_was_heard_is_looked_at_when_its_acknowledgement_is_due() {
        let mut unsettled = unsettled();
        unsettled.note_heard(at(100), 2);
        unsettled.note_heard(at(101), 2); // The first one decides.
        assert_eq!(unsettled.earliest(), Some(at(101)));
        assert_eq!(unsettled.pop_due(Instant::from_micros(100_999)), None);
        assert_eq!(unsettled.pop_due(at(101)), Some(2));
        assert_eq!(unsettled.pop_due(at(200)), None);
        assert_eq!(unsettled.earliest(), None);
    }

    #[test]
    fn who_goes_on_talking_is_never_looked_at() {
        let mut unsettled = unsettled();
        unsettled.note_sent(at(0), 1);
        for round in 0..100 {
            assert_eq!(unsettled.pop_due(at(9 * round)), None);
            unsettled.note_heard(at(9 * round), 1);
            unsettled.note_sent(at(9 * round), 1);
        }
        assert_eq!(unsettled.pop_due(at(9 * 99 + 10)), Some(1));
    }

    #[test]
    fn the_sooner_of_both_lists_decides() {
        let mut unsettled = unsettled();
        unsettled.note_sent(at(0), 0);
        unsettled.note_heard(at(5), 1);
        assert_eq!(unsettled.earliest(), Some(at(6)));
        unsettled.note_heard(at(9), 3);
        assert_eq!(unsettled.pop_due(at(10)), Some(1));
        assert_eq!(unsettled.pop_due(at(10)), Some(3));
        assert_eq!(unsettled.pop_due(at(10)), Some(0));
        unsettled.note_sent(at(20), 0);
        unsettled.remove(0);
        assert_eq!(unsettled.earliest(), None);
    }
}
