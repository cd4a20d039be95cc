//! How long it takes to touch more pages than the emulator's translation buffer
//! holds at first: in the beginning, and after a while of such work.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec;
use core::hint::black_box;

use firstpoll::runtime::Runtime;
use firstpoll::time::{Duration, Instant, sleep};
use firstpoll::{block_on, println};

firstpoll::entry!(main);

const PAGE_BYTES: usize = 4096;
/// Four times what the buffer begins with.
const PAGES: usize = 1024;
const ROUNDS: u32 = 20;

fn main(_: Runtime) {
    let memory = vec![1_u8; PAGES * PAGE_BYTES];
    println!("first_ns {}", touch(&memory));
    // Timers are what a busy core has.
    let end = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < end {
        touch(&memory);
        block_on(sleep(Duration::from_millis(1)));
    }
    println!("last_ns {}", touch(&memory));
}

/// Nanoseconds per page, in the best of some rounds.
fn touch(memory: &[u8]) -> u64 {
    let round = |_| {
        let start = Instant::now();
        // Not always at the same place in a page, so as not to meet the same
        // lines of the host's cache.
        for page in 0..PAGES {
            black_box(memory[page * PAGE_BYTES + page % 61 * 64]);
        }
        start.elapsed().as_nanos() as u64 / PAGES as u64
    };
    (0..ROUNDS).map(round).min().unwrap_or(0)
}
