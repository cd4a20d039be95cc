//! The network stack: one card, IPv4 and IPv6, TCP.
//!
//! smoltcp speaks the protocols; what it is handed, and when, is decided here,
//! so that the cost of a packet does not depend on the number of connections.
//!
//! | file or folder | what it holds |
//! |---|---|
//! | `stack` | the handle, the start, the lock |
//! | `task` | the network task, its sleep and its watchdog |
//! | `state` | what the lock guards; one bounded step, the end of connections |
//! | `ingress` | a received frame: whom it concerns, new connections |
//! | `frame` | a look at a frame's headers |
//! | `tcp` | connections, listeners, streams |
//! | `datagram` | UDP sockets and pings |
//! | [`dns`] | from names to addresses |
//! | `ip` | configuration, addresses, routes, neighbours, loopback |
//! | [`device`], `virtio` | what a network card has to offer; the one that there is |
//! | `limits`, `stats` | how much the stack may hold, and who gives way; the counters |
//! | `error` | what can go wrong |
//! | `embedded_nal` | the stack as the traits of another crate |
//! | `deadlines`, `index_list` | the data structures of many |
//! | `random`, `rate` | numbers that nobody can guess; answers at a bounded rate |
//! | `waiters`, `wakes` | who waits for the same; wakers, to be woken once the lock is open |
//!
//! All of it is data of the bottom half's class (see [`sync`](crate::sync)):
//! usable from the program, from tasks, and by the network task in the bottom
//! half, but not from interrupt handlers.
//!
//! # Examples
//!
//! ```no_run
//! use firstpoll::net::{Error, Stack, TcpListener};
//!
//! async fn echo(stack: Stack) -> Result<(), Error> {
//!     let listener = TcpListener::bind(stack, 7)?;
//!     loop {
//!         let mut stream = listener.accept().await?;
//!         firstpoll::spawn(async move {
//!             let mut buffer = [0; 1024];
//!             while let Ok(count @ 1..) = stream.read(&mut buffer).await {
//!                 if stream.write_all(&buffer[..count]).await.is_err() {
//!                     break;
//!                 }
//!             }
//!         })
//!         .detach();
//!     }
//! }
//! ```

#![deny(unsafe_code)]

mod checksum;
mod datagram;
mod deadlines;
pub mod device;
pub mod dns;
mod embedded_nal;
mod error;
mod frame;
mod index_list;
mod ingress;
mod ip;
mod limits;
mod random;
mod rate;
mod stack;
mod state;
mod stats;
mod task;
mod tcp;
mod virtio;
mod waiters;
mod wakes;

pub use datagram::{PingOptions, Received, UdpOptions, UdpSocket, ping};
pub use device::Device;
pub use error::Error;
pub use ip::{
    Config, ConfigError, IpConfig, Ipv4Config, Ipv4Source, Ipv6Config, Ipv6Source, Route,
};
pub use limits::Limits;
pub use stack::{Stack, start};
pub use stats::Stats;
pub use tcp::{
    Buffers, CongestionControl, Incoming, ListenerOptions, OwnedReadHalf, OwnedWriteHalf, ReadHalf,
    StreamOptions, TcpListener, TcpOptions, TcpStream, WriteHalf,
};
