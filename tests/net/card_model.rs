//! A virtio network card in memory, as the device's side of the specification
//! has it (virtio 1.3 §2.7 and §5.1), which tests drive by hand.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

use firstpoll::arch::host;
use firstpoll::drivers::Error;
use firstpoll::drivers::transport::{Areas, Transport};
use firstpoll::drivers::virtio_net::{Acknowledge, Interrupt};
use virtio::{DeviceStatus, F, le128};

use crate::wire::STACK_MAC;

pub const VERSION_1: u64 = 1 << 32;
pub const MAC: u64 = 1 << 5;
pub const EVENT_IDX: u64 = 1 << 29;
pub const STATUS: u64 = 1 << 16;
pub const CSUM: u64 = 1 << 0;
pub const GUEST_CSUM: u64 = 1 << 1;
pub const GUEST_TSO4: u64 = 1 << 7;
pub const GUEST_TSO6: u64 = 1 << 8;
pub const HOST_TSO4: u64 = 1 << 11;
pub const MRG_RXBUF: u64 = 1 << 15;
pub const RECEIVE: usize = 0;
pub const SEND: usize = 1;
pub const HEADER: usize = 12;

/// Whether the card wants to know of buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// It sleeps when there are none.
    #[default]
    Sleeps,
    /// It looks by itself.
    Busy,
}

/// One queue, as the device sees it.
#[derive(Clone, Copy, Default)]
pub struct Queue {
    pub size: u16,
    descriptors: u64,
    available: u64,
    pub used: u64,
    event_index: bool,
    mood: Mood,
    pub next_available: u16,
    pub next_used: u16,
    /// Up to where it was considered to interrupt.
    signalled: u16,
}

#[derive(Default)]
pub struct Card {
    status: DeviceStatus,
    offered: u64,
    pub features: u64,
    queue_limits: [u16; 2],
    pub queues: [Queue; 2],
    pub kicks: [u64; 2],
    link_is_down: bool,
}

impl Queue {
    unsafe fn read<T: Copy>(address: u64) -> T {
        // SAFETY: by the caller, who got the address from the driver.
        unsafe { (address as *const T).read_volatile() }
    }

    pub unsafe fn write<T>(address: u64, value: T) {
        // SAFETY: as above.
        unsafe { (address as *mut T).write_volatile(value) }
    }

    /// Whether what was used since the last call is to interrupt.
    fn wants_interrupts(&mut self) -> bool {
        let before = std::mem::replace(&mut self.signalled, self.next_used);
        // SAFETY: the driver has set the queue up.
        let (flags, event) = unsafe {
            let event = self.available + 4 + 2 * u64::from(self.size);
            (Self::read::<u16>(self.available), Self::read::<u16>(event))
        };
        if !self.event_index {
            return flags & 1 == 0;
        }
        assert_eq!(flags, 0, "with event indices the flags are zero");
        let mut passed = before;
        while passed != self.next_used {
            if passed == event {
                return true;
            }
            passed = passed.wrapping_add(1);
        }
        false
    }

    /// Says to the driver when to kick.
    fn listen(&mut self) {
        // SAFETY: the driver has set the queue up.
        unsafe {
            if !self.event_index {
                Self::write(self.used, u16::from(self.mood == Mood::Busy));
            } else if self.mood == Mood::Sleeps {
                let event = self.used + 4 + 8 * u64::from(self.size);
                Self::write(event, self.next_available);
            }
        }
    }

    /// How many buffers wait for the card.
    pub fn waiting(&self) -> u16 {
        // SAFETY: the driver has set the queue up.
        let index = unsafe { Self::read::<u16>(self.available + 2) };
        index.wrapping_sub(self.next_available)
    }

    /// Takes the next buffer that the driver has made available: its number,
    /// address and length.
    pub fn take(&mut self) -> Option<(u16, u64, u32)> {
        // SAFETY: the driver has set the queue up.
        unsafe {
            if Self::read::<u16>(self.available + 2) == self.next_available {
                return None;
            }
            let place = u64::from(self.next_available % self.size);
            let head = Self::read::<u16>(self.available + 4 + 2 * place);
            self.next_available = self.next_available.wrapping_add(1);
            self.listen();
            let descriptor = self.descriptors + 16 * u64::from(head);
            Some((head, Self::read(descriptor), Self::read(descriptor + 8)))
        }
    }

    /// Says that buffer `id` was used, and `len` bytes were written.
    pub fn give(&mut self, id: u32, len: u32) {
        let place = u64::from(self.next_used % self.size);
        self.next_used = self.next_used.wrapping_add(1);
        // SAFETY: the driver has set the queue up.
        unsafe {
            Self::write(self.used + 4 + 8 * place, id);
            Self::write(self.used + 8 + 8 * place, len);
            Self::write(self.used + 2, self.next_used);
        }
    }
}

/// The card's far side.
#[derive(Clone)]
pub struct Far {
    card: Arc<Mutex<Card>>,
    status: &'static AtomicU8,
    pub interrupt: &'static Interrupt,
}

impl Far {
    /// A card that offers these features, and queues of that size at most.
    pub fn new(offered: u64, queue_limits: [u16; 2]) -> (Self, FakeTransport) {
        let status: &'static AtomicU8 = Box::leak(Box::default());
        // SAFETY: it lives for ever.
        let interrupt =
            unsafe { Interrupt::new(Acknowledge::ByRead(NonNull::from(status).cast())) };
        let card = Arc::new(Mutex::new(Card {
            offered,
            queue_limits,
            ..Card::default()
        }));
        let transport = FakeTransport(card.clone());
        let far = Self {
            card,
            status,
            interrupt,
        };
        (far, transport)
    }

