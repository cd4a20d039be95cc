//! Which of the addresses above the memory's own are taken.
//!
//! Pure bookkeeping in pages, so that it is tested on the host. Addresses are
//! plenty: ranges come in powers of two, one that is given back serves the next
//! of its size, and none is ever split or joined.

use alloc::vec::Vec;

/// The sizes: `1 << size` pages.
const SIZES: usize = 32;

/// A range of pages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The number of its first page.
    pub(super) first: u32,
    size: u8,
}

/// The ranges of one size.
struct Class {
    /// Those that nobody has.
    free: Vec<u32>,
    /// How many there are.
    made: usize,
}

/// The pages from 0 to an end.
pub(super) struct AddressSpace {
    classes: [Class; SIZES],
    next: u64,
    end: u64,
}

impl AddressSpace {
    /// `pages` pages, of which none is taken.
    pub(super) const fn new(pages: u64) -> Self {
        Self {
            classes: [const {
                Class {
                    free: Vec::new(),
                    made: 0,
                }
            }; SIZES],
            next: 0,
            end: pages,
        }
    }

    /// Takes `pages` pages that lie behind each other.
    ///
    /// `None` if no addresses are left, or no memory for the bookkeeping.
    pub(super) fn take(&mut self, pages: usize) -> Option<Range> {
        let size = pages.checked_next_power_of_two()?.trailing_zeros();
        let class = self.classes.get_mut(size as usize)?;
        let first = match class.free.pop() {
            Some(first) => first,
            None => {
                let first = u32::try_from(self.next).ok()?;
                let end = self.next + (1 << size);
                if end > self.end {
                    return None;
                }
                // So that giving back never needs memory.
                class.free.try_reserve(class.made + 1).ok()?;
                class.made += 1;
                self.next = end;
                first
            }
        };
        Some(Range {
            first,
            size: size as u8,
        })
    }

    /// Gives a range back.
    pub(super) fn give(&mut self, range: Range) {
        self.classes[usize::from(range.size)].free.push(range.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_and_are_used_again() {
        let mut space = AddressSpace::new(64);
        let small = space.take(3).unwrap();
        let large = space.take(32).unwrap();
        let one = space.take(1).unwrap();
        assert_eq!((small.first, large.first, one.first), (0, 4, 36));
        space.give(small);
        assert_eq!(space.take(4).map(|range| range.first), Some(0));
        // The rest is too small for it.
        assert_eq!(space.take(32), None);
        assert_eq!(space.take(16).map(|range| range.first), Some(37));
    }

    #[test]
    fn giving_back_needs_no_memory() {
        let mut space = AddressSpace::new(1 << 20);
        let ranges: Vec<_> = (0..1000).map(|_| space.take(8).unwrap()).collect();
        let capacity = space.classes[3].free.capacity();
        assert!(capacity >= 1000);
        ranges.into_iter().for_each(|range| space.give(range));
        assert_eq!(space.classes[3].free.capacity(), capacity);
    }

    #[test]
    fn there_is_no_range_beyond_all_bounds() {
        let mut space = AddressSpace::new(1 << 32);
        assert_eq!(space.take(usize::MAX), None);
        assert_eq!(space.take(1 << 32), None);
        for _ in 0..2 {
            assert!(space.take(1 << 31).is_some());
        }
        assert_eq!(space.take(1), None);
    }
}
