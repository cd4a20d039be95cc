//! The machine for loom: one core under test, interrupts at every point of its
//! code, and other cores as threads.
//!
//! The model's first thread, once it has called [`start`], is core 0; the
//! threads that it spawns are another core. An interrupt runs on core 0's own
//! thread, on top of what that was doing, as on a real core: a thread of its
//! own raises the interrupt's line, and core 0 looks at the lines before each
//! atomic operation, when it unmasks, and while it is halted. loom tries every
//! moment for the raise. Interrupts do not nest.

use core::cell::{Cell, RefCell};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::boxed::Box;
use std::sync::OnceLock;
use std::vec::Vec;

use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread::JoinHandle;

use super::deadlines::Deadlines;
use super::{Armed, Handlers, Instant, Slot};

/// The core under test, and the one that all other threads are.
pub const MAX_CORES: usize = 2;

const UNDER_TEST: usize = 0;
const OTHER: usize = 1;

struct Machine {
    handlers: OnceLock<&'static Handlers>,
    /// Moved by the timer interrupt and by [`set_clock`]; no part of the model.
    clock_ns: AtomicU64,
    deadlines: InterruptMutex<Deadlines>,
    /// Whether another core has notified core 0; guards the raising of lines.
    notified: Mutex<bool>,
    unhalt: Condvar,
}

loom::lazy_static! {
    static ref MACHINE: Machine = Machine {
        handlers: OnceLock::new(),
        clock_ns: AtomicU64::new(0),
        deadlines: InterruptMutex::new(Deadlines::new()),
        notified: Mutex::new(false),
        unhalt: Condvar::new(),
    };
}

struct Interrupt {
    line: Arc<AtomicBool>,
    handler: Box<dyn FnOnce()>,
}

loom::thread_local! {
    static CORE: Cell<usize> = Cell::new(OTHER);
    static MASKED: Cell<bool> = Cell::new(false);
    /// Those that have not been taken yet.
    static INTERRUPTS: RefCell<Vec<Interrupt>> = RefCell::new(Vec::new());
    /// Whether the timer interrupt that is being taken wants the bottom half.
    static BOTTOM_HALF: Cell<bool> = Cell::new(false);
}

fn masked() -> bool {
    MASKED.with(Cell::get)
}

fn set_masked(masked: bool) -> bool {
    MASKED.with(|cell| cell.replace(masked))
}

// ---- the facade -----------------------------------------------------------

/// The index of the calling core.
pub fn core_id() -> usize {
    CORE.with(Cell::get)
}

/// Whether the caller runs on core `id`.
pub fn is_current_core(id: usize) -> bool {
    core_id() == id
}

/// The time.
pub fn now() -> Instant {
    Instant::from_nanos(MACHINE.clock_ns.load(Relaxed))
}

/// The time; all cores have the same.
pub fn now_on(_id: usize) -> Instant {
    now()
}

/// Registers what interrupts call.
pub fn set_handlers(handlers: &'static Handlers) {
    let _ = MACHINE.handlers.set(handlers);
}

/// Arms `slot` of core 0 for `deadline` unless it is armed for sooner.
pub fn arm_by(id: usize, slot: Slot, deadline: Instant) -> Armed {
    assert_eq!(id, UNDER_TEST);
    let deadlines = MACHINE.deadlines.lock();
    if !deadlines.is_armed_by(slot, deadline) {
        let _ = deadlines.set(slot, Some(deadline));
    }
    Armed::Yes
}

/// Whether `slot` of core `id` is known to be armed for `deadline` or sooner.
pub fn is_armed_by(id: usize, slot: Slot, deadline: Instant) -> bool {
    is_current_core(id) && MACHINE.deadlines.lock().is_armed_by(slot, deadline)
}

/// Arms `slot` of core 0 for exactly `deadline`, `None` disarms it.
pub fn set_deadline(slot: Slot, deadline: Option<Instant>) {
    let _ = MACHINE.deadlines.lock().set(slot, deadline);
}

/// What `slot` of core 0 is armed for.
pub fn deadline(slot: Slot) -> Option<Instant> {
    MACHINE.deadlines.lock().get(slot)
}

/// Whether the calling core takes interrupts.
pub fn interrupts_enabled() -> bool {
    !masked()
}

/// Masks interrupts until the guard is dropped.
#[must_use]
pub fn mask_interrupts() -> MaskGuard {
    MaskGuard {
        was_masked: set_masked(true),
    }
}

/// Keeps interrupts masked; see [`mask_interrupts`].
#[derive(Debug)]
pub struct MaskGuard {
    was_masked: bool,
}

impl Drop for MaskGuard {
    fn drop(&mut self) {
        set_masked(self.was_masked);
        if !std::thread::panicking() {
            interruption_point();
        }
    }
}

/// Runs the registered bottom half, at the end of a section that held it off.
pub fn run_bottom_half() {
    if let Some(handlers) = MACHINE.handlers.get() {
        (handlers.bottom_half)();
    }
}

