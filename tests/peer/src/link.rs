//! Frames on a unix stream socket, as QEMU's `-netdev stream` has them: each
//! follows its length, 32 bits in network order.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// Longer frames are no frames; QEMU's own limit is 68 KiB.
const MAX_FRAME_BYTES: usize = 128 * 1024;

/// One end of a link of frames, which never blocks.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Link {
    /// # Errors
    ///
    /// If the socket cannot be made non-blocking.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            incoming: Vec::new(),
            outgoing: Vec::new(),
        })
    }

    /// The socket, to wait on.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Queues a frame, to be sent by [`flush`](Self::flush).
    pub fn send(&mut self, frame: &[u8]) {
        let length = u32::try_from(frame.len()).expect("frames are far smaller than 4 GiB");
        self.outgoing.extend_from_slice(&length.to_be_bytes());
        self.outgoing.extend_from_slice(frame);
    }

    /// Whether frames wait for the socket.
    pub fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    ///
    /// If the other end is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == self.outgoing.len() {
                break Ok(());
            }
            match self.stream.write(&self.outgoing[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.outgoing.drain(..sent);
        result
    }

    /// The frames that have arrived.
    ///
    /// # Errors
    ///
    /// If the other end is gone or does not send frames.
    pub fn receive(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut buffer = [0; 65536];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.incoming.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.take_frames()
    }

    fn take_frames(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut frames = Vec::new();
        let mut rest = &self.incoming[..];
        while let Some((length, after)) = rest.split_first_chunk() {
            let length = u32::from_be_bytes(*length) as usize;
            if length > MAX_FRAME_BYTES {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    format!("a frame of {length} bytes"),
                ));
            }
            let Some((frame, after)) = after.split_at_checked(length) else {
                break;
            };
            frames.push(frame.to_vec());
            rest = after;
        }
        let taken = self.incoming.len() - rest.len();
        self.incoming.drain(..taken);
        Ok(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_however_they_are_cut() -> io::Result<()> {
        let (ours, mut theirs) = UnixStream::pair()?;
        let mut link = Link::new(ours)?;
        let bytes = [&[0, 0, 0, 2][..], b"ab", &[0, 0, 0, 0], &[0, 0, 0, 1], b"c"].concat();
        let mut frames = Vec::new();
        for byte in bytes {
            theirs.write_all(&[byte])?;
            frames.extend(link.receive()?);
        }
        assert_eq!(frames, [&b"ab"[..], b"", b"c"]);
        Ok(())
    }

    #[test]
    fn a_full_socket_keeps_the_rest() -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        let (mut ours, mut theirs) = (Link::new(ours)?, Link::new(theirs)?);
        for number in 0..1000_u32 {
            ours.send(&number.to_be_bytes().repeat(300));
        }
        let mut received = Vec::new();
        while received.len() < 1000 {
            ours.flush()?;
            received.extend(theirs.receive()?);
        }
        for (number, frame) in received.iter().enumerate() {
            assert_eq!(*frame, (number as u32).to_be_bytes().repeat(300));
        }
        assert!(!ours.has_outgoing());
        Ok(())
    }

    #[test]
    fn the_other_ends_end_is_an_error() -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut link = Link::new(ours)?;
        drop(theirs);
        assert!(link.receive().is_err());
        Ok(())
    }

    #[test]
    fn what_is_no_frame_is_an_error() -> io::Result<()> {
        let (ours, mut theirs) = UnixStream::pair()?;
        let mut link = Link::new(ours)?;
        theirs.write_all(b"GET / HTTP/1.1\r\n")?;
        let error = link.receive().expect_err("that is a length of a gigabyte");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        Ok(())
    }
}
