//! MSI-X: interrupts by messages that a PCI device writes (PCI Local Bus
//! Specification 3.0, 6.8.2).
//!
//! ```text
//!   the device's queue ── vector ──▶ entry of the table: address, data ── write ──▶ local APIC
//! ```
//!
//! The table is in one of the device's windows. Each entry is a message of its
//! own, so its handler knows the cause, shares it with nobody, and need not ask
//! the device.

use core::ptr::NonNull;

use pci_types::capability::MsixCapability;

use super::Error;
use super::pci::{Function, Registers};
use crate::arch::Message;

/// An entry: the message's address, low and high half, its data, and the mask.
type Entry = [u32; 4];

/// The entry's mask, open.
const OPEN: u32 = 0;

/// Where a device's table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Which base address register's window it is in, if there is such a one.
    bar: u8,
    offset: u64,
    entries: u16,
}

impl Place {
    fn of(capability: &MsixCapability) -> Self {
        Self {
            bar: capability.table_bar(),
            offset: capability.table_offset().into(),
            entries: capability.table_size(),
        }
    }

    fn bytes(self) -> u64 {
        u64::from(self.entries) * size_of::<Entry>() as u64
    }
}

/// The messages of a device.
#[derive(Debug)]
pub(super) struct Msix {
    capability: MsixCapability,
    table: NonNull<Entry>,
    entries: u16,
}

impl Msix {
    /// Those of a device; none are sent yet.
    ///
    /// # Errors
    ///
    /// [`Error::NoInterrupt`] if it has none, [`Error::Faulty`] or
    /// [`Error::Unreachable`] if the table is not where it should be.
    pub(super) fn open(function: Function) -> Result<Self, Error> {
        let capability = function.msix().ok_or(Error::NoInterrupt)?;
        let place = Place::of(&capability);
        let table = function.map(place.bar, place.offset, place.bytes())?;
        let table = table.cast::<Entry>();
        if !table.is_aligned() {
            return Err(Error::Faulty);
        }
        Ok(Self {
            capability,
            table,
            entries: place.entries,
        })
    }

    /// How many messages there can be.
    pub(super) fn entries(&self) -> u16 {
        self.entries
    }

    /// Sets a message.
    ///
    /// # Panics
    ///
    /// Panics if there is no such entry.
    pub(super) fn set(&mut self, entry: u16, message: Message) {
        assert!(entry < self.entries, "the table has no entry {entry}");
        // SAFETY: within the table, which is mapped for good.
        let place = unsafe { self.table.add(entry.into()) }.cast::<u32>();
        for (field, value) in encode(message).into_iter().enumerate() {
            // SAFETY: within the entry; what it makes the device write is an
            // interrupt, for which there is a handler.
            unsafe { place.add(field).write_volatile(value.to_le()) };
        }
    }

    /// Makes the device interrupt by messages, and no more by its line.
    pub(super) fn enable(&mut self) {
        self.capability.set_function_mask(false, Registers);
        self.capability.set_enabled(true, Registers);
    }

    /// Makes the device interrupt by its line again.
    pub(super) fn disable(&mut self) {
        self.capability.set_enabled(false, Registers);
    }
}

/// The entry that sends `message`; its mask is written last.
fn encode(message: Message) -> Entry {
    let Message { address, data } = message;
    [address as u32, (address >> 32) as u32, data, OPEN]
}

#[cfg(test)]
mod tests {
    use pci_types::capability::PciCapability;
    use pci_types::{ConfigRegionAccess, EndpointHeader, PciAddress, PciHeader};

    use super::*;

    /// A device whose only capability is for messages.
    #[derive(Clone, Copy)]
    struct Device {
        control: u16,
        table: u32,
        /// Where its list of capabilities goes on.
        next: u8,
    }

    const AT: u16 = 0x40;

    impl ConfigRegionAccess for Device {
        unsafe fn read(&self, _: PciAddress, offset: u16) -> u32 {
            match offset {
                0x04 => 1 << 20, // There is a list,
                0x34 => AT.into(),
                AT => 0x11 | u32::from(self.next) << 8 | u32::from(self.control) << 16,
                0x44 => self.table,
                _ => 0,
            }
        }

        unsafe fn write(&self, _: PciAddress, _: u16, _: u32) {}
    }

    fn place(device: Device) -> Place {
        let header = PciHeader::new(PciAddress::new(0, 0, 0, 0));
        let header = EndpointHeader::from_header(header, device).expect("it is an endpoint");
        match header.capabilities(device).next() {
            Some(PciCapability::MsiX(capability)) => Place::of(&capability),
            _ => panic!("there is a capability for messages"),
        }
    }

    #[test]
    fn the_capability_says_where_the_table_is() {
        let device = Device {
            control: 3,
            table: 0x2001,
            next: 0,
        };
        let expected = Place {
            bar: 1,
            offset: 0x2000,
            entries: 4,
        };
        assert_eq!(place(device), expected);
        assert_eq!(expected.bytes(), 64);
    }

    #[test]
    fn no_capability_is_too_odd_to_be_read() {
        for (control, table) in [(0, 0), (0xffff, u32::MAX), (0x8000, 7), (0x7ff, 6)] {
            let place = place(Device {
                control,
                table,
                next: 0x40, // Around and around.
            });
            // What is no window and what lies beyond it is refused by `map`.
            assert!((1..=2048).contains(&place.entries), "never none");
            assert!(place.bytes() <= 32 << 10);
            assert!(place.offset.is_multiple_of(8) && place.bar <= 7);
        }
    }

    #[test]
    fn an_entry_is_the_message_with_its_mask_open() {
        let message = Message {
            address: 0x1_fee0_1000,
            data: 0x48,
        };
        assert_eq!(encode(message), [0xfee0_1000, 1, 0x48, 0]);
    }
}
