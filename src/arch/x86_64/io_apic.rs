//! The I/O APIC, which routes devices' interrupts to the local APIC.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::apic_registers::{MASKED_PIN, pin_entry, pin_register, pins as pins_of};
use super::{InterruptMutex, apic, paging};

/// Where the first I/O APIC is on every PC and every machine of QEMU's.
const ADDRESS: u64 = 0xfec0_0000;
/// The registers: one selects, one is a window to what is selected.
const SELECT: usize = 0x00;
const WINDOW: usize = 0x10;
const REGISTERS_BYTES: usize = 0x20;
/// The register with the number of pins.
const VERSION: u32 = 1;
/// What absent hardware reads as.
const ABSENT: u32 = u32::MAX;

static IO_APIC: InterruptMutex<Option<IoApic>> = InterruptMutex::new(None);
static PINS: AtomicU32 = AtomicU32::new(0);

struct IoApic {
    registers: NonNull<u8>,
}

// SAFETY: the registers are the machine's, not one core's.
unsafe impl Send for IoApic {}

/// Finds the I/O APIC and masks all its pins. A machine without one works, but
/// for interrupts of devices.
pub(super) fn start() {
    // SAFETY: either an I/O APIC or nothing is there.
    let registers = unsafe { paging::map_device_memory(ADDRESS, REGISTERS_BYTES) };
    let Some(registers) = registers else {
        return;
    };
    let mut io_apic = IoApic { registers };
    let version = io_apic.read(VERSION);
    if version == ABSENT {
        return;
    }
    let count = pins_of(version);
    for pin in 0..count as u8 {
        io_apic.write(pin_register(pin), MASKED_PIN);
    }
    PINS.store(count, Relaxed);
    *IO_APIC.lock() = Some(io_apic);
}

/// The number of pins.
pub(super) fn pins() -> u32 {
    PINS.load(Relaxed)
}

/// Lets `pin` raise `vector` on this core.
pub(super) fn enable(pin: u8, vector: u8) {
    if let Some(io_apic) = &mut *IO_APIC.lock() {
        let [low, high] = pin_entry(vector, apic::id() as u8);
        io_apic.write(pin_register(pin) + 1, high);
        io_apic.write(pin_register(pin), low);
    }
}

impl IoApic {
    fn read(&mut self, register: u32) -> u32 {
        self.select(register);
        // SAFETY: the window is in the mapped registers.
        unsafe {
            self.registers
                .byte_add(WINDOW)
                .cast::<u32>()
                .read_volatile()
        }
    }

    fn write(&mut self, register: u32, value: u32) {
        self.select(register);
        // SAFETY: the window is in the mapped registers; all vectors that a pin
        // can be given have entries.
        unsafe {
            self.registers
                .byte_add(WINDOW)
                .cast::<u32>()
                .write_volatile(value)
        };
    }

    fn select(&mut self, register: u32) {
        // SAFETY: the selector is in the mapped registers.
        unsafe {
            self.registers
                .byte_add(SELECT)
                .cast::<u32>()
                .write_volatile(register)
        };
    }
}
