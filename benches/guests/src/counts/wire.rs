//! A network card in memory: frames are put in, and answers taken back.
//!
//! It leaves as much to the stack as QEMU's does: with offloads, no checksum of
//! TCP or UDP.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use firstpoll::drivers::offload::{Checksum, Offloads, Unfinished, Work};
use firstpoll::net::Device;
use firstpoll::net::device::{Backlog, Nic, ReceiveQueue, Room, SendQueue};
use firstpoll::sync::{BottomHalfLock, WakerSlot};

use crate::client::STACK_MAC;
use crate::stages::{Point, reach};

const MTU: usize = 1500;
const MAX_FRAME_BYTES: usize = MTU + 14;

/// The frames on their way.
#[derive(Default)]
struct Ends {
    to_stack: VecDeque<&'static [u8]>,
    /// The frame that the stack has sent last.
    sent: Vec<u8>,
    /// What the card has still to do to it.
    unfinished: Option<Unfinished>,
    sent_count: u64,
}

/// The wire, seen from its far end.
pub struct Wire {
    ends: Arc<BottomHalfLock<Ends>>,
    interrupt: &'static WakerSlot,
}

impl Wire {
    /// A wire and the card at its near end. `frames` is how many can be on
    /// their way to the stack without an allocation.
    pub fn new(frames: usize, checksums: Sums) -> (Self, Device) {
        let ends = Arc::new(BottomHalfLock::new(Ends {
            to_stack: VecDeque::with_capacity(frames),
            sent: Vec::with_capacity(MAX_FRAME_BYTES),
            unfinished: None,
            sent_count: 0,
        }));
        let interrupt: &'static WakerSlot = Box::leak(Box::default());
        let card = Card {
            checksums,
            receive: Receive {
                checksum: match checksums {
                    Sums::Card => Checksum::Right,
                    Sums::Stack => Checksum::Unverified,
                },
                ends: Arc::clone(&ends),
                front: None,
            },
            send: Send {
                ends: Arc::clone(&ends),
                work: None,
                buffer: Box::new([0; MAX_FRAME_BYTES]),
                len: 0,
            },
        };
        let device = Device {
            nic: Box::new(card),
            interrupt,
        };
        (Self { ends, interrupt }, device)
    }

    /// Puts a frame onto the wire, without an interrupt.
    pub fn put(&self, frame: &'static [u8]) {
        self.ends.lock().to_stack.push_back(frame);
    }

    /// Does what the card's interrupt handler would.
    pub fn interrupt(&self) {
        self.interrupt.wake();
    }

    /// How many frames the stack has sent.
    pub fn sent_count(&self) -> u64 {
        self.ends.lock().sent_count
    }

    /// The frame that the stack has sent last. The card's part of the work is
    /// done here, where nobody counts.
    pub fn last_sent(&self) -> Vec<u8> {
        let ends = self.ends.lock();
        let mut frame = ends.sent.clone();
        if let Some(unfinished) = ends.unfinished {
            finish(
                &mut frame[usize::from(unfinished.start)..],
                unfinished.offset.into(),
            );
        }
        frame
    }
}

/// Finishes the checksum at `place` in a segment (RFC 1071).
fn finish(segment: &mut [u8], place: usize) {
    let words = segment.chunks(2).map(|word| match *word {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    segment[place..place + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Who sums TCP and UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// The card, as far as there is one: nothing else sees the frame.
    Card,
    /// The stack.
    Stack,
}

struct Card {
    checksums: Sums,
    receive: Receive,
    send: Send,
}

struct Receive {
    /// What the card says of every frame's.
    checksum: Checksum,
    ends: Arc<BottomHalfLock<Ends>>,
    front: Option<&'static [u8]>,
}

struct Send {
    ends: Arc<BottomHalfLock<Ends>>,
    work: Option<Work>,
    buffer: Box<[u8; MAX_FRAME_BYTES]>,
    len: usize,
}

impl Nic for Card {
    fn mac(&self) -> [u8; 6] {
        STACK_MAC
    }

    fn mtu(&self) -> usize {
        MTU
    }

    fn offloads(&self) -> Offloads {
        Offloads {
            checksums: self.checksums == Sums::Card,
            segments_bytes: None,
        }
    }

    fn split(&mut self) -> (&mut dyn ReceiveQueue, &mut dyn SendQueue) {
        (&mut self.receive, &mut self.send)
    }

    fn flush(&mut self) {}

    fn mask_interrupts(&mut self) {}

    fn unmask_interrupts(&mut self) -> Backlog {
        if self.receive.front.is_none() && self.receive.ends.lock().to_stack.is_empty() {
            Backlog::Empty
        } else {
            Backlog::Waiting
        }
    }

    fn interrupts(&self) -> u64 {
        1 // The stack polls a card that has never raised any.
    }

    fn kick_again(&mut self) -> bool {
        false
    }
}

impl ReceiveQueue for Receive {
    fn front(&mut self) -> Option<&[u8]> {
        if self.front.is_none() {
            self.front = self.ends.lock().to_stack.pop_front();
            if self.front.is_some() {
                reach(Point::Front);
            }
        }
        self.front
    }

    fn front_with_checksum(&mut self) -> Option<(&[u8], Checksum)> {
        let checksum = self.checksum;
        Some((self.front()?, checksum))
    }

    fn release(&mut self) {
        self.front = None;
    }
}

impl SendQueue for Send {
    fn room(&mut self) -> Room {
        Room::Free
    }

    fn buffer(&mut self, len: usize) -> &mut [u8] {
        self.len = len;
        self.work = None;
        &mut self.buffer[..len]
    }

    fn set_work(&mut self, work: Work) {
        self.work = Some(work);
    }

    fn commit(&mut self) {
        reach(Point::Commit);
        let mut ends = self.ends.lock();
        ends.sent.clear();
        ends.sent.extend_from_slice(&self.buffer[..self.len]);
        ends.unfinished = self.work.map(|work| work.checksum);
        ends.sent_count += 1;
    }
}
