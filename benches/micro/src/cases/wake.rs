//! The wake of a task.
//!
//! It is one atomic instruction on every system but futures' pool, since a wake
//! has to hand on what its caller has written. So those on async-task, firstpoll
//! among them, are equal, and differ from embassy's by the look at whether the
//! task has ended.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;

use atomic_waker::AtomicWaker;

use super::Gate;
use crate::run::{Run, timed};
use crate::system::Tasks;

/// Of a task that is queued already, while the executor does not run.
pub(crate) fn queued<S: Tasks + 'static>() -> Run {
    let system = S::new();
    Box::new(move |times| {
        let shared = Arc::new(Shared {
            waker: AtomicWaker::new(),
            registered: Gate::new(1),
            stop: AtomicBool::new(false),
            stopped: Gate::new(1),
        });
        system.spawn_detached(task(Arc::clone(&shared)));
        system.run_until(&shared.registered);
        let waker = shared.waker.take().expect("the task has registered it");
        waker.wake_by_ref();
        let took = timed(times, || waker.wake_by_ref());

        shared.stop.store(true, SeqCst);
        system.run_until(&shared.stopped);
        took
    })
}

struct Shared {
    waker: AtomicWaker,
    registered: Gate,
    stop: AtomicBool,
    stopped: Gate,
}

async fn task(shared: Arc<Shared>) {
    let mut registered = false;
    poll_fn(|context| {
        if shared.stop.load(SeqCst) {
            return Poll::Ready(());
        }
        if !registered {
            registered = true;
            shared.waker.register(context.waker());
            shared.registered.arrive();
        }
        Poll::Pending
    })
    .await;
    shared.stopped.arrive();
}
