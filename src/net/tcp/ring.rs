//! Which pages of a ring buffer have memory.
//!
//! The pages that have some are always one piece, which may go round the ring's
//! end:
//!
//! ```text
//!   pages   0     1     2     3     4     5     6     7
//!                 [first ············· count]
//!   bytes             [read · · · · ·]  what is live
//! ```

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::arch::{NoMemory, PAGE_BYTES, ReservedMemory};

/// How many pages are given at once: the bound on the work, and on what a peer
/// can take with a segment far ahead.
const MAX_PAGES_AT_ONCE: usize = 64;

/// How many bytes behind what is live can be given memory at once.
pub(super) const MAX_BYTES_AT_ONCE: usize = (MAX_PAGES_AT_ONCE - 1) * PAGE_BYTES;

/// How much memory a stack's buffers have, and may have, in bytes.
///
/// All of it is used under the stack's lock.
#[derive(Debug)]
pub(in crate::net) struct Budget {
    used: AtomicUsize,
    most: AtomicUsize,
    limit: usize,
}

impl Budget {
    pub(in crate::net) const fn new(limit_bytes: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            limit: limit_bytes,
        }
    }

    pub(in crate::net) fn used_bytes(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// The most that was ever used.
    pub(in crate::net) fn most_bytes(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// Whether newcomers shall get no more: an eighth is left to those that are
    /// there.
    pub(in crate::net) fn is_short(&self) -> bool {
        self.used_bytes() >= self.limit - self.limit / 8
    }

    /// Counts bytes whatever the limit is.
    pub(in crate::net) fn hold(&self, bytes: usize) {
        let used = self.used_bytes() + bytes;
        self.used.store(used, Relaxed);
        self.most.store(self.most_bytes().max(used), Relaxed);
    }

    /// Counts bytes no more.
    pub(in crate::net) fn release(&self, bytes: usize) {
        self.used.store(self.used_bytes() - bytes, Relaxed);
    }

    fn take_page(&self) -> Result<(), NoMemory> {
        if self.limit.saturating_sub(self.used_bytes()) < PAGE_BYTES {
            return Err(NoMemory);
        }
        self.hold(PAGE_BYTES);
        Ok(())
    }
}

/// The pages of one ring, which lie behind each other in a range of reserved
/// addresses.
#[derive(Debug)]
pub(super) struct Ring {
    /// Where the ring begins in the range.
    offset_pages: usize,
    pages: usize,
    /// The first page that has memory.
    first: usize,
    /// How many have.
    count: usize,
}

impl Ring {
    /// A ring of `pages` pages without memory.
    pub(super) fn new(offset_pages: usize, pages: usize) -> Self {
        Self {
            offset_pages,
            pages,
            first: 0,
            count: 0,
        }
    }

    /// How many bytes it can hold.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.pages * PAGE_BYTES
    }

    /// Whether one of its pages has memory.
    pub(super) fn has_memory(&self) -> bool {
        self.count > 0
    }

    /// The place that is so many bytes from the ring's start, and less than two
    /// rounds.
    #[inline]
    pub(super) fn wrap(&self, at: usize) -> usize {
        let capacity = self.capacity();
        if at < capacity { at } else { at - capacity }
    }

    /// How many bytes from `at` on have memory.
    #[inline]
    pub(super) fn committed_from(&self, at: usize) -> usize {
        if self.count == self.pages {
            return self.capacity();
        }
        (self.count * PAGE_BYTES).saturating_sub(self.distance(at))
    }

    /// How far `at` lies behind the first page that has memory.
    #[inline]
    fn distance(&self, at: usize) -> usize {
        let start = self.first * PAGE_BYTES;
        if at >= start {
            at - start
        } else {
            at + self.capacity() - start
        }
    }

    /// Makes sure that `len` bytes from `at` on have memory, going round the
    /// ring's end. `live_bytes` are in use before `at`; what is in use has
    /// memory. Returns whether any was missing.
    ///
    /// # Errors
    ///
    /// [`NoMemory`]; a part may then have been given memory.
    #[inline]
    pub(super) fn commit(
        &mut self,
        memory: &mut ReservedMemory,
        budget: &Budget,
        live_bytes: usize,
        at: usize,
        len: usize,
    ) -> Result<bool, NoMemory> {
        if len <= self.committed_from(at) {
            return Ok(false);
        }
        self.extend(memory, budget, live_bytes, at, len)?;
        Ok(true)
    }

    #[cold]
    fn extend(
        &mut self,
        memory: &mut ReservedMemory,
        budget: &Budget,
        live_bytes: usize,
        at: usize,
        len: usize,
    ) -> Result<(), NoMemory> {
        if live_bytes == 0 && self.distance(at) > self.count * PAGE_BYTES {
            // Nothing holds the old pages, and those between are not needed.
            self.clear(memory, budget);
        }
        if self.count == 0 {
            self.first = at / PAGE_BYTES;
        }
        let wanted = (self.distance(at) + len).div_ceil(PAGE_BYTES);
        let wanted = wanted.min(self.pages);
        if wanted > self.count + MAX_PAGES_AT_ONCE {
            return Err(NoMemory);
        }
        while self.count < wanted {
            budget.take_page()?;
            let page = self.page(self.count);
            memory
                .commit(page)
                .inspect_err(|NoMemory| budget.release(PAGE_BYTES))?;
            self.count += 1;
        }
        Ok(())
    }

    /// Gives back every page but those of `len` bytes from `at` on, which have
    /// memory. Returns whether there were any.
    pub(super) fn keep(
        &mut self,
        memory: &mut ReservedMemory,
        budget: &Budget,
        at: usize,
        len: usize,
    ) -> bool {
        if len == 0 {
            return self.clear(memory, budget);
        }
        if self.count == self.pages {
            self.first = at / PAGE_BYTES;
        }
        let from = self.distance(at) / PAGE_BYTES;
        let to = (self.distance(at) + len).div_ceil(PAGE_BYTES);
        // More where what goes round begins and ends in the same page.
        let to = to.min(self.count);
        let freed = from + (self.count - to);
        self.give_back(memory, budget, to..self.count);
        self.give_back(memory, budget, 0..from);
        self.first = (self.first + from) % self.pages;
        self.count = to - from;
        freed > 0
    }

    /// Gives back every page; whether there were any.
    pub(super) fn clear(&mut self, memory: &mut ReservedMemory, budget: &Budget) -> bool {
        let freed = self.count > 0;
        self.give_back(memory, budget, 0..self.count);
        self.count = 0;
        freed
    }

    /// Gives back pages, counted from the first that has memory.
    fn give_back(&self, memory: &mut ReservedMemory, budget: &Budget, pages: Range<usize>) {
        budget.release(pages.len() * PAGE_BYTES);
        for page in pages {
            let page = self.page(page);
            memory.decommit(page..page + 1);
        }
    }

    /// The page in the range that is the `number`th from the first that has
    /// memory.
    fn page(&self, number: usize) -> usize {
        self.offset_pages + (self.first + number) % self.pages
    }
}

