//! One connection, apart from its input and output.

use core::fmt::Write;

use crate::answer::{Answer, CONTINUE, Content, NoRoom, Output, Pages, Status};
use crate::body::Body;
use crate::input::Input;
use crate::request::{Persistence, Request};

/// How much is still read after a request was refused.
///
/// If the connection were closed with input unread, it would be reset, and the
/// client might lose the answer (RFC 9112 §9.6).
const MAX_LINGER_BYTES: usize = 256 * 1024;

/// The server's side of an HTTP/1.1 connection, without input and output.
///
/// [`step`](Self::step) says what to do next; then one of the other methods
/// says what came of it. Requests that arrive together are answered together,
/// in their order.
///
/// # Examples
///
/// ```
/// use core::fmt::Display;
/// use httpd::{Pages, Session, Step};
///
/// struct NoStats;
///
/// impl Pages for NoStats {
///     fn stats(&self) -> impl Display {
///         "none\n"
///     }
/// }
///
/// let mut session = Session::new();
/// let request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
/// let Step::Read(buffer) = session.step(&NoStats) else {
///     panic!("a session begins with a request");
/// };
/// buffer[..request.len()].copy_from_slice(request);
/// session.received(request.len());
/// let Step::Write(answer) = session.step(&NoStats) else {
///     panic!("the request was complete");
/// };
/// assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
/// ```
#[derive(Debug)]
pub struct Session {
    input: Input,
    output: Output,
    state: State,
}

/// What a session wants next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Read into this buffer, which is not empty. Then call
    /// [`Session::received`], or [`Session::timed_out`] if nothing came.
    Read(&'a mut [u8]),
    /// Write all of this. Then call [`Session::written`].
    Write(&'a [u8]),
    /// Send the end of the stream. Then call [`Session::shut_down`].
    ShutDown,
    /// Drop the connection.
    Close,
}

/// Where in the connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A request's head is next.
    Head,
    /// A request's body, then its answer.
    Body(Body, Answer),
    /// An answer whose request is complete.
    Answer(Answer),
    /// What was answered is to be sent, then the end of the stream.
    ShutDown(Linger),
    /// The end of the stream was sent; this many bytes are still read.
    Linger(usize),
    /// The connection is over.
    Closed,
}

