//! How a driver reaches a virtio device, and starts it (virtio 1.3 §3.1).

use core::time::Duration;

use virtio::{DeviceStatus, F};

use super::Error;
use crate::arch;

pub use super::virtqueue::Areas;

/// How long a device may take to reset itself.
const PATIENCE: Duration = Duration::from_millis(100);

/// What each way to reach a device has (virtio 1.3 §4).
pub trait Transport {
    /// The device's status.
    fn status(&self) -> DeviceStatus;

    /// Sets the status; an empty one asks the device to reset itself.
    fn set_status(&mut self, status: DeviceStatus);

    /// What the device offers.
    fn device_features(&mut self) -> F;

    /// Says what the driver wants of it.
    fn set_driver_features(&mut self, features: F);

    /// Makes the device use the way to interrupt that was chosen, if there is a
    /// choice; a reset forgets it.
    fn set_interrupts(&mut self) {}

    /// The places of a queue at most, 0 if the device does not have it.
    fn max_queue_size(&mut self, queue: u16) -> u16;

    /// Sets a queue up.
    ///
    /// # Errors
    ///
    /// If the device does not have it.
    fn set_queue(&mut self, queue: u16, areas: Areas) -> Result<(), Error>;

    /// Tells the device that there are buffers in a queue.
    fn notify(&mut self, queue: u16);

    /// What changes when the device's configuration does.
    fn config_generation(&self) -> u8;

    /// The byte at `offset` in the device's configuration.
    ///
    /// # Errors
    ///
    /// If there is none.
    fn config_u8(&self, offset: usize) -> Result<u8, Error>;

    /// The field of two bytes at `offset`, which is even.
    ///
    /// # Errors
    ///
    /// If there is none.
    fn config_u16(&self, offset: usize) -> Result<u16, Error>;
}

/// Resets a device, and agrees with it on those of the `wanted` features that
/// it offers.
pub(super) fn negotiate(transport: &mut impl Transport, wanted: F, needed: F) -> Result<F, Error> {
    reset(transport)?;
    let mut status = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
    transport.set_status(status);
    let features = transport.device_features() & wanted;
    if !features.contains(needed) {
        transport.set_status(status | DeviceStatus::FAILED);
        return Err(Error::Unsupported);
    }
    transport.set_driver_features(features);
    status |= DeviceStatus::FEATURES_OK;
    transport.set_status(status);
    if !transport.status().contains(DeviceStatus::FEATURES_OK) {
        return Err(Error::Unsupported);
    }
    transport.set_interrupts();
    Ok(features)
}

/// Says that the queues are set up.
pub(super) fn start(transport: &mut impl Transport) {
    let status = transport.status() | DeviceStatus::DRIVER_OK;
    transport.set_status(status);
}

/// Makes a device forget its queues.
pub(super) fn reset(transport: &mut impl Transport) -> Result<(), Error> {
    transport.set_status(DeviceStatus::empty());
    let deadline = arch::now() + PATIENCE;
    while transport.status() != DeviceStatus::empty() {
        if arch::now() >= deadline {
            return Err(Error::Faulty);
        }
        core::hint::spin_loop();
    }
    Ok(())
}

/// Resets a device whose queues are about to be freed, for good: it may write to
/// them until it says that it was reset.
pub(super) fn reset_at_last(transport: &mut impl Transport) {
    while reset(transport).is_err() {
        log::error!("a device does not reset itself; waiting for it");
    }
}

/// Reads the configuration until it does not change meanwhile.
pub(super) fn read_config<T: Transport, R>(
    transport: &T,
    mut read: impl FnMut(&T) -> Result<R, Error>,
) -> Result<R, Error> {
    let deadline = arch::now() + PATIENCE;
    loop {
        let generation = transport.config_generation();
        let value = read(transport)?;
        if transport.config_generation() == generation {
            return Ok(value);
        }
        if arch::now() >= deadline {
            return Err(Error::Faulty);
        }
    }
}