/// Unmasks interrupts and halts until one has arrived, without a gap in which
/// one could be missed. loom reports a halt that nothing ends as a deadlock.
pub fn wait_for_interrupt(mask: MaskGuard) {
    core::mem::forget(mask);
    set_masked(false);
    while !deliver() {
        let mut notified = MACHINE.notified.lock().unwrap();
        if core::mem::take(&mut *notified) {
            return;
        }
        if !is_any_raised() {
            drop(MACHINE.unhalt.wait(notified).unwrap());
        }
    }
}

/// Makes core 0 notice new work if it is halted.
pub fn notify(id: usize) {
    assert_eq!(id, UNDER_TEST);
    *MACHINE.notified.lock().unwrap() = true;
    MACHINE.unhalt.notify_one();
}

/// A lock for what interrupt handlers share; masks interrupts while it is held.
#[derive(Debug)]
pub struct InterruptMutex<T> {
    data: Mutex<T>,
}

impl<T> InterruptMutex<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Self {
            data: Mutex::new(value),
        }
    }

    /// Locks the data until the guard is dropped.
    pub fn lock(&self) -> InterruptGuard<'_, T> {
        let mask = mask_interrupts();
        InterruptGuard {
            data: self.data.lock().unwrap(),
            _mask: mask,
        }
    }
}

impl<T: Default> Default for InterruptMutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// The data of an [`InterruptMutex`], locked.
#[derive(Debug)]
pub struct InterruptGuard<'a, T> {
    // Dropped in this order: unlock first, then take interrupts again.
    data: MutexGuard<'a, T>,
    _mask: MaskGuard,
}

impl<T> Deref for InterruptGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.data
    }
}

impl<T> DerefMut for InterruptGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.data
    }
}

// ---- interrupts -----------------------------------------------------------

/// Takes what interrupts are raised, if the caller is core 0 and takes any.
pub(crate) fn interruption_point() {
    deliver();
}

/// Returns whether any was taken.
fn deliver() -> bool {
    let mut delivered = false;
    while core_id() == UNDER_TEST
        && !masked()
        && let Some(interrupt) = take_raised()
    {
        set_masked(true);
        let saved = MACHINE.handlers.get().map(|handlers| (handlers.enter)());
        (interrupt.handler)();
        if let (Some(handlers), Some(saved)) = (MACHINE.handlers.get(), saved) {
            (handlers.leave)(saved);
        }
        set_masked(false);
        if BOTTOM_HALF.with(|wanted| wanted.replace(false)) {
            run_bottom_half();
        }
        delivered = true;
    }
    delivered
}

fn take_raised() -> Option<Interrupt> {
    INTERRUPTS.with(|interrupts| {
        let mut interrupts = interrupts.borrow_mut();
        // A load could see an old value, which would only be the interrupt
        // coming later once more.
        let raised = |interrupt: &Interrupt| {
            let take = interrupt
                .line
                .compare_exchange(true, false, Relaxed, Relaxed);
            take.is_ok()
        };
        let index = interrupts.iter().position(raised)?;
        Some(interrupts.remove(index))
    })
}

fn is_any_raised() -> bool {
    INTERRUPTS.with(|interrupts| {
        let raised = |interrupt: &Interrupt| interrupt.line.load(Relaxed);
        interrupts.borrow().iter().any(raised)
    })
}

// ---- what models drive ----------------------------------------------------

/// Makes the calling thread core 0.
pub fn start(handlers: &'static Handlers) {
    CORE.with(|core| core.set(UNDER_TEST));
    set_handlers(handlers);
}

/// Raises an interrupt on core 0, the caller, at any moment from now on.
///
/// It has been raised once the returned thread has been joined.
pub fn interrupt(handler: impl FnOnce() + 'static) -> JoinHandle<()> {
    let line = Arc::new(AtomicBool::new(false));
    INTERRUPTS.with(|interrupts| {
        interrupts.borrow_mut().push(Interrupt {
            line: line.clone(),
            handler: Box::new(handler),
        });
    });
    loom::thread::spawn(move || {
        let _notified = MACHINE.notified.lock().unwrap();
        line.store(true, Relaxed);
        MACHINE.unhalt.notify_one();
    })
}

/// Raises a timer interrupt on core 0, the caller, at any moment from now on;
/// the clock jumps to what the timer is programmed for then.
pub fn timer_interrupt() -> JoinHandle<()> {
    interrupt(|| {
        let deadlines = MACHINE.deadlines.lock();
        if let Some(programmed) = deadlines.programmed() {
            set_clock(now().max(programmed));
        }
        let due = deadlines.expire(now());
        drop(deadlines);
        if let Some(handlers) = MACHINE.handlers.get() {
            let bottom_half = (handlers.timer)(due);
            BOTTOM_HALF.with(|wanted| wanted.set(bottom_half));
        }
        let _ = MACHINE.deadlines.lock().reprogram();
    })
}

/// Sets the clock.
pub fn set_clock(now: Instant) {
    MACHINE.clock_ns.store(now.as_nanos(), Relaxed);
}
