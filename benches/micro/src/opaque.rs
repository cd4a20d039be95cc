//! A future that the compiler cannot see into.

use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Is pending for a given number of polls, waking itself each time, then ready.
pub(crate) struct Opaque {
    pending_polls: u32,
}

impl Opaque {
    pub(crate) fn ready() -> Self {
        Self { pending_polls: 0 }
    }

    pub(crate) fn yields_once() -> Self {
        Self { pending_polls: 1 }
    }
}

impl Future for Opaque {
    type Output = u32;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        // Through a pointer of unknown value, so that no executor is optimized
        // for what the future does.
        let poll: fn(&mut u32, &mut Context<'_>) -> Poll<u32> = black_box(poll);
        poll(&mut self.pending_polls, context)
    }
}

fn poll(pending_polls: &mut u32, context: &mut Context<'_>) -> Poll<u32> {
    if *pending_polls == 0 {
        return Poll::Ready(1);
    }
    *pending_polls -= 1;
    context.waker().wake_by_ref();
    Poll::Pending
}
