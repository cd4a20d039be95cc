//! firstpoll's executor on its host stand-in beside others, as a table of
//! cases × systems: the same code for all, by the traits of `system`.
//!
//! Two programs walk the table: the benchmark `executors` takes times, and
//! `counts` runs one case a given number of times, for an instruction counter.

mod cases;
mod opaque;
mod run;
mod system;
mod systems;
mod table;

pub use run::Run;
pub use table::{Entry, Threads, entries};
