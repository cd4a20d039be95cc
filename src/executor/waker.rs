//! The waker of a blocked future, which allocates nothing.
//!
//! Each `block_on` that is under way on a core has a *call slot* there, one per
//! nesting level. The slot holds the call's generation and whether it was
//! woken; the waker's data word names core, level and generation.
//!
//! Wakers outlive their call. A call that has waited moves its slot on to the
//! next generation when it ends, and a waker whose generation has passed does
//! nothing. A call that was ready at once saves itself that store: should its
//! future have kept the waker, and should that fire later, it costs the next
//! call one spurious poll.
//!
//! ```text
//!   bit 63 … 52   51 … 8        7 … 1   0
//!   core          generation    level   woken
//! ```

#![allow(unsafe_code)] // `RawWaker`; see the two SAFETY arguments.

use core::mem::ManuallyDrop;
use core::task::{RawWaker, RawWakerVTable, Waker};

use super::per_core::{CORES, Core};
use crate::arch;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use Ordering::{Relaxed, SeqCst};

/// How deep `block_on` calls can nest on one core, each in the poll of the
/// future of the one before.
pub const MAX_NESTING: usize = if cfg!(firstpoll_loom) { 2 } else { 32 };

const WOKEN: u64 = 1;
const LEVEL_SHIFT: u32 = 1;
const LEVEL_MASK: u64 = 0x7f;
const GENERATION: u64 = 1 << 8;
const CORE_SHIFT: u32 = 52;

const _: () = assert!(MAX_NESTING <= LEVEL_MASK as usize + 1);
const _: () = assert!(arch::MAX_CORES <= 1 << (64 - CORE_SHIFT));
const _: () = assert!(size_of::<*const ()>() == size_of::<u64>());

/// The call slots of one core.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The number of calls under way, which is the level of the next one.
    level: AtomicUsize,
    slots: [AtomicU64; MAX_NESTING],
}

impl Calls {
    #[cfg(not(firstpoll_loom))]
    pub(crate) const fn new(core: usize) -> Self {
        let mut slots = [const { AtomicU64::new(0) }; MAX_NESTING];
        let mut level = 0;
        while level < MAX_NESTING {
            slots[level] = AtomicU64::new(first_generation(core, level));
            level += 1;
        }
        Self {
            level: AtomicUsize::new(0),
            slots,
        }
    }

    #[cfg(firstpoll_loom)]
    pub(crate) fn new(core: usize) -> Self {
        Self {
            level: AtomicUsize::new(0),
            slots: core::array::from_fn(|level| AtomicU64::new(first_generation(core, level))),
        }
    }

    /// Starts a call.
    ///
    /// # Panics
    ///
    /// Panics when calls nest deeper than [`MAX_NESTING`].
    #[inline]
    pub(crate) fn begin(&self) -> Call<'_> {
        let level = self.level.load(Relaxed);
        let Some(slot) = self.slots.get(level) else {
            too_deep();
        };
        self.level.store(level + 1, Relaxed);
        Call {
            calls: self,
            slot,
            data: slot.load(Relaxed),
        }
    }

    /// The slot of the innermost call.
    ///
    /// # Panics
    ///
    /// Panics outside of any.
    pub(crate) fn innermost(&self) -> CallSlot<'_> {
        CallSlot {
            value: &self.slots[self.level.load(Relaxed) - 1],
        }
    }

    /// Notes that the call whose waker holds `data` was woken.
    ///
    /// Returns `false` if that call is over or was already woken.
    pub(super) fn wake(&self, data: u64) -> bool {
        let level = (data >> LEVEL_SHIFT & LEVEL_MASK) as usize;
        let slot = &self.slots[level];
        let mut value = slot.load(Relaxed);
        while (value ^ data) & !WOKEN == 0 {
            // A note that is there already is written again: only then does
            // whoever takes it see what came before this wake.
            match slot.compare_exchange_weak(value, value | WOKEN, SeqCst, Relaxed) {
                Ok(_) => return value & WOKEN == 0,
                Err(actual) => value = actual,
            }
        }
        false
    }

    /// Whether the innermost call has been woken; `false` outside of any.
    pub(crate) fn innermost_woken(&self) -> bool {
        match self.level.load(Relaxed).checked_sub(1) {
            Some(level) => self.slots[level].load(SeqCst) & WOKEN != 0,
            None => false,
        }
    }
}

#[cold]
#[inline(never)]
fn too_deep() -> ! {
    panic!("block_on is nested more than {MAX_NESTING} calls deep");
}

/// A `block_on` that is under way; dropping it, also by unwinding, ends it.
///
/// Calls end in the reverse order of their beginnings. So neither its end nor
/// [`Calls::innermost`] needs what is in here, and the ready path need not save
/// registers to keep that over the poll.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    calls: &'a Calls,
    slot: &'a AtomicU64,
    data: u64,
}

impl Call<'_> {
    /// The waker of this call. It holds no resource, so it is never dropped.
    #[inline]
    pub(crate) fn waker(&self) -> ManuallyDrop<Waker> {
        let raw = raw_waker(self.data as *const ());
        // SAFETY: the functions of `VTABLE` take any data word that was a slot
        // value: they look its core and level up by index, allocate, free and
        // dereference nothing through it, and are atomic, so the waker may be
        // used from any thread.
        ManuallyDrop::new(unsafe { Waker::from_raw(raw) })
    }

    /// The call's slot.
    pub(crate) fn slot(&self) -> CallSlot<'_> {
        CallSlot { value: self.slot }
    }
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        let level = self.calls.level.load(Relaxed);
        self.calls.level.store(level - 1, Relaxed);
    }
}

/// The slot of a call that waits.
#[derive(Debug)]
pub(crate) struct CallSlot<'a> {
    value: &'a AtomicU64,
}

impl CallSlot<'_> {
    /// Takes the note that the call was woken.
    pub(crate) fn take_woken(&self) -> bool {
        self.value.load(SeqCst) & WOKEN != 0 && self.value.fetch_and(!WOKEN, SeqCst) & WOKEN != 0
    }

    /// Makes the call's wakers stale, at the end of a call that has waited.
    pub(crate) fn retire_wakers(&self) {
        // A plain store: a wake that comes in between belongs to the generation
        // that ends here and is of no use to anybody.
        let ended = self.value.load(Relaxed);
        self.value.store(next_generation(ended), Relaxed);
    }
}

/// The first value of a slot.
const fn first_generation(core: usize, level: usize) -> u64 {
    (core as u64) << CORE_SHIFT | (level as u64) << LEVEL_SHIFT
}

/// Moves a slot's value on by one generation, which after 2^44 calls starts
/// again without touching the core's bits.
#[inline]
fn next_generation(data: u64) -> u64 {
    const BELOW_CORE: u64 = (1 << CORE_SHIFT) - 1;
    let data = data & !WOKEN;
    data & !BELOW_CORE | data.wrapping_add(GENERATION) & BELOW_CORE
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(raw_waker, wake, wake, no_drop);

#[inline]
fn raw_waker(data: *const ()) -> RawWaker {
    RawWaker::new(data, &VTABLE)
}

fn no_drop(_: *const ()) {}

fn wake(data: *const ()) {
    let data = data as u64;
    let core: &Core = if arch::MAX_CORES == 1 {
        &CORES[0]
    } else {
        &CORES[(data >> CORE_SHIFT) as usize]
    };
    core.wake_call(data);
}
