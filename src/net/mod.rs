//! The network stack: one card, IPv4 and IPv6, TCP.
//!
//! smoltcp speaks the protocols; what it is handed, and when, is decided here,
//! so that the cost of a packet does not depend on the number of connections.
//!
//! | file | what it holds |
//! |---|---|
//! | `stack` | the handle, the start, the lock |
//! | `task` | the network task, its sleep and its watchdog |
//! | `state` | what the lock guards; one bounded step, the end of connections |
//! | `limits` | how much the stack may hold, and who gives way |
//! | `ingress` | a received frame: whom it concerns, new connections |
//! | `frame` | a look at a frame's headers |
//! | `table` | the connections, by their two ends |
//! | `connection` | a connection's place in life |
//! | `socket` | its smoltcp socket, whose buffers get memory as they are used |
//! | `ring` | the pages of such a buffer, and how many there may be |
//! | `sweep` | taking memory away from buffers that hold nothing |
//! | `closing` | the record that is left of one, in FIN-WAIT-2 and TIME-WAIT |
//! | `segment` | a look into a segment that is for no socket, and an answer |
//! | `ports`, `port_order` | the local port of an outgoing connection |
//! | `recovery` | lost segments, noticed before the retransmission timer does |
//! | `listeners` | the ports that are listened on |
//! | `ops` | what the program's calls do under the lock |
//! | `listener`, `stream`, `halves` | those calls, as futures |
//! | `incoming` | the connections of a listener as a stream of them |
//! | `embedded_io`, `embedded_nal` | the same as the traits of other crates |
//! | `loopback` | the interface from the guest to itself |
//! | `device`, `virtio` | what a network card has to offer; the one that there is |
//! | `config`, `command_line` | what the stack is told at its start |
//! | `addresses`, `interface` | the card's addresses and routes |
//! | `dhcp`, `slaac` | those from a DHCP server and from routers |
//! | `discovery` | asking for the addresses of neighbours |
//! | `multicast` | telling routers which groups are listened to |
//! | `udp` | UDP sockets |
//! | `ping` | asking a host whether it is there |
//! | `dns` | from names to addresses |
//! | `datagram`, `endpoints` | datagrams in bounded queues, and the ports and pings that these belong to |
//! | `datagram_io`, `carrier` | how datagrams come in and go out, and smoltcp's part in it |
//! | `datagram_ops` | what the program's calls do with them under the lock |
//! | `icmp` | a look at an ICMP message |
//! | `random`, `rate` | numbers that nobody can guess; answers at a bounded rate |
//! | `wakes` | wakers, to be woken once the lock is open |
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

mod addresses;
mod carrier;
mod closing;
mod command_line;
mod config;
mod connection;
mod datagram;
mod datagram_io;
mod datagram_ops;
mod deadlines;
pub mod device;
mod dhcp;
mod discovery;
pub mod dns;
mod embedded_io;
mod embedded_nal;
mod endpoints;
mod error;
mod frame;
mod halves;
mod icmp;
mod incoming;
mod index_list;
mod ingress;
mod interface;
mod limits;
mod listener;
mod listeners;
mod loopback;
mod multicast;
mod ops;
mod options;
mod ping;
mod port_order;
mod ports;
mod random;
mod rate;
mod recovery;
mod ring;
mod segment;
mod slaac;
mod socket;
mod stack;
mod state;
mod stats;
mod stream;
mod sweep;
mod table;
mod task;
mod udp;
mod virtio;
mod wakes;

pub use command_line::ConfigError;
pub use config::{Config, IpConfig, Ipv4Config, Ipv4Source, Ipv6Config, Ipv6Source, Route};
pub use device::Device;
pub use error::Error;
pub use halves::{OwnedReadHalf, OwnedWriteHalf};
pub use incoming::Incoming;
pub use limits::Limits;
pub use listener::TcpListener;
pub use options::{Buffers, CongestionControl, ListenerOptions, StreamOptions, TcpOptions};
pub use ping::{PingOptions, ping};
pub use stack::{Stack, start};
pub use stats::Stats;
pub use stream::{ReadHalf, TcpStream, WriteHalf};
pub use udp::{Received, UdpOptions, UdpSocket};
