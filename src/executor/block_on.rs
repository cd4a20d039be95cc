//! `block_on`, ready first.

use core::mem::ManuallyDrop;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use super::attention::OVERDUE;
use super::pass::Pass;
use super::per_core::Core;
use super::task::Task;
use super::waker::CallSlot;
use super::{DEFAULT_BUDGET, misuse};
use crate::arch;

/// Runs `future` to its end and returns its output, running queued tasks only
/// while it has to wait.
///
/// # The poll-order contract
///
/// A *task* is a spawned future. *Interrupt-safe* tasks (the network task, the
/// expiry of timers) may also run in the bottom half of the timer interrupt;
/// *ordinary* tasks are all others. Each kind has its own run queue. A
/// [`pass`](super::pass) polls every task that was ready when it began, once
/// each, in the order of their wakes, leftovers of the last pass first, at most
/// [`DEFAULT_BUDGET`](super::DEFAULT_BUDGET); a task woken meanwhile waits for
/// the next pass. D is the [deferral bound](super::set_deferral_bound).
///
/// 1. `future` is polled first. If it is ready and nothing is overdue, its
///    output is returned: no lock, no atomic read-modify-write, no allocation,
///    no look at a queue.
/// 2. If it is ready and tasks are overdue, exactly one pass runs before the
///    output is returned. So the n-th of many ready tasks runs by the
///    ⌈n / budget⌉-th such call.
/// 3. If it is pending, one pass follows, even if it was woken meanwhile. After
///    each pass: if it was woken, it is polled again, and what is ready waits;
///    else if tasks are ready, another pass follows; else the core parks.
///    Background activity alone never polls it again.
/// 4. Parking looks at the queues once more with interrupts masked and then
///    halts. An idle core takes no timer interrupt but for a real deadline.
/// 5. An interrupt-safe task is polled within D after its wake, plus one poll of
///    another such task, plus the longest section with interrupts masked,
///    whatever the program does meanwhile. An ordinary task is polled by a
///    `block_on` that completes or waits after D.
/// 6. Calls nest: `future`'s own poll may call `block_on`. A task's poll may
///    not, nor an interrupt. Before the timer exists, what is woken is overdue
///    at once.
/// 7. A timeout ends on time, with or without other events.
/// 8. Wakers may be called anywhere, but never while a lock of this crate is
///    held.
///
/// # Panics
///
/// Panics if it is called in a task's poll or in an interrupt (even if `future`
/// is ready; it has then been polled once), if `future` is pending while
/// interrupts are masked, and if calls nest deeper than
/// [`MAX_NESTING`](super::MAX_NESTING).
///
/// # Examples
///
/// ```
/// assert_eq!(firstpoll::block_on(async { 1 + 1 }), 2);
/// ```
#[inline]
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let core = Core::current();
    let call = core.calls.begin();
    let waker = call.waker();
    let mut context = Context::from_waker(&waker);
    match future.as_mut().poll(&mut context) {
        Poll::Ready(output) if core.attention.get() == 0 => output,
        Poll::Ready(output) => before_return(core, output),
        Poll::Pending => wait(core, future, &mut context),
    }
}

/// What a `block_on` whose future is ready still has to do if the attention
/// word is not zero.
///
/// The output goes through it: the ready path need not save a register for it.
#[cold]
#[inline(never)]
#[track_caller]
fn before_return<T>(core: &Core, output: T) -> T {
    misuse::check_context(core, "block_on");
    if core.attention.get() & OVERDUE != 0 && arch::interrupts_enabled() {
        let _ = core.pass::<Task>(DEFAULT_BUDGET);
    }
    output
}

/// Runs a future that is pending to its end.
#[inline(never)]
#[track_caller]
fn wait<F: Future>(core: &Core, mut future: Pin<&mut F>, context: &mut Context<'_>) -> F::Output {
    let call = core.calls.innermost();
    loop {
        misuse::check(core, "block_on");
        core.wait_until_woken::<Task>(&call);
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            call.retire_wakers();
            if core.attention.get() == 0 {
                return output;
            }
            return before_return(core, output);
        }
    }
}

/// Runs one pass of at most `budget` polls over the queued tasks.
///
/// With [`park`](super::park) and [`blocking`] this is what
/// [`block_on`] is made of, so that other orders can be built and compared.
///
/// # Panics
///
/// Panics in a task's poll, in an interrupt, and with interrupts masked.
#[track_caller]
pub fn pass(budget: usize) -> Pass {
    let core = Core::current();
    misuse::check(core, "pass");
    core.pass::<Task>(budget)
}

/// A blocked future's side of the executor: its waker, and whether that fired.
#[derive(Debug)]
pub struct Blocked<'a> {
    call: CallSlot<'a>,
    waker: &'a Waker,
}

impl Blocked<'_> {
    /// The waker to poll the future with. It allocates nothing, and outlives
    /// the call harmlessly.
    pub fn waker(&self) -> &Waker {
        self.waker
    }

    /// Whether the waker has fired since the last time that this was asked.
    pub fn take_woken(&self) -> bool {
        self.call.take_woken()
    }
}

/// Calls `body` with the waker of a blocked future: for building a `block_on`
/// of another order out of [`pass`] and [`park`](super::park).
///
/// # Panics
///
/// Panics if calls nest deeper than [`MAX_NESTING`](super::MAX_NESTING).
pub fn blocking<R>(body: impl FnOnce(&Blocked<'_>) -> R) -> R {
    let core = Core::current();
    let call = core.calls.begin();
    let waker: ManuallyDrop<Waker> = call.waker();
    let blocked = Blocked {
        call: call.slot(),
        waker: &waker,
    };
    let result = body(&blocked);
    blocked.call.retire_wakers();
    result
}
