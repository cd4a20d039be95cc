//! Connections out of the guest that fail in different ways.
//!
//! `peer=` is the address of a host that listens on port 80 and resets what it
//! accepts; `nobody=` is an address that nobody has.

#![no_std]
#![no_main]

use core::net::{Ipv4Addr, SocketAddr};

use firstpoll::arch::now;
use firstpoll::net::{Error, Stack, TcpListener, TcpOptions, TcpStream};
use firstpoll::runtime::{ExitStatus, Runtime};
use firstpoll::time::Duration;
use firstpoll::{block_on, println};

firstpoll::entry!(main, options: ["peer", "nobody"]);

const TIMEOUT: Duration = Duration::from_secs(3);

fn main(runtime: Runtime) -> ExitStatus {
    let args = runtime.args();
    let address = |name| args.get(name)?.parse::<Ipv4Addr>().ok();
    let (Some(peer), Some(nobody)) = (address("peer"), address("nobody")) else {
        println!("peer= and nobody= are needed");
        return ExitStatus::FAILURE;
    };
    match runtime.network().and_then(|stack| run(stack, peer, nobody)) {
        Ok(()) => ExitStatus::SUCCESS,
        Err(error) => {
            println!("no network: {error:?}");
            ExitStatus::FAILURE
        }
    }
}

fn run(stack: Stack, peer: Ipv4Addr, nobody: Ipv4Addr) -> Result<(), Error> {
    block_on(stack.wait_configured())?;

    let _listener = TcpListener::bind(stack, 80)?;
    println!("bound twice: {}", outcome(TcpListener::bind(stack, 80)));

    let closed = block_on(TcpStream::connect(stack, SocketAddr::from((peer, 81))));
    println!("closed port: {}", outcome(closed));

    let mut stream = block_on(TcpStream::connect(stack, SocketAddr::from((peer, 80))))?;
    println!("reset: {}", outcome(block_on(stream.read(&mut [0; 16]))));

    let options = TcpOptions {
        connect_timeout: TIMEOUT,
        ..TcpOptions::default()
    };
    let start = now();
    let unanswered = TcpStream::connect_with(stack, SocketAddr::from((nobody, 80)), options);
    let unanswered = outcome(block_on(unanswered));
    println!("nobody: {unanswered} after {} ms", (now() - start).as_millis());
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
