//! Tasks: woken, and spawned and joined.

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Poll, Waker};

use firstpoll::{block_on, println, spawn, yield_now};

use crate::count::{each, instructions, per_round};

const ROUNDS: u64 = 10_000;

pub fn count() {
    println!("wake_to_poll {}", wake_to_poll());
    println!(
        "spawn_run_join {}",
        per_round(ROUNDS, || block_on(spawn(async {})))
    );
}

/// What the task and the blocked future share.
#[derive(Default)]
struct Meeting {
    /// The parked task's.
    task: RefCell<Option<Waker>>,
    /// The blocked future's.
    blocked: RefCell<Option<Waker>>,
    woken_at: Cell<u64>,
    total: Cell<u64>,
}

/// From the wake of a parked task, by a future that then blocks, to the first
/// instruction of the task's poll. The two stamps are part of it.
fn wake_to_poll() -> u64 {
    let meeting = Rc::new(Meeting::default());
    let task = spawn(poll_fn({
        let meeting = Rc::clone(&meeting);
        move |context| {
            let now = instructions();
            let Meeting {
                woken_at, total, ..
            } = &*meeting;
            total.set(total.get() + now - woken_at.get());
            meeting.task.replace(Some(context.waker().clone()));
            if let Some(blocked) = meeting.blocked.take() {
                blocked.wake();
            }
            Poll::<()>::Pending
        }
    }));
    block_on(yield_now());
    meeting.total.set(0);
    for _ in 0..ROUNDS {
        let mut task = meeting.task.take();
        block_on(poll_fn(|context| {
            let Some(task) = task.take() else {
                return Poll::Ready(());
            };
            meeting.blocked.replace(Some(context.waker().clone()));
            meeting.woken_at.set(instructions());
            task.wake();
            Poll::Pending
        }));
    }
    drop(task);
    each(meeting.total.get(), ROUNDS)
}
