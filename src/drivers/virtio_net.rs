//! The virtio network card (virtio 1.3 §5.1).
//!
//! Two queues, each with buffers of its own. Nothing blocks. The interrupt's
//! hard part reads the card's interrupt status, which acknowledges it, and
//! wakes a slot; all else is done by whoever owns the card.
//!
//! The card's interrupts are turned on and off by a flag in each queue
//! (§2.7.7), without `VIRTIO_F_EVENT_IDX`. Each check that could lose a
//! notification has a barrier before it: a fence and, since QEMU before 8.1
//! leaves fences out of the code that it makes for one processor, a reading of
//! the clock, which it does not.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};

use bitflags::bitflags;
use log::{info, warn};
use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

use super::ring::{BUFFER_BYTES, Direction, QUEUE_SIZE, Ring};
use super::{ETHERNET_HEADER_BYTES, Error, pci};
use crate::arch;
use crate::sync::WakerSlot;

pub use virtio_drivers::transport::pci::PciTransport;

const RECEIVE: u16 = 0;
const SEND: u16 = 1;

const MAX_MTU: usize = 1500;
const MIN_MTU: usize = 576;

/// `virtio_net_hdr` with and without its last field, `num_buffers`, which
/// exists since virtio 1.0.
const HEADER_BYTES: usize = 12;
const LEGACY_HEADER_BYTES: usize = 10;

bitflags! {
    /// What the driver asks of the card. No offloads, no `EVENT_IDX`.
    #[derive(Clone, Copy, Debug)]
    struct Features: u64 {
        const MTU = 1 << 3;
        const MAC = 1 << 5;
        const VERSION_1 = 1 << 32;
    }
}

/// What a card's interrupt handler has: lives for ever.
#[derive(Debug)]
pub struct Interrupt {
    status: NonNull<u8>,
    count: AtomicU64,
    waker: WakerSlot,
}

// SAFETY: the status register may be read from anywhere; the rest is atomic.
unsafe impl Sync for Interrupt {}

impl Interrupt {
    /// Of a card whose interrupt status register is at `status`.
    ///
    /// # Safety
    ///
    /// `status` can be read at any time from now on.
    pub unsafe fn new(status: NonNull<u8>) -> &'static Self {
        Box::leak(Box::new(Self {
            status,
            count: AtomicU64::new(0),
            waker: WakerSlot::new(),
        }))
    }

    /// What an interrupt of the card's line does: acknowledges it and wakes.
    /// The line may be shared, and the interrupt another device's.
    ///
    /// # Interrupt safety
    ///
    /// For interrupt handlers.
    pub fn handle(&self) {
        // SAFETY: readable at any time by the contract of `new`.
        let status = unsafe { self.status.read_volatile() };
        if status != 0 {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.waker.wake();
        }
    }

    /// Who is woken.
    pub fn waker(&self) -> &WakerSlot {
        &self.waker
    }

    /// How many interrupts there were.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// A network card that is ready for use.
pub struct VirtioNet<T: Transport> {
    // In this order: the transport's end resets the card, before the queues
    // and buffers go.
    transport: T,
    receive: Receiver,
    send: Sender,
    mac: [u8; 6],
    mtu: usize,
    interrupt: &'static Interrupt,
}

/// The receiving queue.
#[derive(Debug)]
pub struct Receiver {
    ring: Ring,
    header_bytes: usize,
    /// The buffer of the oldest frame, and the frame's length.
    front: Option<(u16, usize)>,
    notify: bool,
}

/// The sending queue.
#[derive(Debug)]
pub struct Sender {
    ring: Ring,
    header_bytes: usize,
    free: Vec<u16>,
    /// The buffer that is being filled, and the frame's length.
    filling: Option<(u16, usize)>,
    notify: bool,
}

