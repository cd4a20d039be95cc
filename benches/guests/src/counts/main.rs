//! Counts what the executor, the timers and an HTTP request cost.
//!
//! It prints `name instructions`, each per operation and with the loop
//! subtracted. Run it without a network card: the program brings its own.

#![no_std]
#![no_main]

extern crate alloc;

#[path = "../calls.rs"]
mod calls;
#[path = "../count.rs"]
mod count;
#[path = "../one_set.rs"]
mod one_set;
#[path = "../order.rs"]
mod order;

mod client;
mod http;
mod orders;
mod stages;
mod tasks;
mod timers;
mod wire;

use firstpoll::runtime::Runtime;

firstpoll::entry!(main);

fn main(_: Runtime) {
    tasks::count();
    timers::count();
    let mut bench = http::count();
    orders::count(&mut bench);
}
