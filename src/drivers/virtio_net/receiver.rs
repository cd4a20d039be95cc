//! The receiving queue of a network card (virtio 1.3 §5.1.6.4).
//!
//! A long frame takes several buffers. Since these stand one behind the other
//! and go to the card in turn, it is mostly in one piece all the same, and read
//! where it is. Where the end of the queue tears it apart, it is put together
//! in a place of its own.

use alloc::vec::Vec;

use super::header::{self, HEADER_BYTES};
use super::{FRAME_BYTES, RECEIVE};
use crate::drivers::Error;
use crate::drivers::offload::Checksum;
use crate::drivers::transport::Transport;
use crate::drivers::virtqueue::{Buffers, Fault, Notify, Suppression, Used, Virtqueue, Writer};

/// The longest frame: of a segment of TCP over IPv6 that was put together from
/// several, or never cut.
const MERGED_BYTES: usize = 14 + 40 + 65_535;

/// The shortest buffers of a queue in which a frame may take several.
const PART_BYTES: usize = 2048;

/// Buffers are given back when so many of all are waiting for it: one in four.
const REFILL: u16 = 4;

/// The receiving queue.
#[derive(Debug)]
pub struct Receiver {
    pub(super) queue: Virtqueue,
    buffer_bytes: usize,
    merging: Option<Merging>,
    /// The header says something: of checksums, at least.
    reads_headers: bool,
    front: Option<Front>,
}

/// What long frames take.
#[derive(Debug)]
struct Merging {
    /// The buffers of the oldest frame but the first.
    others: Vec<u16>,
    /// Where frames are put together.
    whole: Vec<u8>,
}

/// The oldest frame, and its header.
#[derive(Clone, Copy, Debug)]
struct Front {
    first: u16,
    /// How many buffers it takes.
    buffers: u16,
    /// With its header.
    bytes: usize,
    /// It does not stand in one piece.
    is_torn: bool,
    checksum: Checksum,
}

impl Receiver {
    /// Sets the queue up. `reads_headers`: whether the card says what it knows of
    /// checksums; `merges`: whether besides a frame may take several buffers.
    pub(super) fn new(
        transport: &mut impl Transport,
        size: u16,
        suppression: Suppression,
        (reads_headers, merges): (bool, bool),
    ) -> Result<Self, Error> {
        let out_of_memory = |_| Error::OutOfMemory;
        let places = usize::from(size);
        let mut merging = None;
        let mut buffer_bytes = FRAME_BYTES;
        if merges {
            // Half of the buffers hold the longest frame.
            let bytes = (HEADER_BYTES + MERGED_BYTES).div_ceil(places.div_ceil(2));
            buffer_bytes = bytes.next_multiple_of(8).max(PART_BYTES);
            let (mut others, mut whole) = (Vec::new(), Vec::new());
            others.try_reserve_exact(places).map_err(out_of_memory)?;
            let longest = HEADER_BYTES + MERGED_BYTES;
            whole.try_reserve_exact(longest).map_err(out_of_memory)?;
            merging = Some(Merging { others, whole });
        }
        let buffers = Buffers::of(buffer_bytes);
        let queue = Virtqueue::new(size, buffers, Writer::Device, suppression)?;
        transport.set_queue(RECEIVE, queue.areas())?;
        Ok(Self {
            queue,
            buffer_bytes,
            merging,
            reads_headers,
            front: None,
        })
    }

    /// Gives all buffers to the card.
    pub(super) fn fill(&mut self) {
        for buffer in self.queue.ids() {
            self.give_back(buffer);
        }
    }

    /// The oldest frame that was received, the same one until it is released.
    pub fn front(&mut self) -> Option<&[u8]> {
        Some(self.front_with_checksum()?.0)
    }

    /// That frame, and what the card says of its checksum.
    pub fn front_with_checksum(&mut self) -> Option<(&[u8], Checksum)> {
        if self.front.is_none() {
            self.front = Some(self.next()?);
        }
        let front = self.front.as_ref()?;
        let bytes: &[u8] = match &self.merging {
            _ if front.buffers == 1 => self.queue.buffer(front.first),
            Some(merging) if front.is_torn => &merging.whole,
            _ => self.queue.run(front.first, front.buffers),
        };
        let frame = bytes.get(HEADER_BYTES..front.bytes)?;
        Some((frame, front.checksum))
    }

    /// Takes the next frame from the card.
    fn next(&mut self) -> Option<Front> {
        let used = self.queue.take()?;
        if used.bytes < HEADER_BYTES {
            self.queue.stop(Fault::Headless);
            return None;
        }
        let mut front = Front {
            first: used.id,
            buffers: 1,
            bytes: used.bytes,
            is_torn: false,
            checksum: Checksum::Unverified,
        };
        if self.reads_headers {
            let header = self.queue.buffer(used.id);
            front.checksum = header::checksum(header);
            let count = header::buffers(header);
            // Without merging, cards write anything.
            if count != 1 && self.merging.is_some() {
                self.take_others(&mut front, used, count)?;
            }
        }
        Some(front)
    }

    /// Takes the other buffers of a frame.
    #[inline(never)]
    fn take_others(&mut self, front: &mut Front, first: Used, count: u16) -> Option<()> {
        let Merging { others, whole } = self.merging.as_mut()?;
        let mut last = first;
        for number in 1..count {
            // All but the last are full, and all come back together (§5.1.6.4.1).
            let next = (last.bytes == self.buffer_bytes).then(|| self.queue.take());
            let Some(next) = next.flatten() else { break };
            front.is_torn |= next.id != first.id.wrapping_add(number);
            front.bytes += next.bytes;
            front.buffers += 1;
            others.push(next.id);
            last = next;
        }
        if front.buffers != count {
            self.queue.stop(Fault::Torn);
        } else if front.bytes > HEADER_BYTES + MERGED_BYTES {
            self.queue.stop(Fault::Overlong);
        } else {
            if front.is_torn {
                whole.clear();
                let mut left = front.bytes;
                for id in core::iter::once(first.id).chain(others.iter().copied()) {
                    let part = self.queue.buffer(id);
                    let part = &part[..part.len().min(left)];
                    // There is room for the longest.
                    whole.extend_from_slice(part);
                    left -= part.len();
                }
            }
            return Some(());
        }
        None
    }

    /// Gives the oldest frame's buffers back to the card.
    pub fn release(&mut self) {
        let Some(front) = self.front.take() else {
            return;
        };
        self.give_back(front.first);
        if front.buffers > 1
            && let Some(mut merging) = self.merging.take()
        {
            for id in merging.others.drain(..) {
                self.give_back(id);
            }
            self.merging = Some(merging);
        }
    }

    fn give_back(&mut self, buffer: u16) {
        self.queue.offer(buffer, self.buffer_bytes);
    }

    /// Whether a frame is there that was not released.
    pub(super) fn has_front(&self) -> bool {
        self.front.is_some()
    }

    /// Makes buffers known to the card when it is time for that.
    pub(super) fn publish(&mut self) -> Notify {
        if self.queue.unpublished() >= self.queue.ids().end.div_ceil(REFILL) {
            self.queue.publish()
        } else {
            Notify::No
        }
    }
}
