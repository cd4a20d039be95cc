//! The virtio entropy device (virtio 1.3 §5.4), for one number at boot.

use core::time::Duration;

use bitflags::bitflags;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

use super::dma::{Machine, Pool};
use super::{Error, pci};
use crate::arch;

const QUEUE: u16 = 0;
const QUEUE_SIZE: usize = 8;

/// How long the device may take.
const PATIENCE: Duration = Duration::from_millis(100);

bitflags! {
    #[derive(Clone, Copy, Debug)]
    struct Features: u64 {
        const VERSION_1 = 1 << 32;
    }
}

/// A random number from the machine's entropy device. It is reset afterwards.
///
/// # Errors
///
/// [`Error::NotFound`] if there is none, else why it gave no number.
pub fn random() -> Result<u64, Error> {
    let (function, _) = pci::find_virtio(DeviceType::EntropySource).ok_or(Error::NotFound)?;
    random_from(&mut function.open_virtio()?.transport)
}

/// A random number from the entropy device behind `transport`.
///
/// # Errors
///
/// Why it gave none.
pub fn random_from<T: Transport>(transport: &mut T) -> Result<u64, Error> {
    transport.begin_init(Features::all());
    if !transport.get_status().contains(DeviceStatus::FEATURES_OK) {
        return Err(Error::Unsupported);
    }
    let mut queue = VirtQueue::<Machine, QUEUE_SIZE>::new(transport, QUEUE, false, false)?;
    let mut pool = Pool::new(1, size_of::<u64>())?;
    queue.set_dev_notify(false);
    transport.finish_init();
    // SAFETY: the device does not have the buffer yet; only its address is taken.
    let bytes = unsafe { pool.get(0) };
    // SAFETY: the buffer is not touched until the token is taken back, and
    // outlives the device's use of it: below the device is reset first.
    let token = unsafe { queue.add(&[], &mut [bytes]) }?;
    transport.notify(QUEUE);
    let deadline = arch::now() + PATIENCE;
    while !queue.can_pop() && arch::now() < deadline {
        core::hint::spin_loop();
    }
    // SAFETY: only the address is taken.
    let bytes = unsafe { pool.get(0) };
    // SAFETY: this is the buffer that was added with this token. If the device
    // returned another one or none, that is an error.
    let written = unsafe { queue.pop_used(token, &[], &mut [bytes]) };
    // A device that was not done must not write to freed memory.
    transport.set_status(DeviceStatus::empty());
    if written? as usize != size_of::<u64>() {
        return Err(Error::Faulty);
    }
    // SAFETY: the device has been reset.
    let bytes = unsafe { pool.get(0) };
    let mut number = [0; size_of::<u64>()];
    number.copy_from_slice(bytes);
    Ok(u64::from_le_bytes(number))
}
