//! Which memory is free, computed from the loader's memory map.
//!
//! Pure arithmetic, so that it is tested on the host.

/// The pages of this architecture.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Below this lies what the firmware and the loader use.
const LOW_BYTES: u64 = 1 << 20;

/// How many separate pieces of free memory are kept; smaller ones beyond that
/// are not used.
const MAX_REGIONS: usize = 32;

/// One entry of the loader's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) kind: Kind,
}

/// What an entry's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Free for us.
    Ram,
    /// Anything else.
    Reserved,
}

/// A piece of memory, in whole pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Region {
    pub(super) fn bytes(self) -> u64 {
        self.end - self.start
    }
}

/// The pieces of memory that nobody uses.
#[derive(Clone, Debug)]
pub(super) struct FreeMemory {
    regions: [Region; MAX_REGIONS],
    count: usize,
}

impl FreeMemory {
    /// The RAM in `map` above the first megabyte, without what any other entry
    /// claims too.
    pub(super) fn new(map: impl Iterator<Item = Entry> + Clone) -> Self {
        let mut free = Self {
            regions: [Region::default(); MAX_REGIONS],
            count: 0,
        };
        for entry in map.clone().filter(|entry| entry.kind == Kind::Ram) {
            let end = entry.start.saturating_add(entry.bytes);
            let start = entry.start.max(LOW_BYTES);
            free.reserve(entry.start, entry.bytes); // Not to have it twice.
            free.add(start, end);
        }
        for entry in map.filter(|entry| entry.kind == Kind::Reserved) {
            free.reserve(entry.start, entry.bytes);
        }
        free
    }

    /// Takes a piece out, in whole pages.
    pub(super) fn reserve(&mut self, start: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let end = start.saturating_add(bytes);
        let old = core::mem::take(&mut self.count);
        for region in self.regions.into_iter().take(old) {
            if region.end <= start || end <= region.start {
                self.add(region.start, region.end);
            } else {
                self.add(region.start, start.min(region.end));
                self.add(end.max(region.start), region.end);
            }
        }
    }

    /// Takes `pages` whole pages out, at the lowest place that has them.
    pub(super) fn take_pages(&mut self, pages: u64) -> Option<u64> {
        let bytes = pages.checked_mul(PAGE_BYTES)?;
        let mut lowest: Option<&mut Region> = None;
        // As a chain of iterators this is unrolled at great length.
        for region in &mut self.regions[..self.count] {
            let is_lower = lowest
                .as_ref()
                .is_none_or(|lowest| region.start < lowest.start);
            if region.bytes() >= bytes && is_lower {
                lowest = Some(region);
            }
        }
        let region = lowest?;
        let start = region.start;
        region.start += bytes;
        Some(start)
    }

    /// Whether any of it, or of the first megabyte, lies from `start` to `end`.
    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        start < LOW_BYTES
            || self
                .regions()
                .any(|region| region.start < end && start < region.end)
    }

    /// The pieces.
    pub(super) fn regions(&self) -> impl Iterator<Item = Region> {
        let regions = self.regions.into_iter().take(self.count);
        regions.filter(|region| region.bytes() > 0)
    }

    /// The size of all pieces.
    pub(super) fn bytes(&self) -> u64 {
        self.regions().map(Region::bytes).sum()
    }

    /// Adds a piece, cut to whole pages.
    fn add(&mut self, start: u64, end: u64) {
        let Some(start) = start.checked_next_multiple_of(PAGE_BYTES) else {
            return;
        };
        let end = end / PAGE_BYTES * PAGE_BYTES;
        if start < end && self.count < MAX_REGIONS {
            self.regions[self.count] = Region { start, end };
            self.count += 1;
        }
    }
}

