//! The request handling of httpd, apart from any network.
//!
//! ```text
//! bytes in → request (one head) → body (read and dropped) → answer → bytes out
//!            └──────────────────── session ────────────────────┘
//! ```
//!
//! A [`Session`] is one connection without its input and output: it says what it
//! wants to read, write or do next. [`serve`] and [`serve_blocking`] are two
//! forms of a server around it: the first is a future, the second calls
//! `block_on` for every operation. [`serve_routes`] is the third, which hands
//! requests to picoserve instead. All run on the host too, where the tests
//! feed them scripted connections.
// The routes are one type, as deep as there are many.
#![recursion_limit = "256"]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

extern crate alloc;

mod answer;
mod body;
mod input;
mod listen;
mod net;
mod options;
mod request;
mod routes;
mod serve;
mod session;
mod stats;
#[cfg(test)]
mod tests;

pub use answer::Pages;
pub use listen::{Place, end, listen, serve_all, serve_one_by_one};
pub use options::{Mode, Options, UnknownMode};
pub use routes::{Routes, SplitStream, routes, serve_routes};
pub use serve::{BlockOn, ByteStream, ReadyFirst, serve, serve_blocking};
pub use session::{Session, Step};
pub use stats::Counters;
