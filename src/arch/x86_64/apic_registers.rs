//! The encodings of the local and the I/O APIC (Intel SDM vol. 3 ch. 11; Intel
//! 82093AA datasheet). Pure, so that they are tested on the host.

use crate::arch::Message;

/// A register of the local APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Register {
    Id = 0x20,
    TaskPriority = 0x80,
    EndOfInterrupt = 0xb0,
    Spurious = 0xf0,
    LvtTimer = 0x320,
    LvtPerformance = 0x340,
    LvtLint0 = 0x350,
    LvtError = 0x370,
    TimerInitialCount = 0x380,
    TimerCurrentCount = 0x390,
    TimerDivide = 0x3e0,
}

impl Register {
    /// The offset in the memory-mapped registers of the xAPIC mode.
    pub(super) const fn offset(self) -> usize {
        self as usize
    }

    /// The model-specific register of the x2APIC mode.
    pub(super) const fn msr(self) -> u32 {
        0x800 + (self as u32 >> 4)
    }
}

/// The bit that keeps a local vector or a pin from interrupting.
pub(super) const MASKED: u32 = 1 << 16;
/// The spurious vector register's bit that turns the local APIC on.
pub(super) const ENABLE: u32 = 1 << 8;
/// The timer's divider: by 16.
pub(super) const DIVIDE_BY_16: u32 = 0b0011;
/// What [`DIVIDE_BY_16`] divides by.
pub(super) const DIVISOR: u64 = 16;

/// The deadline timer's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerMode {
    /// Counts down from the initial count once.
    OneShot,
    /// Waits for the time-stamp counter to reach a value.
    TscDeadline,
}

/// The timer's local vector entry.
pub(super) const fn lvt_timer(vector: u8, mode: TimerMode) -> u32 {
    let mode = match mode {
        TimerMode::OneShot => 0b00,
        TimerMode::TscDeadline => 0b10,
    };
    vector as u32 | mode << 17
}

/// The local APIC's id in the id register.
pub(super) const fn apic_id(register: u32, x2apic: bool) -> u32 {
    if x2apic { register } else { register >> 24 }
}

/// The I/O APIC's register that holds the lower half of a pin's entry; the
/// upper half follows.
pub(super) const fn pin_register(pin: u8) -> u32 {
    0x10 + 2 * pin as u32
}

/// The number of pins in the I/O APIC's version register.
pub(super) const fn pins(version: u32) -> u32 {
    (version >> 16 & 0xff) + 1
}

/// The bit that makes a pin level-triggered.
const LEVEL: u32 = 1 << 15;

/// The lower half of the entry of a pin that raises nothing. It is
/// level-triggered already: a pin that is not forgets what is asserted while it
/// is masked.
pub(super) const MASKED_PIN: u32 = MASKED | LEVEL;

/// A pin's entry, both halves: fixed delivery of `vector` to one local APIC,
/// level-triggered and active high, as QEMU's interrupt router drives PCI's.
pub(super) const fn pin_entry(vector: u8, apic_id: u8) -> [u32; 2] {
    [vector as u32 | LEVEL, (apic_id as u32) << 24]
}

/// The message by which a device raises `vector` at one local APIC, once for
/// each write (Intel SDM vol. 3, 11.11); `None` for an id that does not fit.
pub(super) const fn message(vector: u8, apic_id: u32) -> Option<Message> {
    if apic_id > 0xff {
        return None;
    }
    Some(Message {
        address: 0xfee0_0000 | (apic_id as u64) << 12,
        data: vector as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_registers_lie_where_the_manual_says() {
        assert_eq!(Register::EndOfInterrupt.offset(), 0xb0);
        assert_eq!(Register::EndOfInterrupt.msr(), 0x80b);
        assert_eq!(Register::Id.msr(), 0x802);
        assert_eq!(Register::TaskPriority.msr(), 0x808);
        assert_eq!(Register::Spurious.msr(), 0x80f);
        assert_eq!(Register::LvtTimer.msr(), 0x832);
        assert_eq!(Register::LvtPerformance.msr(), 0x834);
        assert_eq!(Register::LvtLint0.msr(), 0x835);
        assert_eq!(Register::LvtError.msr(), 0x837);
        assert_eq!(Register::TimerInitialCount.msr(), 0x838);
        assert_eq!(Register::TimerCurrentCount.msr(), 0x839);
        assert_eq!(Register::TimerDivide.msr(), 0x83e);
    }

    #[test]
    fn the_timers_entry() {
        assert_eq!(lvt_timer(0x50, TimerMode::OneShot), 0x50);
        assert_eq!(lvt_timer(0x50, TimerMode::TscDeadline), 0x4_0050);
    }

    #[test]
    fn the_id_is_in_the_upper_bits_or_alone() {
        assert_eq!(apic_id(0x0300_0000, false), 3);
        assert_eq!(apic_id(0x0000_0103, true), 0x103);
    }

    #[test]
    fn the_io_apics_pins() {
        assert_eq!(pin_register(0), 0x10);
        assert_eq!(pin_register(23), 0x3e);
        assert_eq!(pins(0x0017_0020), 24);
        assert_eq!(MASKED_PIN, 0x1_8000);
        assert_eq!(pin_entry(0x3b, 2), [0x803b, 0x0200_0000]);
    }

    #[test]
    fn a_message_names_the_core_and_the_vector() {
        let to = |address, data| Some(Message { address, data });
        assert_eq!(message(0x48, 0), to(0xfee0_0000, 0x48));
        assert_eq!(message(0x4f, 0xff), to(0xfeef_f000, 0x4f));
        assert_eq!(message(0x48, 0x100), None);
    }
}
