//! The guest's end of the network benchmarks.
//!
//! `cargo xtask run netbench` boots it. Options on the kernel's command line
//! (`--append "mode=reflect ip=10.0.2.15/24"`): see [`netbench::Options`].

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::convert::Infallible;
use core::error;

use firstpoll::drivers::{self, virtio_net};
use firstpoll::net::{Buffers, Error, ListenerOptions, Stack, StreamOptions, TcpListener};
use firstpoll::runtime::Runtime;
use firstpoll::time::Duration;
use firstpoll::{block_on, println, spawn};
use netbench::{Endpoint, Mode, Options, Reflector, serve};
use netbench_protocol::Session;

firstpoll::entry!(main, options: ["mode", "port", "buffer_kib"]);

/// How many connections are served at once; more are closed.
const MAX_CONNECTIONS: usize = 32;

/// When a client that says nothing is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

fn main(runtime: Runtime) -> Result<(), Box<dyn error::Error>> {
    let options = Options::read(runtime.args());
    match options.mode {
        Mode::Serve => match block_on(serve_all(runtime.network()?, options))? {},
        Mode::Reflect => match reflect(options)? {},
    }
}

async fn serve_all(stack: Stack, options: Options) -> Result<Infallible, Error> {
    let Options {
        port, buffer_bytes, ..
    } = options;
    stack.wait_configured().await?;
    let listener_options = ListenerOptions {
        buffers: Buffers {
            receive_bytes: buffer_bytes,
            send_bytes: buffer_bytes,
        },
        stream: StreamOptions {
            nodelay: true,
            keep_alive: Some(KEEP_ALIVE),
            ..StreamOptions::default()
        },
        ..ListenerOptions::default()
    };
    let listener = TcpListener::bind_with(stack, port, listener_options)?;
    println!("listening on port {port}");
    let places = Rc::new(());
    loop {
        let stream = listener.accept().await?;
        // One of the counted is our own.
        if Rc::strong_count(&places) > MAX_CONNECTIONS {
            continue;
        }
        let session = match Session::new() {
            Ok(session) => session,
            Err(error) => {
                log::warn!("{error}");
                continue;
            }
        };
        let place = Rc::clone(&places);
        spawn(async move {
            if let Err(error) = serve(stream, session).await {
                log::debug!("a connection broke: {error}");
            }
            drop(place);
        })
        .detach();
    }
}

/// Returns only if there is no card.
fn reflect(options: Options) -> Result<Infallible, drivers::Error> {
    virtio_net::probe().map(|card| {
        let endpoint = Endpoint {
            mac: card.mac(),
            address: options.address,
            port: options.port,
        };
        let reflector = Reflector::new(card, endpoint);
        println!("listening on port {}", options.port);
        block_on(reflector)
    })
}
