//! TCP: connections, listeners, and the streams that a program has of them.
//!
//! | file | what it holds |
//! |---|---|
//! | `table` | the connections, by their two ends |
//! | `unsettled` | those in the middle of a conversation, which are not asked for their timers |
//! | `connection` | a connection's place in life |
//! | `socket` | its smoltcp socket, whose buffers get memory as they are used |
//! | `ring` | the pages of such a buffer, and how many there may be |
//! | `sweep` | taking memory away from buffers that hold nothing |
//! | `closing` | the record that is left of one, in FIN-WAIT-2 and TIME-WAIT |
//! | `segment` | a look into a segment that is for no socket, and an answer |
//! | `ports`, `port_order` | the local port of an outgoing connection |
//! | `recovery` | lost segments, noticed before the retransmission timer does |
//! | `listeners` | the ports that are listened on |
//! | `options` | what a program may set |
//! | `ops` | what the program's calls do under the lock |
//! | `listener`, `stream`, `halves` | those calls, as futures |
//! | `incoming` | the connections of a listener as a stream of them |
//! | `embedded_io` | a stream as the traits of another crate |

pub(super) mod closing;
pub(super) mod connection;
mod embedded_io;
mod halves;
mod incoming;
mod listener;
pub(super) mod listeners;
mod ops;
mod options;
pub(super) mod port_order;
mod ports;
pub(super) mod recovery;
pub(super) mod ring;
pub(super) mod segment;
mod socket;
mod stream;
pub(super) mod sweep;
pub(super) mod table;
pub(super) mod unsettled;

pub use halves::{OwnedReadHalf, OwnedWriteHalf};
pub use incoming::Incoming;
pub use listener::TcpListener;
pub use options::{Buffers, CongestionControl, ListenerOptions, StreamOptions, TcpOptions};
pub use stream::{ReadHalf, TcpStream, WriteHalf};
