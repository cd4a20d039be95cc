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
use core::pin::Pin;
use core::task::Poll;

use firstpoll::net::TcpListener;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use httpd::{BlockOn, Counters, Session, serve};

use crate::calls::{Calls, call};
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
