//! Random numbers from the processor.

use core::arch::x86_64::{_rdrand64_step, _rdseed64_step};

use super::cpu;

/// Intel's advice for how often to try (SDM vol. 1, 7.3.17).
const TRIES: usize = 10;

/// A random number from the processor's generator, `None` if it has none or
/// that fails.
pub fn random() -> Option<u64> {
    // SAFETY: the processor has the instruction.
    let seed = cpu::has_rdseed().then(|| unsafe { rdseed() }).flatten();
    // SAFETY: the processor has the instruction.
    seed.or_else(|| cpu::has_rdrand().then(|| unsafe { rdrand() }).flatten())
}

#[target_feature(enable = "rdseed")]
fn rdseed() -> Option<u64> {
    tries(|number| _rdseed64_step(number))
}

#[target_feature(enable = "rdrand")]
fn rdrand() -> Option<u64> {
    tries(|number| _rdrand64_step(number))
}

fn tries(mut step: impl FnMut(&mut u64) -> i32) -> Option<u64> {
    let mut number = 0;
    (0..TRIES).any(|_| step(&mut number) == 1).then_some(number)
}
