//! The virtio network card (virtio 1.3 §5.1).
//!
//! Two queues, each with buffers of its own. Nothing blocks. The interrupt's
//! hard part acknowledges it and wakes a slot; all else is done by whoever owns
//! the card.
//!
//! Frames to send are made known to the card together, by [`flush`]; so are
//! receive buffers, and only when a quarter of them has been used. What was
//! sent is taken back on the way, without an interrupt.
//!
//! [`flush`]: VirtioNet::flush

use alloc::vec::Vec;
use core::fmt;

use ::virtio::Id;
use ::virtio::net::{F, Hdr};
use log::{error, info, warn};

use super::transport::{Transport, negotiate, read_config, start};
use super::virtio::{self, AnyTransport};
use super::virtqueue::{Fault, Notify, Suppression, Virtqueue, Writer};
use super::{ETHERNET_HEADER_BYTES, Error};

pub use super::virtio_interrupt::{Acknowledge, Interrupt};

const RECEIVE: u16 = 0;
const SEND: u16 = 1;
const QUEUES: u16 = 2;

const MAX_MTU: usize = 1500;
const MIN_MTU: usize = 576;

/// What stands before each frame.
const HEADER_BYTES: usize = size_of::<Hdr>();

/// The places of each queue at most, and its buffers.
const QUEUE_SIZE: u16 = 256;

/// An Ethernet frame without its check sequence, and the card's header.
const BUFFER_BYTES: usize = 1536;

/// Receive buffers are given back when so many of all are waiting for it: one
/// in four.
const REFILL: u16 = 4;

/// Where the fields of the card's configuration are (§5.1.4).
const CONFIG_MAC: usize = 0;
const CONFIG_MTU: usize = 10;

/// What the driver asks of the card, no offloads; and what it cannot do without.
const WANTED: F = NEEDED.union(F::MTU).union(F::EVENT_IDX);
const NEEDED: F = F::MAC.union(F::VERSION_1);

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
    /// The queues that were stopped, and why.
    faults: [Option<Fault>; 2],
}

/// The receiving queue.
#[derive(Debug)]
pub struct Receiver {
    queue: Virtqueue,
    /// The buffer of the oldest frame, and the frame's length.
    front: Option<(u16, usize)>,
}

/// The sending queue.
#[derive(Debug)]
pub struct Sender {
    queue: Virtqueue,
    free: Vec<u16>,
    /// The buffer that is being filled, and the frame's length.
    filling: Option<(u16, usize)>,
}

/// Finds the machine's network card and starts it.
///
/// Of several the first is used, and one line says so.
///
/// # Errors
///
/// [`Error::NotFound`] if there is none, else why it cannot be used.
pub fn probe() -> Result<VirtioNet<AnyTransport>, Error> {
    let (found, others) = virtio::find(Id::Net)?;
    if others > 0 {
        warn!("the first of {} network cards is used", others + 1);
    }
    let mut device = found.open()?;
    // SAFETY: they are the device's registers, mapped for good.
    let interrupt = unsafe { Interrupt::new(device.acknowledge) };
    device.choose_interrupts(QUEUES, interrupt);
    let line = device.line;
    let card = VirtioNet::new(device.transport, interrupt)?;
    let [a, b, c, d, e, f] = card.mac;
    let address = format_args!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
    match card.transport.messages() {
        0 => {
            if let Err(error) = interrupt.register_line(line) {
                // The stack will notice, and poll.
                warn!("interrupt line {line} of the network card: {error}");
            }
            info!("network card {address}, interrupt line {line}");
        }
        messages => info!("network card {address}, {messages} interrupt messages"),
    }
    Ok(card)
}

