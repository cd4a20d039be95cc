//! HTTP requests with either order of `block_on`: the future first, and the
//! queued tasks first.
//!
//! The program `seed` is the same on a real network.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Poll, Waker};

use firstpoll::net::TcpStream;
use firstpoll::{println, spawn, yield_now};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use httpd::{BlockOn, ByteStream, ReadyFirst, Session, serve};

use crate::calls::Calls;
use crate::client::Frame;
use crate::count::{each, instructions};
use crate::http::{AT_ONCE, Bench, CONNECTIONS, NoPages, PATIENCE};
use crate::one_set;
use crate::order::PassFirst;
use crate::wire::Wire;

pub fn count(bench: &mut Bench) {
    use Background::{AlwaysReady, Nothing};
    println!("seed_tasks_new {}", tasks(ReadyFirst, bench));
    println!("seed_tasks_old {}", tasks(PassFirst, bench));
    println!("seed_calls_new {}", calls(ReadyFirst, bench, Nothing));
    println!("seed_calls_old {}", calls(PassFirst, bench, Nothing));
    println!(
        "seed_calls_busy_new {}",
        calls(ReadyFirst, bench, AlwaysReady)
    );
    println!(
        "seed_calls_busy_old {}",
        calls(PassFirst, bench, AlwaysReady)
    );
}

/// What else there is to do.
#[derive(Clone, Copy, PartialEq)]
enum Background {
    Nothing,
    /// A task that is always ready, as the network is where all its sockets
    /// are in one set.
    AlwaysReady,
}

/// A task per connection.
fn tasks(executor: impl BlockOn, bench: &mut Bench) -> u64 {
    let answers = Rc::new(Answers::default());
    for connection in connect(bench, &answers, |stream| stream) {
        spawn(connection).detach();
    }
    per_request(bench, &answers, Background::Nothing, |driver| {
        executor.block_on(driver);
    })
}

/// All connections in one future, a `block_on` per operation.
fn calls(executor: impl BlockOn + Copy + 'static, bench: &mut Bench, others: Background) -> u64 {
    let answers = Rc::new(Answers::default());
    let served = connect(bench, &answers, |stream| Calls { stream, executor });
    let mut connections: FuturesUnordered<_> = served.into_iter().collect();
    let count = per_request(bench, &answers, others, |mut driver| {
        executor.block_on(poll_fn(|context| {
            // A connection never ends.
            let _ = connections.poll_next_unpin(context);
            driver.as_mut().poll(context)
        }));
    });
    // Nobody answers if they close.
    core::mem::forget(connections);
    count
}

type Served = Pin<Box<dyn Future<Output = ()>>>;

/// Connections, each with its server.
fn connect<S: ByteStream + 'static>(
    bench: &mut Bench,
    answers: &Rc<Answers>,
    stream: impl Fn(TcpStream) -> S,
) -> Vec<Served> {
    bench.clients.clear();
    let connections = (0..CONNECTIONS).map(|_| {
        let stream = Noted {
            stream: stream(bench.accept()),
            answers: Rc::clone(answers),
        };
        Box::pin(async {
            let end = serve(stream, Session::new(), &NoPages, PATIENCE).await;
            end.expect("the connection holds");
        }) as Served
    });
    connections.collect()
}

/// Instructions per request. `run` runs the future to its end that sends all
/// clients' requests.
fn per_request(
    bench: &mut Bench,
    answers: &Answers,
    others: Background,
    mut run: impl FnMut(Pin<Box<dyn Future<Output = ()> + '_>>),
) -> u64 {
    let mut count = 0;
    for _warm_up in [true, false] {
        let frames = bench.requests();
        let background = (others == Background::AlwaysReady).then(|| spawn(one_set::poll()));
        ReadyFirst.block_on(yield_now()); // The first poll prepares.
        let start = instructions();
        run(Box::pin(drive(&bench.wire, &frames, answers)));
        count = each(instructions() - start, frames.len() as u64);
        drop(background);
        bench.finish();
    }
    count
}

/// Sends requests, some together, and waits for their answers.
async fn drive(wire: &Wire, frames: &[Frame], answers: &Answers) {
    for frames in frames.chunks(AT_ONCE) {
        answers.left.set(frames.len());
        for frame in frames {
            wire.put(frame);
        }
        wire.interrupt();
        answers.all().await;
    }
}

/// How many answers are still to be written.
#[derive(Default)]
struct Answers {
    left: Cell<usize>,
    waiting: RefCell<Option<Waker>>,
}

impl Answers {
    fn written(&self) {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0
            && let Some(waiting) = self.waiting.take()
        {
            waiting.wake();
        }
    }

    async fn all(&self) {
        poll_fn(|context| {
            if self.left.get() == 0 {
                return Poll::Ready(());
            }
            self.waiting.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

/// A connection whose answers are counted.
struct Noted<S> {
    stream: S,
    answers: Rc<Answers>,
}

impl<S: ByteStream> ByteStream for Noted<S> {
    type Error = S::Error;

    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, S::Error> {
        self.stream.read(buffer).await
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), S::Error> {
        let written = self.stream.write_all(bytes).await;
        self.answers.written();
        written
    }

    async fn shutdown(&mut self) -> Result<(), S::Error> {
        self.stream.shutdown().await
    }
}
