//! TCP services of exact byte counts, a task for each connection.
//!
//! | port | what it does |
//! |---|---|
//! | 7 | sends back what it receives |
//! | 9 | reads to the end, then answers `N bytes, M wrong` |
//! | 11 | tells what the stack and the heap hold, `name value` in each line |
//! | 13 | writes `hello`, then does nothing more and keeps the connection |
//! | 19 | reads a number N and a line feed, sends N bytes, ends |
//! | 22 | reads N and a line feed, then writes 40 bytes, writes 40 bytes and reads one, N times |
//! | 23 | the same with Nagle's algorithm on |
//!
//! Byte n of what is counted is n modulo 251. `buffer_bytes=` is the size of
//! each connection's buffers.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use core::cell::Cell;
use core::error;
use core::future::pending;

use firstpoll::net::{Buffers, Error, ListenerOptions, Stack, TcpListener, TcpStream};
use firstpoll::runtime::Runtime;
use firstpoll::time::{Duration, interval};
use firstpoll::{arch, block_on, println, spawn};

firstpoll::entry!(main, options: ["buffer_bytes"]);

/// How often the count of ticks goes up.
const TICK: Duration = Duration::from_millis(10);

fn main(runtime: Runtime) -> Result<(), Box<dyn error::Error>> {
    let mut buffers = Buffers::default();
    if let Some(bytes) = runtime.args().parse("buffer_bytes") {
        buffers = Buffers {
            receive_bytes: bytes,
            send_bytes: bytes,
        };
    }
    Ok(run(runtime.network()?, buffers)?)
}

fn run(stack: Stack, buffers: Buffers) -> Result<(), Error> {
    block_on(stack.wait_configured())?;
    let options = ListenerOptions {
        buffers,
        ..ListenerOptions::default()
    };
    let listen = |port| TcpListener::bind_with(stack, port, options);
    let ticks = count_ticks();
    let tell = move |stream| report(stream, stack, Rc::clone(&ticks));
    let serving = [
        spawn(accept_all(listen(7)?, echo)),
        spawn(accept_all(listen(9)?, sink)),
        spawn(accept_all(listen(11)?, tell)),
        spawn(accept_all(listen(13)?, greet)),
        spawn(accept_all(listen(19)?, source)),
        spawn(accept_all(listen(22)?, |stream| pairs(stream, true))),
        spawn(accept_all(listen(23)?, |stream| pairs(stream, false))),
    ];
    println!("ready");
    block_on(async {
        for task in serving {
            task.await?;
        }
        Ok(())
    })
}

async fn accept_all<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F) -> Result<(), Error>
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

/// Counts as long as timers fire.
fn count_ticks() -> Rc<Cell<u64>> {
    let ticks = Rc::new(Cell::new(0));
    let counted = Rc::clone(&ticks);
    spawn(async move {
        let mut interval = interval(TICK);
        loop {
            interval.tick().await;
            counted.set(counted.get() + 1);
        }
    })
    .detach();
    ticks
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

async fn report(mut stream: TcpStream, stack: Stack, ticks: Rc<Cell<u64>>) -> Result<(), Error> {
    let stats = stack.stats();
    let memory = arch::memory();
    let lines = [
        ("sockets", stats.sockets as u64),
        ("half_open", stats.half_open as u64),
        ("orphans", stats.orphans as u64),
        ("closing", stats.closing as u64),
        ("time_wait", stats.time_wait as u64),
        ("socket_bytes", stats.socket_bytes as u64),
        ("buffer_bytes", stats.buffer_bytes as u64),
        ("table_bytes", stats.table_bytes as u64),
        ("accepted", stats.accepted),
        ("out_of_memory", stats.out_of_memory),
        ("refused_connections", stats.refused_connections),
        ("refused_buffers", stats.refused_buffers),
        ("half_open_evicted", stats.half_open_evicted),
        ("send_queue_full", stats.send_queue_full),
        ("unannounced", stats.unannounced),
        ("card_faults", stats.card_faults),
        ("allocated_bytes", memory.allocated_bytes as u64),
        ("heap_bytes", memory.heap_bytes as u64),
        ("ticks", ticks.get()),
    ];
    for (name, value) in lines {
        stream
            .write_all(format!("{name} {value}\n").as_bytes())
            .await?;
    }
    Ok(())
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

async fn pairs(mut stream: TcpStream, nodelay: bool) -> Result<(), Error> {
    stream.set_nodelay(nodelay);
    for _ in 0..read_number(&mut stream).await? {
        stream.write_all(&[b'1'; 40]).await?;
        stream.write_all(&[b'2'; 40]).await?;
        if stream.read(&mut [0]).await? == 0 {
            break;
        }
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
