//! Memory at boot, and the heap.

use alloc::alloc::{GlobalAlloc, Layout};

use hermit_sync::OnceCell;
use talc::TalcLock;
use talc::source::Manual;

use super::boot;
use super::memory_map::{FreeMemory, ram_end};
use super::paging::{self, Image};
use crate::arch::Memory;

/// Less than this is not worth starting with.
const LEAST_HEAP_BYTES: u64 = 256 << 10;

/// What is memory, above the first megabyte.
static MEMORY: OnceCell<FreeMemory> = OnceCell::new();

#[global_allocator]
static HEAP: Heap = Heap(TalcLock::new(Manual));

/// The allocator: short critical sections with interrupts masked, since
/// everything may allocate but interrupt handlers.
struct Heap(TalcLock<hermit_sync::RawInterruptOneShotMutex, Manual>);

// SAFETY: all calls go to the one allocator behind the lock.
unsafe impl GlobalAlloc for Heap {
    #[inline(never)] // A lock at each of its many callers would be much code.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.alloc(layout) }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    #[inline(never)]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.realloc(pointer, layout, bytes) }
    }
}

/// How much memory there is and how much is in use.
pub fn memory() -> Memory {
    let heap = HEAP.0.lock();
    let counters = heap.counters();
    Memory {
        heap_bytes: counters.claimed_bytes,
        allocated_bytes: counters.allocated_bytes,
    }
}

/// Whether there is memory from `start` to `end`.
pub(super) fn is_memory(start: u64, end: u64) -> bool {
    MEMORY
        .get()
        .is_some_and(|memory| memory.overlaps(start, end))
}

/// Protects the image, maps all memory and makes the heap of what is free.
///
/// # Panics
///
/// Panics without a memory map, and with too little memory.
pub fn start_memory() {
    let map = boot::memory_map();
    assert!(
        map.clone().next().is_some(),
        "the loader passed no memory map, so there is no memory to use"
    );
    let mut free = FreeMemory::new(map.clone());
    MEMORY.get_or_init(|| free.clone());
    let image = Image::get();
    free.reserve(image.start, image.end - image.start);
    free.reserve(paging::REACH, u64::MAX);
    for (start, bytes) in boot::loader_structures() {
        free.reserve(start, bytes);
    }
    // SAFETY: the runtime calls this once, at boot, before interrupts. What is
    // free is neither image, nor firmware, nor the loader's.
    let mapped = unsafe { paging::protect(&mut free, ram_end(map)) };
    let bytes = free.bytes();
    assert!(
        mapped && bytes >= LEAST_HEAP_BYTES,
        "too little memory: {} KiB are free, and at least {} KiB are needed",
        bytes >> 10,
        LEAST_HEAP_BYTES >> 10
    );
    let mut heap = HEAP.0.lock();
    for region in free.regions() {
        let start = core::ptr::with_exposed_provenance_mut(region.start as usize);
        // SAFETY: the region is mapped, free, and from here on the heap's. Too
        // small a region is refused, which loses nothing.
        unsafe { heap.claim(start, region.bytes() as usize) };
    }
}
