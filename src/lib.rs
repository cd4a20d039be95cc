//! firstpoll: a `no_std` kernel async executor with a network stack for x86-64
//! unikernels.
//!
//! Two things define it:
//!
//! - **Ready first.** [`block_on`] polls the caller's future before it touches
//!   any queued background task. A future that is ready costs one poll.
//! - **Timer-driven deferral.** Because a busy program may then never run the
//!   background tasks, the timer interrupt polls the network and the timers
//!   within a stated bound, and has the next [`block_on`] run the others. The
//!   docs of [`block_on`] hold the whole contract.
//!
//! The layers, each importing only those named before it: [`arch`], [`sync`],
//! [`executor`], [`time`], [`drivers`], [`random`], [`net`], [`runtime`]. `arch` is the only
//! place that knows the target; its host stand-in lets all the others run under
//! plain `cargo test`.
#![no_std]

#[cfg(any(test, not(any(target_os = "none", firstpoll_arch = "x86_64"))))]
extern crate std;

extern crate alloc;

pub mod arch;
#[cfg(not(firstpoll_loom))]
mod args;
#[cfg(not(firstpoll_loom))]
pub mod drivers;
pub mod executor;
#[cfg(not(firstpoll_loom))]
mod fatal;
#[cfg(not(firstpoll_loom))]
pub mod logger;
#[cfg(not(firstpoll_loom))]
pub mod net;
#[cfg(not(firstpoll_loom))]
pub mod random;
#[cfg(not(firstpoll_loom))]
pub mod runtime;
#[cfg(not(firstpoll_loom))]
mod stages;
pub mod sync;
#[cfg(not(firstpoll_loom))]
pub mod time;

#[cfg(not(firstpoll_loom))]
pub use executor::{block_on, spawn, yield_now};
