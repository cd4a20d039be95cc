//! The host stand-in: threads as cores, simulated interrupts, a clock that
//! tests can move by hand.
//!
//! Each thread that uses the executor is a core of its own. Interrupts are
//! simulated: they arrive on the thread itself, at the points where a real
//! core would notice one — when interrupts are unmasked, while halted, and
//! whenever the test moves the clock with [`advance`] or raises one with
//! [`interrupt`]. Between those points code runs undisturbed.
//!
//! The clock is the host's own until a test takes it over with [`set_clock`];
//! from then on it stands still, moves with [`advance`], and jumps to the next
//! deadline when the core halts.

use core::cell::{Cell, RefCell};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use core::time::Duration;
use std::boxed::Box;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;
use std::{thread, thread_local};

use super::deadlines::Deadlines;
use super::{Armed, Handlers, Instant, Slot};

/// The number of threads that can ever use the executor in one process.
pub const MAX_CORES: usize = 4096;

/// How long a core on a hand-moved clock may stay halted with nothing armed
/// before the test is declared hung.
const HUNG: Duration = Duration::from_secs(10);

/// The clock of a core that follows the host's.
const FOLLOWS_HOST: u64 = u64::MAX;

struct HostCore {
    deadlines: Deadlines,
    clock: AtomicU64,
    /// There is no timer, as early in the boot of a kernel.
    has_no_timer: AtomicBool,
    timer_interrupts: AtomicU64,
    /// Guards the deadlines; holds whether another thread has notified the core.
    notified: Mutex<bool>,
    unhalt: Condvar,
}

static CORES: [HostCore; MAX_CORES] = [const {
    HostCore {
        deadlines: Deadlines::new(),
        clock: AtomicU64::new(FOLLOWS_HOST),
        has_no_timer: AtomicBool::new(false),
        timer_interrupts: AtomicU64::new(0),
        notified: Mutex::new(false),
        unhalt: Condvar::new(),
    }
}; MAX_CORES];

static NEXT_CORE: AtomicUsize = AtomicUsize::new(0);
static HANDLERS: AtomicPtr<Handlers> = AtomicPtr::new(ptr::null_mut());

const NOT_A_CORE: usize = usize::MAX;

type HaltHook = Box<dyn FnMut(Option<Instant>) -> bool>;

thread_local! {
    static CORE: Cell<usize> = const { Cell::new(NOT_A_CORE) };
    static MASKED: Cell<bool> = const { Cell::new(false) };
    static PENDING: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
    static HALT_HOOK: RefCell<Option<HaltHook>> = const { RefCell::new(None) };
}

impl HostCore {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.notified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        match self.clock.load(SeqCst) {
            FOLLOWS_HOST => host_now(),
            nanos => Instant::from_nanos(nanos),
        }
    }

    fn is_hand_moved(&self) -> bool {
        self.clock.load(SeqCst) != FOLLOWS_HOST
    }
}

/// The time-stamp counter where the processor's can be trusted, as the kernel's
/// clock is, else the system's monotonic clock.
fn host_now() -> Instant {
    static CLOCK: LazyLock<(quanta::Clock, u64)> = LazyLock::new(|| {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        (clock, start)
    });
    let (clock, start) = &*CLOCK;
    Instant::from_nanos(clock.delta_as_nanos(*start, clock.raw()))
}

fn this_core() -> &'static HostCore {
    &CORES[core_id()]
}

fn handlers() -> Option<&'static Handlers> {
    let handlers = HANDLERS.load(Acquire);
    // SAFETY: only `set_handlers` writes the pointer, from a `&'static`.
    unsafe { handlers.as_ref() }
}

// ---- the facade -----------------------------------------------------------

/// The index of the calling core, which the calling thread becomes if it was none.
///
/// # Panics
///
/// Panics when more than [`MAX_CORES`] threads have called it.
#[inline]
pub fn core_id() -> usize {
    // One comparison, which also spares callers that of an index.
    let id = CORE.get();
    if id < MAX_CORES { id } else { become_core() }
}

