//! Random numbers from the machine.

use crate::arch;
use crate::drivers::{Error, virtio_rng};

/// Fills `bytes` with random numbers that are fit for keys: from the
/// processor's generator (RDSEED or RDRAND), or else from a virtio entropy
/// device.
///
/// The device is started anew for each call, which takes a fraction of a
/// millisecond or more; while it is waited for, the caller does nothing else.
///
/// # Errors
///
/// If neither gives random numbers, what is wrong with the device. `bytes` must
/// then not be used.
///
/// # Interrupt safety
///
/// Not for interrupt handlers or interrupt-safe tasks.
///
/// # Examples
///
/// ```
/// let mut key = [0; 32];
/// firstpoll::random::fill(&mut key)?;
/// # Ok::<_, firstpoll::drivers::Error>(())
/// ```
pub fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    for part in bytes.chunks_mut(size_of::<u64>()) {
        match arch::random() {
            Some(number) => part.copy_from_slice(&number.to_le_bytes()[..part.len()]),
            None => return virtio_rng::fill(bytes),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_filled() {
        for length in 0..40 {
            // Each byte is left zero by one draw in 256 only.
            let mut seen = [0; 40];
            for _ in 0..20 {
                let mut bytes = [0; 40];
                fill(&mut bytes[..length]).unwrap();
                assert_eq!(bytes[length..], seen[length..]);
                for (seen, byte) in seen.iter_mut().zip(bytes) {
                    *seen |= byte;
                }
            }
            assert!(!seen[..length].contains(&0));
        }
    }
}
