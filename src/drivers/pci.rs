//! Finding devices on the PCI bus, and their registers.

use core::ptr::NonNull;

use pci_types::capability::{MsixCapability, PciCapability, PciCapabilityAddress};
use pci_types::{
    CommandRegister, ConfigRegionAccess, EndpointHeader, HeaderType, PciAddress, PciHeader,
};
use virtio::Id;

use super::Error;
use crate::arch;

/// Virtio devices have this vendor (virtio 1.3 §4.1.2).
const VIRTIO_VENDOR: u16 = 0x1af4;

/// No list of capabilities is longer: each has four bytes at least.
const MAX_CAPABILITIES: usize = 64;

/// The base address registers of a function.
const BARS: usize = 6;

/// The configuration registers, by way of the arch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers;

impl ConfigRegionAccess for Registers {
    unsafe fn read(&self, at: PciAddress, offset: u16) -> u32 {
        arch::pci_read(at.bus(), at.device(), at.function(), offset as u8)
    }

    unsafe fn write(&self, at: PciAddress, offset: u16, value: u32) {
        // SAFETY: what the register does to the device is the caller's contract.
        unsafe { arch::pci_write(at.bus(), at.device(), at.function(), offset as u8, value) }
    }
}

/// A function of a device on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    at: PciAddress,
}

/// The addresses that a device answers for, by one of its base address registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    address: u64,
    bytes: u64,
}

/// What a device answers for, by the base address register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows([Option<Window>; BARS]);

impl Window {
    /// The address of the `bytes` from `offset`.
    fn part(self, offset: u64, bytes: u64) -> Result<u64, Error> {
        let end = offset.checked_add(bytes).ok_or(Error::Faulty)?;
        if bytes == 0 || end > self.bytes {
            return Err(Error::Faulty);
        }
        let address = self.address.checked_add(offset);
        address.ok_or(Error::Unreachable)
    }
}

/// Calls `visit` with every function of every device, in the order of the bus,
/// bridges followed.
fn for_each(mut visit: impl FnMut(Function)) {
    let mut seen = [false; 256];
    let mut found = [0_u8; 256];
    let (mut next, mut end) = (0, 1); // Bus 0 is found to begin with.
    seen[0] = true;
    while next < end {
        for device in 0..32 {
            let mut functions = 1;
            let mut function = 0;
            while function < functions {
                let at = PciAddress::new(0, found[next], device, function);
                let header = PciHeader::new(at);
                function += 1;
                if header.id(Registers).0 == u16::MAX {
                    continue; // Nobody answers.
                }
                if header.has_multiple_functions(Registers) {
                    functions = 8;
                }
                visit(Function { at });
                if header.header_type(Registers) == HeaderType::PciPciBridge {
                    // PCI-to-PCI Bridge Specification 1.2, 3.2.5.3.
                    let behind = (Function { at }.read(0x18) >> 8) as u8;
                    if !seen[usize::from(behind)] {
                        seen[usize::from(behind)] = true;
                        found[end] = behind;
                        end += 1;
                    }
                }
            }
        }
        next += 1;
    }
}

/// The first virtio device of a type, and how many more there are. Where there
/// is no bus, none is scanned.
pub(super) fn find_virtio(wanted: Id) -> Option<(Function, usize)> {
    if !arch::has_pci() {
        return None;
    }
    let mut first = None;
    let mut count = 0;
    for_each(|function| {
        if function.virtio_id() == Some(wanted) {
            first.get_or_insert(function);
            count += 1;
        }
    });
    first.map(|function| (function, count - 1))
}

impl Function {
    fn read(self, offset: u8) -> u32 {
        arch::pci_read(self.at.bus(), self.at.device(), self.at.function(), offset)
    }

    fn endpoint(self) -> Option<EndpointHeader> {
        EndpointHeader::from_header(PciHeader::new(self.at), Registers)
    }

    /// What kind of virtio device it is, if it is one.
    fn virtio_id(self) -> Option<Id> {
        let (vendor, device) = PciHeader::new(self.at).id(Registers);
        let id = match device {
            _ if vendor != VIRTIO_VENDOR => return None,
            // Transitional devices say it elsewhere.
            0x1000..0x1040 => self.endpoint()?.subsystem(Registers).0,
            0x1040..0x1080 => device - 0x1040,
            _ => return None,
        };
        u8::try_from(id).ok().map(Id::from)
    }

    /// Makes the device answer to its registers, write to memory and interrupt.
    pub(super) fn enable(self) {
        let on = CommandRegister::MEMORY_ENABLE | CommandRegister::BUS_MASTER_ENABLE;
        PciHeader::new(self.at).update_command(Registers, |command| {
            (command | on) - CommandRegister::INTERRUPT_DISABLE
        });
    }

