//! The virtio entropy device (virtio 1.3 §5.4), started for each use.

use core::time::Duration;

use bitflags::bitflags;
use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

use super::virtqueue::{Notify, Suppression, Virtqueue, Writer};
use super::{Error, pci};
use crate::arch;

const QUEUE: u16 = 0;

/// One buffer is enough.
const QUEUE_SIZE: u16 = 1;
const BUFFER: u16 = 0;

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
    let size = Virtqueue::size(transport.max_queue_size(QUEUE), QUEUE_SIZE)?;
    let mut queue = Virtqueue::new(size, BUFFER_BYTES, Writer::Device, Suppression::Flags)?;
    let areas = queue.areas();
    transport.queue_set(
        QUEUE,
        size.into(),
        areas.descriptors,
        areas.available,
        areas.used,
    );
    transport.finish_init();
    let mut rest = bytes;
    let result = loop {
        if rest.is_empty() {
            break Ok(());
        }
        match draw(transport, &mut queue) {
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
fn draw<'a, T: Transport>(transport: &mut T, queue: &'a mut Virtqueue) -> Result<&'a [u8], Error> {
    queue.offer(BUFFER, BUFFER_BYTES);
    if queue.publish() == Notify::Yes {
        transport.notify(QUEUE);
    }
    let deadline = arch::now() + PATIENCE;
    while !queue.has_used() && arch::now() < deadline {
        core::hint::spin_loop();
    }
    let used = queue.take().ok_or(Error::Faulty)?;
    match &queue.buffer(used.id)[..used.bytes] {
        [] => Err(Error::Faulty),
        drawn => Ok(drawn),
    }
}
