//! netbench's streams, one after the other, each read and write a `block_on`.

use alloc::boxed::Box;
use core::error;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;

use firstpoll::net::{Error, TcpListener, TcpStream};
use httpd::{BlockOn, Counters};
use netbench_protocol::{Session, Step};

use crate::{accept, note};

pub fn serve_all(
    executor: impl BlockOn + Copy,
    listener: &TcpListener,
    _: Counters,
) -> Result<(), Box<dyn error::Error>> {
    loop {
        let stream = accept(executor, listener);
        note(serve(executor, stream, Session::new()?));
    }
}

fn serve(executor: impl BlockOn, mut stream: TcpStream, mut session: Session) -> Result<(), Error> {
    loop {
        match session.step() {
            Step::Read(buffer) => {
                let count = executor.block_on(stream.read(buffer))?;
                session.received(count);
            }
            Step::Write(bytes) => {
                executor.block_on(stream.write_all(bytes))?;
                session.written();
            }
            Step::WriteUnlessStopped(bytes) => {
                executor.block_on(stream.write_all(bytes))?;
                let mut byte = [0];
                let mut read = pin!(stream.read(&mut byte));
                let tried = poll_fn(|context| Poll::Ready(read.as_mut().poll(context)));
                match executor.block_on(tried) {
                    Poll::Ready(result) => {
                        result?;
                        session.stopped();
                    }
                    Poll::Pending => session.written(),
                }
            }
            // Messages between tasks are no stream.
            Step::Measure { .. } => session.measured(None),
            Step::Close => return executor.block_on(stream.shutdown()),
        }
    }
}
