//! Virtio devices whose registers have a place in memory (virtio 1.3 §4.2).
//!
//! Nothing can be asked where they are, so whoever made the machine says it. On
//! QEMU's `microvm` that is the kernel command line: QEMU adds an
//! [option](OPTION) for each device, as Linux understands it. A device tree or
//! ACPI tables could say it too; the former microvm does not pass on x86, and
//! the latter take a larger firmware, and a reader of their byte code here, for
//! the same three numbers.

use core::fmt;
use core::ptr::NonNull;
use core::str::FromStr;

use virtio::mmio::{
    DeviceRegisters, DeviceRegistersVolatileFieldAccess, DeviceRegistersVolatileWideFieldAccess,
    MAGIC_VALUE,
};
use virtio::{DeviceStatus, F, Id, le16, le32, le64, le128};
use volatile::VolatilePtr;

use super::Error;
use super::transport::{Areas, Transport, reset_at_last};
use super::virtio_interrupt::Acknowledge;
use crate::arch;

/// The option that says where a device is; there is one for each.
pub(crate) const OPTION: &str = "virtio_mmio.device";

/// Where the device's own configuration starts.
const CONFIG: usize = size_of::<DeviceRegisters>();

const INTERRUPT_STATUS: usize = 0x60;
const INTERRUPT_ACK: usize = 0x64;

/// The version of the interface, and the one from before virtio 1.0.
const VERSION: u32 = 2;
const LEGACY_VERSION: u32 = 1;

/// Where a device is: `<size>@<address>:<line>`, and perhaps `:<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    address: u64,
    bytes: usize,
    line: u8,
}

/// The words say of no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace;

impl FromStr for Place {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let (bytes, rest) = text.split_once('@').ok_or(NoPlace)?;
        let mut rest = rest.split(':');
        let address = rest.next().and_then(number).ok_or(NoPlace)?;
        let line = rest.next().and_then(number).ok_or(NoPlace)?;
        if rest.next().is_some_and(|id| number(id).is_none()) || rest.next().is_some() {
            return Err(NoPlace);
        }
        let place = Self {
            address,
            bytes: size(bytes).ok_or(NoPlace)?,
            line: line.try_into().map_err(|_| NoPlace)?,
        };
        let is_aligned = address.is_multiple_of(align_of::<DeviceRegisters>() as u64);
        let end = address.checked_add(place.bytes as u64);
        if address == 0 || !is_aligned || end.is_none() || place.bytes < CONFIG {
            return Err(NoPlace);
        }
        Ok(place)
    }
}

/// A number of bytes, with `K` or `M` behind it if it is of those.
fn size(text: &str) -> Option<usize> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix(['M', 'm']) {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    usize::try_from(number(digits)?).ok()?.checked_mul(unit)
}

/// A number, decimal or with `0x` before it.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // Which would take a sign, too.
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// The places that a kernel command line names. What is malformed is reported
/// when the options are checked at boot, and skipped here.
fn places(line: &[u8]) -> impl Iterator<Item = Place> {
    let words = line.split(u8::is_ascii_whitespace);
    words.filter_map(|word| {
        let (name, value) = str::from_utf8(word).ok()?.split_once('=')?;
        (name == OPTION).then(|| value.parse().ok())?
    })
}

/// A device that was found.
#[derive(Debug)]
pub(super) struct Found {
    registers: NonNull<DeviceRegisters>,
    place: Place,
}

/// A device that is ready to be driven.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) transport: MmioTransport,
    /// How an interrupt of the line is taken back.
    pub(super) acknowledge: Acknowledge,
    /// The pin of the I/O APIC.
    pub(super) line: u8,
}

/// A device's registers. When they are dropped, the device is reset.
#[derive(Debug)]
pub struct MmioTransport {
    registers: NonNull<DeviceRegisters>,
    /// The size of the device's own configuration.
    config_bytes: usize,
}

// SAFETY: the registers can be used from any core.
unsafe impl Send for MmioTransport {}

/// The first device of a type, and how many more there are.
pub(super) fn find(wanted: Id) -> Option<(Found, usize)> {
    let mut first = None;
    let mut count = 0;
    for found in places(arch::command_line()).filter_map(Found::at) {
        if found.registers().device_id().read() == wanted {
            first.get_or_insert(found);
            count += 1;
        }
    }
    first.map(|found| (found, count - 1))
}

impl Found {
    /// The device at a place, if there is one.
    fn at(place: Place) -> Option<Self> {
        // SAFETY: whoever made the machine says that a device is there. If
        // there is none, nobody is: memory is refused.
        let registers = unsafe { arch::map_device_memory(place.address, place.bytes) }?;
        let found = Self {
            registers: registers.cast(),
            place,
        };
        (found.registers().magic_value().read() == MAGIC_VALUE).then_some(found)
    }

    fn registers(&self) -> VolatilePtr<'_, DeviceRegisters> {
        // SAFETY: mapped for good, aligned and long enough.
        unsafe { VolatilePtr::new(self.registers) }
    }

    /// Makes the device ready to be driven.
    pub(super) fn open(self) -> Result<Device, Error> {
        match self.registers().version().read().to_ne() {
            VERSION => {}
            LEGACY_VERSION => return Err(Error::Legacy),
            _ => return Err(Error::Unsupported),
        }
        // SAFETY: both lie within the registers.
        let [status, acknowledge] = [INTERRUPT_STATUS, INTERRUPT_ACK]
            .map(|offset| unsafe { self.registers.byte_add(offset) }.cast());
        Ok(Device {
            transport: MmioTransport {
                registers: self.registers,
                config_bytes: self.place.bytes - CONFIG,
            },
            acknowledge: Acknowledge::ByWrite {
                status,
                acknowledge,
            },
            line: self.place.line,
        })
    }
}