#[cold]
fn become_core() -> usize {
    let id = NEXT_CORE.fetch_add(1, Relaxed);
    assert!(
        id < MAX_CORES,
        "more than {MAX_CORES} threads have used the executor"
    );
    CORE.set(id);
    id
}

/// Whether the caller runs on core `id`.
#[inline]
pub fn is_current_core(id: usize) -> bool {
    CORE.get() == id
}

/// The time on the calling core's clock.
#[inline]
pub fn now() -> Instant {
    this_core().now()
}

/// The time on core `id`'s clock.
#[inline]
pub fn now_on(id: usize) -> Instant {
    CORES[id].now()
}

/// What the kernel's clock needs to start.
#[derive(Debug)]
pub struct ClockStart;

/// The clock runs anyway.
pub fn begin_clock() -> ClockStart {
    ClockStart
}

/// Starts the calling core's timer, if a test has taken it away. The clock runs
/// anyway.
pub fn start_clock(_: ClockStart) {
    this_core().has_no_timer.store(false, Relaxed);
    deliver();
}

/// The clock in ticks, which are nanoseconds.
pub fn ticks() -> u64 {
    now().as_nanos()
}

/// The clock's start.
pub fn ticks_at_entry() -> u64 {
    0
}

/// The time at which the clock was at `ticks`.
pub fn time_of(ticks: u64) -> Instant {
    Instant::from_nanos(ticks)
}

/// Registers what interrupts call, for every core.
pub fn set_handlers(handlers: &'static Handlers) {
    HANDLERS.store(ptr::from_ref(handlers).cast_mut(), Release);
}

/// Arms `slot` of core `id` for `deadline` unless it is armed for sooner.
pub fn arm_by(id: usize, slot: Slot, deadline: Instant) -> Armed {
    let core = &CORES[id];
    let _guard = core.lock();
    if !core.deadlines.is_armed_by(slot, deadline) {
        program(core, slot, Some(deadline));
    }
    if core.has_no_timer.load(Relaxed) {
        Armed::NoTimer
    } else {
        Armed::Yes
    }
}

/// Whether `slot` of core `id` is known to be armed for `deadline` or sooner.
#[inline]
pub fn is_armed_by(id: usize, slot: Slot, deadline: Instant) -> bool {
    // Another core's may expire at any time, and only its lock would tell.
    let core = &CORES[id];
    is_current_core(id)
        && core.deadlines.is_armed_by(slot, deadline)
        && !core.has_no_timer.load(Relaxed)
}

/// Arms `slot` of the calling core for exactly `deadline`, `None` disarms it.
pub fn set_deadline(slot: Slot, deadline: Option<Instant>) {
    let core = this_core();
    let _guard = core.lock();
    program(core, slot, deadline);
}

fn program(core: &HostCore, slot: Slot, deadline: Option<Instant>) {
    if core.deadlines.set(slot, deadline).is_some() {
        // A core that is halted waits for what was programmed before.
        core.unhalt.notify_one();
    }
}

/// What `slot` of the calling core is armed for.
pub fn deadline(slot: Slot) -> Option<Instant> {
    this_core().deadlines.get(slot)
}

/// Whether the calling core takes interrupts.
#[inline]
pub fn interrupts_enabled() -> bool {
    !MASKED.get()
}

/// Masks interrupts until the guard is dropped.
#[must_use]
pub fn mask_interrupts() -> MaskGuard {
    MaskGuard {
        was_masked: MASKED.replace(true),
    }
}

/// Keeps interrupts masked; see [`mask_interrupts`].
#[derive(Debug)]
pub struct MaskGuard {
    was_masked: bool,
}

impl Drop for MaskGuard {
    fn drop(&mut self) {
        MASKED.set(self.was_masked);
        // An interrupt that came meanwhile arrives now, unless the test is
        // already unwinding.
        if !thread::panicking() {
            deliver();
        }
    }
}

