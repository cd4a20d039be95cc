//! Drivers: they know neither the executor nor the network.
//!
//! What a device writes is checked before it is used: a device that breaks the
//! rules is left alone from then on, and takes nothing else with it.

pub mod console;
mod dma;
mod msix;
pub mod offload;
mod pci;
pub mod transport;
pub mod virtio;
pub mod virtio_interrupt;
pub(crate) mod virtio_mmio;
pub mod virtio_net;
mod virtio_pci;
pub mod virtio_rng;
mod virtqueue;

use core::error;
use core::fmt;

/// The bytes of an Ethernet header.
pub const ETHERNET_HEADER_BYTES: usize = 14;

/// Why a device cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The machine has no such device.
    NotFound,
    /// The device's registers are not where they should be, or out of reach.
    Unreachable,
    /// The device has only the interface from before virtio 1.0.
    Legacy,
    /// The device refuses the features that the driver needs.
    Unsupported,
    /// No memory is left for the device's queues and buffers.
    OutOfMemory,
    /// The device does not answer, or not as it should.
    Faulty,
    /// The device's interrupt cannot be had.
    NoInterrupt,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such device",
            Self::Unreachable => "the device's registers are out of reach",
            Self::Legacy => "the device has only the legacy interface, from before virtio 1.0",
            Self::Unsupported => "the device refuses the features that the driver needs",
            Self::OutOfMemory => "no memory for the device's queues",
            Self::Faulty => "the device does not answer as it should",
            Self::NoInterrupt => "the device's interrupt cannot be had",
        })
    }
}

impl error::Error for Error {}
