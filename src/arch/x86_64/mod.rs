//! The kernel's side of the arch facade: one core of an x86-64 PC.
//!
//! | file | what it holds |
//! |---|---|
//! | `boot` | the PVH entry point, long mode, what the loader says |
//! | `memory`, `memory_map`, `paging`, `stacks` | memory: free, mapped, heap, stacks |
//! | `gdt`, `interrupts`, `exceptions`, `vectors` | what the processor calls |
//! | `bottom_half` | the bottom half on its own stack |
//! | `apic`, `io_apic`, `pic`, `devices` | the interrupt controllers, devices' lines |
//! | `clock`, `calibration`, `scale`, `pit` | time |
//! | `rtc`, `calendar` | the date |
//! | `timer` | the deadline timer |
//! | `backtrace`, `exit`, `console`, `pci`, `random`, `cpu` | the rest of the machine |
//!
//! [`calibration`], [`scale`], [`calendar`], [`memory_map`], [`apic_registers`]
//! and [`exit`] are pure and tested on the host.

mod address_space;
mod apic;
mod apic_registers;
mod backtrace;
mod boot;
mod bottom_half;
mod calendar;
mod calibration;
mod clock;
mod console;
mod copy;
mod cpu;
mod devices;
mod emulator;
mod exceptions;
mod exit;
mod gdt;
mod interrupts;
mod io_apic;
mod memory;
mod memory_map;
mod page_pool;
mod paging;
mod pci;
mod pic;
mod pit;
mod random;
mod reserved;
mod rtc;
mod scale;
mod stacks;
mod timer;
pub mod vectors;

use core::arch::asm;
use core::fmt;

use x86_64::instructions::{self, interrupts as processor};

use super::Instant;

pub use backtrace::Backtrace;
pub use bottom_half::run_bottom_half;
pub use clock::{ClockStart, begin_clock, now, start_clock, ticks, ticks_at_entry, time_of};
pub use console::ConsolePort;
pub use devices::{device_barrier, register_irq, register_message};
pub use interrupts::{interrupt_counts, set_handlers, start_interrupts, start_traps};
pub use memory::{memory, start_memory};
pub use paging::map_device_memory;
pub use pci::{has_pci, pci_read, pci_write};
pub use random::random;
pub use reserved::ReservedMemory;
pub use rtc::wall_clock;
pub use timer::{arm_by, deadline, is_armed_by, set_deadline};

/// The number of cores that can use the executor.
pub const MAX_CORES: usize = 1;

/// A lock for what interrupt handlers share: it masks interrupts while it is
/// held. On one core, waiting for it would be for ever: that panics.
pub type InterruptMutex<T> = hermit_sync::InterruptOneShotMutex<T>;

/// The index of the calling core.
#[inline]
pub fn core_id() -> usize {
    0
}

/// Whether the caller runs on core `id`.
#[inline]
pub fn is_current_core(_id: usize) -> bool {
    true
}

/// The time on core `id`'s clock.
#[inline]
pub fn now_on(_id: usize) -> Instant {
    now()
}

/// Whether the calling core takes interrupts.
#[inline]
pub fn interrupts_enabled() -> bool {
    processor::are_enabled()
}

/// Makes the calling core take interrupts, for the end of the boot.
pub fn enable_interrupts() {
    processor::enable();
}

/// Masks interrupts until the guard is dropped.
#[must_use]
pub fn mask_interrupts() -> MaskGuard {
    let was_enabled = processor::are_enabled();
    processor::disable();
    MaskGuard { was_enabled }
}

/// Keeps interrupts masked; see [`mask_interrupts`].
#[derive(Debug)]
pub struct MaskGuard {
    was_enabled: bool,
}

impl Drop for MaskGuard {
    fn drop(&mut self) {
        if self.was_enabled {
            processor::enable();
        }
    }
}

/// Unmasks interrupts and halts until one has arrived, without a gap in which
/// one could be missed.
pub fn wait_for_interrupt(mask: MaskGuard) {
    core::mem::forget(mask);
    processor::enable_and_hlt();
}

/// Makes core `id`, which is not the caller's, notice new work if it is halted.
/// There is none but the caller's.
pub fn notify(_id: usize) {}

/// The kernel command line, as the loader passed it.
pub fn command_line() -> &'static [u8] {
    boot::command_line()
}

/// Ends the machine with `status`; what is above 0x6f becomes 0x6f.
pub fn exit(status: u8) -> ! {
    use instructions::port::Port;
    // SAFETY: the port is the exit device's or nobody's.
    unsafe { Port::new(exit::PORT).write(exit::code(status)) };
    // There is no such device: stay here for good.
    loop {
        processor::disable();
        instructions::hlt();
    }
}

/// The state of the calling core, for reports: interrupts, and which stack it
/// is on.
#[inline]
pub fn core_state() -> CoreState {
    let stack_pointer: u64;
    // SAFETY: only reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) stack_pointer, options(nomem, nostack)) };
    CoreState {
        interrupts_enabled: interrupts_enabled(),
        stack_pointer,
    }
}

/// See [`core_state`].
#[derive(Clone, Copy, Debug)]
pub struct CoreState {
    interrupts_enabled: bool,
    stack_pointer: u64,
}

impl fmt::Display for CoreState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mask = if self.interrupts_enabled {
            "enabled"
        } else {
            "masked"
        };
        write!(f, "interrupts {mask}")?;
        let address = self.stack_pointer;
        match stacks::all().iter().find(|stack| stack.holds(address)) {
            Some(stack) => {
                let used = stack.area.end - address;
                let all = stack.area.end - stack.area.start;
                write!(f, ", {used} of {all} bytes used of the {}", stack.name)
            }
            None => write!(f, ", stack pointer {address:#x} on no stack"),
        }
    }
}