    pub fn card(&self) -> MutexGuard<'_, Card> {
        self.card.lock().unwrap()
    }

    /// Changes whether the card wants to know of buffers.
    pub fn set_mood(&self, queue: usize, mood: Mood) {
        let queue = &mut self.card().queues[queue];
        queue.mood = mood;
        queue.listen();
    }

    /// Interrupts if the driver wants it.
    pub fn raise(&self, queue: usize) {
        let wants = self.card().queues[queue].wants_interrupts();
        if wants {
            let (status, interrupt) = (self.status, self.interrupt);
            status.store(1, SeqCst);
            host::interrupt(move || {
                interrupt.handle();
                status.store(0, SeqCst);
            });
        }
    }

    /// Takes the link down, or up, and interrupts.
    pub fn set_link(&self, is_up: bool) {
        self.card().link_is_down = !is_up;
        let (status, interrupt) = (self.status, self.interrupt);
        status.store(2, SeqCst);
        host::interrupt(move || {
            interrupt.handle();
            status.store(0, SeqCst);
        });
    }

    /// Puts a frame into the next receive buffer; `false` if there is none.
    pub fn send(&self, frame: &[u8]) -> bool {
        self.send_under([0; HEADER], frame)
    }

    /// The same, with this header, in which the number of buffers is written.
    /// What is too long for a buffer goes into several.
    pub fn send_under(&self, header: [u8; HEADER], frame: &[u8]) -> bool {
        let mut card = self.card();
        let merges = card.features & MRG_RXBUF != 0;
        let queue = &mut card.queues[RECEIVE];
        let before = *queue;
        let mut bytes = [&header, frame].concat();
        let mut left = &bytes[..];
        let mut parts = Vec::new();
        while !left.is_empty() {
            let Some((head, address, len)) = queue.take() else {
                *queue = before;
                return false;
            };
            let (part, rest) = left.split_at(left.len().min(len as usize));
            assert!(merges || rest.is_empty(), "the frame is too long");
            parts.push((head, address, part.len()));
            left = rest;
        }
        if merges {
            bytes[10..12].copy_from_slice(&(parts.len() as u16).to_le_bytes());
        }
        let mut left = &bytes[..];
        for &(head, address, len) in &parts {
            let (part, rest) = left.split_at(len);
            // SAFETY: the driver gave the buffer to the card.
            unsafe { (address as *mut u8).copy_from(part.as_ptr(), len) };
            queue.give(head.into(), len as u32);
            left = rest;
        }
        drop(card);
        self.raise(RECEIVE);
        true
    }

    /// Takes the frames that were sent.
    pub fn sent(&self) -> VecDeque<Vec<u8>> {
        self.sent_at_most(usize::MAX)
    }

    /// The same, but no more than `most`.
    pub fn sent_at_most(&self, most: usize) -> VecDeque<Vec<u8>> {
        let plain = |(header, frame)| {
            assert_eq!(header, [0; HEADER]);
            frame
        };
        self.sent_under(most).into_iter().map(plain).collect()
    }

    /// The same, with what stands before each.
    pub fn sent_under(&self, most: usize) -> VecDeque<([u8; HEADER], Vec<u8>)> {
        let mut card = self.card();
        let queue = &mut card.queues[SEND];
        let mut frames = VecDeque::new();
        while frames.len() < most {
            let Some((head, address, len)) = queue.take() else {
                break;
            };
            // SAFETY: the driver gave the buffer to the card.
            let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, len as usize) };
            let (header, frame) = bytes.split_at(HEADER);
            frames.push_back((header.try_into().unwrap(), frame.to_vec()));
            queue.give(head.into(), 0);
        }
        drop(card);
        self.raise(SEND);
        frames
    }
}

pub struct FakeTransport(Arc<Mutex<Card>>);

impl FakeTransport {
    fn card(&self) -> MutexGuard<'_, Card> {
        self.0.lock().unwrap()
    }
}

impl Transport for FakeTransport {
    fn status(&self) -> DeviceStatus {
        self.card().status
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.card().status = status;
    }

    fn device_features(&mut self) -> F {
        F::from_bits_retain(le128::from_ne(self.card().offered.into()))
    }

    fn set_driver_features(&mut self, features: F) {
        self.card().features = features.bits().to_ne() as u64;
    }

    fn max_queue_size(&mut self, queue: u16) -> u16 {
        self.card().queue_limits[usize::from(queue)]
    }

    fn set_queue(&mut self, queue: u16, areas: Areas) -> Result<(), Error> {
        let mut card = self.card();
        let event_index = card.features & EVENT_IDX != 0;
        card.queues[usize::from(queue)] = Queue {
            size: areas.size,
            descriptors: areas.descriptors,
            available: areas.available,
            used: areas.used,
            event_index,
            ..Queue::default()
        };
        Ok(())
    }

    fn notify(&mut self, queue: u16) {
        self.card().kicks[usize::from(queue)] += 1;
    }

    fn config_generation(&self) -> u8 {
        0
    }

    fn config_u8(&self, offset: usize) -> Result<u8, Error> {
        STACK_MAC.get(offset).copied().ok_or(Error::Faulty)
    }

    fn config_u16(&self, offset: usize) -> Result<u16, Error> {
        match offset {
            6 => Ok(u16::from(!self.card().link_is_down)),
            _ => Err(Error::Faulty),
        }
    }
}
