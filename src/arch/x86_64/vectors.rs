//! Which interrupt vector is whose.

/// Where the old interrupt controllers, which are masked, put what they still
/// raise by mistake.
pub(super) const PIC: u8 = 0x20;
/// The number of vectors of the old interrupt controllers.
pub(super) const PIC_COUNT: u8 = 16;
/// The first of the vectors of devices, one per pin of the I/O APIC.
pub(super) const DEVICES: u8 = 0x30;
/// The number of pins that there are vectors for.
pub(super) const DEVICE_COUNT: u8 = 24;
/// The first of the vectors of messages that devices write.
pub(super) const MESSAGES: u8 = DEVICES + DEVICE_COUNT;
/// The number of messages that there are vectors for.
pub(super) const MESSAGE_COUNT: u8 = TIMER - MESSAGES;
/// The deadline timer, above the devices: what a higher vector interrupts is up
/// to the local APIC, but of two that wait, the higher comes first.
pub const TIMER: u8 = 0x50;
/// What the local APIC raises when an interrupt goes away before it is taken.
pub(super) const SPURIOUS: u8 = 0xff;
