//! Addresses that get memory page by page, as the operating system has them.
//!
//! An access where no memory was asked for ends the process with a signal.

use core::ffi::c_void;
use core::ops::Range;
use core::ptr::{self, NonNull};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use super::memory;
use crate::arch::{NoMemory, PAGE_BYTES};

/// A range of addresses of one's own, with or without memory behind each page.
#[derive(Debug)]
pub struct ReservedMemory {
    start: NonNull<u8>,
    pages: usize,
}

// SAFETY: the range belongs to the value, and a mapping is the whole process's.
unsafe impl Send for ReservedMemory {}

// SAFETY: as above; what changes the range wants the value mutably.
unsafe impl Sync for ReservedMemory {}

impl ReservedMemory {
    /// Reserves `pages` pages that lie behind each other, without memory.
    ///
    /// # Errors
    ///
    /// [`NoMemory`] if there are not so many addresses.
    pub fn new(pages: usize) -> Result<Self, NoMemory> {
        let bytes = pages.checked_mul(PAGE_BYTES).ok_or(NoMemory)?;
        // SAFETY: without a wish for an address, nothing else is touched.
        let start = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                bytes,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
        };
        let start = start.ok().and_then(|start| NonNull::new(start.cast()));
        let start = start.ok_or(NoMemory)?;
        Ok(Self { start, pages })
    }

    /// Where the first page is.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Puts memory behind a page that has none; what it holds is arbitrary.
    ///
    /// # Errors
    ///
    /// [`NoMemory`]; the page then still has none.
    ///
    /// # Panics
    ///
    /// Panics if there is no such page.
    pub fn commit(&mut self, page: usize) -> Result<(), NoMemory> {
        if memory().is_exhausted() {
            return Err(NoMemory);
        }
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the page is ours, and more access takes nothing away.
        unsafe { mprotect(self.address(page), PAGE_BYTES, access) }.map_err(|_| NoMemory)
    }

    /// Takes the memory away from those of `pages` that have some, and what
    /// they held with it.
    ///
    /// # Panics
    ///
    /// Panics if there are no such pages.
    pub fn decommit(&mut self, pages: Range<usize>) {
        if pages.is_empty() {
            return;
        }
        assert!(pages.end <= self.pages);
        let (start, bytes) = (self.address(pages.start), pages.len() * PAGE_BYTES);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the pages are ours; whoever has pointers there must not use
        // them now, which the operating system checks.
        let mapped = unsafe { mmap_anonymous(start, bytes, ProtFlags::empty(), flags) };
        mapped.expect("it takes the place of a mapping");
    }

    fn address(&self, page: usize) -> *mut c_void {
        assert!(page < self.pages, "there is no page {page}");
        // SAFETY: the page is in the range.
        unsafe { self.start.add(page * PAGE_BYTES) }.as_ptr().cast()
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and nobody can use it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.pages * PAGE_BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::vec::Vec;

    use super::*;

    /// Set for the process that makes the mistake.
    const MISTAKE: &str = "FIRSTPOLL_TOUCH_UNCOMMITTED";

    #[test]
    fn pages_come_and_go() {
        let mut memory = ReservedMemory::new(4).unwrap();
        memory.commit(1).unwrap();
        // SAFETY: the page has memory.
        let page = unsafe { memory.start().add(PAGE_BYTES) };
        // SAFETY: as above.
        unsafe { page.write_bytes(7, PAGE_BYTES) };
        memory.decommit(0..4);
        memory.commit(1).unwrap();
        // SAFETY: the page has memory again.
        let bytes: Vec<u8> = unsafe { core::slice::from_raw_parts(page.as_ptr(), 8) }.into();
        assert_eq!(bytes, [0; 8]);
    }

    #[test]
    fn an_access_beyond_what_is_committed_ends_the_process() {
        if std::env::var_os(MISTAKE).is_some() {
            let mut memory = ReservedMemory::new(2).unwrap();
            memory.commit(0).unwrap();
            // SAFETY: none; it is meant to fault.
            unsafe { memory.start().add(PAGE_BYTES).write_volatile(1) };
            return;
        }
        let test =
            "arch::host::reserved::tests::an_access_beyond_what_is_committed_ends_the_process";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(MISTAKE, "1")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), None, "a signal ends it: {output:?}");
    }
}
