//! The cases, each one piece of code for all systems.

pub(crate) mod block_on;
mod gate;
pub(crate) mod ping_pong;
pub(crate) mod spawn;
pub(crate) mod timers;
pub(crate) mod wake;

pub(crate) use gate::Gate;
