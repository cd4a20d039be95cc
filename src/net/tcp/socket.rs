//! smoltcp's TCP socket, with buffers that get memory as they are used.
//!
//! smoltcp is handed the whole of both rings; memory is behind those pages only
//! that hold data, or are about to. So every way for data into a ring goes
//! through here: what smoltcp may write is computed first, from the segment's
//! numbers or the length of what the program writes, and given memory, or the
//! segment or the write is refused. smoltcp reads only what it has written.
//!
//! Its rings begin where they like: the sending one at its start whenever it
//! was empty, the receiving one goes round and round. Both are followed here.

#![allow(unsafe_code)] // The slices of reserved memory.

use alloc::vec::Vec;
use core::slice;

use smoltcp::iface::{SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::tcp;

use super::options::Buffers;
use super::ring::{Budget, MAX_BYTES_AT_ONCE, Ring};
use crate::arch::{NoMemory, PAGE_BYTES, ReservedMemory};
use crate::net::frame::Span;

/// A socket in a set of its own, so that smoltcp never looks at others.
///
/// It must not be taken out of its set: it refers to the memory beside it.
pub(in crate::net) struct Socket {
    // Before the memory, which it refers to, so that it is dropped first.
    set: SocketSet<'static>,
    handle: SocketHandle,
    memory: ReservedMemory,
    budget: &'static Budget,
    receive: Ring,
    send: Ring,
    /// The sequence number of the peer's first byte, once it is known.
    first_sequence: Option<u32>,
    /// How many bytes the program has read, on the scale of those numbers.
    read_bytes: u32,
    /// Where the first byte that is not read is in the receiving ring.
    read_at: usize,
    /// Up to where the receiving ring may hold data, from its first byte that
    /// is not read: more than is in order, if segments came out of order. All
    /// of that has memory.
    held_bytes: usize,
    /// Where the next byte goes in the sending ring.
    write_at: usize,
}

/// What was taken to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) bytes: usize,
    /// Nothing else was there to be sent or acknowledged.
    pub(super) was_idle: bool,
    /// Memory for it was missing.
    pub(super) was_missing: bool,
}

/// Why nothing could be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendError {
    /// The connection does not take data any more.
    Closed,
    /// There is no memory for the data.
    NoMemory,
}

impl Socket {
    pub(super) fn new(buffers: Buffers, budget: &'static Budget) -> Result<Self, NoMemory> {
        let receive_pages = buffers.receive_bytes.div_ceil(PAGE_BYTES);
        let send_pages = buffers.send_bytes.div_ceil(PAGE_BYTES);
        let mut storage = Vec::<SocketStorage<'static>>::new();
        storage.try_reserve_exact(1).map_err(|_| NoMemory)?;
        let memory = ReservedMemory::new(receive_pages + send_pages)?;
        let receive = Ring::new(0, receive_pages);
        let send = Ring::new(receive_pages, send_pages);
        let mut set = SocketSet::new(storage);
        // SAFETY: the two have no page in common. The set, from which nobody
        // takes the socket, lives in the value that is made here and is dropped
        // before the memory is. Nothing but this file moves data in or out, as
        // the contract asks for.
        let [receive_buffer, send_buffer] = unsafe {
            [
                ring_buffer(&memory, 0, receive_pages),
                ring_buffer(&memory, receive_pages, send_pages),
            ]
        };
        let handle = set.add(tcp::Socket::new(receive_buffer, send_buffer));
        Ok(Self {
            set,
            handle,
            memory,
            budget,
            receive,
            send,
            first_sequence: None,
            read_bytes: 0,
            read_at: 0,
            held_bytes: 0,
            write_at: 0,
        })
    }