/// Runs the registered bottom half, at the end of a section that held it off.
pub fn run_bottom_half() {
    if let Some(handlers) = handlers() {
        (handlers.bottom_half)();
    }
}

/// Unmasks interrupts and halts until one has arrived, without a gap in which
/// one could be missed.
///
/// # Panics
///
/// On a hand-moved clock it panics when nothing is armed and nobody wakes the
/// core for 10 s.
pub fn wait_for_interrupt(mask: MaskGuard) {
    core::mem::forget(mask);
    MASKED.set(false);
    let core = this_core();
    loop {
        if deliver() || halted(core.deadlines.programmed()) {
            return;
        }
        let mut notified = core.lock();
        if core::mem::take(&mut *notified) {
            return;
        }
        let programmed = core.deadlines.programmed();
        match programmed {
            Some(deadline) if core.is_hand_moved() => {
                let now = core.now().max(deadline);
                core.clock.store(now.as_nanos(), SeqCst);
            }
            Some(deadline) => {
                let left = deadline - core.now();
                drop(core.unhalt.wait_timeout(notified, left));
            }
            None if core.is_hand_moved() => {
                let (woken, wait) = core
                    .unhalt
                    .wait_timeout_while(notified, HUNG, |notified| {
                        !*notified && core.deadlines.programmed().is_none()
                    })
                    .unwrap_or_else(PoisonError::into_inner);
                drop(woken);
                assert!(
                    !wait.timed_out(),
                    "halted with nothing armed, and nobody woke the core"
                );
            }
            None => drop(core.unhalt.wait(notified)),
        }
    }
}

/// Runs the test's hook for a halt; whether it counts as an interrupt.
fn halted(programmed: Option<Instant>) -> bool {
    let Some(mut hook) = HALT_HOOK.take() else {
        return false;
    };
    let mut woken = false;
    in_interrupt(|| woken = hook(programmed));
    HALT_HOOK.with_borrow_mut(|slot| {
        slot.get_or_insert(hook);
    });
    woken
}

/// Makes core `id`, which is not the caller's, notice new work if it is halted.
pub fn notify(id: usize) {
    let core = &CORES[id];
    *core.lock() = true;
    core.unhalt.notify_one();
}

/// A lock for what interrupt handlers share: a spin lock that masks interrupts
/// while it is held.
pub type InterruptMutex<T> = lock_api::Mutex<RawInterruptMutex, T>;

/// The raw lock of [`InterruptMutex`].
#[derive(Debug)]
pub struct RawInterruptMutex {
    lock: hermit_sync::RawSpinMutex,
    was_masked: core::sync::atomic::AtomicBool,
}

// SAFETY: exclusion is that of the inner lock; the mask only adds to it.
unsafe impl lock_api::RawMutex for RawInterruptMutex {
    const INIT: Self = Self {
        lock: <hermit_sync::RawSpinMutex as lock_api::RawMutex>::INIT,
        was_masked: core::sync::atomic::AtomicBool::new(false),
    };

    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        let was_masked = MASKED.replace(true);
        self.lock.lock();
        self.was_masked.store(was_masked, Relaxed);
    }

    fn try_lock(&self) -> bool {
        let was_masked = MASKED.replace(true);
        let locked = self.lock.try_lock();
        if locked {
            self.was_masked.store(was_masked, Relaxed);
        } else {
            MASKED.set(was_masked);
        }
        locked
    }

    unsafe fn unlock(&self) {
        let was_masked = self.was_masked.load(Relaxed);
        // SAFETY: the caller holds the lock.
        unsafe { self.lock.unlock() };
        drop(MaskGuard { was_masked });
    }
}

// ---- the machine's parts that a process has no use for --------------------

mod machine;
mod reserved;
pub use machine::*;
pub use reserved::ReservedMemory;

