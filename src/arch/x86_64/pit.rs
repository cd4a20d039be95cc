//! The programmable interval timer, as a reference for calibration (Intel 8254
//! datasheet). Its channel 2 drives the speaker and raises no interrupt.

use x86_64::instructions::port::Port;

/// The frequency that it counts at.
pub(super) const HZ: u64 = 1_193_182;

const CHANNEL_2: u16 = 0x42;
const COMMAND: u16 = 0x43;
/// Gates of channel 2 and the speaker.
const GATES: u16 = 0x61;
const GATE_2: u8 = 1 << 0;
const SPEAKER: u8 = 1 << 1;
/// Channel 2, both bytes, counts down once and goes on through zero.
const COUNT_DOWN: u8 = 0b1011_0000;
/// Keeps the count of channel 2 for reading.
const LATCH: u8 = 0b1000_0000;

/// Channel 2, counting down from its highest count and wrapping.
#[derive(Debug)]
pub(super) struct Pit {
    channel: Port<u8>,
    command: Port<u8>,
}

impl Pit {
    /// Starts the count.
    pub(super) fn start() -> Self {
        let mut gates = Port::<u8>::new(GATES);
        let mut pit = Self {
            channel: Port::new(CHANNEL_2),
            command: Port::new(COMMAND),
        };
        // SAFETY: the ports are the timer's on every PC and nothing elsewhere;
        // nobody else uses its channel 2.
        unsafe {
            let value = gates.read();
            gates.write(value & !SPEAKER | GATE_2);
            pit.command.write(COUNT_DOWN);
            pit.channel.write(u8::MAX);
            pit.channel.write(u8::MAX);
        }
        pit
    }

    /// Keeps the count as it is now.
    pub(super) fn latch(&mut self) {
        // SAFETY: as in `start`.
        unsafe { self.command.write(LATCH) };
    }

    /// The count that was kept.
    pub(super) fn latched(&mut self) -> u16 {
        // SAFETY: as in `start`.
        let bytes = unsafe { [self.channel.read(), self.channel.read()] };
        u16::from_le_bytes(bytes)
    }
}