    fn capabilities(self) -> impl Iterator<Item = PciCapability> {
        let header = self.endpoint().into_iter();
        let all = header.flat_map(|header| header.capabilities(Registers));
        all.take(MAX_CAPABILITIES)
    }

    /// Where the capabilities are that only the vendor can explain.
    pub(super) fn vendor_capabilities(self) -> impl Iterator<Item = PciCapabilityAddress> {
        self.capabilities()
            .filter_map(|capability| match capability {
                PciCapability::Vendor(at) => Some(at),
                _ => None,
            })
    }

    /// How the device interrupts by messages, if it can.
    pub(super) fn msix(self) -> Option<MsixCapability> {
        self.capabilities().find_map(|capability| match capability {
            PciCapability::MsiX(msix) => Some(msix),
            _ => None,
        })
    }

    /// The interrupt line that the firmware has set up.
    pub(super) fn interrupt_line(self) -> u8 {
        // PCI Local Bus Specification 3.0, 6.2.4.
        self.read(0x3c) as u8
    }

    /// What the device answers for, by each of its base address registers.
    ///
    /// Its memory is switched off once for all of them: a machine in software
    /// works its address space out anew each time, which takes a millisecond.
    pub(super) fn windows(self) -> Windows {
        let mut header = PciHeader::new(self.at);
        let command = header.command(Registers);
        let off = CommandRegister::MEMORY_ENABLE;
        header.update_command(Registers, |command| command - off);
        let windows = Windows(core::array::from_fn(|bar| self.window(bar as u8)));
        header.update_command(Registers, |_| command);
        windows
    }

    /// The window of a base address register, `None` if it has none in memory
    /// (PCI Local Bus Specification 3.0, 6.2.5.1). Its memory is switched off
    /// meanwhile.
    fn window(self, bar: u8) -> Option<Window> {
        const LAST: u8 = BARS as u8 - 1;
        const IN_PORTS: u32 = 1;
        const IS_WIDE: u32 = 0b100;
        const FLAGS: u32 = 0xf;
        let offset = 0x10 + 4 * bar;
        let low = self.read(offset);
        let is_wide = low & IS_WIDE != 0;
        if low & IN_PORTS != 0 || (is_wide && bar == LAST) {
            return None;
        }
        let high = if is_wide { self.read(offset + 4) } else { 0 };
        let size_of = |offset: u8, value: u32| {
            // SAFETY: the device does not answer at what is written meanwhile,
            // and gets back what was there.
            unsafe {
                Registers.write(self.at, offset.into(), u32::MAX);
                let mask = self.read(offset);
                Registers.write(self.at, offset.into(), value);
                mask
            }
        };
        let mask_low = size_of(offset, low) & !FLAGS;
        let mask_high = if is_wide {
            size_of(offset + 4, high)
        } else {
            u32::MAX
        };
        let mask = u64::from(mask_high) << 32 | u64::from(mask_low);
        let window = Window {
            address: u64::from(high) << 32 | u64::from(low & !FLAGS),
            bytes: mask.wrapping_neg(),
        };
        (mask_low != 0 || is_wide)
            .then_some(window)
            .filter(|window| window.address != 0 && window.bytes != 0)
    }
}

impl Windows {
    /// Maps `bytes` from `offset` of the window of a base address register.
    pub(super) fn map(&self, bar: u8, offset: u64, bytes: u64) -> Result<NonNull<u8>, Error> {
        let window = self.0.get(usize::from(bar)).copied().flatten();
        let address = window.ok_or(Error::Faulty)?.part(offset, bytes)?;
        let bytes = usize::try_from(bytes).map_err(|_| Error::Unreachable)?;
        // SAFETY: the base address register says that the range is the device's.
        unsafe { arch::map_device_memory(address, bytes) }.ok_or(Error::Unreachable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_lies_within_the_window() {
        let window = Window {
            address: 0xfebd_1000,
            bytes: 0x1000,
        };
        assert_eq!(window.part(0, 0x1000), Ok(0xfebd_1000));
        assert_eq!(window.part(0xff0, 16), Ok(0xfebd_1ff0));
        for (offset, bytes) in [
            (0, 0),
            (0, 0x1001),
            (0xff8, 16),
            (0x1000, 16),
            (u64::MAX, 16),
        ] {
            let part = window.part(offset, bytes);
            assert_eq!(part, Err(Error::Faulty), "{bytes} at {offset}");
        }
    }
}
