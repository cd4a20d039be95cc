//! The order that firstpoll turns round, for comparison.

use core::pin::pin;
use core::task::{Context, Poll};

use firstpoll::executor::{DEFAULT_BUDGET, blocking, park, pass};
use httpd::BlockOn;

/// A `block_on` that runs the queued tasks first and then polls the future.
/// Built from the public pieces.
#[derive(Clone, Copy)]
pub struct PassFirst;

impl BlockOn for PassFirst {
    #[inline(always)]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        blocking(|blocked| {
            let mut context = Context::from_waker(blocked.waker());
            loop {
                let _ = pass(DEFAULT_BUDGET);
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return output;
                }
                if !blocked.take_woken() {
                    park();
                }
            }
        })
    }
}
