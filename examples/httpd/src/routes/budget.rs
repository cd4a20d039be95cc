//! How much all connections together may hold of requests' bodies.

use core::cell::Cell;

/// For this many bytes of bodies there is room at once.
const BODIES_BYTES: usize = 4 << 20;

/// The room that is left.
#[derive(Debug)]
pub(super) struct Budget {
    left_bytes: Cell<usize>,
}

/// A part of a [`Budget`], given back when it is dropped.
#[derive(Debug)]
pub(super) struct Share<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            left_bytes: Cell::new(BODIES_BYTES),
        }
    }

    /// Room for `bytes`; `None` if there is not as much left.
    pub(super) fn take(&self, bytes: usize) -> Option<Share<'_>> {
        let left = self.left_bytes.get().checked_sub(bytes)?;
        self.left_bytes.set(left);
        Some(Share {
            budget: self,
            bytes,
        })
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let left = &self.budget.left_bytes;
        left.set(left.get() + self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_given_back() {
        let budget = Budget::new();
        let share = budget.take(BODIES_BYTES - 1);
        assert!(share.is_some());
        assert!(budget.take(2).is_none());
        assert!(budget.take(1).is_some());
        drop(share);
        assert!(budget.take(BODIES_BYTES).is_some());
    }
}
