//! How long copying memory takes by what the processor has for it, in
//! nanoseconds: by the kernel's own `memcpy`, by string instructions of bytes
//! and of words, and by the one that comes with `core`.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec;
use core::arch::asm;
use core::hint::black_box;

use firstpoll::runtime::Runtime;
use firstpoll::time::Instant;
use firstpoll::{entry, println};

/// The sizes that are copied: of a header, of a request, of a frame, of a long
/// segment, and of more than the caches near the core hold.
const SIZES: [usize; 6] = [14, 64, 150, 1460, 65_536, 1 << 20];

/// What is copied in all for one figure.
const TOTAL: usize = 32 << 20;

/// And how often at most.
const MOST: usize = 200_000;

/// Pages that are 1 MiB apart share places of an emulator's address cache.
const APART: usize = (1 << 20) + 17 * 4096;

type Copy = fn(&mut [u8], &[u8]);

fn own(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

fn bytes(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len());
    // SAFETY: both are as long as is copied, and do not overlap.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") from.len() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdi") to.as_mut_ptr() => _,
            options(nostack, preserves_flags),
        );
    }
}

fn words(to: &mut [u8], from: &[u8]) {
    let (head, tail) = from.split_at(from.len() & !7);
    let (to_head, to_tail) = to.split_at_mut(head.len());
    // SAFETY: both are as long as is copied, and do not overlap.
    unsafe {
        asm!(
            "rep movsq",
            inout("rcx") head.len() / 8 => _,
            inout("rsi") head.as_ptr() => _,
            inout("rdi") to_head.as_mut_ptr() => _,
            options(nostack, preserves_flags),
        );
    }
    bytes(to_tail, tail);
}

/// Up to the first word of the destination by bytes, then by words.
fn builtins(to: &mut [u8], from: &[u8]) {
    let before = to.as_ptr().align_offset(8).min(to.len());
    let (to_head, to_tail) = to.split_at_mut(before);
    bytes(to_head, &from[..before]);
    words(to_tail, &from[before..]);
}

entry!(main);

fn main(_runtime: Runtime) -> Result<(), &'static str> {
    let memory: &mut [u8] = Box::leak(vec![0x5a; 2 * APART].into_boxed_slice());
    let (from, to) = memory.split_at_mut(APART);
    let ways: [(&str, Copy); 4] = [
        ("own", own),
        ("bytes", bytes),
        ("words", words),
        ("builtins", builtins),
    ];
    for size in SIZES {
        for (name, copy) in ways {
            let times = (TOTAL / size).min(MOST);
            let start = Instant::now();
            for _ in 0..times {
                // One byte off, as behind a header.
                copy(black_box(&mut to[2..2 + size]), black_box(&from[..size]));
            }
            let ns = start.elapsed().as_nanos() / times as u128;
            println!("copy {size} {name} {ns}");
        }
    }
    Ok(())
}
