//! The guest talks to itself, on a machine without a network card.

#![no_std]
#![no_main]

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use firstpoll::net::{Error, Stack, TcpListener, TcpStream};
use firstpoll::runtime::{NetworkError, Runtime};
use firstpoll::{block_on, println, spawn};

firstpoll::entry!(main);

fn main(runtime: Runtime) -> Result<(), NetworkError> {
    let stack = runtime.loopback()?;
    for address in [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv4Addr::new(127, 1, 2, 3).into(),
        Ipv6Addr::LOCALHOST.into(),
    ] {
        match block_on(ask(stack, address)) {
            Ok(count) => println!("{address} {count}"),
            Err(error) => println!("{address}: {error}"),
        }
    }
    Ok(())
}

/// Has a hundred thousand bytes sent by a server; returns how many came.
async fn ask(stack: Stack, address: IpAddr) -> Result<usize, Error> {
    let listener = TcpListener::bind(stack, 7)?;
    let server = spawn(async move {
        let mut stream = listener.accept().await?;
        for _ in 0..100 {
            stream.write_all(&[7; 1000]).await?;
        }
        Ok::<_, Error>(())
    });
    let mut stream = TcpStream::connect(stack, SocketAddr::new(address, 7)).await?;
    let mut buffer = [0; 4096];
    let mut total = 0;
    loop {
        match stream.read(&mut buffer).await? {
            0 => break,
            count => total += count,
        }
    }
    server.await?;
    Ok(total)
}
