//! Connects out again and again.
//!
//! `peer=` is the address of a host that listens on port 80; `count=` says how
//! often to connect, and `hold=` how many connections to keep meanwhile, spread
//! over the time. What is kept is told so by a byte `k`.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::error;
use core::net::{IpAddr, SocketAddr};

use firstpoll::net::{Error, Stack, TcpStream};
use firstpoll::runtime::Runtime;
use firstpoll::{block_on, println};

firstpoll::entry!(main, options: ["peer", "count", "hold"]);

fn main(runtime: Runtime) -> Result<(), Box<dyn error::Error>> {
    let args = runtime.args();
    let (Some(peer), Some(count), Some(hold)) =
        (args.parse("peer"), args.parse("count"), args.parse("hold"))
    else {
        return Err("peer=, count= and hold= are needed".into());
    };
    Ok(block_on(run(runtime.network()?, peer, count, hold))?)
}

async fn run(stack: Stack, peer: IpAddr, count: usize, hold: usize) -> Result<(), Error> {
    stack.wait_configured().await?;
    let every = (count / hold.max(1)).max(1);
    let mut held = Vec::new();
    for number in 0..count {
        let mut stream = TcpStream::connect(stack, SocketAddr::from((peer, 80))).await?;
        if number % every == 0 {
            stream.write_all(b"k").await?;
            held.push(stream);
        }
    }
    println!("connected {}", stack.stats().connected);
    for stream in &mut held {
        let mut answer = [0];
        if stream.read(&mut answer).await? != 1 {
            println!("a kept connection was lost");
        }
    }
    println!("held {}", held.len());
    Ok(())
}
