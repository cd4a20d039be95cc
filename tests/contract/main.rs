//! The poll-order contract, rule by rule, as event traces of the executor: what
//! was polled, in what order, what was armed, and which interrupts came.
//!
//! The clock stands still unless a test moves it, and interrupts arrive only
//! where a test lets them, so every trace is exact. See the docs of
//! `firstpoll::block_on` for the rules.

mod bottom_half;
mod cancel;
mod deferral;
mod field_cases;
mod misuse;
mod nesting;
mod order;
mod overdue;
mod parking;
mod passes;
mod pending;
mod random_programs;
mod ready_first;
mod timeouts;
mod trace;
mod wakers;
