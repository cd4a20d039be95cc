//! The server's side of a connection, without its input and output.

use alloc::vec::Vec;
use core::error;
use core::fmt;

use super::request::{HEADER_BYTES, Test};
use super::{ACK, Messages, Report, TaskFigures};

/// How much is read at once.
const INPUT_BYTES: usize = 64 << 10;

/// One connection of a server: it says what it wants next.
#[derive(Debug)]
pub struct Session {
    input: Vec<u8>,
    /// What of it was received and not handled yet.
    start: usize,
    end: usize,
    /// Written before anything else happens.
    output: Vec<u8>,
    /// The bytes at `start` to be written: those of an echo.
    echoed: usize,
    /// What a source writes.
    block: Vec<u8>,
    state: State,
}

/// What a session wants next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Read into this buffer, which is not empty. Then call
    /// [`Session::received`].
    Read(&'a mut [u8]),
    /// Write all of this. Then call [`Session::written`].
    Write(&'a [u8]),
    /// Write all of this. Then, if a byte can be read without waiting, or the
    /// stream has ended, read it and call [`Session::stopped`]; else call
    /// [`Session::written`].
    WriteUnlessStopped(&'a [u8]),
    /// Have two tasks exchange messages. Then call
    /// [`Session::measured`].
    Measure {
        /// The size of each.
        message_bytes: u32,
        /// How many latencies are wanted.
        samples: u64,
    },
    /// End the stream and drop the connection.
    Close,
}

#[derive(Debug)]
enum State {
    /// A header is next.
    Idle,
    Sink(Report),
    Source(Report),
    Echo {
        left: u64,
    },
    Deliver {
        messages: Messages,
        count: u64,
    },
    Stream(Messages),
    Measure {
        message_bytes: u32,
        samples: u64,
    },
    /// Nothing but the output is left.
    Closing,
}

/// There is no memory for a connection's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory for the buffers of a connection")
    }
}

impl error::Error for NoMemory {}

impl Session {
    /// A connection that was just accepted.
    ///
    /// # Errors
    ///
    /// [`NoMemory`].
    pub fn new() -> Result<Self, NoMemory> {
        Ok(Self {
            input: zeroes(INPUT_BYTES)?,
            start: 0,
            end: 0,
            output: Vec::new(),
            echoed: 0,
            block: Vec::new(),
            state: State::Idle,
        })
    }

    /// Handles the input there is; says what is needed to go on.
    ///
    /// Calling it again without doing that changes nothing.
    pub fn step(&mut self) -> Step<'_> {
        while self.output.is_empty() && self.echoed == 0 {
            let before = self.start;
            if !self.advance() || self.start == before {
                break;
            }
        }
        if !self.output.is_empty() {
            return Step::Write(&self.output);
        }
        if self.echoed > 0 {
            return Step::Write(&self.input[self.start..self.start + self.echoed]);
        }
        match self.state {
            State::Source(_) => Step::WriteUnlessStopped(&self.block),
            State::Measure {
                message_bytes,
                samples,
            } => Step::Measure {
                message_bytes,
                samples,
            },
            State::Closing => Step::Close,
            _ => {
                // What is left is less than a header.
                self.input.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
                Step::Read(&mut self.input[self.end..])
            }
        }
    }

    /// `count` bytes were read; none is the end of the stream.
    pub fn received(&mut self, count: usize) {
        if count > 0 {
            self.end += count;
        } else if let State::Sink(report) = self.state {
            self.output.extend(report.encode());
            self.state = State::Closing;
        } else {
            self.state = State::Closing;
        }
    }

    /// All that was to be written was written.
    pub fn written(&mut self) {
        if !self.output.is_empty() {
            self.output.clear();
        } else if self.echoed > 0 {
            self.start += self.echoed;
            self.echoed = 0;
        } else if let State::Source(report) = &mut self.state {
            report.messages += 1;
            report.bytes += self.block.len() as u64;
        }
    }

    /// All was written, and the client has enough.
    pub fn stopped(&mut self) {
        self.written();
        if let State::Source(report) = self.state {
            self.output.extend(report.encode());
            self.state = State::Closing;
        }
    }

    /// What the two tasks have measured; nothing if memory was short.
    pub fn measured(&mut self, figures: Option<&TaskFigures>) {
        self.state = State::Closing;
        if let Some(figures) = figures {
            self.output.extend(figures.encode());
            self.state = State::Idle;
        }
    }

    /// Handles a piece of the input; whether more could follow.
    fn advance(&mut self) -> bool {
        let input = &self.input[self.start..self.end];
        match &mut self.state {
            State::Idle => {
                let Some(header) = input.first_chunk() else {
                    return false;
                };
                let test = Test::decode(header);
                self.start += HEADER_BYTES;
                self.state = match test {
                    Ok(test) => self.begin(test),
                    Err(_) => State::Closing,
                };
            }
            State::Sink(report) => {
                report.bytes += input.len() as u64;
                self.start = self.end;
            }
            State::Echo { left } => {
                let echoed = u64::min(*left, input.len() as u64);
                *left -= echoed;
                self.echoed = echoed as usize;
                if *left == 0 {
                    self.state = State::Idle;
                }
            }
            State::Deliver { messages, count } => {
                let before = messages.count();
                let Ok(taken) = messages.take(input, *count) else {
                    self.state = State::Closing;
                    return false;
                };
                self.start += taken;
                let acknowledged = (messages.count() - before) as usize;
                self.output.resize(acknowledged, ACK);
                if messages.count() == *count {
                    self.output.extend(report(messages).encode());
                    self.state = State::Idle;
                } else if messages.ended() {
                    self.state = State::Closing;
                }
            }
            State::Stream(messages) => {
                let Ok(taken) = messages.take(input, u64::MAX) else {
                    self.state = State::Closing;
                    return false;
                };
                self.start += taken;
                if messages.ended() {
                    self.output.extend(report(messages).encode());
                    self.state = State::Idle;
                }
            }
            State::Source(_) | State::Measure { .. } | State::Closing => return false,
        }
        true
    }

    fn begin(&mut self, test: Test) -> State {
        match test {
            Test::Sink => State::Sink(Report::default()),
            Test::Source { block_bytes } => match zeroes(block_bytes as usize) {
                Ok(block) => {
                    self.block = block;
                    State::Source(Report::default())
                }
                Err(NoMemory) => State::Closing,
            },
            Test::Echo { bytes: 0 } => State::Idle,
            Test::Echo { bytes } => State::Echo { left: bytes },
            Test::Deliver {
                message_bytes,
                count,
            } => {
                let messages = Messages::new(message_bytes);
                if count > 0 {
                    return State::Deliver { messages, count };
                }
                self.output.extend(report(&messages).encode());
                State::Idle
            }
            Test::Stream { message_bytes } => State::Stream(Messages::new(message_bytes)),
            Test::Tasks {
                message_bytes,
                samples,
            } => State::Measure {
                message_bytes,
                samples,
            },
        }
    }
}

fn report(messages: &Messages) -> Report {
    Report {
        messages: messages.count(),
        bytes: messages.bytes(),
    }
}

fn zeroes(count: usize) -> Result<Vec<u8>, NoMemory> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count).map_err(|_| NoMemory)?;
    bytes.resize(count, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
