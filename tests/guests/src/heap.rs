//! Uses the heap: sizes, alignments, all of it, and back.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::alloc::{Layout, alloc, dealloc};
use alloc::vec::Vec;

use firstpoll::runtime::Runtime;
use firstpoll::time::{Duration, sleep};
use firstpoll::{arch, block_on, executor, println};

firstpoll::entry!(main);

fn main(_: Runtime) {
    println!("heap_bytes {}", arch::memory().heap_bytes);
    interrupted(); // The timer queue keeps the room that it once needed.
    let before = arch::memory();

    aligned();
    filled();
    interrupted();

    let after = arch::memory();
    assert_eq!(before, after, "memory was lost");
    println!("all memory is back");
}

/// Every alignment up to a large page is honoured.
fn aligned() {
    for shift in 0..=21 {
        let layout = Layout::from_size_align(100, 1 << shift).expect("a power of two");
        // SAFETY: the layout has a size, and what is allocated is freed.
        unsafe {
            let memory = alloc(layout);
            assert!(!memory.is_null() && memory.addr().is_multiple_of(layout.align()));
            memory.write_bytes(0xff, layout.size());
            dealloc(memory, layout);
        }
    }
}

/// All memory can be had, and is there: each piece keeps its own pattern.
fn filled() {
    const PIECE_WORDS: usize = 32 << 10;
    let mut pieces: Vec<Vec<u64>> = Vec::new();
    loop {
        let mut piece = Vec::new();
        if pieces.try_reserve(1).is_err() || piece.try_reserve_exact(PIECE_WORDS).is_err() {
            break;
        }
        piece.resize(PIECE_WORDS, pieces.len() as u64);
        pieces.push(piece);
    }
    for (number, piece) in pieces.iter().enumerate() {
        assert!(piece.iter().all(|&word| word == number as u64));
    }
    println!("filled_bytes {}", pieces.len() * PIECE_WORDS * 8);
}

/// The bottom half allocates on top of a program that allocates.
fn interrupted() {
    let task = async {
        for length in 1.. {
            sleep(Duration::from_micros(200)).await;
            core::hint::black_box(Vec::<u8>::with_capacity(length));
        }
    };
    // SAFETY: it touches only the allocator and the timer queue.
    let task = unsafe { executor::spawn_interrupt_safe(task) };
    block_on(firstpoll::yield_now());
    let start = arch::Instant::now();
    let mut kept = Vec::new();
    while start.elapsed() < Duration::from_millis(100) {
        for length in 1..200 {
            kept.push(Vec::<u8>::with_capacity(length));
        }
        kept.clear();
    }
    drop(kept);
    block_on(task.cancel());
    println!("bottom_halves {}", executor::stats().bottom_halves);
}
