//! Counting messages in a stream of bytes.

use super::Malformed;

/// The bytes of a message's length.
pub const LENGTH_BYTES: usize = 4;

/// In place of a length: no more messages.
pub const END: u32 = u32::MAX;

/// The sizes that dora's benchmark has, in bytes.
pub const MESSAGE_SIZES: [u32; 10] = [
    0, 8, 0x40, 0x200, 0x800, 0x1000, 0x4000, 0xa000, 0x6_4000, 0x3e_8000,
];

/// Messages of one size, as they arrive piece by piece.
#[derive(Debug)]
pub struct Messages {
    size: u32,
    /// Their number so far; complete ones.
    count: u64,
    /// The bytes of the length that have come.
    length: [u8; LENGTH_BYTES],
    length_bytes: usize,
    /// The bytes of the message that have not come yet.
    missing: usize,
    ended: bool,
}

impl Messages {
    /// Messages of `size` bytes, none of which has come.
    pub fn new(size: u32) -> Self {
        Self {
            size,
            count: 0,
            length: [0; LENGTH_BYTES],
            length_bytes: 0,
            missing: 0,
            ended: false,
        }
    }

    /// Takes bytes that arrived, to the end of message number `limit` or to
    /// the end mark. Returns how many it took, all if neither is there.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if a message has another size.
    pub fn take(&mut self, input: &[u8], limit: u64) -> Result<usize, Malformed> {
        let mut rest = input;
        while !rest.is_empty() && self.count < limit && !self.ended {
            if self.missing > 0 {
                let taken = self.missing.min(rest.len());
                self.missing -= taken;
                rest = &rest[taken..];
            } else {
                rest = self.take_length(rest)?;
            }
            if self.length_bytes == LENGTH_BYTES && self.missing == 0 {
                self.length_bytes = 0;
                self.count += u64::from(!self.ended);
            }
        }
        Ok(input.len() - rest.len())
    }

    fn take_length<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let wanted = &mut self.length[self.length_bytes..];
        let taken = wanted.len().min(input.len());
        wanted[..taken].copy_from_slice(&input[..taken]);
        self.length_bytes += taken;
        if self.length_bytes == LENGTH_BYTES {
            match u32::from_be_bytes(self.length) {
                END => self.ended = true,
                length if length == self.size => self.missing = length as usize,
                _ => return Err(Malformed),
            }
        }
        Ok(&input[taken..])
    }

    /// How many are complete.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The bytes of those, without their lengths.
    pub fn bytes(&self) -> u64 {
        self.count * u64::from(self.size)
    }

    /// Whether the end mark has come.
    pub fn ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    fn stream(size: u32, count: usize) -> Vec<u8> {
        let mut stream = Vec::new();
        for _ in 0..count {
            stream.extend(size.to_be_bytes());
            stream.extend(vec![0xff; size as usize]);
        }
        stream
    }

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        for size in [0, 1, 8, 300] {
            let mut bytes = stream(size, 5);
            bytes.extend(END.to_be_bytes());
            for piece in [1, 2, 3, 5, 7, 64, bytes.len()] {
                let mut messages = Messages::new(size);
                for piece in bytes.chunks(piece) {
                    assert!(!messages.ended());
                    assert_eq!(messages.take(piece, u64::MAX), Ok(piece.len()));
                }
                assert!(messages.ended());
                assert_eq!(messages.count(), 5);
                assert_eq!(messages.bytes(), 5 * u64::from(size));
            }
        }
    }

    #[test]
    fn what_follows_the_last_is_left() {
        let bytes = stream(3, 4);
        let mut messages = Messages::new(3);
        assert_eq!(messages.take(&bytes, 3), Ok(21));
        assert_eq!(messages.take(&bytes, 3), Ok(0));
        let mut ended = END.to_be_bytes().to_vec();
        ended.push(9);
        let mut messages = Messages::new(3);
        assert_eq!(messages.take(&ended, 3), Ok(4));
        assert_eq!(messages.count(), 0);
    }

    #[test]
    fn another_size_is_refused() {
        let mut messages = Messages::new(3);
        assert_eq!(messages.take(&stream(4, 1), 9), Err(Malformed));
    }
}
