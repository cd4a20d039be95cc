//! Tasks: spawning, joining, cancelling.

#![allow(unsafe_code)] // `spawn_unchecked` and the run queue's `Job`.

use core::fmt;
use core::marker::PhantomData;
use core::panic::Location;
use core::pin::Pin;
use core::ptr::{self, NonNull};
use core::task::{Context, Poll};

use async_task::{Builder, Runnable};

use super::per_core::{Core, Kind};
use super::run_queue::{Job, Link};
use crate::sync::atomic::Ordering::Relaxed;

/// A task that is ready to be polled.
pub(crate) type Task = Runnable<Meta>;

/// What each task carries in its header.
pub(crate) struct Meta {
    /// The run queue's link.
    link: Link,
    core: &'static Core,
    kind: Kind,
    spawned_at: &'static Location<'static>,
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meta")
            .field("kind", &self.kind)
            .field("spawned_at", &self.spawned_at)
            .finish_non_exhaustive()
    }
}

/// Borrows a runnable that was given up.
///
/// # Safety
///
/// `raw` comes from `Runnable::into_raw` and was not taken back, and the
/// reference is not used after it was.
unsafe fn meta<'a>(raw: NonNull<()>) -> &'a Meta {
    // SAFETY: by this function's contract; `ManuallyDrop` keeps the borrowed
    // copy from releasing what the queue owns.
    let runnable = core::mem::ManuallyDrop::new(unsafe { Task::from_raw(raw) });
    // SAFETY: the metadata lies in the task's heap header, which lives as long
    // as the given-up runnable does, not in the local `runnable`.
    unsafe { &*ptr::from_ref(runnable.metadata()) }
}

// SAFETY: `into_raw` and `from_raw` are the runnable's own. The link is a field
// of the task's header, whose place is fixed for the task's life, and private
// to this module, which gives it to the queue only. `async-task` hands out at
// most one runnable per task, so a task is in at most one queue.
unsafe impl Job for Task {
    #[inline]
    fn into_raw(self) -> NonNull<()> {
        self.into_raw()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: by the trait's contract.
        unsafe { Self::from_raw(raw) }
    }

    #[inline]
    unsafe fn link<'a>(raw: NonNull<()>) -> &'a Link {
        // SAFETY: by the trait's contract.
        &unsafe { meta(raw) }.link
    }

    #[inline]
    unsafe fn spawned_at(raw: NonNull<()>) -> Option<&'static Location<'static>> {
        // SAFETY: by the trait's contract.
        Some(unsafe { meta(raw) }.spawned_at)
    }

    #[inline]
    fn run(self) {
        let meta = self.metadata();
        let _running = Running::enter(meta.core, meta.spawned_at);
        Runnable::run(self);
    }
}

/// Names the running task for as long as it runs; a bottom half nests.
struct Running {
    core: &'static Core,
    interrupted: *mut Location<'static>,
}

impl Running {
    fn enter(core: &'static Core, spawned_at: &'static Location<'static>) -> Self {
        let interrupted = core.running.load(Relaxed);
        core.running
            .store(ptr::from_ref(spawned_at).cast_mut(), Relaxed);
        Self { core, interrupted }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.core.running.store(self.interrupted, Relaxed);
    }
}

/// Reads a location that was stored as a pointer.
pub(super) fn location(pointer: *mut Location<'static>) -> Option<&'static Location<'static>> {
    // SAFETY: all pointers to locations in this module's parent are made from
    // `&'static Location<'static>`, or are null.
    unsafe { pointer.as_ref() }
}

/// Where the task was spawned that the calling core is polling, `None` outside
/// of tasks. For panic reports.
pub fn current_task() -> Option<&'static Location<'static>> {
    location(Core::current().running.load(Relaxed))
}

/// What `async-task` calls when a task is woken. A function item, so it has no
/// size, and waking clones no waker.
fn schedule(task: Task) {
    let (core, kind) = (task.metadata().core, task.metadata().kind);
    core.schedule(kind, task);
}

