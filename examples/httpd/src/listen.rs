//! Listening, and who serves the connections that come.

use alloc::rc::Rc;

use firstpoll::net::{Error, Stack, TcpListener, TcpStream};
use firstpoll::time::{Duration, sleep};
use firstpoll::{block_on, println, spawn};

use crate::answer::Pages;
use crate::options::Options;
use crate::serve::{ReadyFirst, serve, serve_blocking};
use crate::session::Session;

/// How many connections too many are told so at the same time; more are just
/// closed.
const MAX_REFUSALS: usize = 16;

/// How long such a connection may linger.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(1);

/// The wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens as `options` say, once `stack` has an address, and prints so.
///
/// # Errors
///
/// If the network cannot be used.
pub fn listen(stack: Stack, options: Options) -> Result<TcpListener, Error> {
    let config = block_on(stack.wait_configured())?;
    let listener = TcpListener::bind(stack, options.port)?;
    log::info!("serving at {config}");
    println!("listening on port {}", options.port);
    Ok(listener)
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

/// A task for every connection, which is served by `form`; that calls [`end`]
/// last.
///
/// Each accept is a `block_on` of its own: while connections come without
/// pause, it is always ready, and only the deferral lets the tasks run. One
/// future that accepted in a loop would never let go.
pub fn serve_all<F>(
    listener: &TcpListener,
    pages: impl Pages + Copy + 'static,
    options: Options,
    form: impl Fn(TcpStream, Place) -> F,
) -> !
where
    F: Future<Output = ()> + 'static,
{
    let served = Places::new(options.max_clients);
    let refused = Places::new(MAX_REFUSALS);
    loop {
        let stream = accept(listener);
        if let Some(place) = served.take() {
            spawn(form(stream, place)).detach();
        } else if let Some(place) = refused.take() {
            spawn(async move {
                let refused = serve(stream, Session::refusing(), &pages, REFUSAL_PATIENCE).await;
                end(refused, place);
            })
            .detach();
        }
    }
}

/// The end of a connection, which gives its place back.
pub fn end(served: Result<(), Error>, _place: Place) {
    if let Err(error) = served {
        log::debug!("a connection broke: {error}");
    }
}

/// One connection after the other; the rest waits in the backlog.
pub fn serve_one_by_one(listener: &TcpListener, pages: &impl Pages, options: Options) -> ! {
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

/// A connection's place among those that are served, given back when it is
/// dropped.
#[derive(Debug)]
pub struct Place {
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
