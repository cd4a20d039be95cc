//! What the stack needs of a network card, and how smoltcp sees it.

use alloc::boxed::Box;
use core::num::NonZeroU16;

use smoltcp::phy::{self, ChecksumCapabilities, DeviceCapabilities, Medium, PacketMeta};
use smoltcp::time::Instant;

use super::checksum::Place;
use super::tcp::recovery::{self, End};
use super::tcp::segment::Marks;
use crate::drivers::ETHERNET_HEADER_BYTES;
use crate::drivers::offload::{Checksum, Cut, Offloads, Work};
use crate::sync::WakerSlot;

/// A network card, as the stack is given it.
pub struct Device {
    /// The card. All of it is bottom-half data; only the network task and
    /// calls of the program touch it, never an interrupt handler.
    pub nic: Box<dyn Nic>,
    /// What the card's interrupt handler wakes.
    pub interrupt: &'static WakerSlot,
}

impl Device {
    /// No card: nothing comes, and nothing can be sent.
    pub fn none() -> Self {
        static INTERRUPT: WakerSlot = WakerSlot::new();
        Self {
            nic: Box::new(NoCard {
                receive: Nothing,
                send: Nothing,
            }),
            interrupt: &INTERRUPT,
        }
    }
}

impl core::fmt::Debug for Device {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Device").finish_non_exhaustive()
    }
}

/// Whether frames wait to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// At least one frame has been received.
    Waiting,
    /// No frame waits.
    Empty,
}

/// Whether a frame can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// At least one frame can be sent.
    Free,
    /// The queue is full.
    Full,
}

/// A network card that sends and receives Ethernet frames without blocking.
pub trait Nic: Send {
    /// The card's address.
    fn mac(&self) -> [u8; 6];

    /// The longest IP packet that a frame can carry, in bytes.
    fn mtu(&self) -> usize;

    /// What the card does in the stack's place: it never changes.
    fn offloads(&self) -> Offloads {
        Offloads::default()
    }

    /// Whether the card's link is up. The card's interrupt tells when that
    /// changes.
    fn is_link_up(&mut self) -> bool {
        true
    }

    /// The two directions, which are used at the same time.
    fn split(&mut self) -> (&mut dyn ReceiveQueue, &mut dyn SendQueue);

    /// Tells the card about frames that were queued and buffers that were given
    /// back.
    fn flush(&mut self);

    /// Turns the card's interrupts off, while the stack polls it anyway.
    fn mask_interrupts(&mut self);

    /// Turns the card's interrupts on. Every frame after those that the
    /// returned [`Backlog`] reports raises one; if the send queue is full, so
    /// does its next free place.
    fn unmask_interrupts(&mut self) -> Backlog;

    /// How many interrupts the card has raised.
    fn interrupts(&self) -> u64;

    /// Notifies the card again of frames that it has not sent yet, should a
    /// notification have been lost. Returns whether there are any.
    fn kick_again(&mut self) -> bool;

    /// Whether frames that were queued have not left the card yet, as far as it
    /// has told: then what is sent later waits anyway.
    fn is_sending(&mut self) -> bool {
        false
    }

    /// How many of the card's queues were stopped, as it broke the rules.
    fn faults(&self) -> u64 {
        0
    }
}

/// The receiving side of a [`Nic`].
pub trait ReceiveQueue {
    /// The oldest frame that was received, the same one until it is released.
    fn front(&mut self) -> Option<&[u8]>;

    /// That frame, and what the card says of the checksum in it. Where it says
    /// nothing of it, or names another place than that of the checksum, the
    /// stack looks.
    fn front_with_checksum(&mut self) -> Option<(&[u8], Checksum)> {
        Some((self.front()?, Checksum::Unverified))
    }

    /// Gives the oldest frame's buffer back to the card.
    fn release(&mut self);
}

/// The sending side of a [`Nic`].
pub trait SendQueue {
    /// Whether a frame can be sent.
    fn room(&mut self) -> Room;

    /// A buffer for a frame of `len` bytes, at most the card's MTU and an
    /// Ethernet header. Its contents are arbitrary. Called only if there is
    /// [`Room`].
    fn buffer(&mut self, len: usize) -> &mut [u8];

    /// Says what the card is to do to the frame in the buffer that was handed
    /// out last. Called only if the card [offers](Nic::offloads) it.
    fn set_work(&mut self, work: Work) {
        let _ = work;
    }

    /// Queues the frame in the buffer that was handed out last, of the length
    /// asked for.
    fn commit(&mut self);
}

/// In place of a card.
struct NoCard {
    receive: Nothing,
    send: Nothing,
}

/// A queue of it.
struct Nothing;

