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

mod header;
mod receiver;
mod sender;

use core::fmt;
use core::num::NonZeroUsize;

use ::virtio::net::{F, S};
use ::virtio::{Id, le16};
use log::{error, info, warn};

use super::Error;
use super::offload::Offloads;
use super::transport::{Transport, negotiate, read_config, start};
use super::virtio::{self, AnyTransport};
use super::virtqueue::{Fault, Notify, Suppression, Virtqueue};

pub use super::virtio_interrupt::{Acknowledge, Interrupt};

pub use receiver::Receiver;
pub use sender::Sender;

const RECEIVE: u16 = 0;
const SEND: u16 = 1;
const QUEUES: u16 = 2;

const MAX_MTU: usize = 1500;
const MIN_MTU: usize = 576;

/// The places of each queue at most, and its buffers.
const QUEUE_SIZE: u16 = 256;

/// An Ethernet frame without its check sequence, and the card's header.
const FRAME_BYTES: usize = 1536;

/// Where the fields of the card's configuration are (§5.1.4).
const CONFIG_MAC: usize = 0;
const CONFIG_STATUS: usize = 6;
const CONFIG_MTU: usize = 10;

/// What the driver cannot do without, and what it asks of the card besides.
const NEEDED: F = F::MAC.union(F::VERSION_1);
const WANTED: F = NEEDED.union(F::MTU).union(F::EVENT_IDX).union(F::STATUS);

/// What the card may leave to the driver when it sends and receives.
const SENDING: F = F::CSUM.union(F::HOST_TSO4);
const RECEIVING: F = F::GUEST_CSUM;
/// Long frames, which need several buffers.
const MERGING: F = F::GUEST_TSO4.union(F::GUEST_TSO6).union(F::MRG_RXBUF);

/// A network card that is ready for use.
pub struct VirtioNet<T: Transport> {
    // In this order: the transport's end resets the card, before the queues
    // and buffers go.
    transport: T,
    receive: Receiver,
    send: Sender,
    mac: [u8; 6],
    mtu: usize,
    offloads: Offloads,
    link: Link,
    interrupt: &'static Interrupt,
    /// The queues that were stopped, and why.
    faults: [Option<Fault>; 2],
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

/// What the card says of its link.
#[derive(Debug)]
struct Link {
    /// It says anything: else the link is taken to be up (§5.1.4.2).
    is_told: bool,
    is_up: bool,
}

impl Link {
    fn look(&mut self, transport: &impl Transport) {
        if self.is_told
            && let Ok(status) = transport.config_u16(CONFIG_STATUS)
        {
            self.is_up = S::from_bits_retain(le16::from_ne(status)).contains(S::LINK_UP);
        }
    }
}

/// What is asked of a card that offers `offered`: nothing that needs what it
/// does not offer (§5.1.3.1).
fn wanted(offered: F) -> F {
    let mut wanted = WANTED;
    if offered.contains(F::CSUM) {
        wanted |= SENDING;
    }
    if offered.contains(RECEIVING) {
        wanted |= RECEIVING;
        if offered.contains(F::MRG_RXBUF) {
            wanted |= MERGING;
        }
    }
    wanted
}

impl<T: Transport> VirtioNet<T> {
    /// Starts a card.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn new(mut transport: T, interrupt: &'static Interrupt) -> Result<Self, Error> {
        let wanted = wanted(F::from(transport.device_features()));
        let features = F::from(negotiate(&mut transport, wanted.into(), NEEDED.into())?);
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
        let mut link = Link {
            is_told: features.contains(F::STATUS),
            is_up: true,
        };
        link.look(&transport);
        let suppression = if features.contains(F::EVENT_IDX) {
            Suppression::EventIndex
        } else {
            Suppression::Flags
        };
        let mut size = |index| Virtqueue::size(transport.max_queue_size(index), QUEUE_SIZE);
        let sizes = [size(RECEIVE)?, size(SEND)?];
        let says = [F::GUEST_CSUM, F::MRG_RXBUF].map(|feature| features.contains(feature));
        let mut receive = Receiver::new(&mut transport, sizes[0], suppression, says.into())?;
        let cuts = features.contains(F::HOST_TSO4);
        let send = Sender::new(&mut transport, sizes[1], suppression, cuts)?;
        let offloads = Offloads {
            checksums: features.contains(F::CSUM),
            segments_bytes: send.large_bytes().and_then(NonZeroUsize::new),
        };
        start(&mut transport);
        receive.fill();
        let mut card = Self {
            transport,
            receive,
            send,
            mac,
            mtu,
            offloads,
            link,
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

    /// What the card does in the stack's place.
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// Whether the card's link is up, as far as it says.
    pub fn is_link_up(&mut self) -> bool {
        // A change after the flag is taken sets it again.
        if self.interrupt.take_config_change() {
            self.link.look(&self.transport);
        }
        self.link.is_up
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
        if self.receive.publish() == Notify::Yes {
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
        sent || received || self.receive.has_front()
    }

    /// Whether the card has not sent all frames yet that were queued.
    pub fn is_sending(&mut self) -> bool {
        self.send.reclaim();
        self.send.queue.in_flight() > 0
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
