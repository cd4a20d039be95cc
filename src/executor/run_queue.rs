//! The run queue: tasks that were woken and wait to be polled.
//!
//! A wake pushes the task itself, through a link in the task, onto a stack:
//! a few atomic instructions that never allocate and never fail, from any
//! interrupt or core. A pass takes the whole stack by one swap, so there is no
//! ABA, and turns it round into the list of ready tasks, which is in the order
//! of the wakes. Tasks that the pass leaves stay at the head of that list.
//!
//! ```text
//!   wake → incoming (stack) → collect: swap, reverse → ready (list) → pop → poll
//! ```

#![allow(unsafe_code)] // The links are raw pointers; see `Job`.

use core::panic::Location;
use core::ptr::{self, NonNull};

use crate::arch::Instant;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, const_fn};

use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Something that a run queue can hold: a task that is ready to be polled.
///
/// # Safety
///
/// `into_raw` and `from_raw` move ownership into a pointer and back. Between
/// them `link` must return the same link for the same pointer, which nothing
/// but the queue uses.
pub(crate) unsafe trait Job: Sized {
    /// Gives the job up for a pointer.
    fn into_raw(self) -> NonNull<()>;

    /// Takes the job back.
    ///
    /// # Safety
    ///
    /// `raw` comes from `into_raw`, and is taken back once.
    unsafe fn from_raw(raw: NonNull<()>) -> Self;

    /// The link of a job that was given up.
    ///
    /// # Safety
    ///
    /// `raw` comes from `into_raw` and was not taken back; the reference is not
    /// used after it was.
    unsafe fn link<'a>(raw: NonNull<()>) -> &'a Link;

    /// Where the job was spawned, if that is known.
    ///
    /// # Safety
    ///
    /// As for `link`.
    unsafe fn spawned_at(raw: NonNull<()>) -> Option<&'static Location<'static>>;

    /// Polls the job once.
    fn run(self);
}

/// What a job carries for the queue.
#[derive(Debug)]
pub(crate) struct Link {
    next: AtomicPtr<()>,
    /// The number of the pass that found the job ready.
    found_by: AtomicU64,
}

impl Link {
    /// The link of a job that is in no queue.
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicPtr::new(END),
            found_by: AtomicU64::new(0),
        }
    }
}

/// The end of a list.
const END: *mut () = ptr::null_mut();

impl Collected {
    /// All of them.
    pub(crate) fn all(self) -> usize {
        self.leftover + self.new
    }
}

/// A queue of ready jobs: many producers, one consumer at a time.
#[derive(Debug)]
pub(crate) struct RunQueue {
    /// A stack of those woken since the last collection.
    incoming: AtomicPtr<()>,
    /// When the oldest of them was woken.
    incoming_since: AtomicU64,
    /// Held by the consumer. The fields below are its own; others may read the
    /// last two.
    consuming: AtomicBool,
    head: AtomicPtr<()>,
    tail: AtomicPtr<()>,
    ready: AtomicUsize,
    ready_since: AtomicU64,
}

/// How many jobs a collection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Collected {
    /// Left over from earlier.
    pub(crate) leftover: usize,
    /// Newly woken.
    pub(crate) new: usize,
    /// When the first of the newly woken was woken.
    pub(crate) new_since: Instant,
}

impl RunQueue {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self {
                incoming: AtomicPtr::new(END),
                incoming_since: AtomicU64::new(0),
                consuming: AtomicBool::new(false),
                head: AtomicPtr::new(END),
                tail: AtomicPtr::new(END),
                ready: AtomicUsize::new(0),
                ready_since: AtomicU64::new(0),
            }
        }
    }

    /// Queues `job`; returns whether the queue was empty.
    ///
    /// `now` is asked for the time only then.
    ///
    /// # Interrupt safety
    ///
    /// May be called from anywhere.
    pub(crate) fn push<J: Job>(&self, job: J, now: impl FnOnce() -> Instant) -> bool {
        let mut head = self.incoming.load(Relaxed);
        if head == END {
            // Stamped before the push, so that nobody ever sees the job with
            // the stamp of another. An interrupt in between may stamp later
            // than this; its job is then queued first.
            self.incoming_since.store(now().as_nanos(), Release);
        }
        let raw = job.into_raw();
        // SAFETY: `raw` was just given up, and only the push below makes it
        // visible to the consumer.
        let link = unsafe { J::link(raw) };
        loop {
            link.next.store(head, Relaxed);
            match self
                .incoming
                .compare_exchange_weak(head, raw.as_ptr(), SeqCst, Relaxed)
            {
                // `link` may be gone from here on.
                Ok(_) => return head == END && self.ready.load(Relaxed) == 0,
                Err(actual) => head = actual,
            }
        }
    }

    /// Whether no job is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.load(Relaxed) == 0 && self.incoming.load(SeqCst) == END
    }

    /// Since when the oldest job has been ready, `None` if there is none.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let ready = (self.ready.load(Relaxed) != 0).then(|| self.ready_since.load(Relaxed));
        let incoming =
            (self.incoming.load(SeqCst) != END).then(|| self.incoming_since.load(Acquire));
        let oldest = match (ready, incoming) {
            (Some(ready), Some(incoming)) => ready.min(incoming),
            (ready, incoming) => ready.or(incoming)?,
        };
        Some(Instant::from_nanos(oldest))
    }

    /// Whether a consumer is at work: a pass over this queue.
    pub(crate) fn is_consuming(&self) -> bool {
        self.consuming.load(SeqCst)
    }

    /// Becomes the consumer.
    ///
    /// # Panics
    ///
    /// Panics if there is one already.
    pub(crate) fn consume(&self) -> Consumer<'_> {
        // Only the queue's own core consumes, and not on top of itself, so this
        // is no race. A producer elsewhere that misses it upholds the invariant
        // for nothing.
        let taken = self.consuming.load(Relaxed);
        assert!(!taken, "a run queue is consumed twice at once");
        self.consuming.store(true, Relaxed);
        Consumer { queue: self }
    }
}

