//! A split virtqueue (virtio 1.3 §2.7) with its buffers.
//!
//! Each descriptor has a buffer of its own for good, so that offering one takes
//! an entry in the available ring, and for what is sent its length. Offered
//! buffers are made known together, by one [`publish`](Virtqueue::publish).
//!
//! *Order.* Two checks could lose a notification, since each side writes one
//! thing and then reads another: the driver publishes buffers and reads whether
//! the device wants to know; it asks for interrupts and reads whether there is
//! something already. The device does the same the other way round. A
//! [`device_barrier`] between the write and the read, on both sides, rules out that
//! both miss the other's write (§2.7.13.4.1, §2.7.14).
//!
//! *Trust.* A device that returns what it does not have, more than it was
//! given, or more than fits, is believed no further: the queue stops, and
//! [`fault`](Virtqueue::fault) says why.

mod rings;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::NonNull;

use virtio::virtq::{AvailF, DescF, UsedF};

use super::Error;
use super::dma::DmaMemory;
use crate::arch::device_barrier;
use rings::Rings;

pub use rings::Areas;

/// Who writes the buffers of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Device,
    Driver,
}

/// How the two sides say when they want to be notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suppression {
    /// By flags (§2.7.7, §2.7.10).
    Flags,
    /// By the index that is to be passed: `VIRTIO_F_EVENT_IDX`.
    EventIndex,
}

/// How long the buffers of a queue are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffers {
    pub(super) bytes: usize,
    /// So many, the last ones, are longer.
    pub(super) large: u16,
    pub(super) large_bytes: usize,
}

impl Buffers {
    /// All of one length.
    pub(super) const fn of(bytes: usize) -> Self {
        Self {
            bytes,
            large: 0,
            large_bytes: 0,
        }
    }

    /// Where buffer `id` stands, if those from `large_from` on are longer, and how
    /// long it is.
    #[inline(always)]
    fn place(self, large_from: u16, id: u16) -> (usize, usize) {
        if id < large_from {
            return (usize::from(id) * self.bytes, self.bytes);
        }
        let before = usize::from(large_from) * self.bytes;
        let start = before + usize::from(id - large_from) * self.large_bytes;
        (start, self.large_bytes)
    }
}

/// Whether the device has to be notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Notify {
    Yes,
    No,
}

/// How the device broke the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It says that it has used more buffers than it has.
    RanAhead,
    /// It returned a buffer that it does not have.
    ForeignBuffer,
    /// It says that it has written more than the buffer holds.
    Overlong,
    /// What it has written is shorter than its header.
    Headless,
    /// It says that what it has written continues in buffers that it did not
    /// fill or return.
    Torn,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RanAhead => "it says that it has used more buffers than it has",
            Self::ForeignBuffer => "it returned a buffer that it does not have",
            Self::Overlong => "it says that it has written more than a buffer holds",
            Self::Headless => "it has written less than a header",
            Self::Torn => "it has not returned all buffers of what it has written",
        })
    }
}

/// A buffer that the device has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) id: u16,
    /// How much the device has written, at most what the buffer holds.
    pub(super) bytes: usize,
}

/// The driver's side of a queue.
pub(super) struct Virtqueue {
    rings: Rings,
    memory: DmaMemory,
    buffers: Buffers,
    /// From which number on they are longer.
    large_from: u16,
    writer: Writer,
    suppression: Suppression,
    /// Whether the device has the buffer of each descriptor.
    offered: Box<[bool]>,
    /// Indices count buffers and wrap around. Where the next offered goes.
    next_available: u16,
    /// Up to where the device knows of them.
    published: u16,
    /// What the device returns next.
    next_used: u16,
    /// Up to where it has returned some, as far as is known; not beyond
    /// `published`.
    used_end: u16,
    fault: Option<Fault>,
}

