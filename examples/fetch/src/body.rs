//! Where a body ends (RFC 9112 §6 and §7).

use core::error;
use core::fmt;

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By its length in bytes; 0 for no body.
    Length(u64),
    /// By the last of its chunks.
    Chunked,
    /// By the end of the stream.
    ToEnd,
}

/// A body as it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes of a body with a length are left.
    Length(u64),
    /// A body that lasts as long as the stream.
    ToEnd,
    /// In a chunk's size, of which so many digits have come.
    Size {
        size: u64,
        digits: u8,
    },
    /// Between a chunk's size and the end of its line.
    Extension {
        size: u64,
        seen: u16,
    },
    /// After the carriage return of a chunk's first line.
    SizeLineFeed {
        size: u64,
    },
    /// So many bytes of a chunk are left.
    Data(u64),
    /// At the end of a chunk's data.
    DataReturn,
    DataLineFeed,
    /// In the fields behind the last chunk; the line has so many bytes.
    Trailer {
        line: u16,
        seen: u16,
    },
    /// After the carriage return of such a line.
    TrailerLineFeed {
        line: u16,
        seen: u16,
    },
    Done,
}

/// What a piece of the stream was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Bytes of the body.
    pub data: &'a [u8],
    /// How many bytes of the stream that took, `data` included.
    pub taken: usize,
}

/// Why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// A chunk's size is no hexadecimal number, or too large.
    Size,
    /// There is no line break where one must be.
    LineBreak,
    /// What goes with the chunks is longer than anybody needs.
    TooLong,
    /// The stream ended before the body did.
    CutShort,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "a chunk has no usable size",
            Self::LineBreak => "a chunk does not end where it says",
            Self::TooLong => "too much comes with the chunks",
            Self::CutShort => "the body was cut short",
        })
    }
}

impl error::Error for BodyError {}

/// How much a server may send beside a chunk, and behind the last.
const MAX_EXTRA_BYTES: u16 = 4096;

impl Body {
    /// The beginning of a body.
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size { size: 0, digits: 0 },
            Framing::ToEnd => State::ToEnd,
        };
        Self { state }
    }

    /// Whether all of it has arrived.
    pub fn is_complete(&self) -> bool {
        self.state == State::Done
    }

    /// Takes in what came next in the stream, up to the next bytes of the body;
    /// call it until it has taken everything, or the body is complete.
    ///
    /// # Errors
    ///
    /// What is wrong with the body.
    pub fn take<'a>(&mut self, stream: &'a [u8]) -> Result<Piece<'a>, BodyError> {
        let mut taken = 0;
        while taken < stream.len() {
            let rest = &stream[taken..];
            let data = match self.state {
                State::Done => break,
                State::ToEnd => rest,
                State::Length(left) => {
                    let data = at_most(rest, left);
                    self.state = match left - data.len() as u64 {
                        0 => State::Done,
                        left => State::Length(left),
                    };
                    data
                }
                State::Data(left) => {
                    let data = at_most(rest, left);
                    self.state = match left - data.len() as u64 {
                        0 => State::DataReturn,
                        left => State::Data(left),
                    };
                    data
                }
                _ => {
                    self.state = self.state.after(rest[0])?;
                    taken += 1;
                    continue;
                }
            };
            taken += data.len();
            return Ok(Piece { data, taken });
        }
        Ok(Piece { data: &[], taken })
    }

    /// Takes in that the stream has ended.
    ///
    /// # Errors
    ///
    /// [`BodyError::CutShort`] if the body has not.
    pub fn end(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::Done | State::ToEnd => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(BodyError::CutShort),
        }
    }
}

impl State {
    /// The state after a byte of what frames the chunks.
    fn after(self, byte: u8) -> Result<Self, BodyError> {
        Ok(match (self, byte) {
            (Self::Size { digits: 0, .. }, b'\r' | b';' | b' ' | b'\t') => {
                return Err(BodyError::Size);
            }
            (Self::Size { size, .. }, b'\r') => Self::SizeLineFeed { size },
            (Self::Size { size, .. }, b';' | b' ' | b'\t') => Self::Extension { size, seen: 0 },
            (Self::Size { size, digits }, digit) => {
                let value = (digit as char).to_digit(16).ok_or(BodyError::Size)?;
                if digits == 16 {
                    return Err(BodyError::Size);
                }
                Self::Size {
                    size: size << 4 | u64::from(value),
                    digits: digits + 1,
                }
            }
            (Self::Extension { size, .. }, b'\r') => Self::SizeLineFeed { size },
            (Self::Extension { .. }, b'\n') => return Err(BodyError::LineBreak),
            (Self::Extension { size, seen }, _) => Self::Extension {
                size,
                seen: one_more(seen)?,
            },
            (Self::SizeLineFeed { size: 0 }, b'\n') => Self::Trailer { line: 0, seen: 0 },
            (Self::SizeLineFeed { size }, b'\n') => Self::Data(size),
            (Self::DataReturn, b'\r') => Self::DataLineFeed,
            (Self::DataLineFeed, b'\n') => Self::Size { size: 0, digits: 0 },
            (Self::Trailer { line, seen }, b'\r') => Self::TrailerLineFeed { line, seen },
            (Self::Trailer { .. }, b'\n') => return Err(BodyError::LineBreak),
            (Self::Trailer { line, seen }, _) => Self::Trailer {
                line: one_more(line)?,
                seen: one_more(seen)?,
            },
            (Self::TrailerLineFeed { line: 0, .. }, b'\n') => Self::Done,
            (Self::TrailerLineFeed { seen, .. }, b'\n') => Self::Trailer { line: 0, seen },
            _ => return Err(BodyError::LineBreak),
        })
    }
}

