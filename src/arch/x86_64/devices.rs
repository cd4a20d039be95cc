//! Devices: which handlers a line of the I/O APIC or a message calls, and the
//! order in which they see memory.

use core::hint::black_box;
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicUsize, fence};

use super::apic_registers::message;
use super::{InterruptMutex, apic, clock, io_apic, vectors};
use crate::arch::{IrqError, Message};

/// How many devices can share a line.
const SHARED: usize = 4;

static LINES: [Line; vectors::DEVICE_COUNT as usize] = [const { Line::new() }; _];

/// The handler of each message.
static MESSAGES: [Handler; vectors::MESSAGE_COUNT as usize] = [const { Handler::new() }; _];

/// Held while a handler is added.
static REGISTERING: InterruptMutex<()> = InterruptMutex::new(());

/// The handlers of one line, those that are there first.
struct Line([Handler; SHARED]);

struct Handler {
    /// A `fn(usize)`, or null.
    function: AtomicPtr<()>,
    context: AtomicUsize,
}

impl Line {
    const fn new() -> Self {
        Self([const { Handler::new() }; SHARED])
    }
}

impl Handler {
    const fn new() -> Self {
        Self {
            function: AtomicPtr::new(ptr::null_mut()),
            context: AtomicUsize::new(0),
        }
    }

    fn is_free(&self) -> bool {
        self.function.load(Relaxed).is_null()
    }

    fn set(&self, handler: fn(usize), context: usize) {
        self.context.store(context, Relaxed);
        self.function.store(handler as *mut (), Relaxed);
    }

    /// Calls it; whether it is there.
    #[inline]
    fn call(&self) -> bool {
        let function = self.function.load(Relaxed);
        if function.is_null() {
            return false;
        }
        // SAFETY: `set` stored a function of this type.
        let function: fn(usize) = unsafe { transmute(function) };
        function(self.context.load(Relaxed));
        true
    }
}

/// Orders what was written to memory before what is read from it next, also as
/// devices see it.
///
/// The fence does it on a processor. QEMU before 8.1, when there can be one
/// processor only, leaves it out of the code that it makes, and the host's
/// processor reorders; reading the time-stamp counter leaves that code, which
/// orders too.
#[inline]
pub fn device_barrier() {
    fence(SeqCst);
    black_box(clock::ticks());
}

/// Calls `handler` with `context` at each interrupt of `line`, a pin of the I/O
/// APIC that PCI devices share: level-triggered, so the handler makes its
/// device take the interrupt back. Enables the line.
///
/// On the machines that QEMU emulates, the number in a PCI device's interrupt
/// line register is its pin.
///
/// # Errors
///
/// If there is no such line, or if too many devices share it.
///
/// # Interrupt safety
///
/// The handler runs as an interrupt: it may wake, and nothing else that takes
/// long or locks.
pub fn register_irq(line: u8, handler: fn(usize), context: usize) -> Result<(), IrqError> {
    let _registering = REGISTERING.lock();
    let handlers = LINES.get(usize::from(line)).ok_or(IrqError::NoSuchLine)?;
    if u32::from(line) >= io_apic::pins() {
        return Err(IrqError::NoSuchLine);
    }
    let mut places = handlers.0.iter();
    let place = places.find(|place| place.is_free());
    place.ok_or(IrqError::LineFull)?.set(handler, context);
    io_apic::enable(line, vectors::DEVICES + line);
    Ok(())
}

/// Reserves a message for good and calls `handler` with `context` whenever a
/// device writes it. Nobody else's does, and each write is one interrupt, so
/// the handler has nothing to take back.
///
/// # Errors
///
/// If none is left.
///
/// # Interrupt safety
///
/// As for [`register_irq`].
pub fn register_message(handler: fn(usize), context: usize) -> Result<Message, IrqError> {
    let _registering = REGISTERING.lock();
    let mut places = (vectors::MESSAGES..).zip(&MESSAGES);
    let free = places.find(|(_, place)| place.is_free());
    let (vector, place) = free.ok_or(IrqError::NoMessage)?;
    let message = message(vector, apic::id()).ok_or(IrqError::NoMessage)?;
    place.set(handler, context);
    Ok(message)
}

/// Calls the handlers of `vector`; whether there are any.
pub(super) fn on_interrupt(vector: u8) -> bool {
    let number = usize::from(vector.wrapping_sub(vectors::DEVICES));
    match (LINES.get(number), number.checked_sub(LINES.len())) {
        (Some(line), _) => {
            let called = line.0.iter().take_while(|handler| handler.call());
            called.count() > 0
        }
        (None, Some(number)) => MESSAGES.get(number).is_some_and(Handler::call),
        (None, None) => false,
    }
}
