//! The virtio entropy device (virtio 1.3 §5.4), started for each use.

use core::time::Duration;

use bitflags::bitflags;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

use super::dma::{Machine, Pool};
use super::{Error, pci};
use crate::arch;

const QUEUE: u16 = 0;
const QUEUE_SIZE: usize = 8;

/// How much is asked for at a time.
const BUFFER_BYTES: usize = 64;

/// How long the device may take for that.
const PATIENCE: Duration = Duration::from_millis(100);

bitflags! {
    #[derive(Clone, Copy, Debug)]
    struct Features: u64 {
        const VERSION_1 = 1 << 32;
    }
}

/// Fills `bytes` from the machine's entropy device, which is reset afterwards.
///
/// # Errors
///
/// [`Error::NotFound`] if there is none, else why it did not fill them.
pub fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    let (function, _) = pci::find_virtio(DeviceType::EntropySource).ok_or(Error::NotFound)?;
    fill_from(&mut function.open_virtio()?.transport, bytes)
}

/// Fills `bytes` from the entropy device behind `transport`.
///
/// # Errors
///
/// Why it did not.
pub fn fill_from<T: Transport>(transport: &mut T, bytes: &mut [u8]) -> Result<(), Error> {
    transport.begin_init(Features::all());
    if !transport.get_status().contains(DeviceStatus::FEATURES_OK) {
        return Err(Error::Unsupported);
    }
    let mut queue = VirtQueue::<Machine, QUEUE_SIZE>::new(transport, QUEUE, false, false)?;
    let mut pool = Pool::new(1, BUFFER_BYTES)?;
    queue.set_dev_notify(false);
    transport.finish_init();
    let mut rest = bytes;
    let result = loop {
        if rest.is_empty() {
            break Ok(());
        }
        match draw(transport, &mut queue, &mut pool) {
            Ok(drawn) => {
                let count = drawn.len().min(rest.len());
                let (now, later) = rest.split_at_mut(count);
                now.copy_from_slice(&drawn[..count]);
                rest = later;
            }
            Err(error) => break Err(error),
        }
    };
    // A device that was not done must not write to freed memory.
    transport.set_status(DeviceStatus::empty());
    result
}

/// Waits for random bytes, of which the device decides how many come.
fn draw<'a, T: Transport>(
    transport: &mut T,
    queue: &mut VirtQueue<Machine, QUEUE_SIZE>,
    pool: &'a mut Pool,
) -> Result<&'a [u8], Error> {
    // SAFETY: the device does not have the buffer; only its address is taken.
    let buffer = unsafe { pool.get(0) };
    // SAFETY: the buffer is not touched until the token is taken back, and
    // outlives the device's use of it: after an error the caller draws no more,
    // and resets the device before it drops the pool.
    let token = unsafe { queue.add(&[], &mut [buffer]) }?;
    transport.notify(QUEUE);
    let deadline = arch::now() + PATIENCE;
    while !queue.can_pop() && arch::now() < deadline {
        core::hint::spin_loop();
    }
    // SAFETY: only the address is taken.
    let buffer = unsafe { pool.get(0) };
    // SAFETY: this is the buffer that was added with this token. If the device
    // returned another one or none, that is an error.
    let written = unsafe { queue.pop_used(token, &[], &mut [buffer]) }? as usize;
    // SAFETY: the device has given the buffer back.
    let buffer = unsafe { pool.get(0) };
    match buffer.get(..written) {
        Some(drawn) if !drawn.is_empty() => Ok(drawn),
        _ => Err(Error::Faulty),
    }
}
