//! Says hello and ends with status 0.

#![no_std]
#![no_main]

use firstpoll::println;
use firstpoll::runtime::Runtime;

firstpoll::entry!(main);

fn main(_: Runtime) {
    println!("hello from firstpoll");
}
