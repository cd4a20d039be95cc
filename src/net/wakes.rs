//! Wakers that were found while the stack was locked, to be woken afterwards.

use core::task::Waker;

/// Enough for what one step finds mostly; each visit to the stack makes them
/// anew.
const CAPACITY: usize = 32;

/// Collects wakers. None is called before the stack is unlocked.
pub(super) struct Wakes {
    wakers: [Option<Waker>; CAPACITY],
    len: usize,
}

impl Wakes {
    pub(super) const fn new() -> Self {
        Self {
            wakers: [const { None }; CAPACITY],
            len: 0,
        }
    }

    /// Takes the waker out of `place`; `false` if there is no room for it.
    pub(super) fn take(&mut self, place: &mut Option<Waker>) -> bool {
        if place.is_none() {
            return true;
        }
        let Some(free) = self.wakers.get_mut(self.len) else {
            return false;
        };
        *free = place.take();
        self.len += 1;
        true
    }

    /// Whether two more wakers have room, which is what one step may find.
    pub(super) fn has_room(&self) -> bool {
        self.len + 2 <= CAPACITY
    }

    /// Wakes them, in the order in which they were found.
    pub(super) fn wake_all(&mut self) {
        let found = core::mem::take(&mut self.len);
        for waker in self.wakers[..found].iter_mut().filter_map(Option::take) {
            waker.wake();
        }
    }
}
