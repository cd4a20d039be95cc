//! The virtio network card as the stack's [`Nic`].

use alloc::boxed::Box;

use super::device::{Backlog, Device, Nic, ReceiveQueue, Room, SendQueue};
use crate::drivers::offload::{Checksum, Offloads, Work};
use crate::drivers::transport::Transport;
use crate::drivers::virtio_net::{Receiver, Sender, VirtioNet};

impl Device {
    /// A virtio network card.
    pub fn virtio<T: Transport + Send + 'static>(card: VirtioNet<T>) -> Self {
        let interrupt = card.interrupt().waker();
        Self {
            nic: Box::new(card),
            interrupt,
        }
    }
}

impl<T: Transport + Send> Nic for VirtioNet<T> {
    fn mac(&self) -> [u8; 6] {
        self.mac()
    }

    fn mtu(&self) -> usize {
        self.mtu()
    }

    fn offloads(&self) -> Offloads {
        self.offloads()
    }

    fn split(&mut self) -> (&mut dyn ReceiveQueue, &mut dyn SendQueue) {
        let (receive, send) = self.queues();
        (receive, send)
    }

    fn is_link_up(&mut self) -> bool {
        self.is_link_up()
    }

    fn flush(&mut self) {
        self.flush();
    }

    fn mask_interrupts(&mut self) {
        self.mask_interrupts();
    }

    fn unmask_interrupts(&mut self) -> Backlog {
        if self.unmask_interrupts() {
            Backlog::Waiting
        } else {
            Backlog::Empty
        }
    }

    fn interrupts(&self) -> u64 {
        self.interrupt().count()
    }

    fn kick_again(&mut self) -> bool {
        self.kick_again()
    }

    fn is_sending(&mut self) -> bool {
        self.is_sending()
    }

    fn faults(&self) -> u64 {
        self.faults()
    }
}

impl ReceiveQueue for Receiver {
    fn front(&mut self) -> Option<&[u8]> {
        self.front()
    }

    fn front_with_checksum(&mut self) -> Option<(&[u8], Checksum)> {
        self.front_with_checksum()
    }

    fn release(&mut self) {
        self.release();
    }
}

impl SendQueue for Sender {
    fn room(&mut self) -> Room {
        if self.has_room() {
            Room::Free
        } else {
            Room::Full
        }
    }

    fn buffer(&mut self, len: usize) -> &mut [u8] {
        self.buffer(len)
    }

    fn set_work(&mut self, work: Work) {
        self.set_work(work);
    }

    fn commit(&mut self) {
        self.commit();
    }
}
