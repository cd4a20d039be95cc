//! The experiment that firstpoll comes from: the same servers with a `block_on`
//! that polls the future first (`order=new`) and with one that runs the queued
//! tasks first (`order=old`).
//!
//! - `shape=tasks`: httpd as it is, a task for each connection.
//! - `shape=syscalls`: an executor of the program's own drives all connections
//!   inside one future, and each operation of a socket is a `block_on`, as
//!   where operations are calls of a kernel.
//! - `shape=blocking`: httpd as it is with `mode=blocking`.
//! - `shape=bulk`: netbench's streams, one after the other, each read and write
//!   a `block_on`.
//!
//! `background=one_set` adds a task that is always ready: it polls a network
//! stack that has 128 idle connections in one set, and then wakes itself.

#![no_std]
#![no_main]

extern crate alloc;

#[path = "../calls.rs"]
mod calls;
#[path = "../one_set.rs"]
mod one_set;
#[path = "../order.rs"]
mod order;

mod bulk;
mod syscalls;

use alloc::boxed::Box;
use core::error;

use firstpoll::net::{Buffers, ListenerOptions, TcpListener, TcpStream};
use firstpoll::runtime::{Args, Runtime};
use firstpoll::time::Duration;
use firstpoll::{println, spawn};
use httpd::{BlockOn, Counters, ReadyFirst, Session, serve, serve_blocking};

use crate::order::PassFirst;

firstpoll::entry!(main, options: ["order", "shape", "background"]);

const PORT: u16 = 80;

/// As httpd has it.
const PATIENCE: Duration = Duration::from_secs(10);

/// As httpd has them.
const SMALL: Buffers = Buffers {
    receive_bytes: 4 << 10,
    send_bytes: 4 << 10,
};

/// As netbench has them.
const LARGE: Buffers = Buffers {
    receive_bytes: 256 << 10,
    send_bytes: 256 << 10,
};

fn main(runtime: Runtime) -> Result<(), Box<dyn error::Error>> {
    match runtime.args().get("order") {
        Some("new") => run(ReadyFirst, runtime),
        Some("old") => run(PassFirst, runtime),
        _ => Err("order= is new or old".into()),
    }
}

fn run(
    executor: impl BlockOn + Copy + 'static,
    runtime: Runtime,
) -> Result<(), Box<dyn error::Error>> {
    let args = runtime.args();
    let serve = match args.get("shape") {
        Some("tasks") => tasks,
        Some("syscalls") => syscalls::serve_all,
        Some("blocking") => blocking,
        Some("bulk") => bulk::serve_all,
        _ => return Err("shape= is tasks, syscalls, blocking or bulk".into()),
    };
    let stack = runtime.network()?;
    executor.block_on(stack.wait_configured())?;
    let options = ListenerOptions {
        buffers: buffers(args),
        ..ListenerOptions::default()
    };
    let listener = TcpListener::bind_with(stack, PORT, options)?;
    match args.get("background") {
        Some("one_set") => spawn(one_set::poll()).detach(),
        Some("none") | None => {}
        Some(_) => return Err("background= is none or one_set".into()),
    }
    println!("listening on port {PORT}");
    serve(executor, &listener, Counters::new(stack))
}

fn buffers(args: Args) -> Buffers {
    match args.get("shape") {
        Some("bulk") => LARGE,
        _ => SMALL,
    }
}

fn accept(executor: impl BlockOn, listener: &TcpListener) -> TcpStream {
    loop {
        match executor.block_on(listener.accept()) {
            Ok(stream) => return stream,
            Err(error) => log::warn!("cannot accept: {error}"),
        }
    }
}

fn tasks(
    executor: impl BlockOn + Copy,
    listener: &TcpListener,
    pages: Counters,
) -> Result<(), Box<dyn error::Error>> {
    loop {
        let stream = accept(executor, listener);
        spawn(async move {
            let served = serve(stream, Session::new(), &pages, PATIENCE).await;
            note(served);
        })
        .detach();
    }
}

fn blocking(
    executor: impl BlockOn + Copy,
    listener: &TcpListener,
    pages: Counters,
) -> Result<(), Box<dyn error::Error>> {
    loop {
        let stream = accept(executor, listener);
        let served = serve_blocking(executor, stream, Session::new(), &pages, PATIENCE);
        note(served);
    }
}

fn note(served: Result<(), firstpoll::net::Error>) {
    if let Err(error) = served {
        log::debug!("a connection broke: {error}");
    }
}
