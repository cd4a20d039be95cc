//! The stack as [`embedded_nal_async`] has it.

use core::net::SocketAddr;

use embedded_nal_async::TcpConnect;

use super::stream::TcpStream;
use super::{Error, Stack};

/// As [`TcpStream::connect`]: with the default options, cancel-safe.
impl TcpConnect for Stack {
    type Error = Error;

    type Connection<'a> = TcpStream;

    async fn connect(&self, remote: SocketAddr) -> Result<TcpStream, Error> {
        TcpStream::connect(*self, remote).await
    }
}
