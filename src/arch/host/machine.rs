//! What the facade has of a machine beyond clock and interrupts, as a process
//! has it: mostly nothing.

use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;
use core::time::Duration;
use std::io::Write;
use std::time::SystemTime;

use uart_16550::backend::Backend;

use crate::arch::{InterruptCounts, IrqError, Memory, Message};

/// Nothing to do: the operating system handles exceptions.
pub fn start_traps() {}

/// Nothing to do: the process has a heap.
pub fn start_memory() {}

/// Nothing to do: interrupts are simulated.
pub fn start_interrupts() {}

/// Nothing to do: interrupts are enabled until they are masked.
pub fn enable_interrupts() {}

/// The kernel command line, of which a process has none.
pub fn command_line() -> &'static [u8] {
    &[]
}

/// Ends the process with `status`.
pub fn exit(status: u8) -> ! {
    std::process::exit(status.into())
}

/// How many interrupts there have been.
pub fn interrupt_counts() -> InterruptCounts {
    InterruptCounts {
        timer: super::timer_interrupts(),
        ..InterruptCounts::default()
    }
}

std::thread_local! {
    static MEMORY: Cell<Memory> = const { Cell::new(Memory { heap_bytes: 0, allocated_bytes: 0 }) };
}

/// Zeros, as the process's heap is not ours, or what [`set_memory`] said.
pub fn memory() -> Memory {
    MEMORY.get()
}

/// Makes [`memory`] say this on the calling core.
pub fn set_memory(memory: Memory) {
    MEMORY.set(memory);
}

/// There are no devices whose interrupts could be registered; tests raise
/// interrupts with [`interrupt`](super::interrupt).
///
/// # Errors
///
/// Always [`IrqError::NoSuchLine`].
pub fn register_irq(_line: u8, _handler: fn(usize), _context: usize) -> Result<(), IrqError> {
    Err(IrqError::NoSuchLine)
}

/// There are no devices that could interrupt by messages.
///
/// # Errors
///
/// Always [`IrqError::NoMessage`].
pub fn register_message(_handler: fn(usize), _context: usize) -> Result<Message, IrqError> {
    Err(IrqError::NoMessage)
}

/// Orders what was written to memory before what is read from it next.
pub fn device_barrier() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

/// There is no device memory.
///
/// # Safety
///
/// None is needed here.
pub unsafe fn map_device_memory(_address: u64, _bytes: usize) -> Option<NonNull<u8>> {
    None
}

/// There is no PCI bus.
pub fn has_pci() -> bool {
    false
}

/// Reads as where no PCI device is.
pub fn pci_read(_bus: u8, _device: u8, _function: u8, _offset: u8) -> u32 {
    u32::MAX
}

/// There is no PCI device to write to.
///
/// # Safety
///
/// None is needed here.
pub unsafe fn pci_write(_bus: u8, _device: u8, _function: u8, _offset: u8, _value: u32) {}

/// Random numbers for tests, which differ from run to run.
pub fn random() -> Option<u64> {
    use std::hash::{BuildHasher, RandomState};
    Some(RandomState::new().hash_one(0))
}

/// The time since the beginning of 1970, as the host has it.
pub fn wall_clock() -> Option<Duration> {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()
}

/// A backtrace that is empty: panics on the host print their own.
#[derive(Clone, Copy, Debug)]
pub struct Backtrace;

impl Backtrace {
    /// From the caller of this function outwards.
    pub fn here() -> Self {
        Self
    }
}

impl fmt::Display for Backtrace {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// The state of the calling core, for reports.
pub fn core_state() -> CoreState {
    CoreState
}

/// See [`core_state`].
#[derive(Clone, Copy, Debug)]
pub struct CoreState;

impl fmt::Display for CoreState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {:?}", std::thread::current().name())
    }
}

/// A serial port whose output is standard output.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsolePort {
    scratch: u8,
    line_control: u8,
}

impl ConsolePort {
    /// The first serial port.
    pub const fn new() -> Self {
        Self {
            scratch: 0,
            line_control: 0,
        }
    }
}

const DATA: u8 = 0;
const LINE_CONTROL: u8 = 3;
const LINE_STATUS: u8 = 5;
const SCRATCH: u8 = 7;
/// The line control bit that puts the divisor in the place of the data.
const DIVISOR_ACCESS: u8 = 1 << 7;
/// The transmitter's two bits: empty, and ready for more.
const TRANSMITTER_EMPTY: u8 = 0b0110_0000;

impl Backend for ConsolePort {
    unsafe fn read(&mut self, register: u8) -> u8 {
        match register {
            LINE_STATUS => TRANSMITTER_EMPTY,
            SCRATCH => self.scratch,
            _ => 0,
        }
    }

    unsafe fn write(&mut self, register: u8, value: u8) {
        match register {
            DATA if self.line_control & DIVISOR_ACCESS == 0 => {
                // A console that is gone is no reason to fail.
                let _ = std::io::stdout().write_all(&[value]);
            }
            LINE_CONTROL => self.line_control = value,
            SCRATCH => self.scratch = value,
            _ => {}
        }
    }
}
