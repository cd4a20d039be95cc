//! What the two ends of netbench say to each other over TCP.
//!
//! The client is on the host and measures; its clock is the only one, but for
//! messages between two tasks of the guest. It sends a [`Test`] as a header of
//! 24 bytes, which the server carries out; then the next, over the same
//! connection. What a server has received and sent it reports, so that both
//! ends can compare their counts: a [`Report`].
//!
//! | test | client | server |
//! |---|---|---|
//! | [`Sink`](Test::Sink) | writes until it ends its stream | reads, reports, ends |
//! | [`Source`](Test::Source) | reads; sends [`STOP`] when it has enough | writes blocks until then, reports, ends |
//! | [`Echo`](Test::Echo) | writes and reads | sends back what comes |
//! | [`Deliver`](Test::Deliver) | sends messages | sends [`ACK`] for each, reports after the last |
//! | [`Stream`](Test::Stream) | sends messages, then [`END`] | reads, reports |
//! | [`Tasks`](Test::Tasks) | waits | has two tasks send messages, sends [`TaskFigures`] |
//!
//! A *message* is its length, four bytes, and so many bytes. All numbers are in
//! network order.
//!
//! Latency is the time from the start of the send to the arrival of the
//! [`ACK`]. What dora measures, by one clock for both processes, is the way of
//! the message alone; so this is that and the way back of one byte, of which
//! the round trip of one byte tells how long it may be.
//!
//! The server's side of it is a [`Session`], which knows no network: the guest
//! and the Linux server drive the same one. A client that says anything else
//! gets its connection closed, and cannot make it allocate more than
//! [`MAX_BLOCK_BYTES`] and the figures of [`MAX_SAMPLES`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod figures;
mod messages;
mod request;
mod session;

pub use figures::{CHANNEL_CAPACITY, FULL_SPEED, PACE, REPORT_BYTES, Report, TaskFigures};
pub use messages::{END, LENGTH_BYTES, MESSAGE_SIZES, Messages};
pub use request::{HEADER_BYTES, MAX_BLOCK_BYTES, MAX_MESSAGE_BYTES, MAX_SAMPLES, Malformed, Test};
pub use session::{NoMemory, Session, Step};

/// Acknowledges a message.
pub const ACK: u8 = 6;

/// Ends a [`Test::Source`]. Any byte does.
pub const STOP: u8 = 4;