#[cfg(test)]
#[allow(unsafe_code)] // Touches the pages.
mod tests {
    use std::vec::Vec;

    use super::*;

    const PAGES: usize = 4;
    const CAPACITY: usize = PAGES * PAGE_BYTES;

    struct Setup {
        memory: ReservedMemory,
        budget: Budget,
        ring: Ring,
    }

    impl Setup {
        fn new() -> Self {
            Self::with_limit(usize::MAX)
        }

        fn with_limit(limit_bytes: usize) -> Self {
            Self {
                memory: ReservedMemory::new(1 + PAGES).unwrap(),
                budget: Budget::new(limit_bytes),
                ring: Ring::new(1, PAGES),
            }
        }

        fn commit(&mut self, live: usize, at: usize, len: usize) -> Result<bool, NoMemory> {
            self.ring
                .commit(&mut self.memory, &self.budget, live, at, len)
        }

        fn keep(&mut self, at: usize, len: usize) -> bool {
            self.ring.keep(&mut self.memory, &self.budget, at, len)
        }

        /// The pages that have memory, each of which is written to.
        fn pages(&self) -> Vec<usize> {
            let pages = (0..self.ring.count).map(|number| self.ring.page(number));
            pages
                .inspect(|page| {
                    // SAFETY: the page has memory, or this faults.
                    unsafe {
                        let page = self.memory.start().add(page * PAGE_BYTES);
                        page.write_bytes(1, PAGE_BYTES);
                    }
                })
                .collect()
        }
    }

    #[test]
    fn small_data_takes_one_page_at_a_time() {
        let mut setup = Setup::new();
        setup.commit(0, 0, 100).unwrap();
        setup.commit(100, 100, PAGE_BYTES - 100).unwrap();
        assert_eq!(setup.pages(), [1]);
        setup.commit(0, PAGE_BYTES, 1).unwrap();
        assert_eq!(setup.pages(), [1, 2]);
        assert_eq!(setup.budget.used_bytes(), 2 * PAGE_BYTES);
    }

