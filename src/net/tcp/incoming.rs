//! The connections of a listener, as a stream of them.

use core::pin::Pin;
use core::task::{Context, Poll};

use futures_core::Stream;

use super::listener::{Accepting, TcpListener};
use super::stream::TcpStream;
use crate::net::Error;

impl TcpListener {
    /// The connections, as they arrive: [`accept`](Self::accept) again and
    /// again, without end.
    ///
    /// Cancel-safe: connections that the stream did not yield wait for the next
    /// `accept`, also after it was dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use core::future::poll_fn;
    /// use core::pin::pin;
    ///
    /// use firstpoll::net::TcpListener;
    /// use futures_core::Stream;
    ///
    /// async fn serve(listener: &TcpListener) {
    ///     let mut incoming = pin!(listener.incoming());
    ///     while let Some(stream) = poll_fn(|context| incoming.as_mut().poll_next(context)).await {
    ///         let _ = stream;
    ///     }
    /// }
    /// ```
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming {
            accepting: Accepting::new(self),
        }
    }
}

/// The stream that [`TcpListener::incoming`] makes; it never ends.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Incoming<'a> {
    accepting: Accepting<'a>,
}

impl Stream for Incoming<'_> {
    type Item = Result<TcpStream, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.accepting.poll(context).map(Some)
    }
}
