//! Counting instructions: under `-icount shift=0` the time-stamp counter does.

use core::arch::x86_64::_rdtsc;
use core::hint::black_box;

/// The number of instructions so far.
#[inline(always)]
pub fn instructions() -> u64 {
    // SAFETY: every 64-bit processor has the instruction.
    unsafe { _rdtsc() }
}

/// Instructions per call of `call`, with the loop around it subtracted.
#[inline(always)]
pub fn per_round(rounds: u64, mut call: impl FnMut()) -> u64 {
    let with = in_rounds(rounds, &mut call);
    let without = in_rounds(rounds, &mut || {});
    each(with - without, rounds)
}

#[inline(always)]
fn in_rounds(rounds: u64, call: &mut impl FnMut()) -> u64 {
    let start = instructions();
    for round in 0..rounds {
        black_box(round);
        call();
    }
    instructions() - start
}

/// `total` spread over `count`, rounded.
#[inline(always)]
pub fn each(total: u64, count: u64) -> u64 {
    (total + count / 2) / count
}
