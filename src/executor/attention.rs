//! The attention word: why a `block_on` may not simply return.

use crate::sync::atomic::{AtomicU32, Ordering::Relaxed, const_fn};

/// Tasks have been ready for longer than the deferral bound; set by the timer
/// interrupt or by the end of a pass, cleared by the start of one.
pub(crate) const OVERDUE: u32 = 1 << 0;
/// A task is being polled.
pub(crate) const IN_TASK: u32 = 1 << 1;
/// An interrupt handler or the bottom half is running.
pub(crate) const IN_INTERRUPT: u32 = 1 << 2;

/// One core's attention word.
///
/// The ready path of `block_on` loads it once and compares it with zero; that
/// is all that the deferral and the misuse checks cost there. It is changed by
/// atomic or/and only, since an interrupt may change it at any time. Only its
/// own core and that core's interrupts do, so the order is relaxed.
#[derive(Debug)]
pub(crate) struct Attention {
    word: AtomicU32,
}

impl Attention {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self {
                word: AtomicU32::new(0),
            }
        }
    }

    /// The bits that are set.
    #[inline]
    pub(crate) fn get(&self) -> u32 {
        self.word.load(Relaxed)
    }

    /// Sets `bits`; returns the word as it was.
    pub(crate) fn set(&self, bits: u32) -> u32 {
        self.word.fetch_or(bits, Relaxed)
    }

    /// Clears `bits`.
    pub(crate) fn clear(&self, bits: u32) {
        self.word.fetch_and(!bits, Relaxed);
    }

    /// Sets `bits` until the guard is dropped, also by unwinding.
    pub(crate) fn scope(&self, bits: u32) -> Scope<'_> {
        let before = self.set(bits);
        Scope {
            attention: self,
            clear: bits & !before,
        }
    }
}

/// Undoes [`Attention::scope`].
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    attention: &'a Attention,
    clear: u32,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.attention.clear(self.clear);
    }
}
