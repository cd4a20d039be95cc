//! Wakers that were found while the stack was locked, to be woken afterwards.

use core::task::Waker;

use heapless::Vec;

/// Enough for what one step finds mostly.
const CAPACITY: usize = 32;

/// Collects wakers. None is called before the stack is unlocked.
///
/// Each visit to the stack makes them anew, so empty places cost nothing.
pub(super) struct Wakes(Vec<Waker, CAPACITY>);

impl Wakes {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Takes the waker out of `place`; `false` if there is no room for it.
    pub(super) fn take(&mut self, place: &mut Option<Waker>) -> bool {
        if place.is_none() {
            return true;
        }
        if self.0.is_full() {
            return false;
        }
        self.0.extend(place.take());
        true
    }

    /// Whether two more wakers have room, which is what one step may find.
    pub(super) fn has_room(&self) -> bool {
        self.0.len() + 2 <= CAPACITY
    }

    /// Wakes them, in the order in which they were found.
    #[inline]
    pub(super) fn wake_all(&mut self) {
        if !self.0.is_empty() {
            self.wake_found();
        }
    }

    #[inline(never)] // Most visits find none.
    fn wake_found(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}
