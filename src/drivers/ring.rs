//! A queue of a virtio device, with its buffers.

use alloc::boxed::Box;
use core::fmt;

use log::error;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::Transport;

use super::Error;
use super::dma::{Machine, Pool};

/// The places of each queue, and its buffers.
pub(super) const QUEUE_SIZE: usize = 256;

/// An Ethernet frame without its check sequence, and the card's header.
pub(super) const BUFFER_BYTES: usize = 1536;

const NOBODY: u16 = u16::MAX;

#[derive(Clone, Copy)]
pub(super) enum Direction {
    Receive,
    Send,
}

/// A queue and its buffers, one per place.
pub(super) struct Ring {
    pub(super) queue: Box<VirtQueue<Machine, QUEUE_SIZE>>,
    pub(super) pool: Pool,
    /// Which buffer the card has by which token, [`NOBODY`] for none.
    owned: [u16; QUEUE_SIZE],
    /// How much of the buffer it was given.
    lengths: [u16; QUEUE_SIZE],
    /// The card has broken the rules, and is ignored.
    pub(super) broken: bool,
}

impl Ring {
    pub(super) fn new<T: Transport>(transport: &mut T, index: u16) -> Result<Self, Error> {
        Ok(Self {
            pool: Pool::new(QUEUE_SIZE, BUFFER_BYTES)?,
            queue: Box::new(VirtQueue::new(transport, index, false, false)?),
            owned: [NOBODY; QUEUE_SIZE],
            lengths: [0; QUEUE_SIZE],
            broken: false,
        })
    }

    pub(super) fn set_interrupts(&mut self, on: bool) {
        self.queue.set_dev_notify(on);
    }

    pub(super) fn has_used(&self) -> bool {
        !self.broken && self.queue.can_pop()
    }

    pub(super) fn add_receive(&mut self, buffer: u16) {
        // SAFETY: the card does not have the buffer; only its address is taken.
        let bytes = unsafe { self.pool.get(buffer.into()) };
        // SAFETY: the buffer lives as long as the queue, and is not touched
        // until `pop` has taken its token back.
        let token = unsafe { self.queue.add(&[], &mut [bytes]) };
        self.note(token, buffer, BUFFER_BYTES);
    }

    pub(super) fn add_send(&mut self, buffer: u16, len: usize) {
        // SAFETY: the card does not have the buffer; only its address is taken.
        let bytes = unsafe { self.pool.get(buffer.into()) };
        // SAFETY: the buffer lives as long as the queue, and is not touched
        // until `pop` has taken its token back.
        let token = unsafe { self.queue.add(&[&bytes[..len]], &mut []) };
        self.note(token, buffer, len);
    }

    fn note(&mut self, token: virtio_drivers::Result<u16>, buffer: u16, len: usize) {
        // There is a place for every buffer.
        if let Ok(token) = token {
            self.owned[usize::from(token)] = buffer;
            self.lengths[usize::from(token)] = len as u16;
        }
    }

    /// Takes back the next buffer that the card has used, and how many bytes
    /// it says that it has written.
    pub(super) fn pop(&mut self, direction: Direction) -> Option<(u16, u32)> {
        if self.broken {
            return None;
        }
        let token = self.queue.peek_used()?;
        let buffer = self
            .owned
            .get(usize::from(token))
            .copied()
            .unwrap_or(NOBODY);
        if buffer == NOBODY {
            self.give_up();
            return None;
        }
        let len = usize::from(self.lengths[usize::from(token)]);
        // SAFETY: only the address is taken.
        let bytes = unsafe { self.pool.get(buffer.into()) };
        // SAFETY: this is the buffer that was added with this token.
        let used = unsafe {
            match direction {
                Direction::Receive => self.queue.pop_used(token, &[], &mut [bytes]),
                Direction::Send => self.queue.pop_used(token, &[&bytes[..len]], &mut []),
            }
        };
        match used {
            Ok(written) => {
                self.owned[usize::from(token)] = NOBODY;
                Some((buffer, written))
            }
            Err(_) => {
                self.give_up();
                None
            }
        }
    }

    #[cold]
    fn give_up(&mut self) {
        error!(
            "the network card returned a buffer that it did not have; it is ignored from now on"
        );
        self.broken = true;
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}
