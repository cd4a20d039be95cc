//! An HTTP/1.1 server without an operating system.
//!
//! `cargo xtask run httpd` boots it. Options on the kernel's command line
//! (`--append "mode=blocking read_timeout_ms=500"`): see [`httpd::Options`].

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::convert::Infallible;
use core::error;

use firstpoll::net::{Error, Stack, TcpListener, TcpStream};
use firstpoll::runtime::Runtime;
use firstpoll::time::{Duration, sleep};
use firstpoll::{block_on, println, spawn};
use httpd::{Counters, Mode, Options, ReadyFirst, Session, serve, serve_blocking};

firstpoll::entry!(
    main,
    options: ["mode", "port", "max_connections", "read_timeout_ms"],
);

/// How many connections too many are told so at the same time; more are just
/// closed.
const MAX_REFUSALS: usize = 16;

/// How long such a connection may linger.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(1);

/// The wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

fn main(runtime: Runtime) -> Result<(), Box<dyn error::Error>> {
    let options = Options::read(runtime.args());
    match run(runtime.network()?, options)? {}
}

/// Returns only if the network cannot be used.
fn run(stack: Stack, options: Options) -> Result<Infallible, Error> {
    let config = block_on(stack.wait_configured())?;
    let listener = TcpListener::bind(stack, options.port)?;
    log::info!("serving at {config}");
    println!("listening on port {}", options.port);
    let pages = Counters::new(stack);
    match options.mode {
        Mode::Async => serve_all(&listener, pages, options),
        Mode::Blocking => serve_one_by_one(&listener, &pages, options),
    }
}

/// The next connection.
fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match block_on(listener.accept()) {
            Ok(stream) => return stream,
            // Memory comes back when a connection ends.
            Err(error) => log::warn!("cannot accept: {error}"),
        }
        block_on(sleep(ACCEPT_PAUSE));
    }
}

/// A task for every connection.
///
/// Each accept is a `block_on` of its own: while connections come without
/// pause, it is always ready, and only the deferral lets the tasks run. One
/// future that accepted in a loop would never let go.
fn serve_all(listener: &TcpListener, pages: Counters, options: Options) -> ! {
    let served = Places::new(options.max_connections);
    let refused = Places::new(MAX_REFUSALS);
    loop {
        let stream = accept(listener);
        if let Some(place) = served.take() {
            spawn(answer(
                stream,
                Session::new(),
                pages,
                options.read_timeout,
                place,
            ))
            .detach();
        } else if let Some(place) = refused.take() {
            spawn(answer(
                stream,
                Session::refusing(),
                pages,
                REFUSAL_PATIENCE,
                place,
            ))
            .detach();
        }
    }
}

async fn answer(
    stream: TcpStream,
    session: Session,
    pages: Counters,
    patience: Duration,
    _place: Place,
) {
    if let Err(error) = serve(stream, session, &pages, patience).await {
        log::debug!("a connection broke: {error}");
    }
}

/// One connection after the other; the rest waits in the backlog.
fn serve_one_by_one(listener: &TcpListener, pages: &Counters, options: Options) -> ! {
    loop {
        let stream = accept(listener);
        let served = serve_blocking(
            ReadyFirst,
            stream,
            Session::new(),
            pages,
            options.read_timeout,
        );
        if let Err(error) = served {
            log::debug!("a connection broke: {error}");
        }
    }
}

/// A limit on how many there are at once: each holds a [`Place`].
struct Places {
    limit: usize,
    taken: Rc<()>,
}

/// Given back when it is dropped.
struct Place {
    _taken: Rc<()>,
}

impl Places {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            taken: Rc::new(()),
        }
    }

    fn take(&self) -> Option<Place> {
        // One of the counted is our own.
        (Rc::strong_count(&self.taken) <= self.limit).then(|| Place {
            _taken: Rc::clone(&self.taken),
        })
    }
}
