//! pollster: a mutex and a condition variable per call.

use crate::system::{BlockOn, System};

pub(crate) struct Pollster;

impl System for Pollster {
    fn new() -> Self {
        Self
    }
}

impl BlockOn for Pollster {
    #[inline]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        ::pollster::block_on(future)
    }
}
