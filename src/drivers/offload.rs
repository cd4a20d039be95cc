//! What a network card does in the stack's place (virtio 1.3 §5.1.6).

use core::num::NonZeroUsize;

/// What a card can do for the frames that it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// It finishes the checksums of TCP and UDP.
    pub checksums: bool,
    /// It cuts segments of TCP over IPv4 into shorter ones: the longest frame
    /// that it takes, in bytes. Only where it finishes checksums.
    pub segments_bytes: Option<NonZeroUsize>,
}

/// A checksum that covers what stands before the frame's place `start`, and is
/// to be summed from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Where the sum starts.
    pub start: u16,
    /// Where it stands, from `start` on.
    pub offset: u16,
}

/// What a card is to do to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The checksum to finish.
    pub checksum: Unfinished,
    /// How to cut the segment.
    pub cut: Option<Cut>,
}

/// How a card cuts a segment of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The headers that stand before each part.
    pub header_bytes: u16,
    /// What each part but the last carries.
    pub payload_bytes: u16,
}

/// What a card says of the checksum of TCP or UDP in a frame that it received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing.
    Unverified,
    /// It is right.
    Right,
    /// It never was on a wire, and was not finished.
    Unfinished(Unfinished),
}
