//! Cancelling tasks (X8): no poll after the drop, no double drop, no leak.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use firstpoll::arch::host::advance;
use firstpoll::executor::{DEFAULT_BUDGET, JoinHandle, pass};
use firstpoll::{block_on, spawn};

use crate::trace::{D, on_core, panic_of, spawn_safe};

/// What happened to one task.
#[derive(Debug, Default)]
struct Counters {
    polls: AtomicUsize,
    future_drops: AtomicUsize,
    output_drops: AtomicUsize,
}

impl Counters {
    fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Polls, drops of the future, drops of its output.
    fn get(&self) -> [usize; 3] {
        [&self.polls, &self.future_drops, &self.output_drops].map(|count| count.load(SeqCst))
    }
}

/// An output that counts its drop.
#[derive(Debug)]
struct Output(Arc<Counters>);

impl Drop for Output {
    fn drop(&mut self) {
        self.0.output_drops.fetch_add(1, SeqCst);
    }
}

/// A future that counts, and does `step` in each poll.
struct Counted<S> {
    counters: Arc<Counters>,
    step: S,
}

impl<S: FnMut(&Waker) -> Poll<()> + Unpin> Future for Counted<S> {
    type Output = Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Output> {
        self.counters.polls.fetch_add(1, SeqCst);
        (self.step)(context.waker()).map(|()| Output(Arc::clone(&self.counters)))
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        self.counters.future_drops.fetch_add(1, SeqCst);
    }
}

fn counted<S>(counters: &Arc<Counters>, step: S) -> Counted<S>
where
    S: FnMut(&Waker) -> Poll<()> + Unpin,
{
    Counted {
        counters: Arc::clone(counters),
        step,
    }
}

fn ready(_: &Waker) -> Poll<()> {
    Poll::Ready(())
}

fn wakes_itself(waker: &Waker) -> Poll<()> {
    waker.wake_by_ref();
    Poll::Pending
}

fn is_pending(_: &Waker) -> Poll<()> {
    Poll::Pending
}

/// Runs passes until no task is ready.
fn run_all() {
    while pass(DEFAULT_BUDGET).polled > 0 {}
}

/// Asserts that nothing but the test holds the counters: no task leaked.
#[track_caller]
fn assert_no_leak(counters: &Arc<Counters>) {
    assert_eq!(Arc::strong_count(counters), 1, "something was leaked");
}

#[test]
fn a_task_whose_output_is_taken_drops_its_future_once() {
    on_core(|| {
        let counters = Counters::new();
        let output = block_on(spawn(counted(&counters, ready)));
        assert_eq!(counters.get(), [1, 1, 0]);
        drop(output);
        assert_eq!(counters.get(), [1, 1, 1]);
        assert_no_leak(&counters);
    });
}

#[test]
fn a_task_that_is_cancelled_while_queued_is_never_polled() {
    on_core(|| {
        let counters = Counters::new();
        drop(spawn(counted(&counters, ready)));
        run_all();
        assert_eq!(counters.get(), [0, 1, 0]);
        assert_no_leak(&counters);
    });
}

#[test]
fn a_task_that_is_cancelled_while_it_waits_is_dropped_by_a_pass() {
    on_core(|| {
        let counters = Counters::new();
        let task = spawn(counted(&counters, is_pending));
        run_all();
        drop(task);
        assert_eq!(counters.get(), [1, 0, 0]);
        run_all();
        assert_eq!(counters.get(), [1, 1, 0]);
        assert_no_leak(&counters);
    });
}

#[test]
fn a_task_that_is_cancelled_while_it_waits_to_run_again_is_not_polled_again() {
    on_core(|| {
        let counters = Counters::new();
        let task = spawn(counted(&counters, wakes_itself));
        let _ = pass(DEFAULT_BUDGET);
        drop(task);
        run_all();
        assert_eq!(counters.get(), [1, 1, 0]);
        assert_no_leak(&counters);
    });
}

#[test]
fn a_task_that_cancels_itself_while_it_runs_is_not_polled_again() {
    on_core(|| {
        let counters = Counters::new();
        let own = Rc::new(RefCell::new(None::<JoinHandle<Output>>));
        let handle = Rc::clone(&own);
        let task = spawn(counted(&counters, move |waker| {
            waker.wake_by_ref();
            drop(handle.take());
            Poll::Pending
        }));
        own.replace(Some(task));
        drop(own);
        run_all();
        assert_eq!(counters.get(), [1, 1, 0]);
        assert_no_leak(&counters);
    });
}

#[test]
fn a_task_that_cancels_itself_in_its_last_poll_drops_its_output() {
    on_core(|| {
        let counters = Counters::new();
        let own = Rc::new(RefCell::new(None::<JoinHandle<Output>>));
        let handle = Rc::clone(&own);
        let task = spawn(counted(&counters, move |_| {
            drop(handle.take());
            Poll::Ready(())
        }));
        own.replace(Some(task));
        drop(own);
        run_all();
        assert_eq!(counters.get(), [1, 1, 1]);
        assert_no_leak(&counters);
    });
}

