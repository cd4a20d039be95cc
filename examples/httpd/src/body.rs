//! Finding the bytes of a request's body, and its end.

use crate::answer::Status;
use crate::request::Framing;

/// Larger bodies are answered with 413.
pub(crate) const MAX_BODY_BYTES: u64 = 64 * 1024;

/// Chunk extensions and trailers may take this much in all; nothing needs them.
const MAX_EXTRA_BYTES: u32 = 4096;

/// The part of a body that is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    state: State,
    /// Bytes of chunks so far.
    chunked_bytes: u64,
    /// Bytes of extensions and trailers so far.
    extra_bytes: u32,
}

/// What comes next (RFC 9112 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// This many bytes, then the end.
    Plain(u64),
    /// A chunk's size in hexadecimal digits, of which there were some.
    Size { size: u64, digits: u8 },
    /// The rest of the line with the size.
    Extension { size: u64 },
    /// The line feed after a size; `None` is what the last chunk has.
    SizeEnd { size: u64 },
    /// This many bytes of a chunk.
    Data(u64),
    /// The carriage return after a chunk.
    DataEnd,
    /// The line feed after it.
    DataLineFeed,
    /// A line of the trailer, which has bytes or not.
    Trailer { is_empty: bool },
    /// The line feed after such a line.
    TrailerLineFeed { is_empty: bool },
    /// Nothing.
    End,
}

impl Body {
    /// # Errors
    ///
    /// The status to answer with if the body is too large.
    pub(crate) fn new(framing: Framing) -> Result<Self, Status> {
        let state = match framing {
            Framing::Length(0) => State::End,
            Framing::Length(length) if length > MAX_BODY_BYTES => {
                return Err(Status::ContentTooLarge);
            }
            Framing::Length(length) => State::Plain(length),
            Framing::Chunked => State::SIZE,
        };
        Ok(Self {
            state,
            chunked_bytes: 0,
            extra_bytes: 0,
        })
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.state == State::End
    }

    /// Takes what belongs to the body from the start of `input`, and gives
    /// `keep` its content; returns how many bytes that were, with the framing.
    ///
    /// # Errors
    ///
    /// The status to answer with, which may be that of `keep`. Where the body
    /// ends is then unknown.
    pub(crate) fn take(
        &mut self,
        input: &[u8],
        mut keep: impl FnMut(&[u8]) -> Result<(), Status>,
    ) -> Result<usize, Status> {
        let mut taken = 0;
        while let (Some(&next), false) = (input.get(taken), self.is_complete()) {
            taken += match &mut self.state {
                State::Plain(left) | State::Data(left) => {
                    let available = (input.len() - taken) as u64;
                    let count = available.min(*left);
                    *left -= count;
                    match self.state {
                        State::Plain(0) => self.state = State::End,
                        State::Data(0) => self.state = State::DataEnd,
                        _ => {}
                    }
                    // At most what is available, which is a `usize`.
                    let count = count as usize;
                    keep(&input[taken..taken + count])?;
                    count
                }
                _ => {
                    self.state = self.after(next)?;
                    1
                }
            };
        }
        Ok(taken)
    }

