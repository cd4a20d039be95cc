//! Devices: which handlers a line of the I/O APIC calls, and the order in which
//! they see memory.

use core::hint::black_box;
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicUsize, fence};

use super::{InterruptMutex, clock, io_apic, vectors};
use crate::arch::IrqError;

/// How many devices can share a line.
const SHARED: usize = 4;

static LINES: [Line; vectors::DEVICE_COUNT as usize] = [const { Line::new() }; _];

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
        Self(
            [const {
                Handler {
                    function: AtomicPtr::new(ptr::null_mut()),
                    context: AtomicUsize::new(0),
                }
            }; SHARED],
        )
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
    let place = places.find(|place| place.function.load(Relaxed).is_null());
    let place = place.ok_or(IrqError::LineFull)?;
    place.context.store(context, Relaxed);
    place.function.store(handler as *mut (), Relaxed);
    io_apic::enable(line, vectors::DEVICES + line);
    Ok(())
}

/// Calls the handlers of `vector`; whether there are any.
pub(super) fn on_interrupt(vector: u8) -> bool {
    let line = vector.wrapping_sub(vectors::DEVICES);
    let Some(line) = LINES.get(usize::from(line)) else {
        return false;
    };
    let mut found = false;
    for handler in &line.0 {
        let function = handler.function.load(Relaxed);
        if function.is_null() {
            break;
        }
        // SAFETY: `register_irq` stored a function of this type.
        let function: fn(usize) = unsafe { transmute(function) };
        function(handler.context.load(Relaxed));
        found = true;
    }
    found
}
