//! A gate that opens when a number of tasks are done.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

use atomic_waker::AtomicWaker;

/// See the module.
pub(crate) struct Gate {
    missing: AtomicUsize,
    waiting: AtomicWaker,
}

impl Gate {
    pub(crate) fn new(tasks: usize) -> Self {
        Self {
            missing: AtomicUsize::new(tasks),
            waiting: AtomicWaker::new(),
        }
    }

    /// One more task is done.
    pub(crate) fn arrive(&self) {
        if self.missing.fetch_sub(1, SeqCst) == 1 {
            self.waiting.wake();
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.missing.load(SeqCst) == 0
    }

    /// Completes when the gate is open.
    pub(crate) async fn wait(&self) {
        poll_fn(|context| {
            self.waiting.register(context.waker());
            match self.is_open() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}
