//! Addresses that get memory page by page, when somebody asks for it.
//!
//! They lie above what the identity map reaches. An access where no memory was
//! asked for is a page fault, which is fatal and says so.
//!
//! There is one core: on more, taking a page away would have to reach the
//! others' translations too.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::arch::asm;
use core::ops::Range;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use x86_64::VirtAddr;
use x86_64::instructions::tlb;

use super::InterruptMutex;
use super::address_space::{self, AddressSpace};
use super::memory::memory;
use super::memory_map::PAGE_BYTES;
use super::page_pool::{CHUNK_BYTES, PagePool};
use super::paging::{ADDRESS, DATA, EDITING, PML4, PRESENT, REACH, Table, WRITABLE};
use crate::arch::NoMemory;

/// How many pages of addresses there are: 16 TiB.
const PAGES: u64 = 1 << 32;
const END: u64 = REACH + PAGES * PAGE_BYTES;

static ADDRESSES: InterruptMutex<AddressSpace> = InterruptMutex::new(AddressSpace::new(PAGES));
static POOL: InterruptMutex<PagePool> = InterruptMutex::new(PagePool::new());

/// Whether `address` is one of those.
pub(super) fn holds(address: u64) -> bool {
    (REACH..END).contains(&address)
}

/// A range of addresses of one's own, with or without memory behind each page.
#[derive(Debug)]
pub struct ReservedMemory {
    /// `None` only while it is dropped.
    range: Option<address_space::Range>,
    start: u64,
    pages: usize,
    /// How many of them have memory.
    committed: usize,
}

impl ReservedMemory {
    /// Reserves `pages` pages that lie behind each other, without memory.
    ///
    /// # Errors
    ///
    /// [`NoMemory`] if there are not so many addresses.
    pub fn new(pages: usize) -> Result<Self, NoMemory> {
        let range = ADDRESSES.lock().take(pages).ok_or(NoMemory)?;
        let start = REACH + u64::from(range.first) * PAGE_BYTES;
        Ok(Self {
            range: Some(range),
            start,
            pages,
            committed: 0,
        })
    }

    /// Where the first page is.
    pub fn start(&self) -> NonNull<u8> {
        let start = with_exposed_provenance_mut(self.start as usize);
        NonNull::new(start).expect("the addresses begin far above 0")
    }

    /// Puts memory behind a page that has none; what it holds is arbitrary.
    ///
    /// # Errors
    ///
    /// [`NoMemory`]; the page then still has none.
    ///
    /// # Panics
    ///
    /// Panics if there is no such page, or it has memory.
    pub fn commit(&mut self, page: usize) -> Result<(), NoMemory> {
        let address = self.address(page);
        let memory = take_page()?;
        let mapped = {
            let _editing = EDITING.lock();
            entry(address, Missing::Made).map(|entry| {
                assert!(*entry & PRESENT == 0, "the page has memory");
                *entry = memory | DATA;
                // The compiler shall take it that the memory is made here. The
                // processor keeps no translation that is not present.
                // SAFETY: it does nothing.
                unsafe { asm!("/* {} */", in(reg) address, options(nostack, preserves_flags)) };
            })
        };
        let Some(()) = mapped else {
            give_page(memory);
            return Err(NoMemory);
        };
        self.committed += 1;
        Ok(())
    }

    /// Takes the memory away from those of `pages` that have some, and what
    /// they held with it.
    ///
    /// # Panics
    ///
    /// Panics if there are no such pages.
    pub fn decommit(&mut self, pages: Range<usize>) {
        for page in pages {
            if self.committed == 0 {
                break;
            }
            if let Some(memory) = unmap(self.address(page)) {
                self.committed -= 1;
                give_page(memory);
            }
        }
    }

    fn address(&self, page: usize) -> u64 {
        assert!(page < self.pages, "there is no page {page}");
        self.start + page as u64 * PAGE_BYTES
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        self.decommit(0..self.pages);
        if let Some(range) = self.range.take() {
            ADDRESSES.lock().give(range);
        }
    }
}

/// Takes the page at `address` out of the tables; returns where its memory is.
fn unmap(address: u64) -> Option<u64> {
    let _editing = EDITING.lock();
    let entry = entry(address, Missing::Left)?;
    let old = core::mem::take(entry);
    if old & PRESENT == 0 {
        return None;
    }
    // Nobody may get a page that a translation still leads to.
    tlb::flush(VirtAddr::new(address));
    Some(old & ADDRESS)
}

/// What is done about a table that there is not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Made,
    Left,
}

/// The entry of the page at `address`, which is one of the reserved; the caller
/// holds [`EDITING`].
///
/// `None` if a table is missing, or cannot be made. Tables stay once made.
fn entry(address: u64, missing: Missing) -> Option<&'static mut u64> {
    debug_assert!(holds(address));
    // SAFETY: the boot is over, and the lock is held.
    let [top] = unsafe { PML4.get() };
    let mut table = top;
    for shift in [39, 30, 21] {
        let entry = &mut table.0[(address >> shift) as usize % 512];
        if *entry & PRESENT == 0 {
            if missing == Missing::Left {
                return None;
            }
            // SAFETY: the layout has a size.
            let made = NonNull::new(unsafe { alloc_zeroed(Layout::new::<Table>()) })?;
            *entry = made.expose_provenance().get() as u64 | PRESENT | WRITABLE;
        }
        let next = with_exposed_provenance_mut::<Table>((*entry & ADDRESS) as usize);
        // SAFETY: above the identity map, present entries down to the last but
        // one table were made here. They lead to tables that stay, and that
        // only the holder of the lock looks at.
        table = unsafe { &mut *next };
    }
    Some(&mut table.0[(address / PAGE_BYTES) as usize % 512])
}

/// A page of memory.
fn take_page() -> Result<u64, NoMemory> {
    if let Some(page) = POOL.lock().take() {
        return Ok(page);
    }
    if memory().is_exhausted() {
        return Err(NoMemory);
    }
    // Zeroed, since references will see what is there, and with nothing locked,
    // as that takes a while.
    // SAFETY: the layout has a size.
    let chunk = NonNull::new(unsafe { alloc_zeroed(chunk_layout()) }).ok_or(NoMemory)?;
    let mut pool = POOL.lock();
    let added = pool.add(chunk.expose_provenance().get() as u64);
    let page = pool.take();
    drop(pool);
    if let Err(chunk) = added {
        free_chunk(chunk);
    }
    page.ok_or(NoMemory)
}

fn give_page(page: u64) {
    let unneeded = POOL.lock().give(page);
    if let Some(chunk) = unneeded {
        free_chunk(chunk);
    }
}

fn free_chunk(chunk: u64) {
    let chunk = with_exposed_provenance_mut(chunk as usize);
    // SAFETY: the pool was given it, allocated with this layout, and has handed
    // it out again; no page of it is mapped but where the heap is.
    unsafe { dealloc(chunk, chunk_layout()) };
}

const fn chunk_layout() -> Layout {
    let page = PAGE_BYTES as usize;
    match Layout::from_size_align(CHUNK_BYTES, page) {
        Ok(layout) => layout,
        Err(_) => panic!("chunks are whole pages"),
    }
}
