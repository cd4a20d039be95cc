//! Bytes that leave together.

use picoserve::mem::BorrowedBuffer;

/// What a TCP segment holds on Ethernet.
const SEGMENT_BYTES: usize = 1460;

/// A part of an answer that was not sent yet.
#[derive(Debug)]
pub(super) struct Segment {
    bytes: [u8; SEGMENT_BYTES],
    length: usize,
}

impl Segment {
    pub(super) fn new() -> Self {
        Self {
            bytes: [0; SEGMENT_BYTES],
            length: 0,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.length == SEGMENT_BYTES
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends as much of `data` as there is room for; returns that.
    pub(super) fn push<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let room = &mut self.bytes[self.length..];
        let data = &data[..data.len().min(room.len())];
        room[..data.len()].copy_from_slice(data);
        self.length += data.len();
        data
    }

    /// Appends what `write` puts into the room that is left; returns that, and
    /// what `write` returned.
    pub(super) fn push_with<T>(
        &mut self,
        write: impl FnOnce(&mut BorrowedBuffer<'_>) -> T,
    ) -> (&[u8], T) {
        let start = self.length;
        let mut room = BorrowedBuffer::new(&mut self.bytes[start..]);
        let result = write(&mut room);
        self.length += room.len();
        (&self.bytes[start..self.length], result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_kept_as_far_as_there_is_room() {
        let mut segment = Segment::new();
        assert!(segment.is_empty());
        assert_eq!(segment.push(b"ab"), b"ab");
        let (written, result) = segment.push_with(|room| {
            let appended = room.unfilled().try_append(b"cd");
            appended.is_ok()
        });
        assert_eq!((written, result), (&b"cd"[..], true));
        assert_eq!(segment.bytes(), b"abcd");
        let long = [b'x'; 2 * SEGMENT_BYTES];
        assert_eq!(segment.push(&long).len(), SEGMENT_BYTES - 4);
        assert!(segment.is_full());
        let (written, room) = segment.push_with(|room| room.capacity());
        assert_eq!((written, room), (&b""[..], 0));
        segment.clear();
        assert!(segment.is_empty());
    }
}
