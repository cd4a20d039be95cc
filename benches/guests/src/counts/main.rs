//! Counts what the executor, the timers, a network card's driver and an HTTP
//! request cost.
//!
//! It prints `name instructions`, each per operation and with the loop
//! subtracted. Run it without a network card: the program brings its own.
//!
//! With `idle=N` on the command line it counts an HTTP request beside N idle
//! connections instead, with `sockets=one-set` also on the command line
//! smoltcp's as it comes.

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

mod card;
mod client;
mod http;
mod idle;
mod orders;
mod plain;
mod stages;
mod syn;
mod tasks;
mod timers;
mod wire;

use firstpoll::runtime::Runtime;

firstpoll::entry!(main, options: ["idle", "sockets"]);

fn main(runtime: Runtime) {
    let args = runtime.args();
    match (args.parse("idle"), args.get("sockets")) {
        (None, None) => count_all(),
        (Some(idle), None) => idle::count(idle),
        (Some(idle), Some("one-set")) => idle::count_in_one_set(idle),
        (_, sockets) => panic!("sockets={sockets:?} cannot be counted"),
    }
}

fn count_all() {
    tasks::count();
    timers::count();
    card::count();
    let mut bench = http::count();
    orders::count(&mut bench);
    syn::count();
}
