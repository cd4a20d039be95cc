//! When which socket has to be looked at again.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use smoltcp::time::Instant;

use super::index_list::IndexList;

const NONE: u32 = u32::MAX;

/// One deadline per slot at most, in a heap that knows each slot's place.
///
/// Setting, moving and removing are O(log n), and nothing allocates after
/// [`grow`](Self::grow).
#[derive(Debug)]
pub(super) struct Deadlines {
    heap: Vec<(Instant, u32)>,
    /// Where in the heap a slot's deadline is.
    places: Vec<u32>,
}

impl Deadlines {
    pub(super) const fn new() -> Self {
        Self {
            heap: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Makes place for the slots below `count`.
    pub(super) fn grow(&mut self, count: usize) -> Result<(), TryReserveError> {
        if count > self.places.len() {
            self.places.try_reserve(count - self.places.len())?;
            self.heap.try_reserve(count - self.heap.len())?;
            self.places.resize(count, NONE);
        }
        Ok(())
    }

    /// The memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<(Instant, u32)>()
            + self.places.capacity() * size_of::<u32>()
    }

    /// Sets the deadline of `slot`, `None` for none.
    pub(super) fn set(&mut self, slot: u32, deadline: Option<Instant>) {
        let place = self.places[slot as usize];
        match (place, deadline) {
            (NONE, None) => {}
            (NONE, Some(deadline)) => {
                self.heap.push((deadline, slot));
                self.rise(self.heap.len() - 1);
            }
            (place, Some(deadline)) => {
                let place = place as usize;
                if self.heap[place].0 != deadline {
                    self.heap[place].0 = deadline;
                    self.settle(place);
                }
            }
            (place, None) => {
                let place = place as usize;
                self.places[slot as usize] = NONE;
                self.heap.swap_remove(place);
                if place < self.heap.len() {
                    self.settle(place);
                }
            }
        }
    }

    /// The earliest deadline.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.heap.first().map(|&(deadline, _)| deadline)
    }

    /// Takes out the slot with the earliest deadline, if that is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let &(deadline, slot) = self.heap.first()?;
        if deadline > now {
            return None;
        }
        self.set(slot, None);
        Some(slot)
    }

    /// Takes out the slots whose deadline has come, at most `limit`, the earliest
    /// first, and appends them to `list`.
    pub(super) fn move_due(&mut self, now: Instant, limit: usize, list: &mut IndexList) {
        for _ in 0..limit {
            let Some(slot) = self.pop_due(now) else {
                break;
            };
            list.push(slot);
        }
    }

    fn settle(&mut self, place: usize) {
        let place = self.rise(place);
        self.sink(place);
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].0 <= entry.0 {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let mut child = 2 * place + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1].0 < self.heap[child].0 {
                child += 1;
            }
            if entry.0 <= self.heap[child].0 {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Instant, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

/// The sooner of two deadlines. Every call of the program asks for it.
#[inline]
pub(super) fn sooner(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_behaves_like_a_sorted_map() {
        let mut deadlines = Deadlines::new();
        deadlines.grow(32).unwrap();
        let mut model = BTreeMap::new();
        let mut random = 1_u32;
        for _ in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let slot = random >> 20 & 31;
            let at = Instant::from_micros(i64::from(random >> 25));
            match random >> 30 {
                0 => {
                    deadlines.set(slot, None);
                    model.remove(&slot);
                }
                1 => {
                    let due = model.values().min().is_some_and(|&first| first <= at);
                    let popped = deadlines.pop_due(at);
                    assert_eq!(popped.is_some(), due);
                    if let Some(slot) = popped {
                        let first = model.values().min().copied();
                        assert_eq!(model.remove(&slot), first);
                    }
                }
                _ => {
                    deadlines.set(slot, Some(at));
                    model.insert(slot, at);
                }
            }
            assert_eq!(deadlines.earliest(), model.values().min().copied());
        }
    }
}
