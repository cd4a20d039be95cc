//! A session over a real connection.

use core::pin::pin;
use core::task::Poll;

use firstpoll::net::{Error, TcpStream};
use netbench_protocol::{Session, Step};

use crate::tasks::measure;

/// Serves one connection to its end.
///
/// # Errors
///
/// If the connection broke.
pub async fn serve(mut stream: TcpStream, mut session: Session) -> Result<(), Error> {
    loop {
        match session.step() {
            Step::Read(buffer) => {
                let count = stream.read(buffer).await?;
                session.received(count);
            }
            Step::Write(bytes) => {
                stream.write_all(bytes).await?;
                session.written();
            }
            Step::WriteUnlessStopped(bytes) => {
                stream.write_all(bytes).await?;
                if is_readable(&mut stream).await? {
                    session.stopped();
                } else {
                    session.written();
                }
            }
            Step::Measure {
                message_bytes,
                samples,
            } => {
                let figures = measure(message_bytes as usize, samples).await;
                session.measured(figures.as_ref());
            }
            Step::Close => return stream.shutdown().await,
        }
    }
}

/// Reads one byte or the end of the stream, if either is there already.
async fn is_readable(stream: &mut TcpStream) -> Result<bool, Error> {
    let mut byte = [0];
    let mut read = pin!(stream.read(&mut byte));
    core::future::poll_fn(|context| {
        Poll::Ready(match read.as_mut().poll(context) {
            Poll::Ready(result) => result.map(|_| true),
            Poll::Pending => Ok(false),
        })
    })
    .await
}
