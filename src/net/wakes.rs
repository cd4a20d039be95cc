//! Wakers that were found while the stack was locked, to be woken afterwards.

use core::task::Waker;

const CAPACITY: usize = 64;

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
    pub(super) fn wake_all(mut self) {
        for waker in self.wakers[..self.len].iter_mut().filter_map(Option::take) {
            waker.wake();
        }
    }
}