/// The right to take jobs out of a [`RunQueue`].
#[derive(Debug)]
pub(crate) struct Consumer<'a> {
    queue: &'a RunQueue,
}

impl Consumer<'_> {
    /// Moves what was woken since to the end of the ready list, as found by
    /// the pass of number `pass`.
    pub(crate) fn collect<J: Job>(&self, pass: u64) -> Collected {
        let queue = self.queue;
        let leftover = queue.ready.load(Relaxed);
        let last = queue.incoming.swap(END, AcqRel);
        if last == END {
            return Collected {
                leftover,
                new: 0,
                new_since: Instant::MAX,
            };
        }
        // Read after the swap: it belongs to what was swapped out, or to a
        // later push, which can only make it later by the time in between.
        let since = queue.incoming_since.load(Acquire);

        let (mut first, mut next) = (END, last);
        let mut new = 0;
        while let Some(raw) = NonNull::new(next) {
            // SAFETY: the list from `last` on was pushed by `push` and is now
            // this consumer's alone; each job is still given up.
            let link = unsafe { J::link(raw) };
            next = link.next.load(Relaxed);
            link.next.store(first, Relaxed);
            link.found_by.store(pass, Relaxed);
            first = raw.as_ptr();
            new += 1;
        }

        match NonNull::new(queue.tail.load(Relaxed)) {
            // SAFETY: the tail of the ready list is still given up.
            Some(tail) => unsafe { J::link(tail) }.next.store(first, Relaxed),
            None => {
                queue.head.store(first, Relaxed);
                queue.ready_since.store(since, Relaxed);
            }
        }
        queue.tail.store(last, Relaxed);
        queue.ready.store(leftover + new, Relaxed);
        Collected {
            leftover,
            new,
            new_since: Instant::from_nanos(since),
        }
    }

    /// Takes the first ready job.
    pub(crate) fn pop<J: Job>(&self) -> Option<J> {
        let queue = self.queue;
        let raw = NonNull::new(queue.head.load(Relaxed))?;
        // SAFETY: the ready list is this consumer's alone, and its jobs are
        // still given up.
        let next = unsafe { J::link(raw) }.next.load(Relaxed);
        queue.head.store(next, Relaxed);
        if next == END {
            queue.tail.store(END, Relaxed);
        }
        queue.ready.store(queue.ready.load(Relaxed) - 1, Relaxed);
        // SAFETY: unlinked above, so this is the only time it is taken back.
        Some(unsafe { J::from_raw(raw) })
    }

    /// Whether no job is left to take.
    pub(crate) fn is_done(&self) -> bool {
        self.queue.ready.load(Relaxed) == 0
    }

    /// The number of the pass that found the first ready job.
    pub(crate) fn first_found_by<J: Job>(&self) -> Option<u64> {
        let raw = NonNull::new(self.queue.head.load(Relaxed))?;
        // SAFETY: the ready list is this consumer's alone, and its jobs are
        // still given up.
        Some(unsafe { J::link(raw) }.found_by.load(Relaxed))
    }

    /// Since when the first ready job has been ready.
    pub(crate) fn ready_since(&self) -> Option<Instant> {
        let queue = self.queue;
        (queue.ready.load(Relaxed) != 0)
            .then(|| Instant::from_nanos(queue.ready_since.load(Relaxed)))
    }

    /// Where the first ready job was spawned.
    pub(crate) fn first_spawned_at<J: Job>(&self) -> Option<&'static Location<'static>> {
        let raw = NonNull::new(self.queue.head.load(Relaxed))?;
        // SAFETY: the ready list is this consumer's alone, and its jobs are
        // still given up.
        unsafe { J::spawned_at(raw) }
    }

    /// Restamps what a pass leaves, having polled `polled` of those it `found`:
    /// once no older leftover remains, it is those that were newly woken.
    pub(crate) fn restamp(&self, found: Collected, polled: usize) {
        if polled >= found.leftover {
            let since = found.new_since.as_nanos();
            self.queue.ready_since.store(since, Relaxed);
        }
    }
}

impl Drop for Consumer<'_> {
    fn drop(&mut self) {
        self.queue.consuming.store(false, SeqCst);
    }
}