impl<T: Transport> VirtioNet<T> {
    /// Starts a card.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn new(mut transport: T, interrupt: &'static Interrupt) -> Result<Self, Error> {
        let features = F::from(negotiate(&mut transport, WANTED.into(), NEEDED.into())?);
        let mac = read_config(&transport, |transport| {
            let mut mac = [0; 6];
            for (at, byte) in mac.iter_mut().enumerate() {
                *byte = transport.config_u8(CONFIG_MAC + at)?;
            }
            Ok(mac)
        })?;
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(Error::Faulty);
        }
        let mtu = if features.contains(F::MTU) {
            usize::from(transport.config_u16(CONFIG_MTU)?).clamp(MIN_MTU, MAX_MTU)
        } else {
            MAX_MTU
        };
        let suppression = if features.contains(F::EVENT_IDX) {
            Suppression::EventIndex
        } else {
            Suppression::Flags
        };
        let mut open = |index, writer| {
            let size = Virtqueue::size(transport.max_queue_size(index), QUEUE_SIZE)?;
            let queue = Virtqueue::new(size, BUFFER_BYTES, writer, suppression)?;
            transport.set_queue(index, queue.areas())?;
            Ok::<_, Error>(queue)
        };
        let mut receive = Receiver {
            queue: open(RECEIVE, Writer::Device)?,
            front: None,
        };
        let mut send = Sender {
            queue: open(SEND, Writer::Driver)?,
            free: Vec::new(),
            filling: None,
        };
        send.free
            .try_reserve_exact(send.queue.ids().len())
            .map_err(|_| Error::OutOfMemory)?;
        send.free.extend(send.queue.ids());
        start(&mut transport);
        for buffer in receive.queue.ids() {
            receive.give_back(buffer);
        }
        let mut card = Self {
            transport,
            receive,
            send,
            mac,
            mtu,
            interrupt,
            faults: [None; 2],
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

    /// How many of the queues were stopped, as the card broke the rules.
    pub fn faults(&self) -> u64 {
        self.faults.iter().flatten().count() as u64
    }

    /// Tells the card about frames that were queued and buffers that were given
    /// back.
    pub fn flush(&mut self) {
        self.send.reclaim();
        if self.send.queue.publish() == Notify::Yes {
            self.transport.notify(SEND);
        }
        if self.receive.is_low() && self.receive.queue.publish() == Notify::Yes {
            self.transport.notify(RECEIVE);
        }
        let faults = [self.receive.queue.fault(), self.send.queue.fault()];
        if faults != self.faults {
            self.report(faults);
        }
    }

    #[cold]
    fn report(&mut self, faults: [Option<Fault>; 2]) {
        let names = ["receiving", "sending"];
        for ((name, fault), known) in names.iter().zip(faults).zip(self.faults) {
            if let (Some(fault), None) = (fault, known) {
                error!("the network card's {name} queue is ignored from now on: {fault}");
            }
        }
        self.faults = faults;
    }

    /// Turns the card's interrupts off.
    pub fn mask_interrupts(&mut self) {
        self.receive.queue.disable_interrupts();
        self.send.queue.disable_interrupts();
    }

    /// Turns the card's interrupts on, for received frames, and if the sending
    /// queue is full, for the frames that it has sent. Returns whether either
    /// is there already.
    pub fn unmask_interrupts(&mut self) -> bool {
        let sent = !self.send.has_room() && self.send.queue.enable_interrupts();
        let received = self.receive.queue.enable_interrupts();
        sent || received || self.receive.front.is_some()
    }

    /// Notifies the card again, should it not have noticed frames that are to
    /// be sent. Returns whether there are any.
    pub fn kick_again(&mut self) -> bool {
        self.send.reclaim();
        let queue = &self.send.queue;
        let unsent = queue.in_flight() > 0 && queue.fault().is_none();
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

impl Receiver {
    /// The oldest frame that was received, the same one until it is released.
    pub fn front(&mut self) -> Option<&[u8]> {
        if self.front.is_none() {
            let used = self.queue.take()?;
            let Some(len) = used.bytes.checked_sub(HEADER_BYTES) else {
                self.queue.stop(Fault::Headless);
                return None;
            };
            self.front = Some((used.id, len));
        }
        let (buffer, len) = self.front?;
        self.queue
            .buffer(buffer)
            .get(HEADER_BYTES..HEADER_BYTES + len)
    }

    /// Gives the oldest frame's buffer back to the card.
    pub fn release(&mut self) {
        if let Some((buffer, _)) = self.front.take() {
            self.give_back(buffer);
        }
    }

    fn give_back(&mut self, buffer: u16) {
        self.queue.offer(buffer, BUFFER_BYTES);
    }

    /// Whether it is time to make buffers known to the card.
    fn is_low(&self) -> bool {
        self.queue.unpublished() >= self.queue.ids().end.div_ceil(REFILL)
    }
}

impl Sender {
    /// Whether a frame can be sent.
    pub fn has_room(&mut self) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        !self.free.is_empty() && self.queue.fault().is_none()
    }

    /// Takes back the buffers of frames that were sent.
    fn reclaim(&mut self) {
        while let Some(used) = self.queue.take() {
            self.free.push(used.id);
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
        // The header before it stays as it was made: all zeroes, no offloads.
        &mut self.queue.buffer(buffer)[HEADER_BYTES..HEADER_BYTES + len]
    }

    /// Queues the frame in the buffer that was handed out last.
    pub fn commit(&mut self) {
        if let Some((buffer, len)) = self.filling.take() {
            self.queue.offer(buffer, HEADER_BYTES + len);
        }
    }
}
