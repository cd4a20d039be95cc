//! The deadlines of one core, in exact order.

use alloc::collections::BTreeMap;
use core::task::Waker;

use crate::arch::Instant;

/// Identifies a deadline in its queue. Orders by deadline, and deadlines that
/// are equal in the order of their registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    deadline: Instant,
    serial: u64,
}

impl Key {
    pub(super) fn deadline(self) -> Instant {
        self.deadline
    }
}

/// Deadlines and who waits for them. All operations are O(log n).
#[derive(Debug)]
pub(super) struct TimerQueue {
    waiting: BTreeMap<Key, Waker>,
    next_serial: u64,
}

impl TimerQueue {
    pub(super) const fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
            next_serial: 0,
        }
    }

    /// Adds a deadline, which may also be past.
    pub(super) fn insert(&mut self, deadline: Instant, waker: Waker) -> Key {
        let key = Key {
            deadline,
            serial: self.next_serial,
        };
        // 2^64 registrations do not happen.
        self.next_serial += 1;
        self.waiting.insert(key, waker);
        key
    }

    /// Removes a deadline; returns its waker, to be dropped outside of the
    /// queue's lock, or `None` if it has expired.
    pub(super) fn remove(&mut self, key: Key) -> Option<Waker> {
        self.waiting.remove(&key)
    }

    /// The waker of a deadline that has not expired.
    pub(super) fn waker_mut(&mut self, key: Key) -> Option<&mut Waker> {
        self.waiting.get_mut(&key)
    }

    /// The earliest deadline.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(key, _)| key.deadline)
    }

    /// Takes the earliest deadline out if it is due at `now`.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Waker> {
        let first = self.waiting.first_entry()?;
        (first.key().deadline <= now).then(|| first.remove())
    }

    /// The number of deadlines.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn noop() -> Waker {
        Waker::noop().clone()
    }

    #[test]
    fn the_earliest_comes_first_whatever_the_order_of_insertion() {
        let mut queue = TimerQueue::new();
        for nanos in [30, 10, 20] {
            queue.insert(at(nanos), noop());
        }
        for nanos in [10, 20, 30] {
            assert_eq!(queue.earliest(), Some(at(nanos)));
            assert!(queue.pop_due(at(nanos)).is_some());
        }
        assert_eq!(queue.earliest(), None);
    }

    #[test]
    fn nothing_is_due_before_its_deadline() {
        let mut queue = TimerQueue::new();
        queue.insert(at(10), noop());
        assert!(queue.pop_due(at(9)).is_none());
        assert!(queue.pop_due(at(10)).is_some());
    }

    #[test]
    fn equal_deadlines_are_told_apart() {
        let mut queue = TimerQueue::new();
        let first = queue.insert(at(10), noop());
        let second = queue.insert(at(10), noop());
        assert!(first < second);
        assert!(queue.remove(first).is_some());
        assert!(queue.remove(first).is_none());
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn the_end_of_time_is_never_due_before_it() {
        let mut queue = TimerQueue::new();
        queue.insert(Instant::MAX, noop());
        assert!(queue.pop_due(at(u64::MAX - 1)).is_none());
    }
}
