//! Page tables: every address is where it is, with the access it needs.
//!
//! ```text
//!   0 .. 4 KiB            nothing, for null pointers
//!   1 MiB .. image end    text R-X, constants R--, data RW-, guard pages nothing
//!   rest below 4 GiB      RW-: memory and devices
//!   above 4 GiB           RW-: memory; devices as drivers ask for them
//!   above 512 GiB         RW-: not where it is, but as `reserved` has it
//! ```
//!
//! Nothing is both writable and executable. The boot code has mapped the first
//! 4 GiB by large pages; this splits those of the image and sets the rights.

use alloc::alloc::{Layout, alloc_zeroed};
use core::cell::UnsafeCell;
use core::ptr::NonNull;

use x86_64::instructions::tlb;
use x86_64::registers::control::Cr4;

use super::memory_map::{FreeMemory, PAGE_BYTES};
use super::{InterruptMutex, cpu, memory, stacks};

/// How many GiB the boot code maps.
pub(super) const LOW_GIB: usize = 4;

const LARGE_PAGE_BYTES: u64 = 2 << 20;
const GIB: u64 = 1 << 30;
/// What the first top-level entry reaches; above, nothing is where it is.
pub(super) const REACH: u64 = 512 * GIB;

/// The top-level table. Its first entry is for what is where it is, those
/// after it for [`reserved`](super::reserved) addresses.
pub(super) static PML4: Tables<1> = Tables::new();
/// The first top-level entry's table: 512 GiB.
pub(super) static POINTERS: Tables<1> = Tables::new();
/// The tables of the first 4 GiB.
pub(super) static LOW_DIRECTORIES: Tables<LOW_GIB> = Tables::new();

/// Guards all tables once the boot is over.
pub(super) static EDITING: InterruptMutex<()> = InterruptMutex::new(());

pub(super) const PRESENT: u64 = 1 << 0;
pub(super) const WRITABLE: u64 = 1 << 1;
const WRITE_THROUGH: u64 = 1 << 3;
const UNCACHED: u64 = 1 << 4;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
pub(super) const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

pub(super) const DATA: u64 = PRESENT | WRITABLE | NO_EXECUTE;
const DEVICE: u64 = DATA | UNCACHED | WRITE_THROUGH;

/// One page table.
#[repr(C, align(4096))]
pub(super) struct Table(pub(super) [u64; 512]);

/// Tables that lie behind each other in the image.
#[repr(transparent)]
pub(super) struct Tables<const COUNT: usize>(UnsafeCell<[Table; COUNT]>);

// SAFETY: the boot code, then `protect` on the one core, then the holder of
// `EDITING` access them, one after the other.
unsafe impl<const COUNT: usize> Sync for Tables<COUNT> {}

impl<const COUNT: usize> Tables<COUNT> {
    const fn new() -> Self {
        Self(UnsafeCell::new([const { Table([0; 512]) }; COUNT]))
    }

    /// # Safety
    ///
    /// Nobody else uses the tables meanwhile.
    #[expect(clippy::mut_from_ref, reason = "the caller has them alone")]
    pub(super) unsafe fn get(&self) -> &mut [Table; COUNT] {
        // SAFETY: by this function's contract.
        unsafe { &mut *self.0.get() }
    }
}

unsafe extern "C" {
    static firstpoll_image_start: u8;
    static firstpoll_text_end: u8;
    static firstpoll_rodata_end: u8;
    static firstpoll_image_end: u8;
}

/// Where the parts of the image are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    pub(super) start: u64,
    pub(super) text_end: u64,
    rodata_end: u64,
    pub(super) end: u64,
}

impl Image {
    pub(super) fn get() -> Self {
        Self {
            start: (&raw const firstpoll_image_start).addr() as u64,
            text_end: (&raw const firstpoll_text_end).addr() as u64,
            rodata_end: (&raw const firstpoll_rodata_end).addr() as u64,
            end: (&raw const firstpoll_image_end).addr() as u64,
        }
    }

    /// The access that the page at `address` gets.
    fn access(self, address: u64) -> u64 {
        if address == 0 {
            0
        } else if !(self.start..self.rodata_end).contains(&address) {
            DATA
        } else if address < self.text_end {
            PRESENT
        } else {
            PRESENT | NO_EXECUTE
        }
    }
}

