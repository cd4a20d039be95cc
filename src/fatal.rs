//! The last words of the kernel.

use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::arch::{self, Backtrace, FAILURE_STATUS, Instant};
use crate::drivers::console::print_unlocked;
use crate::executor;

/// Reports a panic and ends the machine; for the panic handler that
/// [`entry!`](crate::entry) defines.
pub fn panic(info: &PanicInfo<'_>) -> ! {
    let backtrace = Backtrace::here();
    match info.location() {
        Some(location) => fatal(
            format_args!("panicked at {location}:\n{}", info.message()),
            &backtrace,
        ),
        None => fatal(format_args!("panicked:\n{}", info.message()), &backtrace),
    }
}

/// Reports a processor exception and ends the machine.
pub fn exception(report: &dyn fmt::Display, backtrace: &Backtrace) -> ! {
    fatal(format_args!("{report}"), backtrace)
}

/// Prints what is known, without a lock and without an allocation, and ends.
fn fatal(report: fmt::Arguments<'_>, backtrace: &Backtrace) -> ! {
    static FAILING: AtomicBool = AtomicBool::new(false);
    let state = arch::core_state();
    // Never unmasked: nothing runs after this.
    core::mem::forget(arch::mask_interrupts());
    if FAILING.swap(true, Relaxed) {
        print_unlocked(format_args!("\nfailed again while reporting that\n"));
        arch::exit(FAILURE_STATUS);
    }
    print_unlocked(format_args!("\n{report}\n"));
    if let Some(location) = executor::current_task() {
        print_unlocked(format_args!("in the task spawned at {location}\n"));
    }
    let time = Instant::now() - Instant::ZERO;
    let (seconds, micros) = (time.as_secs(), time.subsec_micros());
    print_unlocked(format_args!(
        "core {} after {seconds}.{micros:06} s: {state}\n",
        arch::core_id()
    ));
    print_unlocked(format_args!("backtrace:\n{backtrace}"));
    arch::exit(FAILURE_STATUS)
}
