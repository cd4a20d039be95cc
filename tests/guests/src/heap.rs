//! Uses the heap: sizes, alignments, all of it, and back.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::alloc::{Layout, alloc, dealloc};
use alloc::vec::Vec;

use firstpoll::arch::{Memory, PAGE_BYTES, ReservedMemory};
use firstpoll::runtime::Runtime;
use firstpoll::time::{Duration, sleep};
use firstpoll::{arch, block_on, executor, println};

firstpoll::entry!(main);

fn main(_: Runtime) {
    println!("heap_bytes {}", arch::memory().heap_bytes);
    interrupted(); // The timer queue keeps the room that it once needed.
    nothing_is_lost(|| {
        aligned();
        filled();
        interrupted();
    });
    // Reserved addresses keep their page tables.
    let ranges = committed(usize::MAX);
    nothing_is_lost(|| {
        committed(ranges);
    });
    println!("all memory is back");
}

fn nothing_is_lost(work: impl FnOnce()) {
    let before = arch::memory();
    work();
    assert_eq!(before, arch::memory(), "memory was lost");
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

/// Reserved addresses get memory until there is hardly any left, each page its
/// own, and give all of it back. Returns how many ranges there were.
fn committed(most_ranges: usize) -> usize {
    const PAGES: usize = 24;
    let page_at = |range: &ReservedMemory, page: usize| {
        range
            .start()
            .as_ptr()
            .wrapping_add(page * PAGE_BYTES)
            .cast::<u64>()
    };
    let mut ranges: Vec<ReservedMemory> = Vec::new();
    let mut committed = 0_u64;
    'all: while ranges.len() < most_ranges {
        ranges.push(ReservedMemory::new(PAGES).expect("there are addresses"));
        let range = ranges.last_mut().expect("it was added");
        for page in (0..PAGES).rev() {
            if range.commit(page).is_err() {
                break 'all;
            }
            // SAFETY: the page has memory.
            unsafe { page_at(range, page).write_volatile(committed) };
            committed += 1;
        }
    }
    let Memory {
        heap_bytes,
        allocated_bytes,
    } = arch::memory();
    assert!(
        heap_bytes - allocated_bytes >= heap_bytes / 128,
        "some is left"
    );
    let last = ranges.len() - 1;
    for (number, range) in ranges[..last].iter().enumerate() {
        for page in 0..PAGES {
            // SAFETY: the page has memory.
            let value = unsafe { page_at(range, page).read_volatile() };
            assert_eq!(value, (number * PAGES + PAGES - 1 - page) as u64);
        }
    }
    // What some give back, others get.
    for range in ranges[..last].iter_mut().step_by(2) {
        range.decommit(3..9);
    }
    for range in ranges[..last].iter_mut().step_by(2) {
        for page in 3..9 {
            range.commit(page).expect("it was given back");
            // SAFETY: the page has memory.
            unsafe { page_at(range, page).write_volatile(u64::MAX) };
        }
    }
    for (number, range) in ranges[..last].iter().enumerate() {
        for page in (0..3).chain(9..PAGES) {
            // SAFETY: the page has memory.
            let value = unsafe { page_at(range, page).read_volatile() };
            assert_eq!(value, (number * PAGES + PAGES - 1 - page) as u64);
        }
    }
    println!("committed_bytes {}", committed * PAGE_BYTES as u64);
    // Given back so, the next run gets them in the same order, with their tables.
    ranges.reverse();
    ranges.len()
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