/// Sets the rights of all that is mapped, and maps memory up to `ram_end`.
///
/// Takes the pages for further tables out of `free`; `false` if there are not
/// enough.
///
/// # Safety
///
/// Called once, at boot, with interrupts masked. `free` is free.
pub(super) unsafe fn protect(free: &mut FreeMemory, ram_end: u64) -> bool {
    let image = Image::get();
    let guards = stacks::all().map(|stack| stack.guard);
    // SAFETY: the boot code is done, and nobody else runs yet.
    let directories = unsafe { LOW_DIRECTORIES.get() };
    let large_pages = directories.iter_mut().flat_map(|table| &mut table.0);
    for (address, entry) in (0..).step_by(LARGE_PAGE_BYTES as usize).zip(large_pages) {
        if address >= image.end {
            *entry |= NO_EXECUTE;
            continue;
        }
        let Some(table) = new_table(free) else {
            return false;
        };
        for (page, entry) in (address..).step_by(PAGE_BYTES as usize).zip(&mut table.0) {
            let access = if guards.contains(&page) {
                0
            } else {
                image.access(page)
            };
            *entry = page | access;
        }
        *entry = (&raw const *table).addr() as u64 | PRESENT | WRITABLE;
    }

    // SAFETY: as above.
    let [pointers] = unsafe { POINTERS.get() };
    let large_pages = cpu::has_gib_pages();
    let high = (0..)
        .step_by(GIB as usize)
        .zip(&mut pointers.0)
        .skip(LOW_GIB);
    for (address, entry) in high.take_while(|&(address, _)| address < ram_end) {
        if large_pages {
            *entry = address | DATA | LARGE;
            continue;
        }
        let Some(table) = new_table(free) else {
            return false;
        };
        let pages = (address..).step_by(LARGE_PAGE_BYTES as usize);
        for (address, entry) in pages.zip(&mut table.0) {
            *entry = address | DATA | LARGE;
        }
        *entry = (&raw const *table).addr() as u64 | PRESENT | WRITABLE;
    }
    tlb::flush_all();
    harden();
    true
}

/// Turns on what the processor has against the kernel running or reading what
/// is a user's: we have no users, so that any such page is a mistake.
fn harden() {
    let protections = cpu::protections();
    // SAFETY: no page is a user's page, and no user code runs, so the flags
    // take nothing away that is in use.
    unsafe { Cr4::update(|flags| flags.insert(protections)) };
}

/// An empty table from the free pages.
fn new_table(free: &mut FreeMemory) -> Option<&'static mut Table> {
    let address = free.take_pages(1)?;
    if address + PAGE_BYTES > LOW_GIB as u64 * GIB {
        return None;
    }
    let table = core::ptr::with_exposed_provenance_mut::<Table>(address as usize);
    // SAFETY: the page was free and is now ours for ever, is mapped like all
    // below 4 GiB, and is aligned as pages are.
    unsafe {
        table.write_bytes(0, 1);
        Some(&mut *table)
    }
}

/// Makes a device's registers or memory accessible and returns where, which is
/// their physical address.
///
/// `None` if there is no memory for page tables, if the address is out of reach,
/// or if it is one of memory.
///
/// # Safety
///
/// The range belongs to a device or to nobody, and the 2 MiB around it hold no
/// memory.
pub unsafe fn map_device_memory(address: u64, bytes: usize) -> Option<NonNull<u8>> {
    let end = address.checked_add(bytes as u64)?;
    if end > REACH || memory::is_memory(address, end) {
        return None;
    }
    let _editing = EDITING.lock();
    // SAFETY: the boot is over, and the lock is held.
    let [pointers] = unsafe { POINTERS.get() };
    let first = address / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    for page in (first..end).step_by(LARGE_PAGE_BYTES as usize) {
        let pointer = &mut pointers.0[(page / GIB) as usize];
        if *pointer & PRESENT == 0 {
            // SAFETY: the layout has a size.
            let table = NonNull::new(unsafe { alloc_zeroed(Layout::new::<Table>()) })?;
            *pointer = table.addr().get() as u64 | PRESENT | WRITABLE;
        } else if *pointer & LARGE != 0 {
            continue; // With memory around it; mapped already.
        }
        let table = core::ptr::with_exposed_provenance_mut::<Table>((*pointer & ADDRESS) as usize);
        // SAFETY: present entries that map no page point to tables, which are
        // ours as long as the lock is held.
        let table = unsafe { &mut *table };
        let entry = &mut table.0[(page % GIB / LARGE_PAGE_BYTES) as usize];
        if *entry & PRESENT == 0 || *entry & LARGE != 0 {
            *entry = page | DEVICE | LARGE;
        }
    }
    tlb::flush_all();
    NonNull::new(core::ptr::with_exposed_provenance_mut(address as usize))
}
