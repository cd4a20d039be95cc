//! Putting the layers together.

use crate::arch::{self, Due, Handlers};
use crate::executor::interrupt;
use crate::time;

/// Makes interrupts drive the executor and the timers.
///
/// The boot of the kernel calls it before the program; on the host, call it
/// on each thread before its first use. Calling it again is harmless.
pub fn init() {
    static HANDLERS: Handlers = Handlers {
        enter: interrupt::enter,
        leave: interrupt::leave,
        timer,
        bottom_half: interrupt::bottom_half,
    };
    arch::set_handlers(&HANDLERS);
    time::start();
}

/// The timer interrupt. Expiring timers comes first: it queues the expiry task,
/// for which the bottom half is then wanted.
fn timer(due: Due) -> bool {
    if due.timer_queue {
        time::on_deadline();
    }
    interrupt::timer(due)
}
