//! All connections inside one future, each operation a `block_on`.
//!
//! A program that brings an executor of its own drives its connections like
//! this on a kernel that has one, too: it tries an operation, by a call of the
//! kernel; where that would wait, the kernel notes whom to wake; and when
//! nothing is left to try, it waits in one more call.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::error;
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::Poll;

use firstpoll::net::{Error, TcpListener, TcpStream};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use httpd::{BlockOn, ByteStream, Counters, Session, serve};

use crate::{PATIENCE, note};

type Connection<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub fn serve_all(
    executor: impl BlockOn + Copy,
    listener: &TcpListener,
    pages: Counters,
) -> Result<(), Box<dyn error::Error>> {
    let accepted = RefCell::new(Vec::new());
    let accepting = async {
        loop {
            match call(executor, listener.accept()).await {
                Ok(stream) => accepted.borrow_mut().push(stream),
                Err(error) => log::warn!("cannot accept: {error}"),
            }
        }
    };
    let mut connections = FuturesUnordered::<Connection<'_>>::new();
    connections.push(Box::pin(accepting));
    executor.block_on(poll_fn(|context| {
        loop {
            let next = connections.poll_next_unpin(context);
            let more: Vec<_> = accepted.borrow_mut().drain(..).collect();
            if next.is_pending() && more.is_empty() {
                return Poll::Pending;
            }
            for stream in more {
                connections.push(Box::pin(async move {
                    let stream = Calls { stream, executor };
                    note(serve(stream, Session::new(), &pages, PATIENCE).await);
                }));
            }
        }
    }))
}

/// One operation by calls of the kernel: each tries it and returns at once.
async fn call<F: Future>(executor: impl BlockOn, operation: F) -> F::Output {
    let mut operation = pin!(operation);
    poll_fn(|outer| {
        // The waker that is noted is the connection's, not the call's.
        executor.block_on(poll_fn(|_| Poll::Ready(operation.as_mut().poll(outer))))
    })
    .await
}

/// A connection whose operations are such calls.
struct Calls<E> {
    stream: TcpStream,
    executor: E,
}

impl<E: BlockOn + Copy> ByteStream for Calls<E> {
    type Error = Error;

    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        call(self.executor, self.stream.read(buffer)).await
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Error> {
        call(self.executor, self.stream.write_all(bytes)).await
    }

    async fn shutdown(&mut self) -> Result<(), Error> {
        call(self.executor, self.stream.shutdown()).await
    }
}
