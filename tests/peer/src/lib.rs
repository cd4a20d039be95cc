//! A host on the network that a test sees through and holds in its hand.
//!
//! The guest's network card is connected to this peer instead of to a network
//! (`-netdev stream` of QEMU), so that a test knows every frame that the guest
//! sends, sends any frame itself, and needs no privileges. The peer speaks ARP
//! and TCP by smoltcp; pings, handshakes and DHCP are made by hand.
//!
//! | module | what it holds |
//! |---|---|
//! | [`Peer`] | a thread around an engine and QEMU's socket; what tests call |
//! | [`Stream`], [`Listener`] | TCP, as blocking `std::io` |
//! | [`Crowd`] | thousands of TCP clients in the peer's place |
//! | [`Engine`] | all of the peer's state, without threads, sockets or clock |
//! | [`frame`] | making frames and taking them apart |
//! | [`link`] | frames on a unix socket |
//! | [`wire`] | two engines on one wire, with a clock that is moved by hand |
//!
//! ```no_run
//! use std::time::Duration;
//! use firstpoll_peer::Peer;
//!
//! # fn main() -> std::io::Result<()> {
//! let peer = Peer::listen("/tmp/guest.sock".as_ref())?;
//! // … boot a guest with `-netdev stream,addr.path=/tmp/guest.sock,…` …
//! let guest = "10.0.2.15".parse().expect("it is an address");
//! let round_trip = peer.ping(guest, 1, Duration::from_secs(1));
//! println!("{round_trip:?}");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod crowd;
mod dhcp;
mod engine;
pub mod frame;
pub mod link;
mod peer;
mod probes;
mod tcp;
#[cfg(test)]
mod tests;
pub mod wire;

pub use crowd::{ClientId, Connection, Crowd};
pub use dhcp::Lease;
pub use engine::{Config, Engine};
pub use frame::Host;
pub use peer::{Capture, Peer};
pub use tcp::{Listener, Stream};