    #[inline]
    pub(in crate::net) fn set(&self) -> &SocketSet<'static> {
        &self.set
    }

    /// The set, to be shown frames for which there is [`room`](Self::make_room),
    /// and to send from.
    #[inline]
    pub(in crate::net) fn set_mut(&mut self) -> &mut SocketSet<'static> {
        &mut self.set
    }

    #[inline]
    pub(super) fn tcp(&self) -> &tcp::Socket<'static> {
        self.set.get(self.handle)
    }

    /// The socket, for all but its data.
    #[inline]
    pub(super) fn tcp_mut(&mut self) -> &mut tcp::Socket<'static> {
        self.set.get_mut(self.handle)
    }

    /// Gives memory to the part of the receiving ring that a segment may fill.
    /// Only then it may be shown to smoltcp. Returns whether any was missing.
    ///
    /// # Errors
    ///
    /// [`NoMemory`]: the segment is to be dropped, and the peer repeats it.
    #[inline]
    pub(super) fn make_room(&mut self, segment: Span) -> Result<bool, NoMemory> {
        let Some(first) = self.first_sequence else {
            // Data with a SYN is not kept.
            return Ok(false);
        };
        if segment.bytes == 0 {
            return Ok(false);
        }
        let queued = self.tcp().recv_queue();
        let next = first
            .wrapping_add(self.read_bytes)
            .wrapping_add(queued as u32);
        let ahead = segment.sequence.wrapping_sub(next) as i32 as isize;
        let window = (self.receive.capacity() - queued) as isize;
        let to = (ahead + segment.bytes as isize).min(window);
        if ahead > to || to <= 0 {
            // None of it is in the window. (After the peer's FIN, smoltcp is one
            // byte further than its data.)
            return Ok(false);
        }
        // In one piece with what is held, so a gap before it has memory too.
        let live = self.held_bytes.max(queued);
        let to = queued + to as usize;
        if to <= live {
            return Ok(false);
        }
        let at = self.receive.wrap(self.read_at + live);
        let (memory, budget) = (&mut self.memory, self.budget);
        let missing = self.receive.commit(memory, budget, live, at, to - live)?;
        self.held_bytes = to;
        Ok(missing)
    }

    /// Notes where the peer's sequence numbers begin; to be called after every
    /// segment.
    #[inline]
    pub(in crate::net) fn note_segment(&mut self, segment: Span) {
        use tcp::State::*;
        if self.first_sequence.is_none() && !matches!(self.tcp().state(), Closed | Listen | SynSent)
        {
            // It was the SYN, which counts as a byte.
            self.first_sequence = Some(segment.sequence.wrapping_add(1));
        }
    }

    /// Reads what was received; returns how many bytes.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, tcp::RecvError> {
        let socket = self.tcp_mut();
        if socket.state() == tcp::State::Established && !socket.can_recv() {
            return Ok(0);
        }
        let count = socket.recv_slice(buffer)?;
        self.read_bytes = self.read_bytes.wrapping_add(count as u32);
        self.read_at = self.receive.wrap(self.read_at + count);
        self.held_bytes = self.held_bytes.saturating_sub(count);
        Ok(count)
    }

    /// Takes data to be sent, as much as the ring has room for.
    #[inline]
    pub(super) fn send(&mut self, data: &[u8]) -> Result<Taken, SendError> {
        let socket = self.tcp();
        if !socket.may_send() {
            return Err(SendError::Closed);
        }
        let queued = socket.send_queue();
        let room = self.send.capacity() - queued;
        let len = data.len().min(room).min(MAX_BYTES_AT_ONCE);
        if queued == 0 {
            // As smoltcp does it.
            self.write_at = 0;
        }
        let at = self.write_at;
        let (memory, budget) = (&mut self.memory, self.budget);
        let (len, missing) = match self.send.commit(memory, budget, queued, at, len) {
            Ok(missing) => (len, missing),
            Err(NoMemory) => match self.send.committed_from(at) {
                0 => return Err(SendError::NoMemory),
                len => (len, true),
            },
        };
        let sent = self.tcp_mut().send_slice(&data[..len]);
        let sent = sent.map_err(|tcp::SendError::InvalidState| SendError::Closed)?;
        self.write_at = self.send.wrap(at + sent);
        Ok(Taken {
            bytes: sent,
            was_idle: queued == 0,
            was_missing: missing,
        })
    }

    /// Whether a page has memory.
    pub(super) fn has_memory(&self) -> bool {
        self.receive.has_memory() || self.send.has_memory()
    }

    /// Takes the memory away from pages that hold nothing. Returns whether
    /// there were any.
    pub(super) fn trim(&mut self) -> bool {
        let socket = self.tcp();
        let (received, unsent) = (socket.recv_queue(), socket.send_queue());
        let held = self.held_bytes.max(received);
        let (memory, budget) = (&mut self.memory, self.budget);
        let receive = self.receive.keep(memory, budget, self.read_at, held);
        let at = self
            .send
            .wrap(self.write_at + self.send.capacity() - unsent);
        self.send.keep(memory, budget, at, unsent) | receive
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.receive.clear(&mut self.memory, self.budget);
        self.send.clear(&mut self.memory, self.budget);
    }
}

/// A ring buffer over pages of `memory`.
///
/// # Safety
///
/// The buffer is dropped before `memory`, and no page is in two buffers. Bytes
/// are written only where memory was committed, and read only where they have
/// been written and memory stayed committed.
unsafe fn ring_buffer(
    memory: &ReservedMemory,
    first_page: usize,
    pages: usize,
) -> tcp::SocketBuffer<'static> {
    // SAFETY: the pages are in the range.
    let start = unsafe { memory.start().add(first_page * PAGE_BYTES) };
    // SAFETY: The addresses are `memory`'s own, and by the contract in this slice
    // alone, for as long as it lives. It spans pages without memory: as where an
    // operating system overcommits, the range is one object for the language,
    // and what a page needs before an access is a matter of the machine below.
    // No access comes before that: a slice is not read for being there, as its
    // length is known at run time only and the compiler cannot take any byte as
    // readable before the program reads some. A page that comes holds
    // initialized bytes of arbitrary value, and bytes change by coming and going
    // only where the ring holds no data. Should the contract be broken, that is a
    // fatal page fault and not a wrong byte.
    let slice = unsafe { slice::from_raw_parts_mut(start.as_ptr(), pages * PAGE_BYTES) };
    tcp::SocketBuffer::new(slice)
}
