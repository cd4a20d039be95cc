//! Connections out of the guest that fail in different ways.
//!
//! `peer=` is the address of a host that listens on port 80 and resets what it
//! accepts; `nobody=` is an address that nobody has.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use core::error;
use core::net::{Ipv4Addr, SocketAddr};

use firstpoll::arch::now;
use firstpoll::net::{Error, Stack, TcpListener, TcpOptions, TcpStream};
use firstpoll::runtime::Runtime;
use firstpoll::time::Duration;
use firstpoll::{block_on, println};

firstpoll::entry!(main, options: ["peer", "nobody"]);

const TIMEOUT: Duration = Duration::from_secs(3);

fn main(runtime: Runtime) -> Result<(), Box<dyn error::Error>> {
    let args = runtime.args();
    let (Some(peer), Some(nobody)) = (args.parse("peer"), args.parse("nobody")) else {
        return Err("peer= and nobody= are needed".into());
    };
    Ok(run(runtime.network()?, peer, nobody)?)
}

fn run(stack: Stack, peer: Ipv4Addr, nobody: Ipv4Addr) -> Result<(), Error> {
    block_on(stack.wait_configured())?;

    let _listener = TcpListener::bind(stack, 80)?;
    println!("bound twice: {}", outcome(TcpListener::bind(stack, 80)));

    let closed = block_on(TcpStream::connect(stack, SocketAddr::from((peer, 81))));
    println!("closed port: {}", outcome(closed));

    // The host may begin to listen a little later than this.
    let deadline = now() + TIMEOUT;
    let mut stream = loop {
        match block_on(TcpStream::connect(stack, SocketAddr::from((peer, 80)))) {
            Err(Error::ConnectionRefused) if now() < deadline => {}
            connected => break connected?,
        }
    };
    block_on(stream.write_all(b"x"))?;
    println!("reset: {}", outcome(block_on(stream.read(&mut [0; 16]))));

    let options = TcpOptions {
        connect_timeout: TIMEOUT,
        ..TcpOptions::default()
    };
    let start = now();
    let unanswered = TcpStream::connect_with(stack, SocketAddr::from((nobody, 80)), options);
    let unanswered = outcome(block_on(unanswered));
    println!(
        "nobody: {unanswered} after {} ms",
        (now() - start).as_millis()
    );
    Ok(())
}

fn outcome<T>(result: Result<T, Error>) -> &'static str {
    match result {
        Ok(_) => "Ok",
        Err(Error::AddrInUse) => "AddrInUse",
        Err(Error::ConnectionRefused) => "ConnectionRefused",
        Err(Error::ConnectionReset) => "ConnectionReset",
        Err(Error::TimedOut) => "TimedOut",
        Err(_) => "another error",
    }
}
