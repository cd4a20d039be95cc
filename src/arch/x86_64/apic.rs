//! The local APIC, in xAPIC or x2APIC mode (Intel SDM vol. 3 ch. 11).

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use x86_64::registers::model_specific::Msr;

use super::apic_registers::{ENABLE, MASKED, Register, apic_id};
use super::{cpu, paging, vectors};

/// Where its registers are and whether it is on.
const BASE: Msr = Msr::new(0x1b);
const BASE_ENABLE: u64 = 1 << 11;
const BASE_X2APIC: u64 = 1 << 10;
const BASE_ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const REGISTERS_BYTES: usize = 4096;

/// The registers in memory; null in x2APIC mode, which has none there.
static REGISTERS: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Turns the local APIC on, with all its own sources masked but errors ignored
/// and nothing held back by priority.
///
/// # Panics
///
/// Panics if its registers cannot be mapped.
pub(super) fn start() {
    let mut base = BASE;
    // SAFETY: every 64-bit processor has this register.
    let value = unsafe { base.read() };
    if cpu::has_x2apic() || value & BASE_X2APIC != 0 {
        // SAFETY: the processor has the mode; nothing uses the registers in
        // memory yet.
        unsafe { base.write(value | BASE_ENABLE | BASE_X2APIC) };
    } else {
        // SAFETY: turns on, at the address where it is.
        unsafe { base.write(value | BASE_ENABLE) };
        // SAFETY: the local APIC's registers are there, and no memory.
        let registers = unsafe { paging::map_device_memory(value & BASE_ADDRESS, REGISTERS_BYTES) };
        let registers = registers.expect("the local APIC's registers can be mapped");
        REGISTERS.store(registers.as_ptr(), Relaxed);
    }
    for source in [
        Register::LvtTimer,
        Register::LvtPerformance,
        Register::LvtLint0,
        Register::LvtError,
    ] {
        write(source, MASKED);
    }
    write(Register::TaskPriority, 0);
    write(Register::Spurious, ENABLE | u32::from(vectors::SPURIOUS));
}

/// This core's id, which interrupts are sent to.
pub(super) fn id() -> u32 {
    apic_id(read(Register::Id), REGISTERS.load(Relaxed).is_null())
}

/// Ends the interrupt that is being handled.
#[inline]
pub(super) fn end_of_interrupt() {
    write(Register::EndOfInterrupt, 0);
}

/// Reads a register.
#[inline]
pub(super) fn read(register: Register) -> u32 {
    match NonNull::new(REGISTERS.load(Relaxed)) {
        // SAFETY: the offset is that of a register, in the mapped page.
        Some(registers) => unsafe {
            registers
                .byte_add(register.offset())
                .cast::<u32>()
                .read_volatile()
        },
        // SAFETY: without registers in memory the x2APIC mode is on, in which
        // these are the registers.
        None => unsafe { Msr::new(register.msr()).read() as u32 },
    }
}

/// Writes a register.
#[inline]
pub(super) fn write(register: Register, value: u32) {
    match NonNull::new(REGISTERS.load(Relaxed)) {
        // SAFETY: as in `read`; what is written concerns interrupts only, whose
        // entries are all in place.
        Some(registers) => unsafe {
            registers
                .byte_add(register.offset())
                .cast::<u32>()
                .write_volatile(value);
        },
        // SAFETY: as above.
        None => unsafe { Msr::new(register.msr()).write(value.into()) },
    }
}