impl MmioTransport {
    fn registers(&self) -> VolatilePtr<'_, DeviceRegisters> {
        // SAFETY: mapped for good, aligned and long enough.
        unsafe { VolatilePtr::new(self.registers) }
    }

    /// The field at `offset` of the device's own configuration.
    fn config<T>(&self, offset: usize) -> Result<NonNull<T>, Error> {
        let end = offset.checked_add(size_of::<T>()).ok_or(Error::Faulty)?;
        if end > self.config_bytes || !offset.is_multiple_of(align_of::<T>()) {
            return Err(Error::Faulty);
        }
        // SAFETY: within what is mapped, as just checked.
        Ok(unsafe { self.registers.byte_add(CONFIG + offset) }.cast())
    }
}

impl Transport for MmioTransport {
    fn status(&self) -> DeviceStatus {
        self.registers().status().read()
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.registers().status().write(status);
    }

    fn device_features(&mut self) -> F {
        let registers = self.registers();
        let half = |select| {
            registers.device_features_sel().write(le32::from_ne(select));
            u128::from(registers.device_features().read().to_ne())
        };
        F::from_bits_retain(le128::from_ne(half(0) | half(1) << 32))
    }

    fn set_driver_features(&mut self, features: F) {
        let features = features.bits().to_ne();
        let registers = self.registers();
        for (select, half) in [(0, features as u32), (1, (features >> 32) as u32)] {
            registers.driver_features_sel().write(le32::from_ne(select));
            registers.driver_features().write(le32::from_ne(half));
        }
    }

    fn max_queue_size(&mut self, queue: u16) -> u16 {
        let registers = self.registers();
        registers.queue_sel().write(le16::from_ne(queue));
        registers.queue_size_max().read().to_ne()
    }

    fn set_queue(&mut self, queue: u16, areas: Areas) -> Result<(), Error> {
        let registers = self.registers();
        registers.queue_sel().write(le16::from_ne(queue));
        registers.queue_size().write(le16::from_ne(areas.size));
        registers
            .queue_desc()
            .write(le64::from_ne(areas.descriptors));
        registers
            .queue_driver()
            .write(le64::from_ne(areas.available));
        registers.queue_device().write(le64::from_ne(areas.used));
        registers.queue_ready().write(true);
        Ok(())
    }

    fn notify(&mut self, queue: u16) {
        let queue = le32::from_ne(queue.into());
        self.registers().queue_notify().write(queue);
    }

    fn config_generation(&self) -> u8 {
        // Between two looks it does not go round.
        self.registers().config_generation().read().to_ne() as u8
    }

    fn config_u8(&self, offset: usize) -> Result<u8, Error> {
        let field = self.config::<u8>(offset)?;
        // SAFETY: a register of the device, mapped for good.
        Ok(unsafe { field.read_volatile() })
    }

    fn config_u16(&self, offset: usize) -> Result<u16, Error> {
        let field = self.config::<u16>(offset)?;
        // SAFETY: as above.
        Ok(u16::from_le(unsafe { field.read_volatile() }))
    }
}

impl Drop for MmioTransport {
    fn drop(&mut self) {
        reset_at_last(self);
    }
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no place of a device")
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_place_is_read_as_linux_reads_it() {
        for (text, address, bytes, line) in [
            ("512@0xfeb00e00:12", 0xfeb0_0e00, 512, 12),
            ("0x200@0xfeb00000:5:3", 0xfeb0_0000, 512, 5),
            ("4K@4096:0", 4096, 4096, 0),
            ("1M@0x100000:0x17", 0x10_0000, 1 << 20, 23),
        ] {
            let place = Place {
                address,
                bytes,
                line,
            };
            assert_eq!(text.parse(), Ok(place), "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in [
            "",
            "512",
            "512@",
            "512@0xfeb00000",
            "512@0xfeb00000:",
            "512@0xfeb00000:12:",
            "512@0xfeb00000:12:1:2",
            "512@0xfeb00000:256",
            "512@0xfeb00000:-1",
            "512@0xfeb00000:+1",
            "512@0xfeb00001:12",
            "512@0:12",
            "@0xfeb00000:12",
            "255@0xfeb00000:12",
            "99999999999999M@0xfeb00000:12",
            "512@0xffffffffffffff00:12",
            "512@0x1ffffffffffffffff:12",
            "0x@0xfeb00000:12",
            "512@0x0x10:12",
            "512@feb00000:12",
        ] {
            assert_eq!(text.parse::<Place>(), Err(NoPlace), "{text}");
        }
    }

    #[test]
    fn a_command_line_names_many_places() {
        let line = b"log=info virtio_mmio.device=512@0x1000:1 \xff virtio_mmio.device=x \
                     virtio_mmio.device=512@0x2000:2 xvirtio_mmio.device=512@0x3000:3";
        let found: Vec<_> = places(line).map(|place| place.line).collect();
        assert_eq!(found, [1, 2]);
    }
}