    #[test]
    fn data_goes_round_the_end() {
        let mut setup = Setup::new();
        setup.commit(0, 3 * PAGE_BYTES + 10, PAGE_BYTES).unwrap();
        assert_eq!(setup.pages(), [4, 1]);
        assert_eq!(
            setup.ring.committed_from(3 * PAGE_BYTES + 10),
            2 * PAGE_BYTES - 10
        );
        assert_eq!(setup.ring.committed_from(PAGE_BYTES), 0);
        setup.commit(CAPACITY - 1, 10, CAPACITY).unwrap();
        assert_eq!(setup.pages(), [4, 1, 2, 3]);
        assert_eq!(setup.ring.committed_from(77), CAPACITY);
    }

    #[test]
    fn what_nothing_holds_is_not_kept_for_data_elsewhere() {
        let mut setup = Setup::new();
        setup.commit(0, 0, 10).unwrap();
        setup.commit(0, 2 * PAGE_BYTES, 10).unwrap();
        assert_eq!(setup.pages(), [3]);
    }

    #[test]
    fn only_what_is_live_is_kept() {
        let mut setup = Setup::new();
        setup.commit(0, 0, CAPACITY).unwrap();
        assert!(setup.keep(PAGE_BYTES + 1, PAGE_BYTES));
        assert_eq!(setup.pages(), [2, 3]);
        assert!(!setup.keep(PAGE_BYTES + 1, PAGE_BYTES));
        assert!(setup.keep(0, 0));
        assert_eq!(setup.pages(), []);
        assert_eq!(setup.budget.used_bytes(), 0);
        assert!(!setup.keep(0, 0));
    }

    #[test]
    fn a_full_ring_is_kept_whole() {
        let mut setup = Setup::new();
        setup.commit(0, 100, CAPACITY).unwrap();
        assert!(!setup.keep(100, CAPACITY));
        assert_eq!(setup.pages().len(), PAGES);
        // It does not begin in the first page, and goes round.
        assert!(setup.keep(2 * PAGE_BYTES + 1, 2 * PAGE_BYTES));
        assert_eq!(setup.pages(), [3, 4, 1]);
    }

    #[test]
    fn beyond_the_limit_there_is_no_memory_until_some_comes_back() {
        let mut setup = Setup::with_limit(2 * PAGE_BYTES);
        assert_eq!(setup.commit(0, 0, 3 * PAGE_BYTES), Err(NoMemory));
        // What could be had is of use.
        assert_eq!(setup.ring.committed_from(0), 2 * PAGE_BYTES);
        assert!(setup.budget.is_short());
        assert!(setup.keep(PAGE_BYTES, 1));
        setup.commit(1, PAGE_BYTES + 1, PAGE_BYTES).unwrap();
        assert_eq!(setup.pages(), [2, 3]);
    }

    #[test]
    fn a_jump_far_ahead_is_refused() {
        let mut memory = ReservedMemory::new(1000).unwrap();
        let (budget, mut ring) = (Budget::new(usize::MAX), Ring::new(0, 1000));
        let far = MAX_PAGES_AT_ONCE * PAGE_BYTES;
        let result = ring.commit(&mut memory, &budget, 0, 0, far + 1);
        assert_eq!((result, budget.used_bytes()), (Err(NoMemory), 0));
        ring.commit(&mut memory, &budget, 0, 0, far).unwrap();
    }

    /// Against the simplest model: a set of pages.
    #[test]
    fn live_data_has_memory_whatever_happens() {
        let mut setup = Setup::new();
        let (mut read, mut live) = (0, 0);
        let mut random = 1_u32;
        for _ in 0..5_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let amount = (random >> 8) as usize % CAPACITY;
            match random >> 30 {
                0 => {
                    setup.keep(read, live);
                }
                1 => {
                    let taken = amount.min(live);
                    (read, live) = ((read + taken) % CAPACITY, live - taken);
                }
                _ => {
                    let len = amount.min(CAPACITY - live);
                    setup.commit(live, (read + live) % CAPACITY, len).unwrap();
                    live += len;
                }
            }
            let pages = setup.pages();
            for byte in (0..live).step_by(PAGE_BYTES / 2).chain(live.checked_sub(1)) {
                let page = 1 + (read + byte) % CAPACITY / PAGE_BYTES;
                assert!(pages.contains(&page), "{page} is not in {pages:?}");
            }
            assert_eq!(setup.budget.used_bytes(), pages.len() * PAGE_BYTES);
        }
    }
}