/// Finds the machine's network card and starts it.
///
/// Of several the first is used, and one line says so.
///
/// # Errors
///
/// [`Error::NotFound`] if there is none, else why it cannot be used.
pub fn probe() -> Result<VirtioNet<PciTransport>, Error> {
    let (function, others) = pci::find_virtio(DeviceType::Network).ok_or(Error::NotFound)?;
    if others > 0 {
        warn!("the first of {} network cards is used", others + 1);
    }
    let device = function.open_virtio()?;
    // SAFETY: it is the device's register, mapped for good.
    let interrupt = unsafe { Interrupt::new(device.interrupt_status) };
    let card = VirtioNet::new(device.transport, interrupt)?;
    let handler = |context: usize| {
        let interrupt = core::ptr::with_exposed_provenance::<Interrupt>(context);
        // SAFETY: the context is the address of the `'static` below.
        unsafe { &*interrupt }.handle();
    };
    let context = core::ptr::from_ref(interrupt).expose_provenance();
    let line = device.interrupt_line;
    if let Err(error) = arch::register_irq(line, handler, context) {
        // The stack will notice, and poll.
        warn!("interrupt line {line} of the network card: {error}");
    }
    let [a, b, c, d, e, f] = card.mac;
    info!("network card {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}, interrupt line {line}");
    Ok(card)
}

impl<T: Transport> VirtioNet<T> {
    /// Starts a card.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn new(mut transport: T, interrupt: &'static Interrupt) -> Result<Self, Error> {
        let features = transport.begin_init(Features::all());
        if !transport.get_status().contains(DeviceStatus::FEATURES_OK) {
            return Err(Error::Unsupported);
        }
        if !features.contains(Features::MAC) {
            return Err(Error::Unsupported);
        }
        let mac = transport
            .read_consistent(|| transport.read_config_space::<[u8; 6]>(0))
            .map_err(Error::from)?;
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(Error::Faulty);
        }
        let mtu = if features.contains(Features::MTU) {
            let mtu = transport.read_config_space::<u16>(10)?;
            usize::from(mtu).clamp(MIN_MTU, MAX_MTU)
        } else {
            MAX_MTU
        };
        let header_bytes = if features.contains(Features::VERSION_1) {
            HEADER_BYTES
        } else {
            LEGACY_HEADER_BYTES
        };
        let mut receive = Receiver {
            ring: Ring::new(&mut transport, RECEIVE)?,
            header_bytes,
            front: None,
            notify: true,
        };
        let mut send = Sender {
            ring: Ring::new(&mut transport, SEND)?,
            header_bytes,
            free: Vec::new(),
            filling: None,
            notify: false,
        };
        send.free
            .try_reserve_exact(QUEUE_SIZE)
            .map_err(|_| Error::OutOfMemory)?;
        send.free.extend(0..QUEUE_SIZE as u16);
        send.ring.set_interrupts(false);
        transport.finish_init();
        for buffer in 0..QUEUE_SIZE as u16 {
            receive.ring.add_receive(buffer);
        }
        let mut card = Self {
            transport,
            receive,
            send,
            mac,
            mtu,
            interrupt,
        };
        card.flush();
        Ok(card)
    }

    /// The card's address.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The longest IP packet that a frame can carry, in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// The card's interrupt.
    pub fn interrupt(&self) -> &'static Interrupt {
        self.interrupt
    }

    /// The two queues, which are used at the same time.
    pub fn queues(&mut self) -> (&mut Receiver, &mut Sender) {
        (&mut self.receive, &mut self.send)
    }

    /// Tells the card about frames that were queued and buffers that were given
    /// back.
    pub fn flush(&mut self) {
        if self.send.notify || self.receive.notify {
            barrier();
        }
        if core::mem::take(&mut self.send.notify) && self.send.ring.queue.should_notify() {
            self.transport.notify(SEND);
        }
        if core::mem::take(&mut self.receive.notify) && self.receive.ring.queue.should_notify() {
            self.transport.notify(RECEIVE);
        }
    }

    /// Turns the card's interrupts off.
    pub fn mask_interrupts(&mut self) {
        self.receive.ring.set_interrupts(false);
        self.send.ring.set_interrupts(false);
    }

    /// Turns the card's interrupts on, for received frames, and if the sending
    /// queue is full, for the frames that it has sent. Returns whether either
    /// is there already.
    pub fn unmask_interrupts(&mut self) -> bool {
        let full = !self.send.has_room();
        self.receive.ring.set_interrupts(true);
        self.send.ring.set_interrupts(full);
        barrier();
        let received = self.receive.front.is_some() || self.receive.ring.has_used();
        received || (full && self.send.ring.has_used())
    }

    /// Notifies the card again, should it not have noticed frames that are to
    /// be sent. Returns whether there are any.
    pub fn kick_again(&mut self) -> bool {
        self.send.reclaim();
        let unsent = self.send.free.len() < QUEUE_SIZE && !self.send.ring.broken;
        if unsent {
            self.transport.notify(SEND);
        }
        unsent
    }
}