    /// The state after one byte of what frames the chunks.
    fn after(&mut self, byte: u8) -> Result<State, Status> {
        Ok(match (self.state, byte) {
            (State::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                // Sixteen digits fill the number; no honest size has more.
                if digits == 16 {
                    return Err(Status::BadRequest);
                }
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                State::Size {
                    size: size << 4 | u64::from(digit),
                    digits: digits + 1,
                }
            }
            (State::Size { digits: 0, .. }, _) => return Err(Status::BadRequest),
            (State::Size { size, .. } | State::Extension { size }, b'\r') => {
                State::SizeEnd { size }
            }
            (State::Size { size, .. }, b';' | b' ' | b'\t') => {
                self.extra(State::Extension { size })?
            }
            (State::Extension { size }, byte) if byte != b'\n' => {
                self.extra(State::Extension { size })?
            }
            (State::SizeEnd { size: 0 }, b'\n') => State::LINE,
            (State::SizeEnd { size }, b'\n') => self.chunk(size)?,
            (State::DataEnd, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => State::SIZE,
            (State::Trailer { is_empty }, b'\r') => State::TrailerLineFeed { is_empty },
            (State::Trailer { .. }, byte) if byte != b'\n' => {
                self.extra(State::Trailer { is_empty: false })?
            }
            (State::TrailerLineFeed { is_empty: true }, b'\n') => State::End,
            (State::TrailerLineFeed { is_empty: false }, b'\n') => State::LINE,
            _ => return Err(Status::BadRequest),
        })
    }

    fn chunk(&mut self, size: u64) -> Result<State, Status> {
        self.chunked_bytes = self.chunked_bytes.saturating_add(size);
        if self.chunked_bytes > MAX_BODY_BYTES {
            return Err(Status::ContentTooLarge);
        }
        Ok(State::Data(size))
    }

    fn extra(&mut self, state: State) -> Result<State, Status> {
        self.extra_bytes += 1;
        if self.extra_bytes > MAX_EXTRA_BYTES {
            return Err(Status::HeadersTooLarge);
        }
        Ok(state)
    }
}

impl State {
    const SIZE: Self = Self::Size { size: 0, digits: 0 };
    const LINE: Self = Self::Trailer { is_empty: true };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Feeds `input` in pieces of `step` bytes; what was taken in all, and
    /// whether the body was complete.
    fn take(framing: Framing, input: &[u8], step: usize) -> Result<(usize, bool), Status> {
        take_content(framing, input, step).map(|(taken, is_complete, _)| (taken, is_complete))
    }

    /// As [`take`], and the content.
    fn take_content(
        framing: Framing,
        input: &[u8],
        step: usize,
    ) -> Result<(usize, bool, Vec<u8>), Status> {
        let mut body = Body::new(framing)?;
        let mut taken = 0;
        let mut content = Vec::new();
        for piece in input.chunks(step) {
            let count = body.take(piece, |bytes| {
                content.extend_from_slice(bytes);
                Ok(())
            })?;
            taken += count;
            if count < piece.len() {
                break;
            }
        }
        Ok((taken, body.is_complete(), content))
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        let chunked = b"5\r\nhello\r\n0A;name=\"value\"\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
        for step in 1..70 {
            let plain = take(Framing::Length(5), b"helloGET /", step);
            assert_eq!(plain, Ok((5, true)), "step {step}");
            let input = [&chunked[..], b"GET /"].concat();
            let result = take_content(Framing::Chunked, &input, step);
            let content = b"hello0123456789".to_vec();
            assert_eq!(result, Ok((chunked.len(), true, content)), "step {step}");
        }
        assert_eq!(take(Framing::Length(0), b"GET /", 9), Ok((0, true)));
        assert_eq!(take(Framing::Length(5), b"hell", 9), Ok((4, false)));
        assert_eq!(
            take(Framing::Chunked, b"5\r\nhello\r\n0\r\n", 9),
            Ok((13, false))
        );
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for input in [
            &b"x\r\n"[..],
            b"\r\n",
            b"5\n",
            b"5\rx",
            b"1\r\nabc",
            b"1\r\na\rb",
            b"-1\r\n",
            b"0x5\r\n",
            b"00000000000000001\r\n",
            b"5;a\nhello",
            b"0\r\na\n",
        ] {
            let result = take(Framing::Chunked, input, 100);
            assert_eq!(result, Err(Status::BadRequest), "{}", input.escape_ascii());
        }
    }

    #[test]
    fn large_bodies_are_refused() {
        let too_large = Framing::Length(MAX_BODY_BYTES + 1);
        assert_eq!(Body::new(too_large), Err(Status::ContentTooLarge));
        assert!(Body::new(Framing::Length(MAX_BODY_BYTES)).is_ok());
        for input in [
            &b"10001\r\n"[..],
            b"1\r\na\r\n10000\r\n",
            b"ffffffffffffffff\r\n",
        ] {
            let result = take(Framing::Chunked, input, 100);
            assert_eq!(result, Err(Status::ContentTooLarge));
        }
        for start in ["5;", "0\r\n"] {
            let input = [start.as_bytes(), &[b'x'; 5000]].concat();
            let result = take(Framing::Chunked, &input, 100);
            assert_eq!(result, Err(Status::HeadersTooLarge));
        }
    }
}
