//! The header that asks for a test.

use core::error;
use core::fmt;

/// The length of an encoded [`Test`].
pub const HEADER_BYTES: usize = 24;

/// The largest block of a [`Test::Source`], for which the server has a buffer.
pub const MAX_BLOCK_BYTES: u32 = 1 << 20;

/// The largest message; also one that two tasks exchange.
pub const MAX_MESSAGE_BYTES: u32 = 4 << 20;

/// The most latency samples of a [`Test::Tasks`].
pub const MAX_SAMPLES: u64 = 1000;

const MAGIC: [u8; 4] = *b"nb1\n";

/// What the server shall do.
///
/// On the wire: `nb1` and a line feed; the kind, four bytes; the size and the
/// count, eight bytes each, zero where the kind has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Kind 1: read to the end of the stream.
    Sink,
    /// Kind 2: write blocks until told to stop.
    Source {
        /// The size of each write, at least 1.
        block_bytes: u32,
    },
    /// Kind 3: send back so many bytes: `size` times `count` on the wire.
    Echo {
        /// All of them.
        bytes: u64,
    },
    /// Kind 4: acknowledge messages.
    Deliver {
        /// The size of each.
        message_bytes: u32,
        /// How many come.
        count: u64,
    },
    /// Kind 5: count messages to the end mark.
    Stream {
        /// The size of each.
        message_bytes: u32,
    },
    /// Kind 6: measure messages between two tasks.
    Tasks {
        /// The size of each.
        message_bytes: u32,
        /// How many have their latency measured.
        samples: u64,
    },
}

/// These bytes ask for no test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer does not speak netbench's protocol")
    }
}

impl error::Error for Malformed {}

impl Test {
    /// The header that asks for it.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let (kind, size, count) = match self {
            Self::Sink => (1_u32, 0, 0),
            Self::Source { block_bytes } => (2, block_bytes.into(), 0),
            Self::Echo { bytes } => (3, bytes, 1),
            Self::Deliver {
                message_bytes,
                count,
            } => (4, message_bytes.into(), count),
            Self::Stream { message_bytes } => (5, message_bytes.into(), 0),
            Self::Tasks {
                message_bytes,
                samples,
            } => (6, u64::from(message_bytes), samples),
        };
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&kind.to_be_bytes());
        header[8..16].copy_from_slice(&size.to_be_bytes());
        header[16..].copy_from_slice(&count.to_be_bytes());
        header
    }

    /// What a header asks for.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if that is nothing, or too much.
    pub fn decode(header: &[u8; HEADER_BYTES]) -> Result<Self, Malformed> {
        if header[..4] != MAGIC {
            return Err(Malformed);
        }
        let kind = u64::from_be_bytes([0, 0, 0, 0, header[4], header[5], header[6], header[7]]);
        let number = |at: usize| {
            let bytes = header[at..at + 8].iter();
            bytes.fold(0_u64, |number, &byte| number << 8 | u64::from(byte))
        };
        let (size, count) = (number(8), number(16));
        let message_bytes = || bounded(size, MAX_MESSAGE_BYTES);
        Ok(match (kind, size, count) {
            (1, 0, 0) => Self::Sink,
            (2, 1.., 0) => Self::Source {
                block_bytes: bounded(size, MAX_BLOCK_BYTES)?,
            },
            (3, _, _) => Self::Echo {
                bytes: size.checked_mul(count).ok_or(Malformed)?,
            },
            (4, _, _) => Self::Deliver {
                message_bytes: message_bytes()?,
                count,
            },
            (5, _, 0) => Self::Stream {
                message_bytes: message_bytes()?,
            },
            (6, _, 0..=MAX_SAMPLES) => Self::Tasks {
                message_bytes: message_bytes()?,
                samples: count,
            },
            _ => return Err(Malformed),
        })
    }
}

fn bounded(size: u64, most: u32) -> Result<u32, Malformed> {
    let size = u32::try_from(size).map_err(|_| Malformed)?;
    (size <= most).then_some(size).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: u32 = MAX_MESSAGE_BYTES;

    #[test]
    fn every_test_survives_the_wire() {
        for test in [
            Test::Sink,
            Test::Source { block_bytes: 1 },
            Test::Source {
                block_bytes: MAX_BLOCK_BYTES,
            },
            Test::Echo { bytes: 0 },
            Test::Echo { bytes: u64::MAX },
            Test::Deliver {
                message_bytes: 0,
                count: u64::MAX,
            },
            Test::Stream {
                message_bytes: MESSAGE,
            },
            Test::Tasks {
                message_bytes: MESSAGE,
                samples: MAX_SAMPLES,
            },
        ] {
            assert_eq!(Test::decode(&test.encode()), Ok(test));
        }
    }

    #[test]
    fn what_is_no_test_or_too_much_is_refused() {
        let header = |kind: u32, size: u64, count: u64| {
            let mut header = Test::Sink.encode();
            header[4..8].copy_from_slice(&kind.to_be_bytes());
            header[8..16].copy_from_slice(&size.to_be_bytes());
            header[16..].copy_from_slice(&count.to_be_bytes());
            header
        };
        for (kind, size, count) in [
            (0, 0, 0),
            (7, 0, 0),
            (u32::MAX, 0, 0),
            (1, 1, 0),
            (1, 0, 1),
            (2, 0, 0),
            (2, u64::from(MAX_BLOCK_BYTES) + 1, 0),
            (2, 1, 1),
            (3, u64::MAX, 2),
            (4, u64::from(MESSAGE) + 1, 1),
            (4, 1 << 32, 1),
            (5, 8, 1),
            (6, 8, MAX_SAMPLES + 1),
        ] {
            let decoded = Test::decode(&header(kind, size, count));
            assert_eq!(decoded, Err(Malformed), "{kind} {size} {count}");
        }
        let mut http = [b' '; HEADER_BYTES];
        http[..5].copy_from_slice(b"GET /");
        assert_eq!(Test::decode(&http), Err(Malformed));
    }
}
