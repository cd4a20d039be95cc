//! Sends back what it receives on TCP port 80, as RFC 862 has it.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;

use firstpoll::net::{Error, Stack, TcpListener, TcpStream};
use firstpoll::runtime::Runtime;
use firstpoll::{block_on, println, spawn};

firstpoll::entry!(main);

const PORT: u16 = 80;

fn main(runtime: Runtime) -> Result<(), Box<dyn core::error::Error>> {
    Ok(block_on(serve(runtime.network()?))?)
}

async fn serve(stack: Stack) -> Result<(), Error> {
    let config = stack.wait_configured().await?;
    let listener = TcpListener::bind(stack, PORT)?;
    println!("the address is {config}");
    println!("listening on port {PORT}");
    loop {
        let stream = listener.accept().await?;
        spawn(echo(stream)).detach();
    }
}

async fn echo(mut stream: TcpStream) -> Result<(), Error> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count]).await?,
        }
    }
}
