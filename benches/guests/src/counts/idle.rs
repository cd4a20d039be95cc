//! HTTP requests beside connections that are established and idle.
//!
//! Each of these has had a request answered, is served by a task that waits for
//! the next one, and is asked for one more after a minute, so that all are known
//! to be alive.

use alloc::vec::Vec;

use firstpoll::executor;
use firstpoll::time::{Duration, sleep};
use firstpoll::{arch, block_on, println};

use crate::client;
use crate::http::{Bench, CONNECTIONS};
use crate::plain::Plain;
use crate::wire::Sums;

/// So many have requests in the same second: more at once would need memory
/// for all their data at once.
const PER_SECOND: usize = 1_000;
const SECOND: Duration = Duration::from_secs(1);

/// How long all are left alone.
const MINUTE: Duration = Duration::from_secs(60);

/// After that, nothing is left to be done for what went before.
const QUIET: Duration = Duration::from_secs(5);

/// The requests in one set, where each costs as much as many of ours.
const MEASURED_IN_ONE_SET: usize = 64;

/// One connection and many, beside `idle` others.
pub fn count(idle: usize) {
    executor::set_deferral_bound(Duration::MAX);
    let (mut bench, stack) = Bench::ours(Sums::Card);
    let mut others = Vec::with_capacity(idle);
    let before = used_bytes();
    for number in 0..idle {
        let mut other = bench.open(client::beyond(number));
        bench.request(&mut other);
        others.push(other);
        pause(number);
    }
    block_on(sleep(MINUTE));
    bench.introduce();
    for (number, other) in others.iter_mut().enumerate() {
        bench.request(other);
        pause(number);
    }
    block_on(sleep(QUIET));
    assert_eq!(stack.stats().sockets, idle, "not all connections are alive");
    if idle >= 1_000 {
        let each = used_bytes().saturating_sub(before) / idle;
        println!("idle_connection_{idle}_bytes {each}");
    }

    bench.connect(|stream| stream);
    println!("http_request_1_beside_{idle} {}", bench.per_request(1));
    while bench.clients.len() < CONNECTIONS {
        bench.connect(|stream| stream);
    }
    println!("http_request_128_beside_{idle} {}", bench.per_request(1));
    assert_eq!(stack.stats().sockets, idle + CONNECTIONS);
}

/// One connection in the midst of `idle` others, with smoltcp as it comes.
pub fn count_in_one_set(idle: usize) {
    executor::set_deferral_bound(Duration::MAX);
    let (wire, plain) = Plain::start();
    let mut bench = Bench::of(wire, plain);
    bench.measured = MEASURED_IN_ONE_SET;
    for number in 0..idle / 2 {
        bench.open(client::beyond(number));
    }
    let middle = bench.listener.keep_a_place();
    for number in idle / 2..idle {
        bench.open(client::beyond(number));
    }
    bench.listener.give_up(middle);

    bench.connect(|stream| stream);
    println!("http_request_1_beside_{idle} {}", bench.per_request(1));
}

/// Lets a second pass after the last of a second.
fn pause(number: usize) {
    if number % PER_SECOND == PER_SECOND - 1 {
        block_on(sleep(SECOND));
    }
}

/// What the stack and the program have allocated.
fn used_bytes() -> usize {
    arch::memory().allocated_bytes - client::kept_bytes()
}
