//! Virtio devices on the PCI bus (virtio 1.3 §4.1).

use core::ptr::NonNull;

use virtio::pci::{
    CapCfgType, CapData, CommonCfg, CommonCfgVolatileFieldAccess, CommonCfgVolatileWideFieldAccess,
};
use virtio::{DeviceStatus, F, Id, le16, le32, le64, le128};
use volatile::VolatilePtr;

use super::Error;
use super::pci::{self, Function, Registers};
use super::transport::{Areas, Transport, reset};

/// The common configuration up to the queue's addresses, which is all that
/// virtio 1.0 has of it.
const COMMON_BYTES: u64 = 56;

/// The queues that a driver can have.
const MAX_QUEUES: usize = 8;

/// A device that is ready to be driven.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) transport: PciTransport,
    /// The register that tells why the device interrupts, and by being read
    /// takes the interrupt back (§4.1.4.5).
    pub(super) interrupt_status: NonNull<u8>,
    /// The interrupt line that the firmware has set up.
    pub(super) interrupt_line: u8,
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

/// The first device of a type, and how many more there are.
pub(super) fn find(wanted: Id) -> Result<(Function, usize), Error> {
    pci::find_virtio(wanted).ok_or(Error::NotFound)
}

/// Makes a device ready to be driven.
pub(super) fn open(function: Function) -> Result<Device, Error> {
    let [mut common, mut notify, mut status, mut config] = [None; 4];
    let mut multiplier = 0;
    let mut is_modern = false;
    let windows = function.windows();
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
        let Ok(start) = windows.map(capability.bar, offset, bytes) else {
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
    };
    if !transport.common.is_aligned() {
        return Err(Error::Faulty);
    }
    let interrupt_status = status.field(0)?;
    function.enable();
    Ok(Device {
        transport,
        interrupt_status,
        interrupt_line: function.interrupt_line(),
    })
}

impl PciTransport {
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
        // The device may write to its queues until it says that it was reset,
        // and they are about to be freed.
        while reset(self).is_err() {
            log::error!("a device does not reset itself; waiting for it");
        }
    }
}
