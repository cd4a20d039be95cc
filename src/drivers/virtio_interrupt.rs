//! The interrupt of a virtio device, by whatever way it comes.
//!
//! | way | what the handler does to the device |
//! |---|---|
//! | a line of the PCI bus | reads a status register, which also takes the interrupt back (virtio 1.3 §4.1.4.5) |
//! | a message of the PCI device | nothing: it has one for its queues each and one for its configuration |
//! | a line of a virtio-mmio device | reads a status register and writes to another what it has seen (§4.2.2) |
//!
//! Then it wakes a slot. A change of the device's configuration sets a flag
//! too, for whoever is woken.

use alloc::boxed::Box;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use virtio::mmio::InterruptStatus;

use crate::arch::{self, IrqError, Message};
use crate::sync::WakerSlot;

/// How a device takes back an interrupt of its line.
#[derive(Clone, Copy, Debug)]
pub enum Acknowledge {
    /// When its status register is read.
    ByRead(NonNull<u8>),
    /// When what was read from the one register is written to the other.
    ByWrite {
        /// Says why the device interrupts.
        status: NonNull<u32>,
        /// Takes back what is written to it.
        acknowledge: NonNull<u32>,
    },
}

/// What a device's interrupt handler has: lives for ever.
#[derive(Debug)]
pub struct Interrupt {
    acknowledge: Acknowledge,
    count: AtomicU64,
    config_changed: AtomicBool,
    waker: WakerSlot,
}

// SAFETY: the registers may be used from anywhere; the rest is atomic.
unsafe impl Sync for Interrupt {}

impl Interrupt {
    /// Of a device whose line's interrupts are taken back like this.
    ///
    /// # Safety
    ///
    /// The registers can be read and written at any time from now on.
    pub unsafe fn new(acknowledge: Acknowledge) -> &'static Self {
        Box::leak(Box::new(Self {
            acknowledge,
            count: AtomicU64::new(0),
            config_changed: AtomicBool::new(false),
            waker: WakerSlot::new(),
        }))
    }

    /// What an interrupt of the device's line does: acknowledges it and wakes.
    /// The line may be shared, and the interrupt another device's.
    ///
    /// # Interrupt safety
    ///
    /// For interrupt handlers.
    pub fn handle(&self) {
        let status = InterruptStatus::from_bits_retain(self.acknowledge());
        if status.is_empty() {
            return;
        }
        if status.contains(InterruptStatus::CONFIGURATION_CHANGE_NOTIFICATION) {
            self.config_changed.store(true, Ordering::Release);
        }
        self.wake();
    }

    /// What a message of one of the device's queues does: wakes.
    ///
    /// # Interrupt safety
    ///
    /// For interrupt handlers.
    pub fn on_queue(&self) {
        self.wake();
    }

    /// What the message of the device's configuration does: notes it, and wakes.
    ///
    /// # Interrupt safety
    ///
    /// For interrupt handlers.
    pub fn on_config(&self) {
        self.config_changed.store(true, Ordering::Release);
        self.wake();
    }

    /// Makes the device's line call [`handle`](Self::handle).
    pub(super) fn register_line(&'static self, line: u8) -> Result<(), IrqError> {
        // SAFETY: the context is that of an interrupt, as are those below.
        let handler = |context| unsafe { Self::at(context) }.handle();
        arch::register_irq(line, handler, self.context())
    }

    /// A message that calls [`on_queue`](Self::on_queue).
    pub(super) fn register_queue(&'static self) -> Result<Message, IrqError> {
        // SAFETY: as above.
        let handler = |context| unsafe { Self::at(context) }.on_queue();
        arch::register_message(handler, self.context())
    }

    /// A message that calls [`on_config`](Self::on_config).
    pub(super) fn register_config(&'static self) -> Result<Message, IrqError> {
        // SAFETY: as above.
        let handler = |context| unsafe { Self::at(context) }.on_config();
        arch::register_message(handler, self.context())
    }

    /// What a handler of it is called with.
    fn context(&'static self) -> usize {
        core::ptr::from_ref(self).expose_provenance()
    }

    /// The interrupt that has this context.
    ///
    /// # Safety
    ///
    /// There is one.
    unsafe fn at(context: usize) -> &'static Self {
        // SAFETY: the context is the address of a `'static`.
        unsafe { &*core::ptr::with_exposed_provenance(context) }
    }

    /// Takes the interrupt back; why there is one, nothing if there is none.
    fn acknowledge(&self) -> u8 {
        match self.acknowledge {
            // SAFETY: readable at any time by the contract of `new`.
            Acknowledge::ByRead(status) => unsafe { status.read_volatile() },
            Acknowledge::ByWrite {
                status,
                acknowledge,
            } => {
                // SAFETY: as above.
                let seen = u32::from_le(unsafe { status.read_volatile() });
                if seen != 0 {
                    // SAFETY: writable at any time by the contract of `new`.
                    unsafe { acknowledge.write_volatile(seen.to_le()) };
                }
                seen as u8
            }
        }
    }

    fn wake(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Who is woken.
    pub fn waker(&self) -> &WakerSlot {
        &self.waker
    }

    /// How many interrupts there were.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether the device's configuration, for example the state of its link,
    /// may have changed since the last call.
    pub fn take_config_change(&self) -> bool {
        // Mostly it has not: a look is cheaper than an exchange.
        self.config_changed.load(Ordering::Relaxed)
            && self.config_changed.swap(false, Ordering::Acquire)
    }
}
