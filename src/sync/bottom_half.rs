//! Holding off the bottom half.
//!
//! The timer's bottom half runs on top of whatever it interrupted. Code that
//! touches data of the bottom half's class holds it off meanwhile, with a
//! count per core: interrupts stay on, and the last [`Disabled`] guard to go
//! runs a bottom half that came in between.

#[cfg(not(firstpoll_loom))]
use core::fmt;
use core::marker::PhantomData;
#[cfg(not(firstpoll_loom))]
use core::ops::{Deref, DerefMut};

use crate::arch;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// One core's count. Only that core and its interrupts touch it, and those
/// leave the count as they found it, so plain loads and stores are enough.
struct HeldOff {
    depth: AtomicU32,
    pending: AtomicBool,
}

#[cfg(not(firstpoll_loom))]
static CORES: [HeldOff; arch::MAX_CORES] = [const {
    HeldOff {
        depth: AtomicU32::new(0),
        pending: AtomicBool::new(false),
    }
}; arch::MAX_CORES];

#[cfg(firstpoll_loom)]
loom::lazy_static! {
    static ref CORES: [HeldOff; arch::MAX_CORES] = core::array::from_fn(|_| HeldOff {
        depth: AtomicU32::new(0),
        pending: AtomicBool::new(false),
    });
}

fn this_core() -> &'static HeldOff {
    &CORES[arch::core_id()]
}

/// Keeps the bottom half of this core from running; nests.
///
/// The guard stays on the core that made it. Dropping the last one runs a
/// bottom half that was held off; with interrupts masked it is put off to the
/// timer interrupt instead.
#[must_use = "the bottom half is held off only as long as the guard lives"]
#[derive(Debug)]
pub struct Disabled {
    _not_send: PhantomData<*mut ()>,
}

/// Holds the bottom half off until the guard is dropped.
#[inline]
pub fn disable() -> Disabled {
    let core = this_core();
    core.depth.store(core.depth.load(Relaxed) + 1, Relaxed);
    Disabled {
        _not_send: PhantomData,
    }
}

/// Whether the bottom half is held off on this core.
#[inline]
pub fn is_disabled() -> bool {
    this_core().depth.load(Relaxed) != 0
}

/// Notes that a bottom half wanted to run while it was held off.
pub(crate) fn set_pending() {
    this_core().pending.store(true, Relaxed);
}

/// Forgets a bottom half that wanted to run: for the bottom half itself, which
/// has just done that work.
pub(crate) fn clear_pending() {
    this_core().pending.store(false, Relaxed);
}

/// Whether a bottom half of core `id` waits for the end of the section that
/// holds it off.
pub(crate) fn is_pending_on(id: usize) -> bool {
    CORES[id].pending.load(Relaxed)
}

impl Drop for Disabled {
    #[inline]
    fn drop(&mut self) {
        let core = this_core();
        let depth = core.depth.load(Relaxed) - 1;
        core.depth.store(depth, Relaxed);
        // The count is down before the flag is read: an interrupt in between
        // runs its bottom half itself.
        if depth == 0 && core.pending.load(Relaxed) {
            run_held_off(core);
        }
    }
}

#[cold]
fn run_held_off(core: &HeldOff) {
    core.pending.store(false, Relaxed);
    if arch::interrupts_enabled() {
        arch::run_bottom_half();
    } else {
        let now = arch::now();
        arch::arm_by(arch::core_id(), arch::Slot::Deferral, now);
    }
}

/// A lock for data of the bottom half's class.
///
/// Locking holds the bottom half off, so the data can be used from tasks, from
/// the program and from the bottom half. It must not be taken in an interrupt
/// handler, and no waker may be called while it is held.
#[cfg(not(firstpoll_loom))]
pub struct BottomHalfLock<T: ?Sized> {
    data: hermit_sync::SpinMutex<T>,
}

#[cfg(not(firstpoll_loom))]
impl<T> BottomHalfLock<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self {
            data: hermit_sync::SpinMutex::new(value),
        }
    }
}

#[cfg(not(firstpoll_loom))]
impl<T: ?Sized> BottomHalfLock<T> {
    /// Locks the data until the guard is dropped.
    ///
    /// # Panics
    ///
    /// Panics where it would wait for itself: on a machine with one core, when
    /// the lock is already held.
    #[inline]
    pub fn lock(&self) -> BottomHalfGuard<'_, T> {
        let disabled = disable();
        let data = match self.data.try_lock() {
            Some(data) => data,
            None if arch::MAX_CORES == 1 => panic!("bottom-half data is locked twice"),
            None => self.data.lock(),
        };
        BottomHalfGuard {
            data,
            _disabled: disabled,
        }
    }
}

#[cfg(not(firstpoll_loom))]
impl<T: ?Sized> fmt::Debug for BottomHalfLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BottomHalfLock").finish_non_exhaustive()
    }
}

/// The data of a [`BottomHalfLock`], locked.
#[cfg(not(firstpoll_loom))]
pub struct BottomHalfGuard<'a, T: ?Sized> {
    // Dropped in this order: unlock first, then let the bottom half run.
    data: hermit_sync::SpinMutexGuard<'a, T>,
    _disabled: Disabled,
}

#[cfg(not(firstpoll_loom))]
impl<T: ?Sized> Deref for BottomHalfGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.data
    }
}

#[cfg(not(firstpoll_loom))]
impl<T: ?Sized> DerefMut for BottomHalfGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.data
    }
}

#[cfg(not(firstpoll_loom))]
impl<T: ?Sized> fmt::Debug for BottomHalfGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BottomHalfGuard").finish_non_exhaustive()
    }
}
