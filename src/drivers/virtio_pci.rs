//! Virtio devices on the PCI bus (virtio 1.3 §4.1).

use core::ptr::NonNull;

use virtio::pci::{
    CapCfgType, CapData, CommonCfg, CommonCfgVolatileFieldAccess, CommonCfgVolatileWideFieldAccess,
};
use virtio::{DeviceStatus, F, le16, le32, le64, le128};
use volatile::VolatilePtr;

use super::Error;
use super::msix::Msix;
use super::pci::{Function, Registers};
use super::transport::{Areas, Transport, reset_at_last};
use super::virtio_interrupt::Acknowledge;
use crate::arch::{IrqError, Message};

/// The common configuration up to the queue's addresses, which is all that
/// virtio 1.0 has of it.
const COMMON_BYTES: u64 = 56;

/// The vector that is none, also as an answer (§4.1.4.3).
const NO_VECTOR: u16 = 0xffff;
/// The vector of the device's configuration; those of its queues follow.
const CONFIG_VECTOR: u16 = 0;

/// The queues that a driver can have.
const MAX_QUEUES: usize = 8;

/// A device that is ready to be driven.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) transport: PciTransport,
    /// How an interrupt of the line is taken back.
    pub(super) acknowledge: Acknowledge,
    /// The interrupt line that the firmware has set up.
    pub(super) line: u8,
}

/// A device's registers. When they are dropped, the device is reset.
#[derive(Debug)]
pub struct PciTransport {
    common: NonNull<CommonCfg>,
    config: Region,
    notify: Region,
    notify_multiplier: usize,
    /// Where each queue is notified.
    doorbells: [Option<NonNull<u16>>; MAX_QUEUES],
    /// The messages that it could interrupt by, until they are used.
    msix: Result<Msix, Error>,
    /// How the device interrupts, unless by its line.
    messages: Option<Messages>,
}

/// The messages by which a device interrupts.
#[derive(Debug)]
struct Messages {
    msix: Msix,
    /// How many vectors there are for queues, at least one.
    for_queues: u16,
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The device's configuration has changed.
    Config,
    /// The device has used buffers of a queue.
    Queue,
}

// SAFETY: the registers can be used from any core.
unsafe impl Send for PciTransport {}

/// Registers that are mapped.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

impl Region {
    /// The field at `offset`, if it is there and aligned.
    fn field<T>(self, offset: usize) -> Result<NonNull<T>, Error> {
        let end = offset.checked_add(size_of::<T>()).ok_or(Error::Faulty)?;
        if end > self.bytes {
            return Err(Error::Faulty);
        }
        // SAFETY: within the region, as just checked.
        let field = unsafe { self.start.add(offset) }.cast::<T>();
        field.is_aligned().then_some(field).ok_or(Error::Faulty)
    }
}

/// Makes a device ready to be driven.
pub(super) fn open(function: Function) -> Result<Device, Error> {
    let [mut common, mut notify, mut status, mut config] = [None; 4];
    let mut multiplier = 0;
    let mut is_modern = false;
    for at in function.vendor_capabilities() {
        let Some(capability) = CapData::read(at, Registers) else {
            continue;
        };
        is_modern = true;
        let place = match capability.cfg_type {
            CapCfgType::Common => &mut common,
            CapCfgType::Notify => &mut notify,
            CapCfgType::Isr => &mut status,
            CapCfgType::Device => &mut config,
            _ => continue,
        };
        // The device prefers the first of a kind; not all can be reached.
        if place.is_some() {
            continue;
        }
        let (offset, bytes) = (capability.offset.to_ne(), capability.length.to_ne());
        let Ok(start) = function.map(capability.bar, offset, bytes) else {
            continue;
        };
        let bytes = bytes as usize;
        *place = Some(Region { start, bytes });
        if let Some(value) = capability.notify_off_multiplier {
            multiplier = value.to_ne() as usize;
        }
    }
    if !is_modern {
        return Err(Error::Legacy);
    }
    let common = common.ok_or(Error::Unreachable)?;
    common.field::<[u8; COMMON_BYTES as usize]>(0)?;
    let status = status.ok_or(Error::Unreachable)?;
    let transport = PciTransport {
        common: common.start.cast(),
        // Not every device has a configuration of its own.
        config: config.unwrap_or(Region {
            start: NonNull::dangling(),
            bytes: 0,
        }),
        notify: notify.ok_or(Error::Unreachable)?,
        notify_multiplier: multiplier,
        doorbells: [None; MAX_QUEUES],
        // Found before the device's memory is switched on for good.
        msix: Msix::open(function),
        messages: None,
    };
    if !transport.common.is_aligned() {
        return Err(Error::Faulty);
    }
    let status = status.field(0)?;
    function.enable();
    Ok(Device {
        transport,
        acknowledge: Acknowledge::ByRead(status),
        line: function.interrupt_line(),
    })
}

/// How many vectors there are for `queues` queues in a table of `entries`, next
/// to that for the configuration; none if that is the only one.
fn vectors_for(queues: u16, entries: u16) -> Option<u16> {
    let vectors = queues.min(entries.saturating_sub(1));
    (vectors > 0).then_some(vectors)
}

/// The vector of a queue; queues beyond the vectors share them.
fn vector_of(queue: u16, for_queues: u16) -> u16 {
    CONFIG_VECTOR + 1 + queue % for_queues
}

