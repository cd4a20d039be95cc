//! `block_on` of futures that are ready, that yield, and that another thread
//! wakes.

use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::opaque::Opaque;
use crate::run::{Run, timed};
use crate::system::BlockOn;

pub(crate) fn ready<S: BlockOn + 'static>() -> Run {
    let system = S::new();
    Box::new(move |times| {
        timed(times, || {
            black_box(system.block_on(Opaque::ready()));
        })
    })
}

pub(crate) fn yields_once<S: BlockOn + 'static>() -> Run {
    let system = S::new();
    Box::new(move |times| {
        timed(times, || {
            black_box(system.block_on(Opaque::yields_once()));
        })
    })
}

/// The other thread sleeps until it is handed the waker.
pub(crate) fn other_thread<S: BlockOn + 'static>() -> Run {
    let system = S::new();
    let (sender, receiver) = mpsc::channel::<Waker>();
    let done = Arc::new(AtomicBool::new(false));
    let set_done = Arc::clone(&done);
    // Ends with the sender.
    thread::spawn(move || {
        for waker in receiver {
            set_done.store(true, SeqCst);
            waker.wake();
        }
    });
    Box::new(move |times| {
        timed(times, || {
            done.store(false, SeqCst);
            system.block_on(WokenElsewhere {
                sender: Some(&sender),
                done: &done,
            });
        })
    })
}

/// Hands its waker to the other thread once.
struct WokenElsewhere<'a> {
    sender: Option<&'a mpsc::Sender<Waker>>,
    done: &'a AtomicBool,
}

impl Future for WokenElsewhere<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(sender) = self.sender.take() {
            let sent = sender.send(context.waker().clone());
            sent.expect("the thread waits for it");
            return Poll::Pending;
        }
        match self.done.load(SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}