impl Nic for NoCard {
    fn mac(&self) -> [u8; 6] {
        // Administered locally, as smoltcp wants to have one.
        [0x02, 0, 0, 0, 0, 0]
    }

    fn mtu(&self) -> usize {
        1500
    }

    fn split(&mut self) -> (&mut dyn ReceiveQueue, &mut dyn SendQueue) {
        (&mut self.receive, &mut self.send)
    }

    fn flush(&mut self) {}

    fn mask_interrupts(&mut self) {}

    fn unmask_interrupts(&mut self) -> Backlog {
        Backlog::Empty
    }

    fn interrupts(&self) -> u64 {
        // So that nobody looks whether any come.
        1
    }

    fn kick_again(&mut self) -> bool {
        false
    }
}

impl ReceiveQueue for Nothing {
    fn front(&mut self) -> Option<&[u8]> {
        None
    }

    fn release(&mut self) {}
}

impl SendQueue for Nothing {
    fn room(&mut self) -> Room {
        Room::Full
    }

    fn buffer(&mut self, _: usize) -> &mut [u8] {
        &mut []
    }

    fn commit(&mut self) {}
}

/// The place for an answer that is dropped, larger than any frame.
const DISCARDED_BYTES: usize = 2048;

/// What a poll of smoltcp sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// All frames.
    pub(super) frames: u64,
    /// Those of them that are not the socket's own.
    pub(super) aside: u64,
    /// Those of them that asked for a neighbour's address.
    pub(super) discovery: u64,
    /// Frames that found no room.
    pub(super) dropped: u64,
    /// Whether `marks` are of interest.
    pub(super) watched: bool,
    /// The ends of the TCP segment that was sent last.
    pub(super) marks: Option<Marks>,
    /// The end of the last TCP segment with data or a flag that counts.
    pub(super) end: Option<End>,
}

impl Sent {
    /// Counts a frame that is about to be sent, and makes it ready; what the card
    /// is to do to it. One for all that smoltcp sends.
    #[inline(never)]
    fn note(
        &mut self,
        medium: Medium,
        frame: &mut [u8],
        offloads: Offloads,
        payload_bytes: Option<NonZeroU16>,
    ) -> Option<Work> {
        let (purpose, work) = match medium {
            Medium::Ethernet => (purpose(frame), finish(frame, offloads, payload_bytes)),
            _ => (Purpose::Packet, None),
        };
        if self.watched {
            self.marks = Marks::of(medium, frame).or(self.marks);
        }
        self.end = recovery::end_of(frame).or(self.end);
        self.frames += 1;
        self.aside += u64::from(purpose != Purpose::Packet);
        self.discovery += u64::from(purpose == Purpose::Discovery);
        work
    }

    /// Counts what was sent later.
    pub(super) fn add(&mut self, later: Self) {
        self.frames += later.frames;
        self.aside += later.aside;
        self.discovery += later.discovery;
        self.dropped += later.dropped;
        self.end = later.end.or(self.end);
        self.marks = later.marks.or(self.marks);
    }
}

/// A [`Nic`] as smoltcp uses it, for one call.
pub(super) struct Port<'a> {
    receive: &'a mut dyn ReceiveQueue,
    send: &'a mut dyn SendQueue,
    mtu: usize,
    medium: Medium,
    offloads: Offloads,
    /// A frame to receive in place of the card's.
    replayed: Option<&'a [u8]>,
    pub(super) sent: Sent,
    /// The send queue had no room for a frame that a socket wanted to send.
    pub(super) exhausted: bool,
}

impl<'a> Port<'a> {
    pub(super) fn new(nic: &'a mut dyn Nic) -> Self {
        let mtu = nic.mtu();
        let offloads = nic.offloads();
        let (receive, send) = nic.split();
        Self {
            offloads,
            ..Self::over(receive, send, mtu, Medium::Ethernet)
        }
    }

    /// A port at two queues of frames, or of packets if the medium has none.
    pub(super) fn over(
        receive: &'a mut dyn ReceiveQueue,
        send: &'a mut dyn SendQueue,
        mtu: usize,
        medium: Medium,
    ) -> Self {
        Self {
            receive,
            send,
            mtu,
            medium,
            offloads: Offloads::default(),
            replayed: None,
            sent: Sent::default(),
            exhausted: false,
        }
    }

    /// A port at which `frame` arrives once more.
    pub(super) fn replaying(nic: &'a mut dyn Nic, frame: &'a [u8]) -> Self {
        Self {
            replayed: Some(frame),
            ..Self::new(nic)
        }
    }
}

pub(super) struct RxToken<'a>(&'a [u8]);

pub(super) struct TxToken<'a> {
    send: &'a mut dyn SendQueue,
    sent: &'a mut Sent,
    medium: Medium,
    max_bytes: usize,
    offloads: Offloads,
    /// What each part is to carry of a segment that the card cuts.
    payload_bytes: Option<NonZeroU16>,
}

