//! The least that answers HTTP requests: one thread, one epoll, one answer.
//!
//! A request costs three system calls: `epoll_wait`, `recv` and `send`.
//! Connections are registered once, edge-triggered, for input and output. A read
//! that does not fill the buffer has emptied the socket, so none is tried again
//! before the next event.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use slab::Slab;

use crate::answer::ANSWER;
use crate::heads::Heads;

/// How much is read at once, which is some 400 of wrk's requests.
const READ_BYTES: usize = 16 * 1024;
/// How many answers are sent at once.
const BATCH_ANSWERS: usize = 64;
/// How many events are taken at once.
const BATCH_EVENTS: usize = 256;

/// The listener's number, which is never that of a connection.
const LISTENER: u64 = u64::MAX;

/// A server that answers every request of every connection with [`ANSWER`].
///
/// Requests have no bodies, and all keep the connection open.
#[derive(Debug)]
pub struct Responder {
    epoll: OwnedFd,
    listener: TcpListener,
    connections: Slab<Connection>,
    buffers: Buffers,
}

/// What all connections share, since each is done with it before the next.
#[derive(Debug)]
struct Buffers {
    input: Vec<u8>,
    /// [`ANSWER`], over and over.
    answers: Vec<u8>,
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    heads: Heads,
    /// Bytes of answers that are still to be sent.
    owed_bytes: usize,
    /// Whether the client has sent all that it will.
    at_end: bool,
}

/// What became of a connection.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    Over,
}

impl Responder {
    /// A server of the connections to `listener`, which does not block.
    ///
    /// # Errors
    ///
    /// If there is no descriptor left for the epoll.
    pub fn new(listener: TcpListener) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let number = EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, number, EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            connections: Slab::new(),
            buffers: Buffers {
                input: Vec::with_capacity(READ_BYTES),
                answers: ANSWER.repeat(BATCH_ANSWERS),
            },
        })
    }

    /// Serves for ever.
    ///
    /// # Errors
    ///
    /// If no further connection can be accepted.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(BATCH_EVENTS);
        loop {
            self.turn(&mut events, None)?;
        }
    }

    /// Serves what there is; waits for it, but not longer than `timeout`.
    fn turn(&mut self, events: &mut Vec<Event>, timeout: Option<&Timespec>) -> io::Result<()> {
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Every descriptor has one event at most, so none is left for a
        // connection that is closed, whose number may be given out again.
        for event in events {
            match event.data.u64() {
                LISTENER => self.accept()?,
                number => self.serve(number as usize, event.flags),
            }
        }
        Ok(())
    }

    /// Accepts all connections that wait.
    fn accept(&mut self) -> io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            let socket = match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => return Err(error.into()),
            };
            let entry = self.connections.vacant_entry();
            let number = EventData::new_u64(entry.key() as u64);
            let events = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, &socket, number, events)?;
            entry.insert(Connection {
                socket,
                heads: Heads::default(),
                owed_bytes: 0,
                at_end: false,
            });
        }
    }

    fn serve(&mut self, number: usize, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(number) else {
            return;
        };
        let state = connection.serve(flags, &mut self.buffers);
        // An error is the connection's end too: there is nobody to tell.
        if state.unwrap_or(State::Over) == State::Over {
            self.connections.remove(number);
        }
    }
}

impl Connection {
    /// Reads and answers until there is nothing to read, or no room for answers.
    fn serve(&mut self, flags: EventFlags, buffers: &mut Buffers) -> rustix::io::Result<State> {
        // The end of the stream may lie behind a read that fills no buffer, and
        // brings no second event.
        let may_be_at_end = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let mut is_drained = false;
        loop {
            if !self.send_owed(&buffers.answers)? {
                return Ok(State::Open);
            }
            if self.at_end {
                return Ok(State::Over);
            }
            if is_drained {
                return Ok(State::Open);
            }
            let input = &mut buffers.input;
            input.clear();
            match rustix::net::recv(&self.socket, spare_capacity(input), RecvFlags::empty()) {
                Ok((0, _)) => self.at_end = true,
                Ok(_) => self.owed_bytes += self.heads.count(input) * ANSWER.len(),
                Err(Errno::AGAIN) => return Ok(State::Open),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            }
            is_drained = input.len() < input.capacity() && !may_be_at_end;
        }
    }

    /// Sends the answers that are owed; returns whether there was room for all.
    ///
    /// Where the next one begins follows from how much is owed: the end of what
    /// is owed is the end of an answer.
    fn send_owed(&mut self, answers: &[u8]) -> rustix::io::Result<bool> {
        while self.owed_bytes > 0 {
            let sent_of_first = (ANSWER.len() - self.owed_bytes % ANSWER.len()) % ANSWER.len();
            let unsent = &answers[sent_of_first..];
            let unsent = &unsent[..unsent.len().min(self.owed_bytes)];
            match rustix::net::send(&self.socket, unsent, SendFlags::NOSIGNAL) {
                Ok(count) => self.owed_bytes -= count,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
