//! TCP services of exact byte counts, a task for each connection.
//!
//! | port | what it does |
//! |---|---|
//! | 7 | sends back what it receives |
//! | 9 | reads to the end, then answers `N bytes, M wrong` |
//! | 13 | writes `hello`, then does nothing more and keeps the connection |
//! | 19 | reads a number N and a line feed, sends N bytes, ends |
//!
//! Byte n of what is counted is n modulo 251.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use core::future::pending;

use firstpoll::net::{Error, Stack, TcpListener, TcpStream};
use firstpoll::runtime::{ExitStatus, Runtime};
use firstpoll::{block_on, println, spawn};

firstpoll::entry!(main);

fn main(runtime: Runtime) -> ExitStatus {
    let result = runtime.network().and_then(run);
    println!("cannot serve: {result:?}");
    ExitStatus::FAILURE
}

fn run(stack: Stack) -> Result<(), Error> {
    block_on(stack.wait_configured())?;
    let echoing = spawn(accept_all(TcpListener::bind(stack, 7)?, echo));
    let sinking = spawn(accept_all(TcpListener::bind(stack, 9)?, sink));
    let greeting = spawn(accept_all(TcpListener::bind(stack, 13)?, greet));
    let sourcing = spawn(accept_all(TcpListener::bind(stack, 19)?, source));
    println!("ready");
    block_on(async {
        echoing.await?;
        sinking.await?;
        greeting.await?;
        sourcing.await
    })
}

async fn accept_all<F>(listener: TcpListener, serve: fn(TcpStream) -> F) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>> + 'static,
{
    loop {
        let serving = serve(listener.accept().await?);
        spawn(async move {
            if let Err(error) = serving.await {
                println!("broken: {error:?}");
            }
        })
        .detach();
    }
}

async fn echo(mut stream: TcpStream) -> Result<(), Error> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return stream.shutdown().await,
            count => stream.write_all(&buffer[..count]).await?,
        }
    }
}

async fn sink(mut stream: TcpStream) -> Result<(), Error> {
    let mut buffer = [0; 4096];
    let (mut total, mut wrong) = (0_u64, 0_u64);
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            break;
        }
        for &byte in &buffer[..count] {
            wrong += u64::from(u64::from(byte) != total % 251);
            total += 1;
        }
    }
    let answer = format!("{total} bytes, {wrong} wrong");
    stream.write_all(answer.as_bytes()).await
}

async fn greet(mut stream: TcpStream) -> Result<(), Error> {
    stream.write_all(b"hello").await?;
    pending().await
}

async fn source(mut stream: TcpStream) -> Result<(), Error> {
    let mut left = read_number(&mut stream).await?;
    let mut next = 0_u8;
    let mut buffer = [0; 4096];
    while left > 0 {
        let count = left.min(buffer.len());
        for byte in &mut buffer[..count] {
            *byte = next;
            next = (next + 1) % 251;
        }
        stream.write_all(&buffer[..count]).await?;
        left -= count;
    }
    stream.shutdown().await
}

/// Decimal digits up to a line feed or the end.
async fn read_number(stream: &mut TcpStream) -> Result<usize, Error> {
    let mut number = 0;
    let mut byte = [0];
    while stream.read(&mut byte).await? == 1 && byte[0].is_ascii_digit() {
        number = number * 10 + usize::from(byte[0] - b'0');
    }
    Ok(number)
}