impl<T: Transport> fmt::Debug for VirtioNet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtioNet")
            .field("mac", &self.mac)
            .field("mtu", &self.mtu)
            .finish_non_exhaustive()
    }
}

/// Orders what was written to memory before what is read from it next, also
/// where the emulator leaves fences out.
fn barrier() {
    fence(Ordering::SeqCst);
    core::hint::black_box(arch::now());
}

impl Receiver {
    /// The oldest frame that was received, the same one until it is released.
    pub fn front(&mut self) -> Option<&[u8]> {
        while self.front.is_none() {
            let (buffer, len) = self.ring.pop(Direction::Receive)?;
            match (len as usize).checked_sub(self.header_bytes) {
                Some(len) if len + self.header_bytes <= BUFFER_BYTES => {
                    self.front = Some((buffer, len));
                }
                // More than the buffer holds, or less than a header.
                _ => self.give_back(buffer),
            }
        }
        let (buffer, len) = self.front?;
        // SAFETY: the card has given the buffer back.
        let bytes = unsafe { self.ring.pool.get(buffer.into()) };
        bytes.get(self.header_bytes..self.header_bytes + len)
    }

    /// Gives the oldest frame's buffer back to the card.
    pub fn release(&mut self) {
        if let Some((buffer, _)) = self.front.take() {
            self.give_back(buffer);
        }
    }

    fn give_back(&mut self, buffer: u16) {
        self.ring.add_receive(buffer);
        self.notify = true;
    }
}

impl Sender {
    /// Whether a frame can be sent.
    pub fn has_room(&mut self) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        !self.free.is_empty() && !self.ring.broken
    }

    /// Takes back the buffers of frames that were sent.
    fn reclaim(&mut self) {
        while let Some((buffer, _)) = self.ring.pop(Direction::Send) {
            self.free.push(buffer);
        }
    }

    /// A buffer for a frame of `len` bytes.
    ///
    /// # Panics
    ///
    /// Panics without [room](Self::has_room) and if the frame is longer than
    /// the card's MTU allows.
    pub fn buffer(&mut self, len: usize) -> &mut [u8] {
        assert!(
            len <= MAX_MTU + ETHERNET_HEADER_BYTES,
            "the frame is too long"
        );
        let buffer = match self.filling {
            Some((buffer, _)) => buffer,
            None => self.free.pop().expect("there is room, by the contract"),
        };
        self.filling = Some((buffer, len));
        // SAFETY: the buffer was free, so the card does not have it.
        let bytes = unsafe { self.ring.pool.get(buffer.into()) };
        // The header before it stays as it was made: all zeroes, no offloads.
        &mut bytes[self.header_bytes..self.header_bytes + len]
    }

    /// Queues the frame in the buffer that was handed out last.
    pub fn commit(&mut self) {
        if let Some((buffer, len)) = self.filling.take() {
            self.ring.add_send(buffer, self.header_bytes + len);
            self.notify = true;
        }
    }
}
