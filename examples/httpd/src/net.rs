//! Connections of the real network as byte streams.

use firstpoll::net::{Error, ReadHalf, TcpStream, WriteHalf};

use crate::routes::SplitStream;
use crate::serve::ByteStream;

impl ByteStream for TcpStream {
    type Error = Error;

    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        TcpStream::read(self, buffer).await
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Error> {
        TcpStream::write_all(self, bytes).await
    }

    async fn shutdown(&mut self) -> Result<(), Error> {
        TcpStream::shutdown(self).await
    }
}

impl SplitStream for TcpStream {
    type ReadHalf<'a> = ReadHalf<'a>;
    type WriteHalf<'a> = WriteHalf<'a>;

    fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        TcpStream::split(self)
    }
}
