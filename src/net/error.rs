//! What can go wrong on the network.

use core::error;
use core::fmt;

/// Why a network operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// This side: the port has another listener. Take another port, or end that
    /// listener.
    AddrInUse,
    /// This side: the interface has no such address, or every local port has a
    /// connection to the same place. Try again when some have ended.
    AddrNotAvailable,
    /// The peer: it is there and answered that nobody listens on that port.
    /// Trying again helps once it has been started.
    ConnectionRefused,
    /// The peer: it reset the connection, by a crash or on purpose. What was
    /// written may not have reached its program; open a new connection, and
    /// repeat only what may be done twice.
    ConnectionReset,
    /// This side: it gave the connection up, since the interface lost the
    /// address that it ran over. Open a new one, which takes the new address.
    ConnectionAborted,
    /// The peer, or the way to it: no answer in time, to the opening, to data
    /// that was sent (see [`StreamOptions::user_timeout`]) or to probes (see
    /// [`StreamOptions::keep_alive`]). Try again later or elsewhere.
    ///
    /// [`StreamOptions::user_timeout`]: super::StreamOptions::user_timeout
    /// [`StreamOptions::keep_alive`]: super::StreamOptions::keep_alive
    TimedOut,
    /// The caller: the sending side of the stream was closed before, or the
    /// listener is gone.
    NotConnected,
    /// The configuration: there is no route to the destination, or no address
    /// yet. Wait for one with
    /// [`Stack::wait_configured`](super::Stack::wait_configured), or add a
    /// gateway.
    NetworkUnreachable,
    /// The caller: the argument can never work: port 0, or an address that is
    /// not unicast.
    InvalidInput,
    /// This side: a limit of the stack is reached (see
    /// [`Limits`](super::Limits)). Try again when other connections have ended,
    /// or raise the limit.
    LimitReached,
    /// This side: no memory is left for a socket and its buffers. As
    /// [`LimitReached`](Self::LimitReached), or give the machine more memory.
    OutOfMemory,
    /// The caller: the datagram is longer than a packet of the network can be, or
    /// than the buffer that it was to be received in.
    MessageTooLong,
    /// The caller: no host can have that name. See
    /// [`Stack::resolve`](super::Stack::resolve) for what is allowed in one.
    InvalidName,
    /// The name servers: they say that no host has that name.
    NameNotFound,
    /// The name servers: they say that the host has no address of the family that
    /// was asked for.
    NameWithoutAddress,
    /// The name servers: each of them failed, refused to answer, or does not
    /// listen. Try again later, or use others.
    NameServerFailed,
    /// The configuration: no name server is known, or no network has told of one
    /// yet.
    NoNameServer,
    /// The machine: it has no network device that is supported.
    NoDevice,
    /// The machine: it has no source of random numbers to seed the network with.
    NoEntropy,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddrInUse => "the port is in use",
            Self::AddrNotAvailable => "no such local address, or no local port is left",
            Self::ConnectionRefused => "the peer refused the connection",
            Self::ConnectionReset => "the peer reset the connection",
            Self::ConnectionAborted => "the connection was given up with its local address",
            Self::TimedOut => "the peer did not answer in time",
            Self::NotConnected => "the stream is closed for sending",
            Self::NetworkUnreachable => "no route to the destination",
            Self::InvalidInput => "not a usable address",
            Self::LimitReached => "a limit of the network stack is reached",
            Self::OutOfMemory => "no memory for a socket",
            Self::MessageTooLong => "the datagram is too long",
            Self::InvalidName => "not the name of a host",
            Self::NameNotFound => "no host has that name",
            Self::NameWithoutAddress => "the host has no such address",
            Self::NameServerFailed => "the name servers could not answer",
            Self::NoNameServer => "no name server is known",
            Self::NoDevice => "no network device",
            Self::NoEntropy => "no source of random numbers",
        })
    }
}

impl error::Error for Error {}
