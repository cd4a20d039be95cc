//! Lists of slot indices that never allocate while they are used.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// Hashes the key of an index again when a hash table grows. Of one type for
/// all tables, so that the code that grows them is there once.
pub(super) type Rehash<'a> = &'a dyn Fn(&u32) -> u64;

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
    linked: bool,
}

/// Places in lists, one per index: an index is in one of the lists that share
/// them at most.
#[derive(Debug)]
pub(super) struct Links(Vec<Link>);

impl Links {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The memory that they take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Link>()
    }

    /// Makes place for the indices below `count`.
    pub(super) fn grow(&mut self, count: usize) -> Result<(), TryReserveError> {
        let unlinked = Link {
            previous: NONE,
            next: NONE,
            linked: false,
        };
        if count > self.0.len() {
            self.0.try_reserve(count - self.0.len())?;
            self.0.resize(count, unlinked);
        }
        Ok(())
    }
}

/// A doubly linked list of indices whose links lie elsewhere, so that many
/// lists can share them.
#[derive(Debug)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    len: usize,
}

impl Chain {
    pub(super) const fn new() -> Self {
        Self {
            first: NONE,
            last: NONE,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends `index`, unless it is in a list; whether it was in none.
    pub(super) fn push(&mut self, links: &mut Links, index: u32) -> bool {
        let links = &mut links.0;
        if links[index as usize].linked {
            return false;
        }
        links[index as usize] = Link {
            previous: self.last,
            next: NONE,
            linked: true,
        };
        match self.last {
            NONE => self.first = index,
            last => links[last as usize].next = index,
        }
        self.last = index;
        self.len += 1;
        true
    }

    /// Takes `index`, which is in no other list, out; whether it was in this
    /// one.
    pub(super) fn remove(&mut self, links: &mut Links, index: u32) -> bool {
        let links = &mut links.0;
        let link = links[index as usize];
        if !link.linked {
            return false;
        }
        match link.previous {
            NONE => self.first = link.next,
            previous => links[previous as usize].next = link.next,
        }
        match link.next {
            NONE => self.last = link.previous,
            next => links[next as usize].previous = link.previous,
        }
        links[index as usize].linked = false;
        self.len -= 1;
        true
    }

    /// The index that was appended first.
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Takes out the index that was appended first.
    pub(super) fn pop(&mut self, links: &mut Links) -> Option<u32> {
        let first = self.first()?;
        self.remove(links, first);
        Some(first)
    }
}

/// A doubly linked list of indices, each in it at most once.
///
/// An index can be taken out from the middle, and nothing allocates after
/// [`grow`](Self::grow).
#[derive(Debug)]
pub(super) struct IndexList {
    links: Links,
    chain: Chain,
}

impl IndexList {
    pub(super) const fn new() -> Self {
        Self {
            links: Links::new(),
            chain: Chain::new(),
        }
    }

    /// Makes place for the indices below `count`.
    pub(super) fn grow(&mut self, count: usize) -> Result<(), TryReserveError> {
        self.links.grow(count)
    }

    /// The memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.links.memory_bytes()
    }

    pub(super) fn len(&self) -> usize {
        self.chain.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chain.len == 0
    }

    /// Appends `index`, unless it is in the list; whether it was not.
    pub(super) fn push(&mut self, index: u32) -> bool {
        self.chain.push(&mut self.links, index)
    }

    /// Takes `index` out; whether it was in the list.
    pub(super) fn remove(&mut self, index: u32) -> bool {
        self.chain.remove(&mut self.links, index)
    }

    /// The index that was appended first.
    pub(super) fn first(&self) -> Option<u32> {
        self.chain.first()
    }

    /// The index that was appended after `index`, which is in the list.
    pub(super) fn after(&self, index: u32) -> Option<u32> {
        let next = self.links.0[index as usize].next;
        (next != NONE).then_some(next)
    }

    /// Takes out the index that was appended first.
    pub(super) fn pop(&mut self) -> Option<u32> {
        self.chain.pop(&mut self.links)
    }

    /// Moves the indices here that were appended to `other` first, at most
    /// `limit`.
    pub(super) fn take_from(&mut self, other: &mut Self, limit: usize) {
        for _ in 0..limit {
            let Some(index) = other.pop() else {
                break;
            };
            self.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn it_behaves_like_a_queue_without_duplicates() {
        let mut list = IndexList::new();
        list.grow(16).unwrap();
        let mut model = VecDeque::new();
        let mut random = 1_u32;
        for _ in 0..10_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let index = random >> 24 & 15;
            match random >> 28 & 3 {
                0 => assert_eq!(list.pop(), model.pop_front()),
                1 => {
                    assert_eq!(list.remove(index), model.contains(&index));
                    model.retain(|&i| i != index);
                }
                _ => {
                    assert_eq!(list.push(index), !model.contains(&index));
                    if !model.contains(&index) {
                        model.push_back(index);
                    }
                }
            }
            assert_eq!(list.len(), model.len());
            assert_eq!(list.first(), model.front().copied());
        }
    }
}
