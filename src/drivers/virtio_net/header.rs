//! What stands before each frame in a buffer (virtio 1.3 §5.1.6).

use core::mem::offset_of;

use virtio::net::{Hdr, HdrF, HdrGso};

use crate::drivers::offload::{Checksum, Unfinished, Work};

/// Its length.
pub(super) const HEADER_BYTES: usize = size_of::<Hdr>();

fn read_u16(header: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([header[offset], header[offset + 1]])
}

/// What it says of the checksum, which may be nonsense.
pub(super) fn checksum(header: &[u8]) -> Checksum {
    let flags = HdrF::from_bits_retain(header[offset_of!(Hdr, flags)]);
    if flags.contains(HdrF::NEEDS_CSUM) {
        Checksum::Unfinished(Unfinished {
            start: read_u16(header, offset_of!(Hdr, csum_start)),
            offset: read_u16(header, offset_of!(Hdr, csum_offset)),
        })
    } else if flags.contains(HdrF::DATA_VALID) {
        Checksum::Right
    } else {
        Checksum::Unverified
    }
}

/// How many buffers it says that the frame takes.
pub(super) fn buffers(header: &[u8]) -> u16 {
    read_u16(header, offset_of!(Hdr, num_buffers))
}

/// One that says what the card is to do.
pub(super) fn of(work: Option<Work>) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let Some(Work { checksum, cut }) = work else {
        return header;
    };
    let mut put = |offset: usize, value: u16| {
        header[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
    };
    put(offset_of!(Hdr, csum_start), checksum.start);
    put(offset_of!(Hdr, csum_offset), checksum.offset);
    if let Some(cut) = cut {
        put(offset_of!(Hdr, hdr_len), cut.header_bytes);
        put(offset_of!(Hdr, gso_size), cut.payload_bytes);
        header[offset_of!(Hdr, gso_type)] = HdrGso::Tcpv4.into();
    }
    header[offset_of!(Hdr, flags)] = HdrF::NEEDS_CSUM.bits();
    header
}
