//! Finding devices on the PCI bus.

use core::ptr::NonNull;

use virtio_drivers::transport::DeviceType;
use virtio_drivers::transport::pci::bus::{
    BarInfo, Command, ConfigurationAccess, DeviceFunction, DeviceFunctionInfo, HeaderType,
    PCI_CAP_ID_VNDR, PciRoot,
};
use virtio_drivers::transport::pci::{PciTransport, VIRTIO_PCI_CAP_ISR_CFG, virtio_device_type};

use super::Error;
use super::dma::Machine;
use crate::arch;

/// The configuration registers, by way of the arch.
#[derive(Debug)]
struct Registers;

impl ConfigurationAccess for Registers {
    fn read_word(&self, at: DeviceFunction, offset: u8) -> u32 {
        arch::pci_read(at.bus, at.device, at.function, offset)
    }

    fn write_word(&mut self, at: DeviceFunction, offset: u8, value: u32) {
        // SAFETY: written are, by this module and `virtio-drivers`, the command
        // register of a device that is about to be driven, and its base address
        // registers, to find out their size, with decoding off.
        unsafe { arch::pci_write(at.bus, at.device, at.function, offset, value) }
    }

    unsafe fn unsafe_clone(&self) -> Self {
        Self
    }
}

/// A function of a device on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    at: DeviceFunction,
}

/// A virtio device that is ready to be driven.
#[derive(Debug)]
pub(super) struct VirtioDevice {
    pub(super) transport: PciTransport,
    /// The register that tells why the device interrupts, and by being read
    /// takes the interrupt back (virtio 1.3 §4.1.4.5).
    pub(super) interrupt_status: NonNull<u8>,
    /// The interrupt line that the firmware has set up.
    pub(super) interrupt_line: u8,
}

/// Calls `visit` with every function of every device, in the order of the bus,
/// bridges followed.
fn for_each(mut visit: impl FnMut(DeviceFunction, &DeviceFunctionInfo)) {
    let root = PciRoot::new(Registers);
    let mut seen = [false; 256];
    let mut found = [0_u8; 256];
    let (mut next, mut end) = (0, 1); // Bus 0 is found to begin with.
    seen[0] = true;
    while next < end {
        for (at, info) in root.enumerate_bus(found[next]) {
            visit(at, &info);
            if info.header_type == HeaderType::PciPciBridge {
                // PCI-to-PCI Bridge Specification 1.2, 3.2.5.3.
                let behind = (Registers.read_word(at, 0x18) >> 8) as u8;
                if !seen[usize::from(behind)] {
                    seen[usize::from(behind)] = true;
                    found[end] = behind;
                    end += 1;
                }
            }
        }
        next += 1;
    }
}

/// The first virtio device of a type, and how many more there are.
pub(super) fn find_virtio(wanted: DeviceType) -> Option<(Function, usize)> {
    let mut first = None;
    let mut count = 0;
    for_each(|at, info| {
        if virtio_device_type(info) == Some(wanted) {
            first.get_or_insert(Function { at });
            count += 1;
        }
    });
    first.map(|function| (function, count - 1))
}

impl Function {
    /// Makes the device answer to its registers and write to memory.
    pub(super) fn open_virtio(self) -> Result<VirtioDevice, Error> {
        let mut root = PciRoot::new(Registers);
        let bars = root.bars(self.at).map_err(|_| Error::Faulty)?;
        for bar in bars.iter().flatten() {
            map(bar)?;
        }
        let (_, command) = root.get_status_command(self.at);
        let command = command | Command::MEMORY_SPACE | Command::BUS_MASTER;
        root.set_command(self.at, command - Command::INTERRUPT_DISABLE);
        let interrupt_status = self.interrupt_status(&root, &bars)?;
        let transport =
            PciTransport::new::<Machine, _>(&mut root, self.at).map_err(|_| Error::Faulty)?;
        Ok(VirtioDevice {
            transport,
            interrupt_status,
            // PCI Local Bus Specification 3.0, 6.2.4.
            interrupt_line: Registers.read_word(self.at, 0x3c) as u8,
        })
    }

    fn interrupt_status(
        self,
        root: &PciRoot<Registers>,
        bars: &[Option<BarInfo>; 6],
    ) -> Result<NonNull<u8>, Error> {
        let capability = root
            .capabilities(self.at)
            .filter(|capability| capability.id == PCI_CAP_ID_VNDR)
            .find(|capability| (capability.private_header >> 8) as u8 == VIRTIO_PCI_CAP_ISR_CFG)
            .ok_or(Error::Faulty)?;
        let field = |offset: u8| {
            let offset = capability.offset.checked_add(offset).ok_or(Error::Faulty)?;
            Ok::<_, Error>(Registers.read_word(self.at, offset))
        };
        let bar = field(4)? as u8;
        let offset = u64::from(field(8)?);
        let Some(Some(BarInfo::Memory { address, size, .. })) = bars.get(usize::from(bar)) else {
            return Err(Error::Faulty);
        };
        if offset >= *size {
            return Err(Error::Faulty);
        }
        // SAFETY: it lies in a device's window, as just checked.
        unsafe { arch::map_device_memory(address + offset, 1) }.ok_or(Error::Unreachable)
    }
}

/// Maps a device's window, so that it can be reached later without fail.
fn map(bar: &BarInfo) -> Result<(), Error> {
    let BarInfo::Memory { address, size, .. } = *bar else {
        return Ok(());
    };
    if address == 0 {
        return Ok(()); // Not set up; if it is needed, opening the device fails.
    }
    let bytes = usize::try_from(size).map_err(|_| Error::Unreachable)?;
    // SAFETY: a base address register says that the range belongs to a device.
    unsafe { arch::map_device_memory(address, bytes) }
        .map(drop)
        .ok_or(Error::Unreachable)
}
