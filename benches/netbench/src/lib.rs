//! The host's end of the network benchmarks.
//!
//! [`Client`] asks a server for the TCP tests that [`netbench_protocol`]
//! describes and measures them; [`reflect`] measures a reflector of UDP
//! datagrams. Every count is compared with that of the other end, and a
//! difference is an error.
//!
//! [`serve`] is the same server on an operating system, to measure guests
//! beside each other: blocking, a thread for each connection.

#![forbid(unsafe_code)]

mod client;
mod distribution;
mod reflect;
mod server;
mod tasks;
mod window;

pub use client::{Client, Messages, TaskMessages};
pub use distribution::Distribution;
pub use reflect::{Flight, Reflected, reflect};
pub use server::serve;
pub use window::{Measured, Plan, cpu_time};
