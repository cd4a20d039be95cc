//! Memory that devices read and write.
//!
//! Physical addresses are virtual ones, in the kernel by its identity map and
//! on the host by courtesy of the fake devices, so sharing memory with a device
//! takes no more than its address.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::ptr::NonNull;

use super::Error;

const PAGE_BYTES: usize = 4096;

/// A zeroed piece of memory that a device can be told of.
#[derive(Debug)]
pub(super) struct DmaMemory {
    start: NonNull<u8>,
    layout: Layout,
}

impl DmaMemory {
    pub(super) fn zeroed(bytes: usize) -> Result<Self, Error> {
        let layout = Layout::from_size_align(bytes, PAGE_BYTES)
            .ok()
            .filter(|layout| layout.size() > 0)
            .ok_or(Error::OutOfMemory)?;
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::OutOfMemory)?;
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

impl Drop for DmaMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout. A device is reset
        // before its queues are dropped, so it does not write there any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

// SAFETY: the memory belongs to its owner alone, and to the device.
unsafe impl Send for DmaMemory {}
