//! Whole requests, checked and rewritten for the router.

use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::mem;

use super::budget::{Budget, Share};
use crate::answer::{Answer, Status};
use crate::body::{Body, MAX_BODY_BYTES};
use crate::input::Input;
use crate::request::{self, Framing, Persistence, Request};

/// Takes a connection's input apart into requests.
#[derive(Debug)]
pub(super) struct Intake<'b> {
    input: Input,
    /// The request whose head has arrived.
    partial: Option<Partial<'b>>,
    /// Where the room for a body comes from.
    budget: &'b Budget,
}

/// What an [`Intake`] needs to go on.
#[derive(Debug)]
pub(super) enum Need<'a, 'b> {
    /// Read into this buffer, which is not empty. Then call
    /// [`Intake::received`].
    Input(&'a mut [u8]),
    /// The client waits for leave to send the body of its request.
    Leave,
    /// A request is complete, and to be answered before the next.
    Router(Message<'b>),
    /// There is no request that could be followed: give this answer and close.
    Refusal(Answer),
}

/// A request whose body may be incomplete.
#[derive(Debug)]
struct Partial<'b> {
    message: Message<'b>,
    body: Body,
    /// Whether the client waits to be told to send the body.
    leave_is_due: bool,
}

impl<'b> Intake<'b> {
    pub(super) fn new(budget: &'b Budget) -> Self {
        Self {
            input: Input::default(),
            partial: None,
            budget,
        }
    }

    /// Handles the input there is.
    pub(super) fn next(&mut self) -> Need<'_, 'b> {
        match self.advance() {
            Ok(Progress::Request(message)) => Need::Router(message),
            Ok(Progress::LeaveIsDue) => Need::Leave,
            Ok(Progress::NeedsInput) => match self.input.room() {
                Some(room) => Need::Input(room),
                None => Need::Refusal(Answer::last(Status::ServiceUnavailable)),
            },
            Err(answer) => Need::Refusal(answer),
        }
    }

    /// `count` bytes were read.
    pub(super) fn received(&mut self, count: usize) {
        self.input.received(count);
    }

    /// Whether nothing of a request has arrived.
    pub(super) fn is_idle(&self) -> bool {
        self.partial.is_none() && self.input.bytes().is_empty()
    }

    /// What arrived after the request that is answered.
    pub(super) fn rest(&self) -> &[u8] {
        self.input.bytes()
    }

    fn advance(&mut self) -> Result<Progress<'b>, Answer> {
        let mut partial = match self.partial.take() {
            Some(partial) => partial,
            None => match begin(&mut self.input, self.budget)? {
                Some(partial) => partial,
                None => return Ok(Progress::NeedsInput),
            },
        };
        if mem::take(&mut partial.leave_is_due) {
            self.partial = Some(partial);
            return Ok(Progress::LeaveIsDue);
        }
        let content = &mut partial.message.body;
        let keep = |bytes: &[u8]| append(content, bytes);
        let count = partial.body.take(self.input.bytes(), keep);
        self.input.consume(count.map_err(Answer::last)?);
        if !partial.body.is_complete() {
            self.partial = Some(partial);
            return Ok(Progress::NeedsInput);
        }
        partial.message.end().map_err(Answer::last)?;
        Ok(Progress::Request(partial.message))
    }
}

enum Progress<'b> {
    NeedsInput,
    LeaveIsDue,
    Request(Message<'b>),
}

/// Takes the head that `input` starts with; `None` if there is more to come.
fn begin<'b>(input: &mut Input, budget: &'b Budget) -> Result<Option<Partial<'b>>, Answer> {
    let Some(request) = input.head().map_err(Answer::last)? else {
        return Ok(None);
    };
    let head_only = request.method == "HEAD";
    let refusal = |status| Answer {
        head_only,
        ..Answer::last(status)
    };
    let length = request.length;
    let body = Body::new(request.framing).map_err(refusal)?;
    let partial = Partial {
        leave_is_due: request.expects_continue && !body.is_complete(),
        message: Message::new(&request, &input.bytes()[..length], budget).map_err(refusal)?,
        body,
    };
    input.consume(length);
    Ok(Some(partial))
}

/// A request as the router is to see it: in origin form, its body in one piece
/// of a known length, and no field that the connection has dealt with.
#[derive(Debug)]
pub(super) struct Message<'b> {
    head: Vec<u8>,
    body: Vec<u8>,
    /// The room for its body, if it has one.
    share: Option<Share<'b>>,
}

impl<'b> Message<'b> {
    /// Begins with the fields of `head`, which `request` was read from.
    fn new(request: &Request<'_>, head: &[u8], budget: &'b Budget) -> Result<Self, Status> {
        let room = match request.framing {
            Framing::Length(0) => None,
            Framing::Length(length) => Some(length),
            Framing::Chunked => Some(MAX_BODY_BYTES),
        };
        let take = |bytes: u64| {
            let bytes = usize::try_from(bytes).ok()?;
            budget.take(bytes)
        };
        let share = match room {
            None => None,
            Some(bytes) => Some(take(bytes).ok_or(Status::ServiceUnavailable)?),
        };
        let mut message = Self {
            head: Vec::new(),
            body: Vec::new(),
            share,
        };
        let (mark, query) = request.query.map_or(("", ""), |query| ("?", query));
        let version = if request.is_1_0 {
            " HTTP/1.0\r\n"
        } else {
            " HTTP/1.1\r\n"
        };
        // Enough for most, so that it need not grow.
        message
            .head
            .try_reserve(head.len() + 64)
            .map_err(|_| Status::ServiceUnavailable)?;
        for part in [request.method, " ", request.path, mark, query, version] {
            message.push(part.as_bytes())?;
        }
        for (name, value) in request::fields(head) {
            if !is_of_connection(name, request.upgrades) {
                for part in [name, b": ", value, b"\r\n"] {
                    message.push(part)?;
                }
            }
        }
        if request.upgrades {
            message.push(b"Connection: upgrade\r\n")?;
        } else if request.persistence == Persistence::Close {
            message.push(b"Connection: close\r\n")?;
        }
        Ok(message)
    }

    /// The body is complete.
    fn end(&mut self) -> Result<(), Status> {
        if self.share.is_some() {
            let length = self.body.len();
            write!(self, "Content-Length: {length}\r\n").map_err(|_| Status::ServiceUnavailable)?;
        }
        self.push(b"\r\n")
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Status> {
        append(&mut self.head, bytes)
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Its head and its body.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.head, &self.body]
    }
}

/// Appends to the head.
impl Write for Message<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

/// Whether a field is about the connection and the framing, not about the
/// request.
fn is_of_connection(name: &[u8], upgrades: bool) -> bool {
    let is = |field: &str| name.eq_ignore_ascii_case(field.as_bytes());
    // The length tells most names apart without comparing them.
    match name.len() {
        6 => is("expect"),
        7 => !upgrades && is("upgrade"),
        10 => is("connection") || is("keep-alive"),
        14 => is("content-length"),
        17 => is("transfer-encoding"),
        _ => false,
    }
}

fn append(bytes: &mut Vec<u8>, more: &[u8]) -> Result<(), Status> {
    bytes
        .try_reserve(more.len())
        .map_err(|_| Status::ServiceUnavailable)?;
    bytes.extend_from_slice(more);
    Ok(())
}
