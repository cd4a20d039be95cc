//! The deadlines of one core, in exact order.

use alloc::vec::Vec;
use core::task::Waker;

use crate::arch::Instant;

/// No slot: the end of the list of those that are free.
const NONE: u32 = u32::MAX;

/// The room of so many deadlines is kept when all are gone.
const KEPT: usize = 64;

/// The children of a place in the heap. With more than two it is flatter, which
/// suits deadlines that come to the front and are soon removed again.
const CHILDREN: usize = 4;

/// Identifies a deadline in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(Entry);

impl Key {
    pub(super) fn deadline(self) -> Instant {
        self.0.deadline
    }
}

/// Orders by deadline, and deadlines that are equal in the order of their
/// registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    deadline: Instant,
    serial: u64,
    slot: u32,
}

/// Who waits for a deadline, or nobody.
#[derive(Debug)]
struct Slot {
    /// Which deadline it is, or has been, in the slot.
    serial: u64,
    waker: Option<Waker>,
    /// Where the deadline is in the heap; of a free slot, the next free one.
    place: u32,
}

/// Deadlines and who waits for them, in a heap that knows each one's place.
///
/// All operations are O(log n). The usual ones in a server, to add the latest of
/// all deadlines and to remove it again, take the same few steps however many
/// there are.
#[derive(Debug)]
pub(super) struct TimerQueue {
    /// No entry is earlier than its parent.
    heap: Vec<Entry>,
    slots: Vec<Slot>,
    first_free: u32,
    next_serial: u64,
}

impl TimerQueue {
    pub(super) const fn new() -> Self {
        Self {
            heap: Vec::new(),
            slots: Vec::new(),
            first_free: NONE,
            next_serial: 0,
        }
    }

    /// Adds a deadline, which may also be past.
    pub(super) fn insert(&mut self, deadline: Instant, waker: Waker) -> Key {
        let serial = self.next_serial;
        // 2^64 registrations do not happen.
        self.next_serial += 1;
        let entry = Entry {
            deadline,
            serial,
            slot: self.take_slot(serial, waker),
        };
        self.heap.push(entry);
        self.rise(self.heap.len() - 1, entry);
        Key(entry)
    }

    /// Removes a deadline; returns its waker, to be dropped outside of the
    /// queue's lock, or `None` if it has expired.
    pub(super) fn remove(&mut self, key: Key) -> Option<Waker> {
        let slot = self.slots.get(key.0.slot as usize)?;
        if slot.serial != key.0.serial || slot.waker.is_none() {
            return None;
        }
        self.remove_at(slot.place as usize)
    }

    /// The waker of a deadline that has not expired.
    pub(super) fn waker_mut(&mut self, key: Key) -> Option<&mut Waker> {
        let slot = self.slots.get_mut(key.0.slot as usize)?;
        let is_there = slot.serial == key.0.serial;
        slot.waker.as_mut().filter(|_| is_there)
    }

    /// The earliest deadline.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.heap.first().map(|entry| entry.deadline)
    }

    /// Takes the earliest deadline out if it is due at `now`.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Waker> {
        if self.earliest()? <= now {
            self.remove_at(0)
        } else {
            None
        }
    }

    /// The number of deadlines.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    fn take_slot(&mut self, serial: u64, waker: Waker) -> u32 {
        let waker = Some(waker);
        let Some(slot) = self.slots.get_mut(self.first_free as usize) else {
            self.slots.push(Slot {
                serial,
                waker,
                place: NONE,
            });
            // Memory ends long before the numbers do.
            return (self.slots.len() - 1) as u32;
        };
        let next = core::mem::replace(&mut slot.place, NONE);
        (slot.serial, slot.waker) = (serial, waker);
        core::mem::replace(&mut self.first_free, next)
    }

    /// Takes the deadline at `place` out of the heap, and its waker.
    fn remove_at(&mut self, place: usize) -> Option<Waker> {
        let removed = self.heap[place];
        let last = self.heap.pop()?;
        if place < self.heap.len() {
            if place > 0 && last < self.heap[(place - 1) / CHILDREN] {
                self.rise(place, last);
            } else {
                self.sink(place, last);
            }
        }
        let slot = &mut self.slots[removed.slot as usize];
        slot.place = core::mem::replace(&mut self.first_free, removed.slot);
        let waker = slot.waker.take();
        if self.heap.is_empty() && self.slots.len() > KEPT {
            *self = Self {
                next_serial: self.next_serial,
                ..Self::new()
            };
        }
        waker
    }

    /// Puts `entry` to `place` or, before later ones, nearer to the front.
    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    /// Puts `entry` to `place` or, behind earlier ones, further from the front.
    fn sink(&mut self, mut place: usize, entry: Entry) {
        loop {
            let first = CHILDREN * place + 1;
            let mut child = first;
            for other in first + 1..self.heap.len().min(first + CHILDREN) {
                if self.heap[other] < self.heap[child] {
                    child = other;
                }
            }
            if child >= self.heap.len() || entry <= self.heap[child] {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.slots[entry.slot as usize].place = place as u32;
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
        assert!(first != second);
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

    /// Against a sorted list, with keys of deadlines that are gone.
    #[test]
    fn whatever_comes_and_goes_the_order_is_exact() {
        let mut queue = TimerQueue::new();
        let mut expected: Vec<(u64, usize)> = Vec::new();
        let mut keys: Vec<Key> = Vec::new();
        let mut draw = 1_u64;
        for round in 0..5_000 {
            draw = draw.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let number = (draw >> 33) as usize;
            // More come than go, then more go.
            let comes = number % 8 < if round < 3_000 { 5 } else { 2 };
            if comes {
                let nanos = (number / 8 % 50) as u64;
                expected.push((nanos, keys.len()));
                keys.push(queue.insert(at(nanos), noop()));
            } else if number.is_multiple_of(3) && !keys.is_empty() {
                let index = number / 8 % keys.len();
                let found = expected.iter().position(|&(_, key)| key == index);
                assert_eq!(queue.remove(keys[index]).is_some(), found.is_some());
                assert!(queue.waker_mut(keys[index]).is_none());
                found.map(|found| expected.remove(found));
            } else if let Some(&first) = expected.iter().min() {
                assert!(queue.waker_mut(keys[first.1]).is_some());
                assert!(queue.pop_due(at(first.0)).is_some());
                assert!(queue.remove(keys[first.1]).is_none());
                expected.retain(|&other| other != first);
            }
            let earliest = expected.iter().min().map(|&(nanos, _)| at(nanos));
            assert_eq!((queue.earliest(), queue.len()), (earliest, expected.len()));
        }
    }

    #[test]
    fn the_room_of_many_is_given_back() {
        let mut queue = TimerQueue::new();
        let keys: Vec<_> = (0..1_000)
            .map(|nanos| queue.insert(at(nanos), noop()))
            .collect();
        for key in keys {
            assert!(queue.remove(key).is_some());
        }
        assert_eq!((queue.heap.capacity(), queue.slots.capacity()), (0, 0));
    }
}
