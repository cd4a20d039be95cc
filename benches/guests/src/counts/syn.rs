//! Segments that open connections which come to nothing, as in a flood.

use alloc::vec::Vec;

use firstpoll::net::{ListenerOptions, Stack};
use firstpoll::println;

use crate::client::{self, Client, Frame};
use crate::count::each;
use crate::http::{BUFFERS, Bench, listen};
use crate::wire::Sums;

/// The SYNs of each measurement, each from an address of its own.
const SYNS: usize = 1024;

/// Of established connections that nobody accepts.
const BACKLOG: usize = 8;

pub fn count() {
    let options = ListenerOptions {
        buffers: BUFFERS,
        backlog: BACKLOG,
        ..ListenerOptions::default()
    };
    let (wire, stack, listener) = listen(options, Sums::Card);
    let mut bench = Bench::of(wire, listener);

    // The first ones take all places of half-open connections.
    flood(&bench, 0, 1);
    let count = flood(&bench, SYNS, 1);
    assert_eq!(stack.stats().half_open_evicted, SYNS as u64);
    println!("syn_in_a_flood {count}");

    fill_backlog(&mut bench, stack);
    let count = flood(&bench, 2 * SYNS, 0);
    assert_eq!(stack.stats().backlog_full, SYNS as u64);
    println!("syn_to_a_full_backlog {count}");
}

/// Instructions per SYN, each from one of the addresses that follow `first`.
fn flood(bench: &Bench, first: usize, answers_each: usize) -> u64 {
    let syn = |number| Client::connect(client::beyond(first + number)).1;
    let frames: Vec<Frame> = (0..SYNS).map(syn).collect();
    let total = frames
        .iter()
        .map(|&frame| bench.ask(&[frame], answers_each));
    each(total.sum(), SYNS as u64)
}

/// Lets connections be established that are not accepted.
fn fill_backlog(bench: &mut Bench, stack: Stack) {
    for number in 0..BACKLOG {
        let (mut client, syn) = Client::connect(client::beyond(4 * SYNS + number));
        bench.ask(&[syn], 1);
        let ack = client.accept(&bench.wire.last_sent());
        bench.ask(&[ack], 0);
    }
    let stats = stack.stats();
    assert_eq!(stats.sockets - stats.half_open, BACKLOG);
}
