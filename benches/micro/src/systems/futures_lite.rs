//! futures-lite: a parker that each thread keeps.

use crate::system::{BlockOn, System};

pub(crate) struct FuturesLite;

impl System for FuturesLite {
    fn new() -> Self {
        Self
    }
}

impl BlockOn for FuturesLite {
    #[inline]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        ::futures_lite::future::block_on(future)
    }
}