fn one_more(seen: u16) -> Result<u16, BodyError> {
    match seen + 1 {
        MAX_EXTRA_BYTES => Err(BodyError::TooLong),
        seen => Ok(seen),
    }
}

fn at_most(bytes: &[u8], limit: u64) -> &[u8] {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    &bytes[..bytes.len().min(limit)]
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// Reads a stream in parts of `part` bytes: the body, and what is left
    /// behind it.
    fn read(framing: Framing, stream: &[u8], part: usize) -> Result<(Vec<u8>, usize), BodyError> {
        let mut body = Body::new(framing);
        let mut all = Vec::new();
        let mut taken = 0;
        for part in stream.chunks(part) {
            let mut rest = part;
            while !rest.is_empty() && !body.is_complete() {
                let piece = body.take(rest)?;
                all.extend_from_slice(piece.data);
                taken += piece.taken;
                rest = &rest[piece.taken..];
            }
        }
        body.end()?;
        assert!(body.is_complete());
        Ok((all, stream.len() - taken))
    }

    #[test]
    fn chunks_are_put_together_wherever_they_are_cut() {
        let stream = b"5\r\nhello\r\n1;a=\"b\"\r\n \r\n0A \r\n0123456789\r\n0\r\nX: y\r\n\r\nnext";
        for part in 1..=stream.len() {
            let read = read(Framing::Chunked, stream, part);
            assert_eq!(read, Ok((b"hello 0123456789".to_vec(), 4)), "{part}");
        }
    }

    #[test]
    fn a_length_and_the_end_of_the_stream_end_a_body() {
        assert_eq!(
            read(Framing::Length(3), b"abcdef", 2),
            Ok((b"abc".to_vec(), 3))
        );
        assert_eq!(read(Framing::Length(0), b"x", 1), Ok((Vec::new(), 1)));
        assert_eq!(read(Framing::ToEnd, b"abc", 2), Ok((b"abc".to_vec(), 0)));
    }

    #[test]
    fn what_is_cut_short_is_told_from_what_is_whole() {
        let whole = b"2\r\nab\r\n0\r\n\r\n";
        for length in 0..whole.len() {
            let read = read(Framing::Chunked, &whole[..length], 64);
            assert_eq!(read, Err(BodyError::CutShort), "{length}");
        }
        assert_eq!(
            read(Framing::Length(4), b"abc", 64),
            Err(BodyError::CutShort)
        );
    }

    #[test]
    fn broken_chunks_are_refused() {
        let long = [&b"1;"[..], &[b'x'; 5000]].concat();
        for (stream, error) in [
            (&b"\r\n"[..], BodyError::Size),
            (b"x\r\n", BodyError::Size),
            (b"-1\r\n", BodyError::Size),
            (b"10000000000000000\r\n", BodyError::Size),
            (b"1\n", BodyError::Size),
            (b"1;\n", BodyError::LineBreak),
            (b"1\rx", BodyError::LineBreak),
            (b"1\r\nab", BodyError::LineBreak),
            (b"1\r\na\rb", BodyError::LineBreak),
            (b"0\r\nX\n", BodyError::LineBreak),
            (&long, BodyError::TooLong),
        ] {
            assert_eq!(read(Framing::Chunked, stream, 7), Err(error));
        }
    }

    proptest! {
        #[test]
        fn any_stream_is_taken_to_an_end(
            stream in proptest::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'3'), any::<u8>()],
                0..100,
            ),
            part in 1..20_usize,
        ) {
            if let Ok((body, left)) = read(Framing::Chunked, &stream, part) {
                prop_assert!(body.len() + left < stream.len());
            }
        }
    }
}
