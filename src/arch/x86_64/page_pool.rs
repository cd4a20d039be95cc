//! Pages for what is committed, cut from larger chunks of the heap.
//!
//! The heap puts a word between two pieces, so that pages allocated one by one
//! would waste as much as they give. Pure bookkeeping, so that it is tested on
//! the host.

use alloc::vec::Vec;

use super::memory_map::PAGE_BYTES;

/// The pages of a chunk, one bit each.
const CHUNK_PAGES: usize = 32;
/// A chunk's size.
pub(super) const CHUNK_BYTES: usize = CHUNK_PAGES * PAGE_BYTES as usize;

/// A piece of the heap.
struct Chunk {
    start: u64,
    /// A bit for each page that is free.
    free: u32,
}

/// The pages.
pub(super) struct PagePool {
    /// By address.
    chunks: Vec<Chunk>,
    free_pages: usize,
    /// No chunk before this one has a free page.
    first_with_free: usize,
}

impl PagePool {
    pub(super) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            free_pages: 0,
            first_with_free: 0,
        }
    }

    /// Takes a page.
    pub(super) fn take(&mut self) -> Option<u64> {
        if self.free_pages == 0 {
            return None;
        }
        let rest = &mut self.chunks[self.first_with_free..];
        let skipped = rest.iter().position(|chunk| chunk.free != 0)?;
        let chunk = &mut rest[skipped];
        let page = chunk.free.trailing_zeros();
        chunk.free &= chunk.free - 1;
        self.first_with_free += skipped;
        self.free_pages -= 1;
        Some(chunk.start + u64::from(page) * PAGE_BYTES)
    }

    /// Gives a page back that was taken. Returns the chunk that nobody needs
    /// any more, if there is one.
    #[must_use]
    pub(super) fn give(&mut self, page: u64) -> Option<u64> {
        let index = self.place_of(page).checked_sub(1)?;
        let chunk = &mut self.chunks[index];
        chunk.free |= 1 << ((page - chunk.start) / PAGE_BYTES);
        self.free_pages += 1;
        self.first_with_free = self.first_with_free.min(index);
        // One free chunk is kept, for whoever comes next.
        if chunk.free != u32::MAX || self.free_pages < 2 * CHUNK_PAGES {
            return None;
        }
        self.free_pages -= CHUNK_PAGES;
        Some(self.chunks.remove(index).start)
    }

    /// Adds a chunk of [`CHUNK_BYTES`] that starts with a page.
    ///
    /// # Errors
    ///
    /// The chunk, if there is no memory for the bookkeeping.
    pub(super) fn add(&mut self, start: u64) -> Result<(), u64> {
        self.chunks.try_reserve(1).map_err(|_| start)?;
        let index = self.place_of(start);
        let free = u32::MAX;
        self.chunks.insert(index, Chunk { start, free });
        self.free_pages += CHUNK_PAGES;
        self.first_with_free = self.first_with_free.min(index);
        Ok(())
    }

    /// Behind which chunks `address` lies.
    fn place_of(&self, address: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.start <= address)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_page_is_had_once() {
        let mut pool = PagePool::new();
        assert_eq!(pool.take(), None);
        let starts = [9 << 20, 1 << 20, 5 << 20];
        for start in starts {
            pool.add(start).unwrap();
        }
        let pages: BTreeSet<_> = core::iter::from_fn(|| pool.take()).collect();
        assert_eq!(pages.len(), 3 * CHUNK_PAGES);
        for start in starts {
            assert!(pages.contains(&start));
            assert!(pages.contains(&(start + CHUNK_BYTES as u64 - PAGE_BYTES)));
        }
    }

    #[test]
    fn chunks_go_back_but_for_one() {
        let mut pool = PagePool::new();
        let starts = [1 << 20, 2 << 20, 3 << 20];
        for start in starts {
            pool.add(start).unwrap();
        }
        let pages: Vec<_> = core::iter::from_fn(|| pool.take()).collect();
        let back: Vec<_> = pages.iter().filter_map(|&page| pool.give(page)).collect();
        assert_eq!(back.len(), 2);
        assert_eq!(core::iter::from_fn(|| pool.take()).count(), CHUNK_PAGES);
    }

    #[test]
    fn pages_that_were_given_back_are_taken_again() {
        let mut pool = PagePool::new();
        pool.add(1 << 20).unwrap();
        pool.add(2 << 20).unwrap();
        let pages: Vec<_> = core::iter::from_fn(|| pool.take()).collect();
        let (low, high) = (pages[3], pages[40]);
        assert_eq!(pool.give(high), None);
        assert_eq!(pool.give(low), None);
        assert_eq!(pool.take(), Some(low));
        assert_eq!(pool.take(), Some(high));
        assert_eq!(pool.take(), None);
    }
}