#[test]
fn a_task_that_is_cancelled_after_its_completion_drops_its_output() {
    on_core(|| {
        let counters = Counters::new();
        let task = spawn(counted(&counters, ready));
        run_all();
        assert!(task.is_finished());
        assert_eq!(counters.get(), [1, 1, 0]);
        drop(task);
        assert_eq!(counters.get(), [1, 1, 1]);
        assert_no_leak(&counters);
    });
}

#[test]
fn cancelling_waits_until_the_future_is_dropped() {
    on_core(|| {
        let counters = Counters::new();
        let task = spawn(counted(&counters, is_pending));
        run_all();
        assert!(block_on(task.cancel()).is_none());
        assert_eq!(counters.get(), [1, 1, 0]);
        assert_no_leak(&counters);
    });
}

#[test]
fn cancelling_a_completed_task_returns_its_output() {
    on_core(|| {
        let counters = Counters::new();
        let task = spawn(counted(&counters, ready));
        run_all();
        let output = block_on(task.cancel());
        assert!(output.is_some());
        assert_eq!(counters.get(), [1, 1, 0]);
        drop(output);
        assert_eq!(counters.get(), [1, 1, 1]);
        assert_no_leak(&counters);
    });
}

#[test]
fn a_detached_task_runs_to_its_end_and_drops_its_output() {
    on_core(|| {
        let counters = Counters::new();
        let mut polls = 0;
        spawn(counted(&counters, move |waker| {
            polls += 1;
            if polls == 3 {
                ready(waker)
            } else {
                wakes_itself(waker)
            }
        }))
        .detach();
        run_all();
        assert_eq!(counters.get(), [3, 1, 1]);
        assert_no_leak(&counters);
    });
}

#[test]
fn a_detached_task_whose_last_waker_is_dropped_is_dropped_unpolled() {
    on_core(|| {
        let counters = Counters::new();
        let kept = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&kept);
        spawn(counted(&counters, move |waker| {
            *keep.lock().expect("not poisoned") = Some(waker.clone());
            Poll::Pending
        }))
        .detach();
        run_all();
        assert_eq!(counters.get(), [1, 0, 0]);
        kept.lock().expect("not poisoned").take();
        run_all();
        assert_eq!(counters.get(), [1, 1, 0]);
        assert_no_leak(&counters);
    });
}

#[test]
fn a_wake_after_the_completion_polls_nothing() {
    on_core(|| {
        let counters = Counters::new();
        let kept = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&kept);
        spawn(counted(&counters, move |waker| {
            *keep.lock().expect("not poisoned") = Some(waker.clone());
            Poll::Ready(())
        }))
        .detach();
        run_all();
        let waker: Waker = kept.lock().expect("not poisoned").take().expect("kept");
        waker.wake();
        assert_eq!(pass(DEFAULT_BUDGET).polled, 0);
        assert_eq!(counters.get(), [1, 1, 1]);
        assert_no_leak(&counters);
    });
}

#[test]
fn a_task_that_panics_drops_its_future_once() {
    on_core(|| {
        let counters = Counters::new();
        spawn(counted(&counters, |_| panic!("as told"))).detach();
        assert_eq!(panic_of(|| pass(DEFAULT_BUDGET)), "as told");
        run_all();
        assert_eq!(counters.get(), [1, 1, 0]);
        assert_no_leak(&counters);
    });
}

#[test]
fn the_handle_of_a_task_that_panicked_panics() {
    on_core(|| {
        let counters = Counters::new();
        let task = spawn(counted(&counters, |_| panic!("as told")));
        assert_eq!(panic_of(|| pass(DEFAULT_BUDGET)), "as told");
        assert!(task.is_finished());
        panic_of(|| block_on(task));
        assert_eq!(counters.get(), [1, 1, 0]);
        assert_no_leak(&counters);
    });
}

#[test]
fn an_interrupt_safe_task_that_is_cancelled_is_dropped_in_the_bottom_half() {
    on_core(|| {
        let counters = Counters::new();
        drop(spawn_safe(counted(&counters, ready)));
        advance(D);
        assert_eq!(counters.get(), [0, 1, 0]);
        assert_no_leak(&counters);
    });
}

#[test]
fn a_cancelled_leftover_keeps_the_queue_in_order() {
    on_core(|| {
        let all: Vec<_> = (0..4).map(|_| Counters::new()).collect();
        let mut tasks: Vec<_> = all.iter().map(|c| spawn(counted(c, ready))).collect();
        let _ = pass(1);
        drop(tasks.remove(2));
        run_all();
        let got: Vec<_> = all.iter().map(|counters| counters.get()).collect();
        assert_eq!(got, [[1, 1, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0]]);
        drop(tasks);
        all.iter().for_each(assert_no_leak);
    });
}
