//! The virtio entropy device (virtio 1.3 §5.4), started for each use.

use core::time::Duration;

use ::virtio::{F, Id};

use super::transport::{Transport, negotiate, reset, start};
use super::virtqueue::{Buffers, Notify, Suppression, Virtqueue, Writer};
use super::{Error, virtio};
use crate::arch;

const QUEUE: u16 = 0;

/// One buffer is enough.
const QUEUE_SIZE: u16 = 1;
const BUFFER: u16 = 0;

/// How much is asked for at a time.
const BUFFER_BYTES: usize = 64;

/// How long the device may take for that.
const PATIENCE: Duration = Duration::from_millis(100);

/// Fills `bytes` from the machine's entropy device, which is reset afterwards.
///
/// # Errors
///
/// [`Error::NotFound`] if there is none, else why it did not fill them.
pub fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    let (found, _) = virtio::find(Id::Rng)?;
    fill_from(&mut found.open()?.transport, bytes)
}

/// Fills `bytes` from the entropy device behind `transport`.
///
/// # Errors
///
/// Why it did not.
pub fn fill_from<T: Transport>(transport: &mut T, bytes: &mut [u8]) -> Result<(), Error> {
    negotiate(transport, F::VERSION_1, F::VERSION_1)?;
    let size = Virtqueue::size(transport.max_queue_size(QUEUE), QUEUE_SIZE)?;
    let mut queue = Virtqueue::new(
        size,
        Buffers::of(BUFFER_BYTES),
        Writer::Device,
        Suppression::Flags,
    )?;
    transport.set_queue(QUEUE, queue.areas())?;
    start(transport);
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
    if let Err(error) = reset(transport) {
        core::mem::forget(queue);
        return Err(error);
    }
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
