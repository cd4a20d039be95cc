//! A network card on a wire in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use firstpoll::arch::host;
use firstpoll::net::Device;
use firstpoll::net::device::{Backlog, Nic, ReceiveQueue, Room, SendQueue};
use firstpoll::sync::WakerSlot;

pub const STACK_MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];

#[derive(Default)]
struct Ends {
    to_stack: VecDeque<Vec<u8>>,
    to_peer: VecDeque<Vec<u8>>,
    unmasked: bool,
    /// Frames that the card can hold until the peer takes them.
    send_room: usize,
    interrupts: u64,
    /// The interrupt line is broken.
    dead_line: bool,
    link_is_down: bool,
    /// The card says that it has frames to send yet.
    is_slow: bool,
    /// How often the interrupts were turned on.
    unmasks: u64,
}

/// The wire, seen from its far end.
#[derive(Clone)]
pub struct Wire {
    ends: Arc<Mutex<Ends>>,
    interrupt: &'static WakerSlot,
}

impl Wire {
    /// A wire and the card at its near end.
    pub fn new() -> (Self, Device) {
        let ends = Arc::new(Mutex::new(Ends {
            send_room: 1024,
            ..Ends::default()
        }));
        let interrupt: &'static WakerSlot = Box::leak(Box::default());
        let card = Card {
            receive: Receive {
                ends: ends.clone(),
                front: None,
            },
            send: Send {
                ends: ends.clone(),
                buffer: Vec::new(),
            },
        };
        let wire = Self { ends, interrupt };
        let device = Device {
            nic: Box::new(card),
            interrupt,
        };
        (wire, device)
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap()
    }

    /// Puts a frame onto the wire, towards the stack.
    pub fn send(&self, frame: Vec<u8>) {
        let mut ends = self.ends();
        ends.to_stack.push_back(frame);
        self.raise(ends);
    }

    fn raise(&self, mut ends: MutexGuard<'_, Ends>) {
        if !ends.unmasked || ends.dead_line {
            return;
        }
        ends.interrupts += 1;
        drop(ends);
        let interrupt = self.interrupt;
        host::interrupt(|| interrupt.wake());
    }

    /// Takes the oldest frame that the stack has sent.
    pub fn receive(&self) -> Option<Vec<u8>> {
        let mut ends = self.ends();
        let was_full = ends.to_peer.len() >= ends.send_room;
        let frame = ends.to_peer.pop_front();
        if was_full {
            self.raise(ends);
        }
        frame
    }

    /// Whether frames wait for the stack.
    pub fn is_busy(&self) -> bool {
        !self.ends().to_stack.is_empty()
    }

    /// Limits how many frames the card holds until the peer takes them.
    pub fn set_send_room(&self, frames: usize) {
        let mut ends = self.ends();
        let was_full = ends.to_peer.len() >= ends.send_room;
        ends.send_room = frames;
        if was_full && ends.to_peer.len() < frames {
            self.raise(ends);
        }
    }

    /// Takes the link down, or up.
    pub fn set_link(&self, is_up: bool) {
        let mut ends = self.ends();
        ends.link_is_down = !is_up;
        ends.interrupts += 1;
        drop(ends);
        let interrupt = self.interrupt;
        host::interrupt(|| interrupt.wake());
    }

    /// Has the card say that it has frames to send yet.
    pub fn set_slow(&self) {
        self.ends().is_slow = true;
    }

    /// Breaks the interrupt line.
    pub fn kill_interrupts(&self) {
        self.ends().dead_line = true;
    }
}

struct Card {
    receive: Receive,
    send: Send,
}

struct Receive {
    ends: Arc<Mutex<Ends>>,
    front: Option<Vec<u8>>,
}

struct Send {
    ends: Arc<Mutex<Ends>>,
    buffer: Vec<u8>,
}

impl Nic for Card {
    fn mac(&self) -> [u8; 6] {
        STACK_MAC
    }

    fn mtu(&self) -> usize {
        1500
    }

    fn is_link_up(&mut self) -> bool {
        !self.send.ends.lock().unwrap().link_is_down
    }

    fn split(&mut self) -> (&mut dyn ReceiveQueue, &mut dyn SendQueue) {
        (&mut self.receive, &mut self.send)
    }

    fn flush(&mut self) {}

    fn mask_interrupts(&mut self) {
        self.send.ends.lock().unwrap().unmasked = false;
    }

    fn unmask_interrupts(&mut self) -> Backlog {
        let mut ends = self.send.ends.lock().unwrap();
        ends.unmasked = true;
        ends.unmasks += 1;
        if ends.to_stack.is_empty() && self.receive.front.is_none() {
            Backlog::Empty
        } else {
            Backlog::Waiting
        }
    }

    fn interrupts(&self) -> u64 {
        self.send.ends.lock().unwrap().interrupts
    }

    fn is_sending(&mut self) -> bool {
        self.send.ends.lock().unwrap().is_slow
    }

    fn kick_again(&mut self) -> bool {
        false
    }
}

impl ReceiveQueue for Receive {
    fn front(&mut self) -> Option<&[u8]> {
        if self.front.is_none() {
            self.front = self.ends.lock().unwrap().to_stack.pop_front();
        }
        self.front.as_deref()
    }

    fn release(&mut self) {
        assert!(self.front.take().is_some(), "nothing to release");
    }
}

impl SendQueue for Send {
    fn room(&mut self) -> Room {
        let ends = self.ends.lock().unwrap();
        if ends.to_peer.len() < ends.send_room {
            Room::Free
        } else {
            Room::Full
        }
    }

    fn buffer(&mut self, len: usize) -> &mut [u8] {
        self.buffer = vec![0xa5; len];
        &mut self.buffer
    }

    fn commit(&mut self) {
        let frame = std::mem::take(&mut self.buffer);
        self.ends.lock().unwrap().to_peer.push_back(frame);
    }
}
