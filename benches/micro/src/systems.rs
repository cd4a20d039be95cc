//! The systems: firstpoll, and what one would pick instead.
//!
//! maitake is not among them: it is not published, and the crate that reserves
//! its name is empty.

pub(crate) mod async_executor;
pub(crate) mod async_io;
pub(crate) mod async_task;
pub(crate) mod embassy;
pub(crate) mod firstpoll;
pub(crate) mod futures;
pub(crate) mod futures_lite;
pub(crate) mod futures_timer;
pub(crate) mod pollster;
pub(crate) mod tokio;

use crate::cases::Gate;
use crate::system::BlockOn;

/// [`run_until`](crate::system::Tasks::run_until) for whoever can block on the gate.
fn block_on_gate(system: &impl BlockOn, gate: &Gate) {
    system.block_on(gate.wait());
}
