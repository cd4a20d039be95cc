//! A connection whose client acts by a script.

use core::cell::RefCell;
use core::fmt;
use std::collections::VecDeque;
use std::rc::Rc;
use std::string::String;
use std::vec::Vec;

use firstpoll::time::{Duration, sleep};
use picoserve::io::{BaseWrite, Error, ErrorKind, ErrorType, Read};

use crate::{ByteStream, SplitStream};

/// What a scripted client does next.
#[derive(Clone)]
pub(super) enum Act {
    Send(Vec<u8>),
    Wait(Duration),
    /// Sends nothing more, and keeps the connection open.
    Idle,
    /// Breaks the connection.
    Reset,
}

/// A connection whose client acts by a script, then ends its stream.
#[derive(Clone, Default)]
pub(super) struct Scripted {
    script: VecDeque<Act>,
    takes_nothing: bool,
    written: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl Act {
    pub(super) fn send(bytes: impl AsRef<[u8]>) -> Self {
        Self::Send(bytes.as_ref().to_vec())
    }
}

impl Scripted {
    pub(super) fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        Self {
            script: acts.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The client sends `input` in pieces of at most `piece` bytes.
    pub(super) fn in_pieces(input: &[u8], piece: usize) -> Self {
        Self::new(input.chunks(piece).map(Act::send))
    }

    /// The client never takes an answer.
    pub(super) fn taking_nothing(self) -> Self {
        Self {
            takes_nothing: true,
            ..self
        }
    }

    /// Has `serve` serve a copy of this; what was written, each piece by
    /// itself, and the result.
    pub(super) fn served<T>(&self, serve: impl FnOnce(Self) -> T) -> (Vec<Vec<u8>>, T) {
        let copy = Self {
            written: Rc::default(),
            ..self.clone()
        };
        let written = Rc::clone(&copy.written);
        let result = serve(copy);
        (written.take(), result)
    }
}

/// What was written, as text.
pub(super) fn text(written: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&written.concat()).into_owned()
}

#[derive(Debug)]
pub(super) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was reset")
    }
}

impl core::error::Error for Broken {}

impl Error for Broken {
    fn kind(&self) -> ErrorKind {
        ErrorKind::ConnectionReset
    }
}

impl ByteStream for Scripted {
    type Error = Broken;

    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Broken> {
        self.split().0.read(buffer).await
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.split().1.write_all(bytes).await
    }

    async fn shutdown(&mut self) -> Result<(), Broken> {
        Ok(())
    }
}

impl SplitStream for Scripted {
    type ReadHalf<'a> = Acting<'a>;
    type WriteHalf<'a> = Taking<'a>;

    fn split(&mut self) -> (Acting<'_>, Taking<'_>) {
        let taking = Taking {
            nothing: self.takes_nothing,
            written: &self.written,
        };
        (Acting(&mut self.script), taking)
    }
}

/// What comes from the client.
pub(super) struct Acting<'a>(&'a mut VecDeque<Act>);

impl ErrorType for Acting<'_> {
    type Error = Broken;
}

impl Read for Acting<'_> {
    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Broken> {
        while let Some(act) = self.0.pop_front() {
            match act {
                Act::Send(mut bytes) => {
                    let count = bytes.len().min(buffer.len());
                    let left = bytes.split_off(count);
                    buffer[..count].copy_from_slice(&bytes);
                    if !left.is_empty() {
                        self.0.push_front(Act::Send(left));
                    }
                    return Ok(count);
                }
                Act::Wait(duration) => sleep(duration).await,
                Act::Idle => core::future::pending().await,
                Act::Reset => return Err(Broken),
            }
        }
        Ok(0)
    }
}

/// What goes to the client.
pub(super) struct Taking<'a> {
    nothing: bool,
    written: &'a RefCell<Vec<Vec<u8>>>,
}

impl ErrorType for Taking<'_> {
    type Error = Broken;
}

impl BaseWrite for Taking<'_> {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        if self.nothing {
            core::future::pending().await
        }
        self.written.borrow_mut().push(bytes.to_vec());
        Ok(bytes.len())
    }

    async fn flush(&mut self) -> Result<(), Broken> {
        Ok(())
    }
}
