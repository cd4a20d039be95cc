//! The machine below: clock, deadline timer, interrupts, and where code runs.
//!
//! This is the only place in the crate that looks at the target. [`x86_64`]
//! is the kernel's side; [`host`] is a stand-in on `std` with simulated
//! interrupts and a clock that tests move by hand; the model is for loom. All
//! export the same names, and know nothing of what lies above: what an
//! interrupt calls is a table of [`Handlers`] that the runtime registers.
//!
//! [`x86_64`]: self
//! [`host`]: self

pub(crate) mod atomic;
mod deadlines;
mod instant;

#[cfg(all(
    not(firstpoll_loom),
    not(any(target_os = "none", firstpoll_arch = "x86_64"))
))]
pub mod host;
#[cfg(all(
    not(firstpoll_loom),
    not(any(target_os = "none", firstpoll_arch = "x86_64"))
))]
use host as imp;

#[cfg(any(target_os = "none", firstpoll_arch = "x86_64"))]
pub mod x86_64;
#[cfg(any(target_os = "none", firstpoll_arch = "x86_64"))]
use x86_64 as imp;

/// What of the kernel's side is arithmetic, to be tested on the host.
#[cfg(all(
    test,
    not(firstpoll_loom),
    not(any(target_os = "none", firstpoll_arch = "x86_64"))
))]
#[allow(dead_code)]
mod x86_64 {
    mod address_space;
    mod apic_registers;
    mod calendar;
    mod calibration;
    mod exit;
    mod memory_map;
    mod page_pool;
    mod scale;
}

#[cfg(firstpoll_loom)]
pub mod model;
#[cfg(firstpoll_loom)]
use model as imp;

use core::fmt;

pub use deadlines::{Armed, Due, Slot};
#[cfg(not(firstpoll_loom))]
pub use imp::{
    Backtrace, ClockStart, ConsolePort, ReservedMemory, begin_clock, command_line, core_state,
    device_barrier, enable_interrupts, exit, has_pci, interrupt_counts, map_device_memory, memory,
    pci_read, pci_write, random, register_irq, register_message, start_clock, start_interrupts,
    start_memory, start_traps, ticks, ticks_at_entry, time_of, wall_clock,
};
pub use imp::{
    InterruptMutex, MAX_CORES, arm_by, core_id, deadline, interrupts_enabled, is_armed_by,
    is_current_core, mask_interrupts, notify, now, now_on, run_bottom_half, set_deadline,
    set_handlers, wait_for_interrupt,
};
pub use instant::Instant;

/// The exit status of a panic or an exception, as Rust programs have it.
pub const FAILURE_STATUS: u8 = 101;

/// What the arch calls from interrupts, registered once by the runtime.
///
/// All but `bottom_half` run with interrupts masked.
#[derive(Clone, Copy, Debug)]
pub struct Handlers {
    /// Before any interrupt's own handler; what it returns goes to `leave`.
    pub enter: fn() -> u32,
    /// After any interrupt's own handler.
    pub leave: fn(u32),
    /// A timer interrupt. Returns whether the bottom half shall run.
    pub timer: fn(Due) -> bool,
    /// The bottom half, called after the end of the timer interrupt with
    /// interrupts enabled, on a stack of its own.
    pub bottom_half: fn(),
}

/// The number of interrupts since the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterruptCounts {
    /// Of the deadline timer.
    pub timer: u64,
    /// Of devices.
    pub device: u64,
    /// Raised by mistake, or that nobody handles.
    pub spurious: u64,
}

/// The memory that the program can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The size of the heap.
    pub heap_bytes: usize,
    /// How much of it is allocated.
    pub allocated_bytes: usize,
}

/// The part of the heap that [`ReservedMemory::commit`] leaves alone: one in so
/// many. Where it is refused, data has to wait; most others that find no memory
/// end the program.
const UNCOMMITTED: usize = 64;

impl Memory {
    /// Whether nothing is left for [`ReservedMemory`].
    #[cfg_attr(firstpoll_loom, expect(dead_code))]
    pub(crate) fn is_exhausted(self) -> bool {
        self.heap_bytes.saturating_sub(self.allocated_bytes) < self.heap_bytes / UNCOMMITTED
    }
}

/// The size of a page of [`ReservedMemory`].
pub const PAGE_BYTES: usize = 4096;

/// There is no memory for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no memory")
    }
}

impl core::error::Error for NoMemory {}

/// What a device writes, and where, to interrupt without a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where the device writes to.
    pub address: u64,
    /// What it writes.
    pub data: u32,
}

/// Why a device's interrupt cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrqError {
    /// The machine has no such line.
    NoSuchLine,
    /// Too many devices share the line.
    LineFull,
    /// All messages are taken, or the core cannot be reached by one.
    NoMessage,
}

impl fmt::Display for IrqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchLine => "the machine has no such interrupt line",
            Self::LineFull => "too many devices share the interrupt line",
            Self::NoMessage => "no interrupt message is left for the device",
        })
    }
}

impl core::error::Error for IrqError {}
