//! The two halves of a TCP connection, each owned by somebody else.

use alloc::sync::Arc;

use super::stream::TcpStream;
use crate::net::Error;

impl TcpStream {
    /// A reading and a writing half that can go to different tasks.
    ///
    /// The connection closes when both are gone. [`split`](Self::split) does
    /// without an allocation, if they need not part.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use firstpoll::net::TcpStream;
    ///
    /// async fn chat(stream: TcpStream) {
    ///     let (mut reader, mut writer) = stream.into_split();
    ///     let listening = firstpoll::spawn(async move {
    ///         let mut buffer = [0; 1024];
    ///         while let Ok(1..) = reader.read(&mut buffer).await {}
    ///     });
    ///     let _ = writer.write_all(b"hello").await;
    ///     drop(writer); // The peer reads the end of the stream.
    ///     listening.await;
    /// }
    /// ```
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let stream = Arc::new(self);
        let reader = OwnedReadHalf {
            stream: Arc::clone(&stream),
        };
        (reader, OwnedWriteHalf { stream })
    }
}

/// The reading half of a [`TcpStream`], from [`TcpStream::into_split`].
#[derive(Debug)]
pub struct OwnedReadHalf {
    stream: Arc<TcpStream>,
}

/// The writing half of a [`TcpStream`], from [`TcpStream::into_split`].
///
/// Dropping it closes the sending side, as [`shutdown`](Self::shutdown) does.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<TcpStream>,
}

impl OwnedReadHalf {
    /// As [`TcpStream::read`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.stream.read_shared(buffer).await
    }

    /// The whole connection, of which there is more to know.
    pub fn as_stream(&self) -> &TcpStream {
        &self.stream
    }
}

impl OwnedWriteHalf {
    /// As [`TcpStream::write`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, Error> {
        self.stream.write_shared(data).await
    }

    /// As [`TcpStream::write_all`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn write_all(&mut self, data: &[u8]) -> Result<(), Error> {
        self.stream.write_all_shared(data).await
    }

    /// As [`TcpStream::shutdown`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn shutdown(&mut self) -> Result<(), Error> {
        self.stream.shut_down()
    }

    /// The whole connection, of which there is more to know.
    pub fn as_stream(&self) -> &TcpStream {
        &self.stream
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        // If the connection has ended already, there is nothing to close.
        let _ = self.stream.shut_down();
    }
}