/// Whether input may be left when the last answer has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linger {
    No,
    Yes,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A connection that was just accepted. It has no memory yet.
    pub fn new() -> Self {
        Self {
            input: Input::default(),
            output: Output::default(),
            state: State::Head,
        }
    }

    /// A connection that is one too many: it is answered with 503, whatever it
    /// asks.
    pub fn refusing() -> Self {
        Self::answering(Answer::last(Status::ServiceUnavailable))
    }

    /// A connection that gets this last answer, whatever it still asks.
    pub(crate) fn answering(answer: Answer) -> Self {
        Self {
            state: State::Answer(answer),
            ..Self::new()
        }
    }

    /// Handles the input there is; says what is needed to go on.
    ///
    /// Calling it again without doing that changes nothing.
    pub fn step(&mut self, pages: &impl Pages) -> Step<'_> {
        let progress = loop {
            match self.advance(pages) {
                Progress::Made => {}
                stopped => break stopped,
            }
        };
        match progress {
            Progress::NeedsOutput => Step::Write(self.output.bytes()),
            // Answers are held back only while there is input to answer.
            Progress::NeedsInput if !self.output.is_empty() => Step::Write(self.output.bytes()),
            Progress::NeedsInput => match self.input.room() {
                Some(room) => Step::Read(room),
                None => Step::Close,
            },
            Progress::ShutDown => Step::ShutDown,
            Progress::Closed | Progress::Made => Step::Close,
        }
    }

    /// `count` bytes were read; none is the end of the stream.
    pub fn received(&mut self, count: usize) {
        if let State::Linger(left) = &mut self.state {
            *left = left.saturating_sub(count);
            if count == 0 || *left == 0 {
                self.state = State::Closed;
            }
        } else if count == 0 {
            // A request that was cut short has nobody who waits for its answer.
            self.state = State::ShutDown(Linger::No);
        } else {
            self.input.received(count);
        }
    }

    /// Nothing came in time: an idle connection is closed, the sender of a
    /// request that has begun is told.
    pub fn timed_out(&mut self) {
        self.state = match self.state {
            State::Head if self.input.bytes().is_empty() => State::ShutDown(Linger::No),
            State::Head | State::Body(..) => State::Answer(Answer::last(Status::RequestTimeout)),
            _ => State::Closed,
        };
    }

    /// All that was to be written was written.
    pub fn written(&mut self) {
        self.output.clear();
    }

    /// The end of the stream was sent.
    pub fn shut_down(&mut self) {
        self.state = match self.state {
            State::ShutDown(Linger::Yes) => State::Linger(MAX_LINGER_BYTES),
            _ => State::Closed,
        };
    }

    fn advance(&mut self, pages: &impl Pages) -> Progress {
        match self.state {
            State::Head if self.output.bytes().len() + CONTINUE.len() > Output::MAX_BYTES => {
                Progress::NeedsOutput
            }
            State::Head => self.take_head(),
            State::Body(body, answer) => self.take_body(body, answer),
            State::Answer(answer) => self.write(answer, pages),
            State::ShutDown(_) if !self.output.is_empty() => Progress::NeedsOutput,
            State::ShutDown(_) => Progress::ShutDown,
            State::Linger(_) => {
                self.input.clear();
                Progress::NeedsInput
            }
            State::Closed => Progress::Closed,
        }
    }

    fn take_head(&mut self) -> Progress {
        match self.input.head() {
            Ok(Some(request)) => {
                let length = request.length;
                let next = begin(&request, &mut self.output);
                let head_only = request.method == "HEAD";
                self.input.consume(length);
                self.state = next.unwrap_or_else(|status| {
                    State::Answer(Answer {
                        head_only,
                        ..Answer::last(status)
                    })
                });
            }
            Ok(None) => return Progress::NeedsInput,
            Err(status) => self.state = refused(status),
        }
        Progress::Made
    }

    fn take_body(&mut self, mut body: Body, answer: Answer) -> Progress {
        match body.take(self.input.bytes(), |_| Ok(())) {
            Ok(count) => self.input.consume(count),
            Err(status) => {
                self.state = refused(status);
                return Progress::Made;
            }
        }
        if body.is_complete() {
            self.state = State::Answer(answer);
            Progress::Made
        } else {
            self.state = State::Body(body, answer);
            Progress::NeedsInput
        }
    }

    fn write(&mut self, answer: Answer, pages: &impl Pages) -> Progress {
        match answer.write(pages, &mut self.output) {
            Ok(()) => self.state = after(answer),
            Err(NoRoom) if !self.output.is_empty() => return Progress::NeedsOutput,
            Err(NoRoom) => {
                let error = Answer::last(Status::InternalError);
                self.state = if answer == error {
                    State::Closed // Out of memory.
                } else {
                    State::Answer(error)
                };
            }
        }
        Progress::Made
    }
}

/// Whether the connection can go on by itself.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Made,
    NeedsInput,
    NeedsOutput,
    ShutDown,
    Closed,
}

/// What follows a request's head.
///
/// # Errors
///
/// The status to answer with and close.
fn begin(request: &Request<'_>, output: &mut Output) -> Result<State, Status> {
    let body = Body::new(request.framing)?;
    let head_only = request.method == "HEAD";
    let content = match request.path {
        "/" | "/hello" | "/stats" if request.method != "GET" && !head_only => {
            Content::Error(Status::MethodNotAllowed)
        }
        "/" | "/hello" => Content::Greeting,
        "/stats" => Content::Stats,
        _ => Content::Error(Status::NotFound),
    };
    let answer = Answer {
        content,
        head_only,
        persistence: request.persistence,
    };
    if body.is_complete() {
        return Ok(State::Answer(answer));
    }
    if request.expects_continue && output.write_str(CONTINUE).is_err() {
        return Err(Status::InternalError);
    }
    Ok(State::Body(body, answer))
}

/// What follows a request whose end is unknown.
fn refused(status: Status) -> State {
    State::Answer(Answer::last(status))
}

/// What follows an answer.
fn after(answer: Answer) -> State {
    match (answer.persistence, answer.content) {
        (Persistence::KeepOpen | Persistence::KeepOpenTold, _) => State::Head,
        (Persistence::Close, Content::Greeting | Content::Stats) => State::ShutDown(Linger::No),
        (Persistence::Close, Content::Error(_)) => State::ShutDown(Linger::Yes),
    }
}
