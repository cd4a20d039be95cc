//! Operations as calls of a kernel: each tries and returns at once.

use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;

use firstpoll::net::{Error, TcpStream};
use httpd::{BlockOn, ByteStream};

/// One operation by such calls, until it is done.
pub async fn call<F: Future>(executor: impl BlockOn, operation: F) -> F::Output {
    let mut operation = pin!(operation);
    poll_fn(|outer| {
        // The waker that is noted is the connection's, not the call's.
        executor.block_on(poll_fn(|_| Poll::Ready(operation.as_mut().poll(outer))))
    })
    .await
}

/// A connection whose operations are such calls.
pub struct Calls<E> {
    pub stream: TcpStream,
    pub executor: E,
}

impl<E: BlockOn + Copy> ByteStream for Calls<E> {
    type Error = Error;

    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        call(self.executor, self.stream.read(buffer)).await
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Error> {
        call(self.executor, self.stream.write_all(bytes)).await
    }

    async fn shutdown(&mut self) -> Result<(), Error> {
        call(self.executor, self.stream.shutdown()).await
    }
}
