//! A host on the network that a test sees through and holds in its hand.
//!
//! The guest's network card is connected to this peer instead of to a network
//! (`-netdev stream` of QEMU), so that a test knows every frame that the guest
//! sends, sends any frame itself, and needs no privileges. The peer speaks ARP,
//! NDP, pings and TCP by smoltcp; pings and handshakes of its own, router
//! advertisements, DHCP and DNS are made by hand, so that they can be wrong.
//!
//! | module | what it holds |
//! |---|---|
//! | [`Peer`] | a thread around a [`Remote`] and QEMU's socket; what tests call |
//! | [`Stream`], [`Listener`], [`UdpSocket`] | TCP and UDP, as blocking calls |
//! | [`Crowd`] | thousands of TCP clients in the peer's place |
//! | [`Held`] | many connections made by hand |
//! | [`Remote`] | an engine at the end of two paths |
//! | [`Engine`] | all of the peer's state, without threads, sockets or clock |
//! | [`impair`] | paths that lose, double, delay and reorder frames, by a seed |
//! | [`dhcp`], [`dns`] | servers that do what a script says |
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
//! let guest = std::net::Ipv4Addr::new(10, 0, 2, 15);
//! let round_trip = peer.ping(guest, 1, Duration::from_secs(1));
//! println!("{round_trip:?}");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod config;
mod crowd;
mod datagrams;
pub mod dhcp;
pub mod dns;
mod dns_stream;
mod engine;
pub mod frame;
mod held;
pub mod impair;
pub mod link;
mod peer;
mod probes;
mod remote;
mod shared;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;
pub mod wire;

pub use config::Config;
pub use crowd::{ClientId, Connection, Crowd};
pub use datagrams::Datagram;
pub use dhcp::Lease;
pub use engine::Engine;
pub use frame::Host;
pub use held::Held;
pub use impair::{Impairment, Path};
pub use peer::{Capture, Peer};
pub use remote::{Direction, Remote};
pub use tcp::{Listener, Stream};
pub use udp::UdpSocket;
