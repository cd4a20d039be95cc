//! Memory that devices read and write.
//!
//! Physical addresses are virtual ones, in the kernel by its identity map and
//! on the host by courtesy of the fake devices, so sharing memory with a device
//! takes no more than its address.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::ptr::NonNull;

use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

use super::Error;
use crate::arch;

/// What `virtio-drivers` needs of the machine.
#[derive(Debug)]
pub(super) struct Machine;

fn pages_layout(pages: usize) -> Option<Layout> {
    Layout::from_size_align(pages.checked_mul(PAGE_SIZE)?, PAGE_SIZE).ok()
}

// SAFETY: `dma_alloc` hands out page-aligned, zeroed memory of the heap, which
// nobody else has; device memory is mapped by the arch and, being a device's,
// aliases nothing; sharing neither moves nor copies.
unsafe impl Hal for Machine {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        let memory = pages_layout(pages)
            .filter(|layout| layout.size() > 0)
            .and_then(|layout| {
                // SAFETY: the layout has a size.
                NonNull::new(unsafe { alloc_zeroed(layout) })
            });
        match memory {
            Some(memory) => (memory.addr().get() as PhysAddr, memory),
            // An address of zero reports that there is no memory.
            None => (0, NonNull::dangling()),
        }
    }

    unsafe fn dma_dealloc(_: PhysAddr, memory: NonNull<u8>, pages: usize) -> i32 {
        let Some(layout) = pages_layout(pages) else {
            return -1;
        };
        // SAFETY: `dma_alloc` allocated it with this layout, by the contract.
        unsafe { dealloc(memory.as_ptr(), layout) };
        0
    }

    unsafe fn mmio_phys_to_virt(address: PhysAddr, bytes: usize) -> NonNull<u8> {
        // SAFETY: the range lies in a base address register's window, by the
        // contract, and so belongs to a device.
        unsafe { arch::map_device_memory(address, bytes) }
            .expect("`pci` has mapped the device's windows before")
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        buffer.cast::<u8>().addr().get() as PhysAddr
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}

/// A zeroed piece of memory that a device can be told of.
#[derive(Debug)]
pub(super) struct DmaMemory {
    start: NonNull<u8>,
    layout: Layout,
}

impl DmaMemory {
    pub(super) fn zeroed(bytes: usize) -> Result<Self, Error> {
        let layout = Layout::from_size_align(bytes, PAGE_SIZE)
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