/// Where the highest RAM in `map` ends.
pub(super) fn ram_end(map: impl Iterator<Item = Entry>) -> u64 {
    map.filter(|entry| entry.kind == Kind::Ram)
        .map(|entry| entry.start.saturating_add(entry.bytes))
        .max()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn ram(start: u64, end: u64) -> Entry {
        let bytes = end - start;
        let kind = Kind::Ram;
        Entry { start, bytes, kind }
    }

    fn reserved(start: u64, end: u64) -> Entry {
        let kind = Kind::Reserved;
        Entry {
            kind,
            ..ram(start, end)
        }
    }

    fn free(map: &[Entry]) -> FreeMemory {
        FreeMemory::new(map.iter().copied())
    }

    fn pieces(free: &FreeMemory) -> Vec<(u64, u64)> {
        free.regions()
            .map(|piece| (piece.start, piece.end))
            .collect()
    }

    #[test]
    fn the_first_megabyte_is_never_free() {
        let free = free(&[ram(0, 0x9fc00), ram(MIB / 2, 2 * MIB), ram(0, MIB)]);
        assert_eq!(pieces(&free), [(MIB, 2 * MIB)]);
    }

    #[test]
    fn no_map_means_no_memory() {
        let free = free(&[]);
        assert_eq!(free.bytes(), 0);
        assert_eq!(free.clone().take_pages(1), None);
        assert_eq!(ram_end([].into_iter()), 0);
    }

    #[test]
    fn what_is_claimed_twice_is_not_free() {
        let free = free(&[
            reserved(4 * MIB, 5 * MIB),
            ram(MIB, 8 * MIB),
            reserved(7 * MIB, 9 * MIB),
        ]);
        assert_eq!(pieces(&free), [(MIB, 4 * MIB), (5 * MIB, 7 * MIB)]);
        assert_eq!(free.bytes(), 5 * MIB);
    }

    #[test]
    fn what_is_there_twice_is_free_once() {
        let free = free(&[ram(MIB, 4 * MIB), ram(2 * MIB, 6 * MIB), ram(MIB, 2 * MIB)]);
        assert_eq!(free.bytes(), 5 * MIB);
        let mut pieces = pieces(&free);
        pieces.sort_unstable();
        assert!(pieces.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }

    #[test]
    fn reserving_takes_whole_pages() {
        let mut free = free(&[ram(MIB, 2 * MIB)]);
        free.reserve(MIB + 5000, 10);
        assert_eq!(pieces(&free), [(MIB, MIB + 4096), (MIB + 8192, 2 * MIB)]);
        free.reserve(0, 4 * MIB);
        assert_eq!(free.bytes(), 0);
    }

    #[test]
    fn reserving_nothing_changes_nothing() {
        let mut free = free(&[ram(MIB, 2 * MIB)]);
        free.reserve(MIB + 5000, 0);
        assert_eq!(pieces(&free), [(MIB, 2 * MIB)]);
    }

    #[test]
    fn pages_come_from_the_lowest_piece_that_has_them() {
        let mut free = free(&[ram(8 * MIB, 9 * MIB), ram(MIB, MIB + 4096)]);
        assert_eq!(free.take_pages(2), Some(8 * MIB));
        assert_eq!(free.take_pages(1), Some(MIB));
        assert_eq!(free.take_pages(1), Some(8 * MIB + 8192));
        assert_eq!(free.take_pages(1 << 40), None);
        assert_eq!(free.take_pages(u64::MAX), None);
    }

    #[test]
    fn nonsense_in_the_map_is_harmless() {
        let end = u64::MAX;
        let free = free(&[
            ram(end - 10, end),
            ram(MIB + 1, MIB + 4000),
            reserved(end - 1, end),
        ]);
        assert_eq!(free.bytes(), 0);
        let huge = Entry {
            bytes: end,
            ..ram(MIB, MIB)
        };
        assert_eq!(ram_end([huge].into_iter()), end);
    }

    #[test]
    fn more_pieces_than_fit_are_dropped() {
        let map: Vec<_> = (1..100)
            .map(|i| ram(2 * i * MIB, (2 * i + 1) * MIB))
            .collect();
        assert_eq!(free(&map).regions().count(), MAX_REGIONS);
    }

    #[test]
    fn what_reaches_into_memory_is_found() {
        let entry = |start, end, kind| Entry {
            start,
            bytes: end - start,
            kind,
        };
        let map = [
            entry(0, 0x10_0000, Kind::Ram),
            entry(0x10_0000, 0x400_0000, Kind::Ram),
            entry(0xfeb0_0000, 0xfeb0_1000, Kind::Reserved),
            entry(0x1_0000_0000, 0x1_1000_0000, Kind::Ram),
        ];
        let memory = FreeMemory::new(map.into_iter());
        for (start, end) in [
            (0, 8),
            (0xf_f000, 0xf_f200),
            (0x10_0000, 0x10_0200),
            (0x3ff_ff00, 0x400_0100),
            (0xfeb0_0000, 0x2_0000_0000),
        ] {
            assert!(memory.overlaps(start, end), "{start:#x}..{end:#x}");
        }
        assert!(!memory.overlaps(0x400_0000, 0x400_0200));
        assert!(!memory.overlaps(0xfeb0_0e00, 0xfeb0_1000));
    }
}