impl PciTransport {
    /// Chooses that the device interrupts by messages: one when its
    /// configuration changes, and one for each of its `queues` queues as long
    /// as it has enough. `register` makes each known to the processor.
    ///
    /// The choice takes effect when the device is started next.
    ///
    /// # Errors
    ///
    /// [`Error::NoInterrupt`] if there are not enough messages, else why the
    /// device cannot send them. It then interrupts by its line.
    pub(super) fn use_messages(
        &mut self,
        queues: u16,
        register: impl Fn(Cause) -> Result<Message, IrqError>,
    ) -> Result<(), Error> {
        let mut msix = core::mem::replace(&mut self.msix, Err(Error::NoInterrupt))?;
        let for_queues = vectors_for(queues, msix.entries()).ok_or(Error::NoInterrupt)?;
        for vector in CONFIG_VECTOR..=for_queues {
            let cause = match vector {
                CONFIG_VECTOR => Cause::Config,
                _ => Cause::Queue,
            };
            let message = register(cause).map_err(|_| Error::NoInterrupt)?;
            msix.set(vector, message);
        }
        msix.enable();
        self.messages = Some(Messages { msix, for_queues });
        Ok(())
    }

    /// How many messages the device interrupts by; none if by its line.
    pub(super) fn messages(&self) -> u16 {
        let messages = self.messages.as_ref();
        messages.map_or(0, |messages| messages.for_queues + 1)
    }

    /// Goes on if the device `took` a vector, and otherwise back to its line.
    fn check_vector(&mut self, took: bool) {
        if took {
            return;
        }
        if let Some(mut messages) = self.messages.take() {
            log::warn!("a device takes no vector; it interrupts by its line");
            messages.msix.disable();
        }
    }

    fn common(&self) -> VolatilePtr<'_, CommonCfg> {
        // SAFETY: `open` mapped it for good. It is shorter than its type where
        // the device is older than that; only fields of virtio 1.0 are used.
        unsafe { VolatilePtr::new(self.common) }
    }
}

impl Transport for PciTransport {
    fn status(&self) -> DeviceStatus {
        self.common().device_status().read()
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.common().device_status().write(status);
    }

    fn device_features(&mut self) -> F {
        let common = self.common();
        let half = |select| {
            common.device_feature_select().write(le32::from_ne(select));
            u128::from(common.device_feature().read().to_ne())
        };
        F::from_bits_retain(le128::from_ne(half(0) | half(1) << 32))
    }

    fn set_driver_features(&mut self, features: F) {
        let features = features.bits().to_ne();
        let common = self.common();
        for (select, half) in [(0, features as u32), (1, (features >> 32) as u32)] {
            common.driver_feature_select().write(le32::from_ne(select));
            common.driver_feature().write(le32::from_ne(half));
        }
    }

    fn set_interrupts(&mut self) {
        if self.messages.is_some() {
            let vector = self.common().config_msix_vector();
            vector.write(le16::from_ne(CONFIG_VECTOR));
            let took = vector.read().to_ne() != NO_VECTOR;
            self.check_vector(took);
        }
    }

    fn max_queue_size(&mut self, queue: u16) -> u16 {
        let common = self.common();
        common.queue_select().write(le16::from_ne(queue));
        common.queue_size().read().to_ne()
    }

    fn set_queue(&mut self, queue: u16, areas: Areas) -> Result<(), Error> {
        let common = self.common();
        common.queue_select().write(le16::from_ne(queue));
        let offset = usize::from(common.queue_notify_off().read().to_ne());
        let offset = offset.checked_mul(self.notify_multiplier);
        let doorbell = self.notify.field(offset.ok_or(Error::Faulty)?)?;
        if let Some(messages) = &self.messages {
            let vector = vector_of(queue, messages.for_queues);
            common.queue_msix_vector().write(le16::from_ne(vector));
            let took = common.queue_msix_vector().read().to_ne() != NO_VECTOR;
            self.check_vector(took);
        }
        let common = self.common();
        common.queue_size().write(le16::from_ne(areas.size));
        common.queue_desc().write(le64::from_ne(areas.descriptors));
        common.queue_driver().write(le64::from_ne(areas.available));
        common.queue_device().write(le64::from_ne(areas.used));
        common.queue_enable().write(le16::from_ne(1));
        let place = self.doorbells.get_mut(usize::from(queue));
        *place.ok_or(Error::Unsupported)? = Some(doorbell);
        Ok(())
    }

    fn notify(&mut self, queue: u16) {
        if let Some(Some(doorbell)) = self.doorbells.get(usize::from(queue)) {
            // SAFETY: a register of the device, mapped for good.
            unsafe { doorbell.write_volatile(queue.to_le()) };
        }
    }

    fn config_generation(&self) -> u8 {
        self.common().config_generation().read()
    }

    fn config_u8(&self, offset: usize) -> Result<u8, Error> {
        let field = self.config.field::<u8>(offset)?;
        // SAFETY: a register of the device, mapped for good.
        Ok(unsafe { field.read_volatile() })
    }

    fn config_u16(&self, offset: usize) -> Result<u16, Error> {
        let field = self.config.field::<u16>(offset)?;
        // SAFETY: as above.
        Ok(u16::from_le(unsafe { field.read_volatile() }))
    }
}

impl Drop for PciTransport {
    fn drop(&mut self) {
        reset_at_last(self);
        if let Some(messages) = &mut self.messages {
            messages.msix.disable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_share_vectors_if_there_are_too_few() {
        let vectors = |entries| {
            let for_queues = vectors_for(2, entries)?;
            Some([0, 1].map(|queue| vector_of(queue, for_queues)))
        };
        assert_eq!(vectors(0), None);
        assert_eq!(vectors(1), None, "it is for the configuration");
        assert_eq!(vectors(2), Some([1, 1]));
        for entries in [3, 4, 2048] {
            assert_eq!(vectors(entries), Some([1, 2]));
        }
    }
}
