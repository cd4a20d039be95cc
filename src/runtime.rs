//! Putting the layers together.

use crate::arch::{self, Due, Handlers};
use crate::executor::interrupt;

/// Makes interrupts drive the executor and the timers.
///
/// The boot of the kernel calls it before the program; on the host, call it
/// before the first use. Calling it again is harmless.
pub fn init() {
    static HANDLERS: Handlers = Handlers {
        enter: interrupt::enter,
        leave: interrupt::leave,
        timer,
        bottom_half: interrupt::bottom_half,
    };
    arch::set_handlers(&HANDLERS);
}

fn timer(due: Due) -> bool {
    interrupt::timer(due)
}
