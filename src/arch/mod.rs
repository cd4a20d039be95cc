//! The machine below: clock, deadline timer, interrupts, and where code runs.
//!
//! This is the only place in the crate that looks at the target. [`x86_64`]
//! is the kernel's side; [`host`] is a stand-in on `std` with simulated
//! interrupts and a clock that tests move by hand; the model is for loom. All
//! export the same names, and know nothing of what lies above: what an
//! interrupt calls is a table of [`Handlers`] that the runtime registers.
//!
//! [`x86_64`]: self
//! [`host`]: self

mod deadlines;
mod instant;

#[cfg(all(
    not(firstpoll_loom),
    not(any(target_os = "none", firstpoll_arch = "x86_64"))
))]
pub mod host;
#[cfg(all(
    not(firstpoll_loom),
    not(any(target_os = "none", firstpoll_arch = "x86_64"))
))]
use host as imp;

#[cfg(firstpoll_loom)]
pub mod model;
#[cfg(firstpoll_loom)]
use model as imp;

pub use deadlines::{Due, Slot};
pub use imp::{
    InterruptMutex, MAX_CORES, arm_by, core_id, deadline, interrupts_enabled, is_current_core,
    mask_interrupts, notify, now, now_on, run_bottom_half, set_deadline, set_handlers,
    wait_for_interrupt,
};
pub use instant::Instant;

/// What the arch calls from interrupts, registered once by the runtime.
///
/// All but `bottom_half` run with interrupts masked.
#[derive(Clone, Copy, Debug)]
pub struct Handlers {
    /// Before any interrupt's own handler; what it returns goes to `leave`.
    pub enter: fn() -> u32,
    /// After any interrupt's own handler.
    pub leave: fn(u32),
    /// A timer interrupt. Returns whether the bottom half shall run.
    pub timer: fn(Due) -> bool,
    /// The bottom half, called after the end of the timer interrupt with
    /// interrupts enabled, on a stack of its own.
    pub bottom_half: fn(),
}
