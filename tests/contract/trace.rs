//! A record of what the executor did, and the futures that tests build it with.

use std::any::Any;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use firstpoll::arch::{self, Instant, Slot, host};
use firstpoll::executor::{self, DEFAULT_BUDGET, DEFERRAL_BOUND, JoinHandle, Stats};
use firstpoll::runtime;

/// The deferral bound.
pub const D: Duration = DEFERRAL_BOUND;

/// Where the clock stands when a test starts.
pub const START: Instant = Instant::from_nanos(1_000_000_000);

/// The number of polls of a task that never completes.
pub const FOREVER: usize = usize::MAX;

/// Runs `body` on a core of its own whose clock stands at [`START`], with no
/// task ready and nothing armed.
pub fn on_core<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    let core = thread::spawn(|| {
        host::set_clock(Instant::from_nanos(START.as_nanos() / 2));
        runtime::init();
        // The first poll of the timers' expiry task, and the interrupt that its
        // spawn has armed.
        let _ = executor::pass(DEFAULT_BUDGET);
        host::advance(START - arch::now());
        BEFORE.set((executor::stats(), host::timer_interrupts()));
        body()
    });
    core.join().unwrap_or_else(|panic| resume_unwind(panic))
}

thread_local! {
    static BEFORE: Cell<(Stats, u64)> = Cell::default();
}

/// The timer interrupts since the start of the test.
pub fn timer_interrupts() -> u64 {
    host::timer_interrupts() - BEFORE.get().1
}

/// What the executor has counted since the start of the test.
pub fn stats() -> Stats {
    let (now, before) = (executor::stats(), BEFORE.get().0);
    Stats {
        polls: now.polls - before.polls,
        wakes: now.wakes - before.wakes,
        passes: now.passes - before.passes,
        bottom_halves: now.bottom_halves - before.bottom_halves,
        overdue_passes: now.overdue_passes - before.overdue_passes,
        halts: now.halts - before.halts,
        idle_timer_interrupts: now.idle_timer_interrupts - before.idle_timer_interrupts,
        ..now
    }
}

/// What the deferral is armed for, as the time since [`START`].
pub fn deferral() -> Option<Duration> {
    arch::deadline(Slot::Deferral).map(|deadline| deadline - START)
}

/// The message of the panic that `body` ends with.
///
/// # Panics
///
/// Panics if it does not.
pub fn panic_of<R>(body: impl FnOnce() -> R) -> String {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(_) => panic!("it returned instead of panicking"),
        Err(panic) => message(&*panic),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let literal = panic.downcast_ref::<&str>().map(|text| text.to_string());
    literal
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .expect("panics carry a message")
}

/// The events of one test, in order.
///
/// The lock is never held where a host interrupt could arrive, so tasks that
/// run in the bottom half may log too.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    events: Arc<Mutex<Vec<String>>>,
}

impl Trace {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn log(&self, event: impl Into<String>) {
        lock(&self.events).push(event.into());
    }

    /// The events since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.events))
    }

    /// Whether `event` has been logged.
    pub fn peek(&self, event: &str) -> bool {
        lock(&self.events).iter().any(|logged| logged == event)
    }

    /// How often each of `names` stands in the trace; empties it.
    pub fn take_counts<const N: usize>(&self, names: [&str; N]) -> [usize; N] {
        let events = self.take();
        names.map(|name| events.iter().filter(|event| *event == name).count())
    }

    /// A future that logs `name` at each poll and is ready at the `polls`-th,
    /// having woken itself at those before.
    pub fn yields(&self, name: &str, polls: usize) -> impl Future<Output = ()> + Send + 'static {
        let (trace, name) = (self.clone(), String::from(name));
        let mut left = polls;
        poll_fn(move |context| {
            trace.log(&name);
            left -= 1;
            if left == 0 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// A future that logs `name` and is ready at once.
    pub fn ready(&self, name: &str) -> impl Future<Output = ()> + Send + 'static {
        self.yields(name, 1)
    }

    /// A future that logs `name` and then does `what`.
    pub fn does<R, F>(&self, name: &str, what: F) -> impl Future<Output = R> + use<R, F>
    where
        F: FnOnce() -> R,
    {
        let (trace, name) = (self.clone(), String::from(name));
        async move {
            trace.log(name);
            what()
        }
    }

    /// Spawns [`yields`](Self::yields) as an ordinary task.
    pub fn spawn(&self, name: &str, polls: usize) {
        executor::spawn(self.yields(name, polls)).detach();
    }

    /// Spawns [`yields`](Self::yields) as an interrupt-safe task.
    pub fn spawn_safe(&self, name: &str, polls: usize) {
        spawn_safe(self.yields(name, polls)).detach();
    }

    /// Spawns [`does`](Self::does) as an ordinary task.
    pub fn spawn_doing(&self, name: &str, what: impl FnOnce() + 'static) {
        executor::spawn(self.does(name, what)).detach();
    }

    /// Spawns an interrupt-safe task that logs `name` and then does `what`.
    pub fn spawn_safe_doing(&self, name: &str, what: impl FnOnce() + Send + 'static) {
        spawn_safe(self.does(name, what)).detach();
    }

    /// Logs `halt` at every halt of the core, whose n-th one the n-th of
    /// `scripts` ends by doing something in an interrupt.
    pub fn at_halts<const N: usize>(&self, scripts: [Box<dyn FnOnce()>; N]) {
        let trace = self.clone();
        let mut scripts = scripts.into_iter();
        host::on_halt(move |_| {
            trace.log("halt");
            let script = scripts.next().expect("a halt that nothing is to end");
            script();
            true
        });
    }
}

/// Spawns `future` as an interrupt-safe task.
pub fn spawn_safe<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: host interrupts arrive only at the calls that document it, none
    // of which these tests make while they hold a lock or a borrow that an
    // interrupt-safe task of theirs uses too.
    unsafe { executor::spawn_interrupt_safe(future) }
}

/// Something that futures wait for.
#[derive(Clone, Debug, Default)]
pub struct Signal {
    state: Arc<Mutex<SignalState>>,
}

#[derive(Debug, Default)]
struct SignalState {
    is_set: bool,
    waker: Option<Waker>,
}

impl Signal {
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the waiting future complete, and wakes it.
    pub fn set(&self) {
        lock(&self.state).is_set = true;
        self.wake();
    }

    /// Wakes the waiting future.
    pub fn wake(&self) {
        let waker = lock(&self.state).waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.is_set {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// A future that logs `name` at each poll and is ready once this is set.
    pub fn wait(&self, trace: &Trace, name: &str) -> impl Future<Output = ()> + Send + 'static {
        let (signal, trace, name) = (self.clone(), trace.clone(), String::from(name));
        poll_fn(move |context| {
            trace.log(&name);
            signal.poll(context)
        })
    }

    /// Like [`set`](Self::set), as the script of a halt.
    pub fn setting(&self) -> Box<dyn FnOnce()> {
        let signal = self.clone();
        Box::new(move || signal.set())
    }

    /// Like [`wake`](Self::wake), as the script of a halt.
    pub fn waking(&self) -> Box<dyn FnOnce()> {
        let signal = self.clone();
        Box::new(move || signal.wake())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