impl phy::Device for Port<'_> {
    type RxToken<'b>
        = RxToken<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = TxToken<'b>
    where
        Self: 'b;

    fn receive(&mut self, _: Instant) -> Option<(RxToken<'_>, TxToken<'_>)> {
        let frame = match self.replayed {
            Some(frame) => frame,
            None => self.receive.front()?,
        };
        let answer = TxToken {
            send: self.send,
            sent: &mut self.sent,
            medium: self.medium,
            max_bytes: self.mtu + header_bytes(self.medium),
            offloads: self.offloads,
            payload_bytes: None,
        };
        Some((RxToken(frame), answer))
    }

    fn transmit(&mut self, _: Instant) -> Option<TxToken<'_>> {
        if self.send.room() == Room::Full {
            self.exhausted = true;
            return None;
        }
        Some(TxToken {
            send: self.send,
            sent: &mut self.sent,
            medium: self.medium,
            max_bytes: self.mtu + header_bytes(self.medium),
            offloads: self.offloads,
            payload_bytes: None,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = self.medium;
        capabilities.max_transmission_unit = self.mtu + header_bytes(self.medium);
        capabilities.checksum = left_to_smoltcp();
        capabilities.segmentation.tcpv4 = self.offloads.segments_bytes;
        capabilities
    }
}

impl phy::RxToken for RxToken<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let max_bytes = match (self.payload_bytes, self.offloads.segments_bytes) {
            (Some(_), Some(bytes)) => bytes.get(),
            _ => self.max_bytes,
        };
        if len > max_bytes || self.send.room() == Room::Full {
            return self.discard(len, f);
        }
        let buffer = self.send.buffer(len);
        let result = f(buffer);
        let work = self
            .sent
            .note(self.medium, buffer, self.offloads, self.payload_bytes);
        if let Some(work) = work {
            self.send.set_work(work);
        }
        self.send.commit();
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.payload_bytes = meta.segmentation_offload_size;
    }
}

/// The checksums that smoltcp makes and looks at: not those of TCP and UDP,
/// which the card may finish, and which never leave the guest where there is
/// none.
pub(super) fn left_to_smoltcp() -> ChecksumCapabilities {
    let mut checksums = ChecksumCapabilities::default();
    checksums.tcp = phy::Checksum::None;
    checksums.udp = phy::Checksum::None;
    checksums
}

/// Finishes the checksum of TCP or UDP in a frame, or has the card do it.
fn finish(frame: &mut [u8], offloads: Offloads, payload_bytes: Option<NonZeroU16>) -> Option<Work> {
    let place = Place::of(frame)?;
    if !offloads.checksums {
        place.finish(frame);
        return None;
    }
    let checksum = place.prepare(frame);
    let cut = payload_bytes.map(|payload_bytes| Cut {
        // At most 134 bytes.
        header_bytes: place.header_bytes(frame) as u16,
        payload_bytes: payload_bytes.get(),
    });
    Some(Work { checksum, cut })
}

/// What stands before a packet.
pub(super) fn header_bytes(medium: Medium) -> usize {
    match medium {
        Medium::Ethernet => ETHERNET_HEADER_BYTES,
        _ => 0,
    }
}

/// What a frame is to the socket that smoltcp was polled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A packet of the socket, or an answer.
    Packet,
    /// It asks for a neighbour's address: by ARP, or by a neighbour solicitation
    /// of IPv6 (RFC 4861 §4.3), which smoltcp sends without extension headers.
    Discovery,
    /// It tells routers of multicast groups, by IGMP or, behind an extension
    /// header, by MLD.
    Report,
}

fn purpose(frame: &[u8]) -> Purpose {
    match frame.get(12..14) {
        Some([0x08, 0x00]) if frame.get(23) == Some(&2) => Purpose::Report,
        Some([0x08, 0x06]) => Purpose::Discovery,
        Some([0x86, 0xdd]) => match (frame.get(20), frame.get(54)) {
            (Some(0), _) => Purpose::Report,
            (Some(58), Some(135)) => Purpose::Discovery,
            _ => Purpose::Packet,
        },
        _ => Purpose::Packet,
    }
}

impl TxToken<'_> {
    /// An answer for which there is no room: made, since smoltcp must have a
    /// place for it, and dropped. The peer asks again.
    #[cold]
    fn discard<R>(self, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.sent.dropped += 1;
        // An answer is hardly longer than its question, so this does it: peers
        // must not make the stack allocate where that cannot fail.
        let mut place = [0; DISCARDED_BYTES];
        match place.get_mut(..len) {
            Some(place) => f(place),
            None => f(&mut alloc::vec![0; len]),
        }
    }
}
