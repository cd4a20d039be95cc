//! Drops streams, listeners, accepts and reads in the middle of their work.
//!
//! It goes on when a connection to port 1 comes and ends, so that the test and
//! the program are never apart by more than a step.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use core::error;

use firstpoll::net::{Error, Stack, TcpListener};
use firstpoll::runtime::Runtime;
use firstpoll::time::{Duration, sleep, timeout};
use firstpoll::{block_on, println};

firstpoll::entry!(main);

const SOON: Duration = Duration::from_millis(20);

fn main(runtime: Runtime) -> Result<(), Box<dyn error::Error>> {
    Ok(block_on(run(runtime.network()?))?)
}

async fn run(stack: Stack) -> Result<(), Error> {
    stack.wait_configured().await?;
    let listener = TcpListener::bind(stack, 80)?;
    let steps = TcpListener::bind(stack, 1)?;

    println!("next: a stream");
    drop(listener.accept().await?);

    println!("next: a stream with unread data");
    let stream = listener.accept().await?;
    step(&steps).await?;
    drop(stream);

    println!("next: a pending read");
    let mut stream = listener.accept().await?;
    let read = timeout(SOON, stream.read(&mut [0; 16])).await;
    println!(
        "the read was {}",
        if read.is_err() { "pending" } else { "ready" }
    );
    let mut byte = [0];
    let count = stream.read(&mut byte).await?;
    println!("read {count} after that");
    drop(stream);

    println!("next: a pending accept");
    let accept = timeout(SOON, listener.accept()).await;
    println!(
        "the accept was {}",
        if accept.is_err() { "pending" } else { "ready" }
    );
    println!("next: a stream after that");
    drop(listener.accept().await?);

    println!("next: a listener");
    step(&steps).await?;
    drop(listener);
    step(&steps).await?;
    let listener = TcpListener::bind(stack, 80);
    println!("bound again: {}", listener.is_ok());
    drop(listener);
    drop(steps);

    for _ in 0..50 {
        let stats = stack.stats();
        if stats.sockets == 0 {
            println!("nothing is left");
            return Ok(());
        }
        sleep(SOON).await;
    }
    println!("left: {:?}", stack.stats());
    Ok(())
}

/// Waits for a connection to come and end.
async fn step(steps: &TcpListener) -> Result<(), Error> {
    let mut stream = steps.accept().await?;
    stream.read(&mut [0]).await?;
    Ok(())
}
