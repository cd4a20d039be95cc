//! The guest's end of the network benchmarks.
//!
//! It has two modes. The server carries out what
//! [`netbench_protocol`] describes, a task for each connection. The reflector
//! takes the network card for itself and sends each datagram straight back from
//! the driver, which shows the limit of the machine's virtual network card.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

extern crate alloc;

mod channel;
mod frame;
mod options;
mod reflector;
mod serve;
mod tasks;

pub use channel::{Closed, Receiver, Sender, channel};
pub use frame::{Endpoint, Verdict};
pub use options::{Mode, Options, UnknownMode};
pub use reflector::Reflector;
pub use serve::serve;
pub use tasks::measure;
