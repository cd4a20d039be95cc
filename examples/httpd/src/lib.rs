//! The request handling of httpd, apart from any network.
//!
//! ```text
//! bytes in → request (one head) → body (read and dropped) → answer → bytes out
//!            └──────────────────── session ────────────────────┘
//! ```
//!
//! A [`Session`] is one connection without its input and output: it says what it
//! wants to read, write or do next. [`serve`] and [`serve_blocking`] are the two
//! forms of a server around it: the first is a future, the second calls
//! `block_on` for every operation. Both run on the host too, where the tests
//! feed them scripted connections.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

extern crate alloc;

mod answer;
mod body;
mod net;
mod options;
mod request;
mod serve;
mod session;
mod stats;
#[cfg(test)]
mod tests;

pub use answer::Pages;
pub use options::{Mode, Options, UnknownMode};
pub use serve::{BlockOn, ByteStream, ReadyFirst, serve, serve_blocking};
pub use session::{Session, Step};
pub use stats::Counters;