/// Spawns `future` as an ordinary task of the calling core.
///
/// It is polled by the passes of that core, never in an interrupt, so it may
/// be `!Send` and use any lock. Dropping the returned handle cancels the task;
/// [`JoinHandle::detach`] lets it run on its own.
///
/// # Interrupt safety
///
/// Allocates; not for interrupt handlers.
///
/// # Examples
///
/// ```
/// # firstpoll::runtime::init();
/// let task = firstpoll::spawn(async { 6 * 7 });
/// assert_eq!(firstpoll::block_on(task), 42);
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    // SAFETY: the future may be `!Send`: it is polled, and dropped when it
    // completes or is cancelled, by the passes of the core that spawned it,
    // since `schedule` queues it there whoever wakes it, and that core's
    // consumer is its own thread of execution. It is `'static`, as is the
    // schedule function, which is also `Send` and `Sync`. An output that is
    // `!Send` keeps the handle on this core by its own type.
    unsafe { spawn_kind(future, Kind::Ordinary) }
}

/// Spawns `future` as an interrupt-safe task of the calling core.
///
/// Such a task is polled within the deferral bound whatever the program does,
/// since the timer's bottom half polls it on top of the code that it
/// interrupted.
///
/// # Safety
///
/// The poll of `future`, and its drop, may interrupt any ordinary code at any
/// point outside of a bottom-half section. So they touch only
///
/// - atomics and [`InterruptMutex`](crate::sync::InterruptMutex)es,
/// - data in a [`BottomHalfLock`](crate::sync::BottomHalfLock),
/// - wakers, the allocator and the log, which are made for it,
///
/// and never an ordinary lock, a thread-local or a `RefCell` that ordinary code
/// uses too, nor [`block_on`](super::block_on). `Send` alone does not rule
/// those out.
///
/// # Interrupt safety
///
/// Allocates; not for interrupt handlers.
#[track_caller]
pub unsafe fn spawn_interrupt_safe<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are `Send` and `'static`; that its
    // polls may interrupt other code is the caller's contract.
    unsafe { spawn_kind(future, Kind::InterruptSafe) }
}

/// # Safety
///
/// `future` is `Send`, or is polled and dropped by the calling core only; and
/// it may run where tasks of `kind` run.
#[track_caller]
unsafe fn spawn_kind<F>(future: F, kind: Kind) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let meta = Meta {
        link: Link::new(),
        core: Core::current(),
        kind,
        spawned_at: Location::caller(),
    };
    // SAFETY: future and schedule function are `'static`; the rest is this
    // function's contract.
    let (runnable, task) = unsafe {
        Builder::new()
            .metadata(meta)
            .spawn_unchecked(|_| future, schedule)
    };
    runnable.schedule();
    JoinHandle { task }
}

/// The handle of a spawned task: a future of its output.
///
/// Dropping it cancels the task, unless it was [detached](Self::detach).
///
/// # Panics
///
/// Polling it panics if the task panicked (where panics unwind).
#[must_use = "dropping the handle cancels the task; `detach` lets it run"]
pub struct JoinHandle<T> {
    task: async_task::Task<T, Meta>,
}

impl<T> JoinHandle<T> {
    /// Lets the task run to its end on its own; its output is dropped.
    pub fn detach(self) {
        self.task.detach();
    }

    /// Cancels the task and waits until its future is dropped.
    ///
    /// Returns the output if the task had completed already.
    pub async fn cancel(self) -> Option<T> {
        self.task.cancel().await
    }

    /// Whether the task has completed or was cancelled.
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Where the task was spawned.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.task.metadata().spawned_at
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.task).poll(context)
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("spawned_at", &self.spawned_at())
            .finish_non_exhaustive()
    }
}

/// Gives the other ready tasks a turn: completes at the second poll.
pub fn yield_now() -> YieldNow {
    YieldNow {
        yielded: false,
        _private: PhantomData,
    }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct YieldNow {
    yielded: bool,
    _private: PhantomData<()>,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
