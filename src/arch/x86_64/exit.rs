//! Ending the machine with a status.
//!
//! QEMU's `isa-debug-exit` device ends QEMU with the status `2 n + 1` for a
//! written `n`. We write `0x10 + status`, so that QEMU's own failures (1) and a
//! guest's status cannot be confused, and `cargo xtask` takes it back.

use crate::arch::FAILURE_STATUS;

/// The device's I/O port.
pub(super) const PORT: u16 = 0xf4;

/// What to write for [`FAILURE_STATUS`].
pub(super) const FAILURE_CODE: u32 = code(FAILURE_STATUS);

/// The highest status that fits: QEMU's status has eight bits.
const MAX_STATUS: u8 = 0x6f;

/// What to write for `status`; what does not fit becomes the highest that does.
pub(super) const fn code(status: u8) -> u32 {
    let status = if status > MAX_STATUS {
        MAX_STATUS
    } else {
        status
    };
    0x10 + status as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_fits_in_qemus() {
        for status in 0..=u8::MAX {
            let qemu = 2 * code(status) + 1;
            assert!((33..=255).contains(&qemu));
            assert_eq!(qemu >> 1, 0x10 + u32::from(status.min(MAX_STATUS)));
        }
    }
}
