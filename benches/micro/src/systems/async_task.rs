//! Bare async-task over a queue: the least that an executor on it can cost.
//!
//! Nothing parks: it polls in turn until the future is ready. So it has no
//! `block_on` to compare.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use ::async_task::Runnable;

use crate::cases::Gate;
use crate::system::{BlockOn, Spawn, System, Tasks};

static QUEUE: Mutex<VecDeque<Runnable>> = Mutex::new(VecDeque::new());

fn schedule(runnable: Runnable) {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    queue.push_back(runnable);
}

fn run_next() {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    let next = queue.pop_front();
    drop(queue);
    if let Some(runnable) = next {
        runnable.run();
    }
}

pub(crate) struct AsyncTask;

impl System for AsyncTask {
    fn new() -> Self {
        Self
    }
}

impl BlockOn for AsyncTask {
    #[inline]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            run_next();
        }
    }
}

impl Spawn for AsyncTask {
    #[inline]
    fn spawn<F>(&self, future: F) -> impl Future<Output = F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (runnable, task) = ::async_task::spawn(future, schedule);
        runnable.schedule();
        task
    }
}

impl Tasks for AsyncTask {
    fn spawn_detached(&self, future: impl Future<Output = ()> + Send + 'static) {
        let (runnable, task) = ::async_task::spawn(future, schedule);
        runnable.schedule();
        task.detach();
    }

    fn run_until(&self, gate: &Gate) {
        while !gate.is_open() {
            run_next();
        }
    }
}
