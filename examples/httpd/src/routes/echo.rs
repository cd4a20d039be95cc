//! A WebSocket that returns what it gets (RFC 6455).

use alloc::vec;
use core::convert::Infallible;
use core::future::pending;

use firstpoll::time::{Duration, Elapsed, timeout};
use picoserve::futures::Either;
use picoserve::io::{Read, Write};
use picoserve::response::ws::{Message, SocketRx, SocketTx, WebSocketCallback};

/// Longer messages end the connection.
const MAX_MESSAGE_BYTES: usize = 1024;

/// A connection that is silent for longer is ended.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// The endpoint goes away (RFC 6455 §7.4.1).
const GOING_AWAY: u16 = 1001;

/// The end of a connection for which there was an upgrade.
pub(super) struct Echo;

impl WebSocketCallback for Echo {
    async fn run<R: Read, W: Write<Error = R::Error>>(
        self,
        mut receiver: SocketRx<R>,
        mut sender: SocketTx<W>,
    ) -> Result<(), W::Error> {
        let mut buffer = vec![0; MAX_MESSAGE_BYTES];
        loop {
            let next = receiver.next_message(&mut buffer, pending::<Infallible>());
            let message = match timeout(MAX_SILENCE, next).await {
                Ok(Ok(Either::First(message))) => message,
                Ok(Ok(Either::Second(never))) => match never {},
                Ok(Err(broken)) => return Err(broken),
                Err(Elapsed) => return sender.close((GOING_AWAY, "silence")).await,
            };
            match message {
                Ok(Message::Text(text)) => sender.send_text(text).await?,
                Ok(Message::Binary(data)) => sender.send_binary(data).await?,
                Ok(Message::Ping(data)) => sender.send_pong(data).await?,
                Ok(Message::Pong(_)) => continue,
                Ok(Message::Close(_)) => return sender.close(None).await,
                Err(error) => return sender.close((error.code(), "not understood")).await,
            }
            sender.flush().await?;
        }
    }
}
