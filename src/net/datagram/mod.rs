//! Datagrams: UDP, and the ICMP messages that pings go by.
//!
//! | file | what it holds |
//! |---|---|
//! | `queue` | datagrams in bounded queues |
//! | `endpoints` | the ports and pings that these belong to |
//! | `io`, `carrier` | how datagrams come in and go out, and smoltcp's part in it |
//! | `ops` | what the program's calls do with them under the lock |
//! | `udp` | UDP sockets: those calls, as futures |
//! | `ping` | asking a host whether it is there |
//! | `icmp` | a look at an ICMP message |

mod carrier;
pub(super) mod endpoints;
pub(super) mod icmp;
mod io;
mod ops;
mod ping;
pub(super) mod queue;
mod udp;

pub use ping::{PingOptions, ping};
pub use udp::{Received, UdpOptions, UdpSocket};
