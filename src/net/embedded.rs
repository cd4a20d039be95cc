//! The traits of `embedded-io-async`, for streams and their halves.

use embedded_io_async::{ErrorKind, ErrorType, Read, Write};

use super::{Error, ReadHalf, TcpStream, WriteHalf};

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
            Self::InvalidInput => ErrorKind::InvalidInput,
            Self::OutOfMemory => ErrorKind::OutOfMemory,
            _ => ErrorKind::Other,
        }
    }
}

impl ErrorType for TcpStream {
    type Error = Error;
}

/// Cancel-safe, as [`TcpStream::read`] is.
impl Read for TcpStream {
    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        Self::read(self, buffer).await
    }
}

/// `write` is cancel-safe, as [`TcpStream::write`] is. What is written leaves at
/// once, so `flush` has nothing to do.
impl Write for TcpStream {
    async fn write(&mut self, data: &[u8]) -> Result<usize, Error> {
        Self::write(self, data).await
    }

    async fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl ErrorType for ReadHalf<'_> {
    type Error = Error;
}

/// As of [`TcpStream`].
impl Read for ReadHalf<'_> {
    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        Self::read(self, buffer).await
    }
}

impl ErrorType for WriteHalf<'_> {
    type Error = Error;
}

/// As of [`TcpStream`].
impl Write for WriteHalf<'_> {
    async fn write(&mut self, data: &[u8]) -> Result<usize, Error> {
        Self::write(self, data).await
    }

    async fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
