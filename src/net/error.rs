//! What can go wrong on the network.

use core::error;
use core::fmt;

/// Why a network operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The port is in use by another listener.
    AddrInUse,
    /// The interface has no such address, or no local port is left.
    AddrNotAvailable,
    /// The peer answered that nobody listens there.
    ConnectionRefused,
    /// The peer reset the connection; data may be lost.
    ConnectionReset,
    /// This side gave the connection up, since the interface lost the address
    /// that it ran over.
    ConnectionAborted,
    /// The peer did not answer in time.
    TimedOut,
    /// The sending side of the stream was closed before, or the listener is
    /// gone.
    NotConnected,
    /// There is no route to the destination, or no address yet.
    NetworkUnreachable,
    /// The argument can never work: port 0, or an address that is not unicast.
    InvalidInput,
    /// No memory is left for a socket and its buffers.
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
    /// The machine has no network device that is supported.
    NoDevice,
    /// The machine has no source of random numbers to seed the network with.
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
