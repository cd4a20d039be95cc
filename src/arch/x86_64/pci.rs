//! PCI configuration space, through the two ports that every PC has for it
//! (PCI Local Bus Specification 3.0, 3.2.2.3.2).

use x86_64::instructions::port::Port;

use super::InterruptMutex;

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;
const ENABLE: u32 = 1 << 31;

/// The two ports belong together.
static PORTS: InterruptMutex<(Port<u32>, Port<u32>)> =
    InterruptMutex::new((Port::new(ADDRESS), Port::new(DATA)));

/// Whether the machine has the two ports: the one for addresses keeps what is
/// written to it, which costs no scan of the bus.
pub fn has_pci() -> bool {
    let (address, _) = &mut *PORTS.lock();
    // SAFETY: the port is that of the configuration mechanism or nobody's.
    unsafe {
        address.write(ENABLE);
        address.read() == ENABLE
    }
}

/// Reads the register of a PCI function at `offset`, a multiple of four. What
/// is not there reads as ones.
pub fn pci_read(bus: u8, device: u8, function: u8, offset: u8) -> u32 {
    let (address, data) = &mut *PORTS.lock();
    // SAFETY: the ports are those of the configuration mechanism; reads of
    // configuration space have no side effects.
    unsafe {
        address.write(select(bus, device, function, offset));
        data.read()
    }
}

/// Writes the register of a PCI function at `offset`, a multiple of four.
///
/// # Safety
///
/// What the register does to the device must be sound: base addresses and bus
/// mastering decide what memory the device answers for and writes to.
pub unsafe fn pci_write(bus: u8, device: u8, function: u8, offset: u8, value: u32) {
    let (address, data) = &mut *PORTS.lock();
    // SAFETY: the ports are those of the configuration mechanism; the rest is
    // this function's contract.
    unsafe {
        address.write(select(bus, device, function, offset));
        data.write(value);
    }
}

fn select(bus: u8, device: u8, function: u8, offset: u8) -> u32 {
    let [device, function] = [device & 0x1f, function & 0x7].map(u32::from);
    ENABLE | u32::from(bus) << 16 | device << 11 | function << 8 | u32::from(offset & 0xfc)
}
