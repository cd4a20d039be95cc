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

/// Equal buffers in one piece of memory, some of which a device has.
#[derive(Debug)]
pub(super) struct Pool {
    memory: NonNull<u8>,
    layout: Layout,
    buffer_bytes: usize,
    count: usize,
}

impl Pool {
    /// `count` zeroed buffers of `buffer_bytes`.
    pub(super) fn new(count: usize, buffer_bytes: usize) -> Result<Self, Error> {
        let bytes = count.checked_mul(buffer_bytes).filter(|&bytes| bytes > 0);
        let layout = bytes
            .and_then(|bytes| Layout::from_size_align(bytes, PAGE_SIZE).ok())
            .ok_or(Error::OutOfMemory)?;
        // SAFETY: the layout has a size.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::OutOfMemory)?;
        Ok(Self {
            memory,
            layout,
            buffer_bytes,
            count,
        })
    }

    /// The buffer number `index`.
    ///
    /// # Safety
    ///
    /// No device has the buffer, unless the result is only handed to
    /// `virtio-drivers`, which takes its address; and no other reference to it
    /// lives.
    pub(super) unsafe fn get(&mut self, index: usize) -> &mut [u8] {
        assert!(index < self.count, "there is no such buffer");
        // SAFETY: it lies within the allocation, which is initialised; that it
        // is not in use elsewhere is this function's contract.
        unsafe {
            let buffer = self.memory.add(index * self.buffer_bytes);
            NonNull::slice_from_raw_parts(buffer, self.buffer_bytes).as_mut()
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout. A queue is reset before
        // its buffers are dropped, so no device writes there any more.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

// SAFETY: the memory belongs to the pool alone.
unsafe impl Send for Pool {}
