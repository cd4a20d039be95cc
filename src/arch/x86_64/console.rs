//! The registers of the serial port that the console writes to.

use uart_16550::backend::Backend;
use x86_64::instructions::port::Port;

/// The first serial port.
pub(super) const PORT: u16 = 0x3f8;

/// The registers of the first serial port.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsolePort {
    _private: (),
}

impl ConsolePort {
    /// The first serial port.
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

// A port of eight registers, each at its own I/O port.
impl Backend for ConsolePort {
    unsafe fn read(&mut self, register: u8) -> u8 {
        // SAFETY: the ports are those of a serial port, or of nothing; reading
        // them concerns no other device.
        unsafe { Port::new(PORT + u16::from(register)).read() }
    }

    unsafe fn write(&mut self, register: u8, value: u8) {
        // SAFETY: as in `read`; the serial port's interrupts go to the old
        // interrupt controller, which is masked.
        unsafe { Port::new(PORT + u16::from(register)).write(value) }
    }
}
