//! The sending queue of a network card (virtio 1.3 §5.1.6.2).

use alloc::vec::Vec;

use super::header::{self, HEADER_BYTES};
use super::{FRAME_BYTES, SEND};
use crate::drivers::offload::Work;
use crate::drivers::transport::Transport;
use crate::drivers::virtqueue::{Buffers, Suppression, Virtqueue, Writer};
use crate::drivers::{ETHERNET_HEADER_BYTES, Error};

/// The longest frame that the card cuts: what IPv4 can say.
pub(super) const LARGE_FRAME_BYTES: usize = ETHERNET_HEADER_BYTES + 65_535;

/// How many frames that are longer than the MTU allows can be on their way, if
/// the queue has room for more of others.
const LARGE: u16 = 8;

/// The sending queue.
#[derive(Debug)]
pub struct Sender {
    pub(super) queue: Virtqueue,
    /// Buffers for frames of at most the MTU, and for longer ones.
    free: [Vec<u16>; 2],
    /// How many of the longer ones there are.
    large: u16,
    /// The buffer that is being filled, and the frame's length.
    filling: Option<(u16, usize)>,
    work: Option<Work>,
}

impl Sender {
    /// Sets the queue up. `cuts`: whether the card takes long frames.
    pub(super) fn new(
        transport: &mut impl Transport,
        size: u16,
        suppression: Suppression,
        cuts: bool,
    ) -> Result<Self, Error> {
        let large = if cuts { LARGE.min(size / 4) } else { 0 };
        let buffers = Buffers {
            bytes: FRAME_BYTES,
            large,
            large_bytes: (HEADER_BYTES + LARGE_FRAME_BYTES).next_multiple_of(8),
        };
        let queue = Virtqueue::new(size, buffers, Writer::Driver, suppression)?;
        transport.set_queue(SEND, queue.areas())?;
        let mut free = [Vec::new(), Vec::new()];
        for (free, count) in free.iter_mut().zip([size - large, large]) {
            free.try_reserve_exact(count.into())
                .map_err(|_| Error::OutOfMemory)?;
        }
        let mut sender = Self {
            queue,
            free,
            large,
            filling: None,
            work: None,
        };
        for buffer in sender.queue.ids() {
            sender.put_back(buffer);
        }
        Ok(sender)
    }

    /// The longest frame that can be sent for the card to cut.
    pub(super) fn large_bytes(&self) -> Option<usize> {
        (self.large > 0).then_some(LARGE_FRAME_BYTES)
    }

    fn is_large(&self, buffer: u16) -> bool {
        buffer >= self.queue.ids().end - self.large
    }

    fn put_back(&mut self, buffer: u16) {
        let place = usize::from(self.is_large(buffer));
        // There is room for all.
        self.free[place].push(buffer);
    }

    /// Whether a frame can be sent.
    pub fn has_room(&mut self) -> bool {
        if !self.has_buffers() {
            self.reclaim();
        }
        self.has_buffers() && self.queue.fault().is_none()
    }

    /// What is sent next may be of either length.
    fn has_buffers(&self) -> bool {
        let [small, large] = &self.free;
        !small.is_empty() && (self.large == 0 || !large.is_empty())
    }

    /// Takes back the buffers of frames that were sent.
    pub(super) fn reclaim(&mut self) {
        while let Some(used) = self.queue.take() {
            self.put_back(used.id);
        }
    }

    /// A buffer for a frame of `len` bytes.
    ///
    /// # Panics
    ///
    /// Panics without [room](Self::has_room) and if the frame is longer than
    /// what the card takes.
    pub fn buffer(&mut self, len: usize) -> &mut [u8] {
        let is_large = HEADER_BYTES + len > FRAME_BYTES;
        assert!(
            len <= LARGE_FRAME_BYTES && (self.large > 0 || !is_large),
            "the frame is too long"
        );
        if let Some((buffer, _)) = self.filling {
            // It was not sent.
            self.put_back(buffer);
        }
        let free = &mut self.free[usize::from(is_large)];
        let buffer = free.pop().expect("there is room, by the contract");
        self.filling = Some((buffer, len));
        self.work = None;
        &mut self.queue.buffer(buffer)[HEADER_BYTES..HEADER_BYTES + len]
    }

    /// Says what the card is to do to the frame in that buffer.
    pub fn set_work(&mut self, work: Work) {
        self.work = Some(work);
    }

    /// Queues the frame in the buffer that was handed out last.
    pub fn commit(&mut self) {
        if let Some((buffer, len)) = self.filling.take() {
            let header = header::of(self.work.take());
            self.queue.buffer(buffer)[..HEADER_BYTES].copy_from_slice(&header);
            self.queue.offer(buffer, HEADER_BYTES + len);
        }
    }
}
