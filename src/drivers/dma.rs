//! Memory that devices read and write.
//!
//! Physical addresses are virtual ones, in the kernel by its identity map and
//! on the host by courtesy of the fake devices, so sharing memory with a device
//! takes no more than its address.

use alloc::alloc::{alloc, alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::arch::asm;
use core::ptr::NonNull;

use super::Error;

const PAGE_BYTES: usize = 4096;

/// A piece of memory that a device can be told of, all of it initialised.
#[derive(Debug)]
pub(super) struct DmaMemory {
    start: NonNull<u8>,
    layout: Layout,
}

impl DmaMemory {
    pub(super) fn zeroed(bytes: usize) -> Result<Self, Error> {
        let layout = layout(bytes)?;
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::OutOfMemory)?;
        Ok(Self { start, layout })
    }

    /// Memory that holds whatever it does. Nobody writes to it here: pages that
    /// are never used cost a machine in software nothing then.
    pub(super) fn arbitrary(bytes: usize) -> Result<Self, Error> {
        let layout = layout(bytes)?;
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or(Error::OutOfMemory)?;
        // The compiler shall take it that all of it is written here.
        // SAFETY: it does nothing.
        unsafe { asm!("/* {} */", in(reg) start.as_ptr(), options(nostack, preserves_flags)) };
        Ok(Self { start, layout })
    }

    /// Where it starts, on a page; all of it may be used through this pointer.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The same as the device knows it.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }
}

fn layout(bytes: usize) -> Result<Layout, Error> {
    let layout = Layout::from_size_align(bytes, PAGE_BYTES).ok();
    let layout = layout.filter(|layout| layout.size() > 0);
    layout.ok_or(Error::OutOfMemory)
}

impl Drop for DmaMemory {
    fn drop(&mut self) {
        // SAFETY: allocated above with this layout. A device is reset
        // before its queues are dropped, so it does not write there any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

// SAFETY: the memory belongs to its owner alone, and to the device.
unsafe impl Send for DmaMemory {}
