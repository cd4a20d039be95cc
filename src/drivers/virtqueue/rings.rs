//! The three areas of a split virtqueue (virtio 1.3 §2.7), as memory.
//!
//! The device writes the used ring whenever it likes, so nothing here forms a
//! reference to what it writes, and nothing that is read is believed.

use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, Ordering};

use virtio::virtq::{Desc, DescF, UsedElem, UsedF};
use virtio::{le16, le32, le64};

use crate::drivers::Error;
use crate::drivers::dma::DmaMemory;

/// A flags field, an index field, then the ring.
const INDEX: usize = 2;
const RING: usize = 4;

/// The used ring, which the device writes, shares no cache line with what the
/// driver writes.
const CACHE_LINE_BYTES: usize = 64;

/// Where a device finds the areas of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// The places of the queue, a power of two.
    pub size: u16,
    /// The address of the descriptors.
    pub descriptors: u64,
    /// The address of the available ring.
    pub available: u64,
    /// The address of the used ring.
    pub used: u64,
}

/// The areas, as the driver uses them.
#[derive(Debug)]
pub(super) struct Rings {
    memory: DmaMemory,
    size: u16,
    available: usize,
    used: usize,
}

impl Rings {
    /// Empty rings with `size` places, a power of two.
    pub(super) fn new(size: u16) -> Result<Self, Error> {
        let places = usize::from(size);
        let available = places * size_of::<Desc>();
        // Each ring has an event index behind it.
        let end = available + RING + places * size_of::<le16>() + size_of::<le16>();
        let used = end.next_multiple_of(CACHE_LINE_BYTES);
        let bytes = used + RING + places * size_of::<UsedElem>() + size_of::<le16>();
        Ok(Self {
            memory: DmaMemory::zeroed(bytes)?,
            size,
            available,
            used,
        })
    }

    pub(super) fn areas(&self) -> Areas {
        let start = self.memory.address();
        Areas {
            size: self.size,
            descriptors: start,
            available: start + self.available as u64,
            used: start + self.used as u64,
        }
    }

    fn place(&self, index: u16) -> usize {
        usize::from(index & (self.size - 1))
    }

    /// The place in the memory at `offset`.
    fn at<T>(&self, offset: usize) -> NonNull<T> {
        debug_assert!(offset.is_multiple_of(align_of::<T>()));
        // SAFETY: all callers compute offsets of fields and of places below
        // `size`, which `new` has made room for.
        unsafe { self.memory.start().add(offset).cast() }
    }

    fn index(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: an aligned field within the memory, which lives as long as
        // `self`; driver and device access it as a whole.
        unsafe { self.at::<AtomicU16>(offset).as_ref() }
    }

    fn load(&self, offset: usize) -> u16 {
        u16::from_le(self.index(offset).load(Ordering::Relaxed))
    }

    fn store(&self, offset: usize, value: u16) {
        self.index(offset).store(value.to_le(), Ordering::Relaxed);
    }

    /// Says where the buffer of descriptor `id` is.
    pub(super) fn set_descriptor(&mut self, id: u16, address: u64, len: u32, flags: DescF) {
        let descriptor = Desc {
            addr: le64::from_ne(address),
            len: le32::from_ne(len),
            flags,
            next: le16::from_ne(0),
        };
        let at = self.at::<Desc>(self.place(id) * size_of::<Desc>());
        // SAFETY: within the memory, which no reference points to.
        unsafe { at.write_volatile(descriptor) };
    }

    /// Says how long it is.
    pub(super) fn set_len(&mut self, id: u16, len: u32) {
        let offset = self.place(id) * size_of::<Desc>() + offset_of!(Desc, len);
        // SAFETY: within the memory, which no reference points to.
        unsafe { self.at::<u32>(offset).write_volatile(len.to_le()) };
    }

    /// Puts descriptor `id` into the available ring; the device does not know yet.
    pub(super) fn put(&mut self, index: u16, id: u16) {
        self.store(self.available + RING + 2 * self.place(index), id);
    }

    /// Makes all known that was put before `index`.
    pub(super) fn set_available_index(&mut self, index: u16) {
        // Release: whoever sees the index sees what was written before.
        let field = self.index(self.available + INDEX);
        field.store(index.to_le(), Ordering::Release);
    }

    pub(super) fn set_available_flags(&mut self, flags: u16) {
        self.store(self.available, flags);
    }

    /// Asks for an interrupt when the device passes `index`.
    pub(super) fn set_used_event(&mut self, index: u16) {
        self.store(self.available + RING + 2 * usize::from(self.size), index);
    }

    /// How far the device says it is.
    pub(super) fn used_index(&self) -> u16 {
        // Acquire: what the device wrote before the index is seen after it.
        u16::from_le(self.index(self.used + INDEX).load(Ordering::Acquire))
    }

    /// What the device says it has used: descriptor, and bytes written.
    pub(super) fn used(&self, index: u16) -> (u32, u32) {
        let at = self.used + RING + self.place(index) * size_of::<UsedElem>();
        // SAFETY: within the memory, which no reference points to.
        let UsedElem { id, len } = unsafe { self.at::<UsedElem>(at).read_volatile() };
        (id.to_ne(), len.to_ne())
    }

    pub(super) fn used_flags(&self) -> UsedF {
        UsedF::from_bits_retain(le16::from_ne(self.load(self.used)))
    }

    /// The index whose passing the device wants to be notified of.
    pub(super) fn available_event(&self) -> u16 {
        self.load(self.used + RING + size_of::<UsedElem>() * usize::from(self.size))
    }
}
