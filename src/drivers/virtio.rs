//! The machine's virtio devices, whichever way they are reached.
//!
//! | machine | where a device is | how it interrupts |
//! |---|---|---|
//! | QEMU's q35, pc | on the PCI bus, which is scanned: `virtio_pci` | by messages to the local APIC (`msix`), or else by its line of the I/O APIC, which it may share |
//! | QEMU's microvm | on the kernel command line: `virtio_mmio` | by its own line of the I/O APIC |
//!
//! A device that the command line names is preferred: then no bus is scanned.
//! `docs/machines.md` says more.

use virtio::{DeviceStatus, F, Id};

use super::Error;
use super::pci::{self, Function};
use super::transport::{Areas, Transport};
use super::virtio_interrupt::{Acknowledge, Interrupt};
use super::virtio_mmio;
use super::virtio_pci::{self, Cause};

pub use super::virtio_mmio::MmioTransport;
pub use super::virtio_pci::PciTransport;

/// A device that was found.
#[derive(Debug)]
pub(super) enum Found {
    Pci(Function),
    Mmio(virtio_mmio::Found),
}

/// A device that is ready to be driven.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) transport: AnyTransport,
    /// How an interrupt of the line is taken back.
    pub(super) acknowledge: Acknowledge,
    /// The pin of the I/O APIC.
    pub(super) line: u8,
}

/// A device's registers. When they are dropped, the device is reset.
#[derive(Debug)]
pub enum AnyTransport {
    /// On the PCI bus.
    Pci(PciTransport),
    /// At a place in memory.
    Mmio(MmioTransport),
}

/// The first device of a type, and how many more there are.
pub(super) fn find(wanted: Id) -> Result<(Found, usize), Error> {
    if let Some((found, others)) = virtio_mmio::find(wanted) {
        return Ok((Found::Mmio(found), others));
    }
    let (function, others) = pci::find_virtio(wanted).ok_or(Error::NotFound)?;
    Ok((Found::Pci(function), others))
}

impl Device {
    /// Chooses the best way to interrupt that the device has, for as many
    /// queues: messages, or else its line.
    pub(super) fn choose_interrupts(&mut self, queues: u16, interrupt: &'static Interrupt) {
        let AnyTransport::Pci(transport) = &mut self.transport else {
            return;
        };
        let chosen = transport.use_messages(queues, |cause| match cause {
            Cause::Config => interrupt.register_config(),
            Cause::Queue => interrupt.register_queue(),
        });
        match chosen {
            Ok(()) | Err(Error::NoInterrupt) => {}
            Err(error) => log::warn!("interrupts by messages: {error}"),
        }
    }
}

impl AnyTransport {
    /// How many messages the device interrupts by; none if by its line.
    pub(super) fn messages(&self) -> u16 {
        match self {
            Self::Pci(transport) => transport.messages(),
            Self::Mmio(_) => 0,
        }
    }
}

impl Found {
    /// Makes the device ready to be driven.
    pub(super) fn open(self) -> Result<Device, Error> {
        Ok(match self {
            Self::Pci(function) => {
                let device = virtio_pci::open(function)?;
                Device {
                    transport: AnyTransport::Pci(device.transport),
                    acknowledge: device.acknowledge,
                    line: device.line,
                }
            }
            Self::Mmio(found) => {
                let device = found.open()?;
                Device {
                    transport: AnyTransport::Mmio(device.transport),
                    acknowledge: device.acknowledge,
                    line: device.line,
                }
            }
        })
    }
}

/// Calls a method of the transport that it is.
macro_rules! either {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self {
            Self::Pci(transport) => transport.$method($($argument),*),
            Self::Mmio(transport) => transport.$method($($argument),*),
        }
    };
}

impl Transport for AnyTransport {
    fn status(&self) -> DeviceStatus {
        either!(self.status())
    }

    fn set_status(&mut self, status: DeviceStatus) {
        either!(self.set_status(status));
    }

    fn device_features(&mut self) -> F {
        either!(self.device_features())
    }

    fn set_driver_features(&mut self, features: F) {
        either!(self.set_driver_features(features));
    }

    fn set_interrupts(&mut self) {
        either!(self.set_interrupts());
    }

    fn max_queue_size(&mut self, queue: u16) -> u16 {
        either!(self.max_queue_size(queue))
    }

    fn set_queue(&mut self, queue: u16, areas: Areas) -> Result<(), Error> {
        either!(self.set_queue(queue, areas))
    }

    fn notify(&mut self, queue: u16) {
        either!(self.notify(queue));
    }

    fn config_generation(&self) -> u8 {
        either!(self.config_generation())
    }

    fn config_u8(&self, offset: usize) -> Result<u8, Error> {
        either!(self.config_u8(offset))
    }

    fn config_u16(&self, offset: usize) -> Result<u16, Error> {
        either!(self.config_u16(offset))
    }
}
