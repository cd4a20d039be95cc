//! What the driver of the network card takes per frame, over a card in memory
//! that asks for no notifications.

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use firstpoll::drivers::Error;
use firstpoll::drivers::transport::{Areas, Transport};
use firstpoll::drivers::virtio_net::{Acknowledge, Interrupt, VirtioNet};
use firstpoll::println;
use virtio::net::{F as NetF, Hdr};
use virtio::{DeviceStatus, F};

use crate::client::STACK_MAC;
use crate::count::{each, instructions};

const RECEIVE: usize = 0;
const SEND: usize = 1;

/// The places of each queue.
const PLACES: u16 = 256;

/// The frames of each measurement.
const FRAMES: u64 = 4096;

const FRAME_BYTES: usize = 142;

/// Prints the instructions per frame that comes and goes back, in turns of one
/// frame and of many, each turn with the interrupts off and on again.
pub fn count() {
    println!("card_frame {}", per_frame(1));
    println!("card_frame_by_32 {}", per_frame(32));
}

fn per_frame(turn: u64) -> u64 {
    let (mut driver, card) = start();
    let mut total = 0;
    // The first round warms up, and brings buffers into use.
    for round in 0..2 {
        total = 0;
        for _ in 0..FRAMES / turn {
            card.borrow_mut().receive(turn);
            let start = instructions();
            let done = pass(&mut driver);
            total += instructions() - start;
            assert_eq!((done, card.borrow_mut().sent()), (turn, turn), "{round}");
        }
    }
    each(total, FRAMES)
}

/// What a poll of the network task does with the card, without the copying.
fn pass(driver: &mut VirtioNet<Registers>) -> u64 {
    driver.mask_interrupts();
    let mut frames = 0;
    let (receive, send) = driver.queues();
    while let Some(frame) = receive.front() {
        if !send.has_room() {
            break;
        }
        let len = frame.len();
        core::hint::black_box(send.buffer(len));
        send.commit();
        receive.release();
        frames += 1;
    }
    driver.flush();
    assert!(!driver.unmask_interrupts());
    frames
}

fn start() -> (VirtioNet<Registers>, Rc<RefCell<Card>>) {
    let card = Rc::new(RefCell::new(Card::default()));
    let status = NonNull::from(Box::leak(Box::new(0_u8)));
    // SAFETY: it lives for ever.
    let interrupt = unsafe { Interrupt::new(Acknowledge::ByRead(status)) };
    let registers = Registers {
        card: Rc::clone(&card),
        status: Cell::new(DeviceStatus::empty()),
    };
    let driver = VirtioNet::new(registers, interrupt).expect("the card is good");
    (driver, card)
}

/// The card's far side.
#[derive(Default)]
struct Card([Option<Queue>; 2]);

/// A queue, as the device sees it.
struct Queue {
    areas: Areas,
    next_available: u16,
    next_used: u16,
}

impl Card {
    /// Uses `count` receive buffers.
    fn receive(&mut self, count: u64) {
        let queue = self.0[RECEIVE].as_mut().expect("the driver has set it up");
        for _ in 0..count {
            assert!(queue.is_waiting(), "the driver gave no buffers back");
            queue.use_next((size_of::<Hdr>() + FRAME_BYTES) as u32);
        }
    }

    /// Uses what was sent; how much there was.
    fn sent(&mut self) -> u64 {
        let queue = self.0[SEND].as_mut().expect("the driver has set it up");
        let mut count = 0;
        while queue.is_waiting() {
            queue.use_next(0);
            count += 1;
        }
        count
    }
}

impl Queue {
    fn is_waiting(&self) -> bool {
        let index = self.areas.available as usize + 2;
        let index = core::ptr::with_exposed_provenance::<u16>(index);
        // SAFETY: the driver has set the queue up.
        unsafe { index.read_volatile() != self.next_available }
    }

    fn use_next(&mut self, len: u32) {
        let available = usize::from(self.next_available % PLACES);
        let used = usize::from(self.next_used % PLACES);
        self.next_available = self.next_available.wrapping_add(1);
        self.next_used = self.next_used.wrapping_add(1);
        let id = self.areas.available as usize + 4 + 2 * available;
        let index = self.areas.used as usize + 2;
        let place = self.areas.used as usize + 4 + 8 * used;
        let id = core::ptr::with_exposed_provenance::<u16>(id);
        let place = core::ptr::with_exposed_provenance_mut::<u32>(place);
        let index = core::ptr::with_exposed_provenance_mut::<u16>(index);
        // SAFETY: the driver has set the queue up, and made the buffer known.
        unsafe {
            place.write_volatile(u32::from(id.read_volatile()));
            place.add(1).write_volatile(len);
            index.write_volatile(self.next_used);
        }
    }
}

/// The card's near side.
struct Registers {
    card: Rc<RefCell<Card>>,
    status: Cell<DeviceStatus>,
}

impl Transport for Registers {
    fn status(&self) -> DeviceStatus {
        self.status.get()
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.status.set(status);
    }

    fn device_features(&mut self) -> F {
        F::VERSION_1 | F::EVENT_IDX | NetF::MAC.into()
    }

    fn set_driver_features(&mut self, _: F) {}

    fn max_queue_size(&mut self, _: u16) -> u16 {
        PLACES
    }

    fn set_queue(&mut self, queue: u16, areas: Areas) -> Result<(), Error> {
        self.card.borrow_mut().0[usize::from(queue)] = Some(Queue {
            areas,
            next_available: 0,
            next_used: 0,
        });
        Ok(())
    }

    fn notify(&mut self, _: u16) {}

    fn config_generation(&self) -> u8 {
        0
    }

    fn config_u8(&self, offset: usize) -> Result<u8, Error> {
        STACK_MAC.get(offset).copied().ok_or(Error::Faulty)
    }

    fn config_u16(&self, _: usize) -> Result<u16, Error> {
        Err(Error::Faulty)
    }
}
