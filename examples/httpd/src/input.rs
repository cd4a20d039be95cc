//! What a connection has received and nobody has handled yet.

use alloc::vec::Vec;

use crate::answer::Status;
use crate::request::{self, Request};

/// The room for input at first: enough for a usual request.
const FIRST_INPUT_BYTES: usize = 1024;

/// A request's head may take this much.
pub(crate) const MAX_HEAD_BYTES: usize = 8192;

/// Bytes that were received and not handled yet.
#[derive(Debug, Default)]
pub(crate) struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The head that the input starts with; `None` if there is more to come.
    ///
    /// # Errors
    ///
    /// The status to answer with. Where this request ends is then unknown.
    pub(crate) fn head(&self) -> Result<Option<Request<'_>>, Status> {
        let head = request::parse(self.bytes())?;
        if head.is_none() && self.end - self.start >= MAX_HEAD_BYTES {
            // Not even the first line was complete.
            let is_one_line = !self.bytes().contains(&b'\n');
            return Err(if is_one_line {
                Status::UriTooLong
            } else {
                Status::HeadersTooLarge
            });
        }
        Ok(head)
    }

    /// Drops `count` bytes from the front.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = self.end.min(self.start + count);
    }

    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Where the next bytes go; `None` if there is no memory for more.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            let size = (self.buffer.len() * 2).clamp(FIRST_INPUT_BYTES, MAX_HEAD_BYTES);
            let more = size - self.buffer.len();
            self.buffer.try_reserve_exact(more).ok()?;
            self.buffer.resize(size, 0);
        }
        let room = &mut self.buffer[self.end..];
        (!room.is_empty()).then_some(room)
    }

    /// `count` bytes were put where [`room`](Self::room) said.
    pub(crate) fn received(&mut self, count: usize) {
        self.end += count;
    }
}