impl Virtqueue {
    /// A queue of `size` places, a power of two, and as many buffers,
    /// which stand one behind the other and hold whatever they do.
    pub(super) fn new(
        size: u16,
        buffers: Buffers,
        writer: Writer,
        suppression: Suppression,
    ) -> Result<Self, Error> {
        assert!(size.is_power_of_two(), "the ring must wrap with the index");
        let places = usize::from(size);
        let large_from = size.saturating_sub(buffers.large);
        let (bytes, _) = buffers.place(large_from, size);
        let mut offered = Vec::new();
        offered
            .try_reserve_exact(places)
            .map_err(|_| Error::OutOfMemory)?;
        offered.resize(places, false);
        let mut queue = Self {
            rings: Rings::new(size)?,
            memory: DmaMemory::arbitrary(bytes)?,
            buffers,
            large_from,
            writer,
            suppression,
            offered: offered.into_boxed_slice(),
            next_available: 0,
            published: 0,
            next_used: 0,
            used_end: 0,
            fault: None,
        };
        let flags = match writer {
            Writer::Device => DescF::WRITE,
            Writer::Driver => DescF::empty(),
        };
        let start = queue.memory.address();
        for id in 0..size {
            let (offset, bytes) = buffers.place(large_from, id);
            let address = start + offset as u64;
            queue.rings.set_descriptor(id, address, bytes as u32, flags);
        }
        queue.disable_interrupts();
        Ok(queue)
    }

    /// The places of a queue of which the device allows `allowed` at most, and
    /// the driver wants `wanted`, a power of two.
    pub(super) fn size(allowed: u16, wanted: u16) -> Result<u16, Error> {
        match allowed.checked_ilog2() {
            Some(log) => Ok(wanted.min(1 << log)),
            None => Err(Error::Unsupported),
        }
    }

    /// Where the device finds it.
    pub(super) fn areas(&self) -> Areas {
        self.rings.areas()
    }

    /// The numbers of the buffers.
    pub(super) fn ids(&self) -> core::ops::Range<u16> {
        0..self.rings.areas().size
    }

    /// How many buffers were offered and not made known yet.
    pub(super) fn unpublished(&self) -> u16 {
        self.next_available.wrapping_sub(self.published)
    }

    /// How many of the buffers have not come back.
    pub(super) fn in_flight(&self) -> u16 {
        self.next_available.wrapping_sub(self.next_used)
    }

    /// What the device did wrong, if it did.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    #[inline(always)]
    fn place(&self, id: u16) -> (usize, usize) {
        self.buffers.place(self.large_from, id)
    }

    /// The contents of a buffer.
    ///
    /// # Panics
    ///
    /// Panics if the device has it.
    #[inline]
    pub(super) fn buffer(&mut self, id: u16) -> &mut [u8] {
        assert!(!self.offered[usize::from(id)], "the device has the buffer");
        let (start, bytes) = self.place(id);
        // SAFETY: there are as many buffers as places in `offered`, all of them
        // initialised. The device does not have this one, and the borrow of
        // `self` keeps it from being offered and from other references.
        unsafe {
            let place = self.memory.start().add(start);
            NonNull::slice_from_raw_parts(place, bytes).as_mut()
        }
    }

    /// The contents of `count` buffers, which stand one behind the other.
    ///
    /// # Panics
    ///
    /// Panics if the device has one of them, and if there are not as many.
    pub(super) fn run(&mut self, first: u16, count: u16) -> &mut [u8] {
        let ids = usize::from(first)..usize::from(first) + usize::from(count);
        let is_ours = self.offered[ids].iter().all(|offered| !offered);
        assert!(is_ours, "the device has the buffer");
        let (start, _) = self.place(first);
        let (end, _) = self.place(first + count);
        // SAFETY: as above; the end of the last is that of the memory.
        unsafe {
            let place = self.memory.start().add(start);
            NonNull::slice_from_raw_parts(place, end - start).as_mut()
        }
    }

