//! The streams as [`embedded_io_async`] has them.

use embedded_io_async::{ErrorKind, ErrorType, Read, ReadReady, Write, WriteReady};

use super::halves::{OwnedReadHalf, OwnedWriteHalf};
use super::stream::{ReadHalf, TcpStream, WriteHalf};
use crate::net::Error;

/// The kind that comes closest; what has none is
/// [`Other`](ErrorKind::Other).
impl embedded_io_async::Error for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::AddrInUse => ErrorKind::AddrInUse,
            Self::AddrNotAvailable => ErrorKind::AddrNotAvailable,
            Self::ConnectionRefused => ErrorKind::ConnectionRefused,
            Self::ConnectionReset => ErrorKind::ConnectionReset,
            Self::ConnectionAborted => ErrorKind::ConnectionAborted,
            Self::TimedOut => ErrorKind::TimedOut,
            Self::NotConnected => ErrorKind::NotConnected,
            Self::InvalidInput | Self::InvalidName | Self::MessageTooLong => {
                ErrorKind::InvalidInput
            }
            Self::NameNotFound | Self::NameWithoutAddress => ErrorKind::NotFound,
            Self::OutOfMemory | Self::LimitReached => ErrorKind::OutOfMemory,
            _ => ErrorKind::Other,
        }
    }
}

/// Implements a trait for what can be read from, or written to, by methods of
/// the same name.
macro_rules! readers {
    ($($reader:ty),*) => {$(
        impl ErrorType for $reader {
            type Error = Error;
        }

        /// `read` is cancel-safe: bytes that were not returned are read by the
        /// next call. `read_exact` is not.
        impl Read for $reader {
            async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
                <$reader>::read(self, buffer).await
            }
        }

        impl ReadReady for $reader {
            fn read_ready(&mut self) -> Result<bool, Error> {
                Ok(self.as_stream().is_read_ready())
            }
        }
    )*};
}

macro_rules! writers {
    ($($writer:ty),*) => {$(
        /// `write` is cancel-safe: nothing was taken if it did not return.
        /// `write_all` is not. `flush` has nothing to do, since what is written
        /// leaves at once; it does not wait for the peer.
        impl Write for $writer {
            async fn write(&mut self, data: &[u8]) -> Result<usize, Error> {
                <$writer>::write(self, data).await
            }

            async fn flush(&mut self) -> Result<(), Error> {
                Ok(())
            }
        }

        impl WriteReady for $writer {
            fn write_ready(&mut self) -> Result<bool, Error> {
                Ok(self.as_stream().is_write_ready())
            }
        }
    )*};
}

readers!(TcpStream, ReadHalf<'_>, OwnedReadHalf);
writers!(TcpStream, WriteHalf<'_>, OwnedWriteHalf);

impl ErrorType for WriteHalf<'_> {
    type Error = Error;
}

impl ErrorType for OwnedWriteHalf {
    type Error = Error;
}

#[cfg(test)]
mod tests {
    use embedded_io_async::Error as _;

    use super::*;

    #[test]
    fn failures_of_the_peer_keep_their_kind() {
        for (error, kind) in [
            (Error::ConnectionRefused, ErrorKind::ConnectionRefused),
            (Error::ConnectionReset, ErrorKind::ConnectionReset),
            (Error::TimedOut, ErrorKind::TimedOut),
            (Error::NetworkUnreachable, ErrorKind::Other),
        ] {
            assert_eq!(error.kind(), kind);
        }
    }
}