// ---- simulated interrupts -------------------------------------------------

/// Delivers what is pending on the calling core, if it takes interrupts.
///
/// Returns whether anything was delivered.
fn deliver() -> bool {
    let mut delivered = false;
    while !MASKED.get() {
        if let Some(handler) =
            PENDING.with_borrow_mut(|pending| (!pending.is_empty()).then(|| pending.remove(0)))
        {
            in_interrupt(handler);
        } else if !timer_interrupt_if_due() {
            break;
        }
        delivered = true;
    }
    delivered
}

fn timer_interrupt_if_due() -> bool {
    let id = CORE.get();
    if id == NOT_A_CORE {
        return false;
    }
    let core = &CORES[id];
    let now = core.now();
    let guard = core.lock();
    if core.has_no_timer.load(Relaxed) || core.deadlines.programmed().is_none_or(|at| now < at) {
        return false;
    }
    let due = core.deadlines.expire(now);
    drop(guard);
    core.timer_interrupts.fetch_add(1, Relaxed);
    let mut bottom_half = None;
    in_interrupt(|| {
        if let Some(handlers) = handlers()
            && (handlers.timer)(due)
        {
            bottom_half = Some(handlers.bottom_half);
        }
        let _guard = core.lock();
        let _ = core.deadlines.reprogram();
    });
    if let Some(bottom_half) = bottom_half {
        bottom_half();
    }
    true
}

/// Runs `handler` as an interrupt handler: masked, between enter and leave.
fn in_interrupt(handler: impl FnOnce()) {
    struct Leave(Option<u32>);
    impl Drop for Leave {
        fn drop(&mut self) {
            if let (Some(handlers), Some(saved)) = (handlers(), self.0) {
                (handlers.leave)(saved);
            }
            MASKED.set(false);
        }
    }
    MASKED.set(true);
    let _leave = Leave(handlers().map(|handlers| (handlers.enter)()));
    handler();
}

// ---- what tests drive -----------------------------------------------------

/// Raises an interrupt on the calling core that runs `handler`: at once, or as
/// soon as interrupts are unmasked.
pub fn interrupt(handler: impl FnOnce() + 'static) {
    PENDING.with_borrow_mut(|pending| pending.push(Box::new(handler)));
    deliver();
}

/// Takes the calling core's clock over and sets it to `now`.
///
/// Moving it back is not allowed once something is armed.
pub fn set_clock(now: Instant) {
    this_core().clock.store(now.as_nanos(), SeqCst);
}

/// Moves the calling core's clock on by `duration`, with a timer interrupt at
/// every deadline on the way: what a computation of that length would see.
///
/// # Panics
///
/// Panics if the clock was not taken over with [`set_clock`].
pub fn advance(duration: Duration) {
    let core = this_core();
    assert!(core.is_hand_moved(), "the clock follows the host's");
    let end = core.now() + duration;
    while !MASKED.get() && !core.has_no_timer.load(Relaxed) {
        match core.deadlines.programmed() {
            Some(deadline) if deadline <= end => {
                core.clock
                    .store(core.now().max(deadline).as_nanos(), SeqCst);
                deliver();
            }
            _ => break,
        }
    }
    core.clock.store(core.now().max(end).as_nanos(), SeqCst);
}

/// Calls `hook` in interrupt context whenever the calling core halts, with what
/// its timer is programmed for. The halt ends if `hook` returns `true`.
pub fn on_halt(hook: impl FnMut(Option<Instant>) -> bool + 'static) {
    HALT_HOOK.set(Some(Box::new(hook)));
}

/// Takes the calling core's timer away, until [`start_clock`] gives it back: a
/// kernel early in its boot.
pub fn remove_timer() {
    this_core().has_no_timer.store(true, Relaxed);
}

/// The number of timer interrupts that the calling core has taken.
pub fn timer_interrupts() -> u64 {
    this_core().timer_interrupts.load(Relaxed)
}