    /// Gives a buffer to the device, to read or write its first `len` bytes.
    ///
    /// # Panics
    ///
    /// Panics if the device has it already, and if it is not as long.
    pub(super) fn offer(&mut self, id: u16, len: usize) {
        assert!(len <= self.place(id).1, "the buffer is not as long");
        let offered = &mut self.offered[usize::from(id)];
        assert!(!*offered, "the device has the buffer");
        *offered = true;
        if self.writer == Writer::Driver {
            self.rings.set_len(id, len as u32);
        }
        self.rings.put(self.next_available, id);
        self.next_available = self.next_available.wrapping_add(1);
    }

    /// Makes the offered buffers known to the device; whether it wants to be
    /// notified.
    pub(super) fn publish(&mut self) -> Notify {
        let before = self.published;
        if before == self.next_available || self.fault.is_some() {
            return Notify::No;
        }
        self.published = self.next_available;
        self.rings.set_available_index(self.published);
        device_barrier();
        let wanted = match self.suppression {
            Suppression::Flags => !self.rings.used_flags().contains(UsedF::NO_NOTIFY),
            Suppression::EventIndex => {
                is_passed(self.rings.available_event(), before, self.published)
            }
        };
        if wanted { Notify::Yes } else { Notify::No }
    }

    /// Whether the device has returned a buffer that was not taken yet.
    pub(super) fn has_used(&mut self) -> bool {
        self.next_used != self.used_end || self.look()
    }

    /// Reads how far the device is.
    fn look(&mut self) -> bool {
        if self.fault.is_some() {
            return false;
        }
        let end = self.rings.used_index();
        let returned = end.wrapping_sub(self.next_used);
        if returned > self.published.wrapping_sub(self.next_used) {
            self.stop(Fault::RanAhead);
            return false;
        }
        self.used_end = end;
        returned != 0
    }

    /// Takes back the next buffer that the device has used.
    pub(super) fn take(&mut self) -> Option<Used> {
        if !self.has_used() {
            return None;
        }
        let (id, bytes) = self.rings.used(self.next_used);
        let bytes = match self.writer {
            Writer::Device => bytes as usize,
            // Devices before virtio 1.0 may say anything about what they could
            // not write (§2.7.8.2).
            Writer::Driver => 0,
        };
        let offered = self.offered.get_mut(id as usize);
        let Some(offered) = offered.filter(|offered| **offered) else {
            self.stop(Fault::ForeignBuffer);
            return None;
        };
        let id = id as u16;
        if bytes > self.buffers.place(self.large_from, id).1 {
            self.stop(Fault::Overlong);
            return None;
        }
        *offered = false;
        self.next_used = self.next_used.wrapping_add(1);
        Some(Used { id, bytes })
    }

    /// Asks the device for an interrupt when it next uses a buffer; whether it
    /// has used one already, for which none may come.
    #[must_use]
    pub(super) fn enable_interrupts(&mut self) -> bool {
        match self.suppression {
            Suppression::Flags => self.rings.set_available_flags(0),
            Suppression::EventIndex => self.rings.set_used_event(self.next_used),
        }
        device_barrier();
        self.has_used()
    }

    /// Asks the device for no more interrupts. One may come all the same.
    pub(super) fn disable_interrupts(&mut self) {
        match self.suppression {
            Suppression::Flags => {
                let flags = AvailF::NO_INTERRUPT.bits().to_ne();
                self.rings.set_available_flags(flags);
            }
            // What is passed already: it comes again after 65,535 more.
            Suppression::EventIndex => {
                self.rings.set_used_event(self.next_used.wrapping_sub(1));
            }
        }
    }

    /// Believes the device no further.
    #[cold]
    pub(super) fn stop(&mut self, fault: Fault) {
        self.fault = Some(fault);
        self.used_end = self.next_used;
    }
}

/// Whether an index that went from `before` to `after` has passed `event`
/// (§2.7.7.2).
fn is_passed(event: u16, before: u16, after: u16) -> bool {
    after.wrapping_sub(event).wrapping_sub(1) < after.wrapping_sub(before)
}

impl fmt::Debug for Virtqueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Virtqueue")
            .field("in_flight", &self.in_flight())
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}
