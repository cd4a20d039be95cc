//! Answers, and how they look on the wire.

use alloc::vec::Vec;
use core::fmt::{self, Display, Write};

use crate::request::Persistence;

/// What the server says at `/hello`, and in its plain forms at `/`.
pub(crate) const GREETING: &str = "Hello from firstpoll!\n";

/// Leave to send a request's body (RFC 9110 §15.2.1).
pub(crate) const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// The whole answer to the most frequent request.
const GREETING_ANSWER: &str = "HTTP/1.1 200 OK\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 22\r\n\
    \r\n\
    Hello from firstpoll!\n";

/// The pages whose content comes from outside.
pub trait Pages {
    /// A snapshot of the counters, as text.
    ///
    /// It is displayed twice, to know its length first.
    fn stats(&self) -> impl Display;
}

/// An answer that is still to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) content: Content,
    /// Whether to leave the content out, as for HEAD.
    pub(crate) head_only: bool,
    pub(crate) persistence: Persistence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Greeting,
    Stats,
    Error(Status),
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    BadRequest,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    ContentTooLarge,
    UriTooLong,
    ExpectationFailed,
    HeadersTooLarge,
    InternalError,
    NotImplemented,
    ServiceUnavailable,
    VersionNotSupported,
}

impl Status {
    /// Code and reason (RFC 9110 §15, RFC 6585 §5).
    fn line(self) -> &'static str {
        match self {
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::ContentTooLarge => "413 Content Too Large",
            Self::UriTooLong => "414 URI Too Long",
            Self::ExpectationFailed => "417 Expectation Failed",
            Self::HeadersTooLarge => "431 Request Header Fields Too Large",
            Self::InternalError => "500 Internal Server Error",
            Self::NotImplemented => "501 Not Implemented",
            Self::ServiceUnavailable => "503 Service Unavailable",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

impl Answer {
    /// An answer after which the connection is closed, since its bytes cannot
    /// be followed any more.
    pub(crate) fn last(status: Status) -> Self {
        Self {
            content: Content::Error(status),
            head_only: false,
            persistence: Persistence::Close,
        }
    }

    /// Appends the answer.
    ///
    /// # Errors
    ///
    /// [`NoRoom`]; nothing is then appended.
    pub(crate) fn write(self, pages: &impl Pages, output: &mut Output) -> Result<(), NoRoom> {
        let length_before = output.bytes.len();
        let result = self.append(pages, output);
        if result.is_err() {
            output.bytes.truncate(length_before);
        }
        result.map_err(|fmt::Error| NoRoom)
    }

    fn append(self, pages: &impl Pages, output: &mut Output) -> fmt::Result {
        match self.content {
            Content::Greeting if !self.head_only && self.persistence == Persistence::KeepOpen => {
                output.write_str(GREETING_ANSWER)
            }
            Content::Greeting => self.append_page("200 OK", &GREETING, output),
            Content::Stats => self.append_page("200 OK", &pages.stats(), output),
            Content::Error(status) => {
                let line = status.line();
                self.append_page(line, &format_args!("{line}\n"), output)
            }
        }
    }

    fn append_page(self, line: &str, content: &dyn Display, output: &mut Output) -> fmt::Result {
        let mut length = Length(0);
        write!(length, "{content}")?;
        write!(
            output,
            "HTTP/1.1 {line}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n",
            length.0
        )?;
        if self.content == Content::Error(Status::MethodNotAllowed) {
            output.write_str("Allow: GET, HEAD\r\n")?;
        }
        output.write_str(match self.persistence {
            Persistence::KeepOpen => "\r\n",
            Persistence::KeepOpenTold => "Connection: keep-alive\r\n\r\n",
            Persistence::Close => "Connection: close\r\n\r\n",
        })?;
        if self.head_only {
            return Ok(());
        }
        write!(output, "{content}")
    }
}

/// The output is full, or there is no memory for more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// Answers that wait to be sent together.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
}

impl Output {
    /// No single answer is larger, and a batch of small ones gains little from
    /// more.
    pub(crate) const MAX_BYTES: usize = 4096;

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.bytes.len() + text.len() > Self::MAX_BYTES {
            return Err(fmt::Error);
        }
        self.bytes.try_reserve(text.len()).map_err(|_| fmt::Error)?;
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Counts what is written.
struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};

    struct Fixed(String);

    impl Pages for Fixed {
        fn stats(&self) -> impl Display {
            &self.0
        }
    }

    fn written(answer: Answer) -> String {
        let mut output = Output::default();
        let pages = Fixed("polls 12\n".to_string());
        answer.write(&pages, &mut output).expect("it has room");
        String::from_utf8(output.bytes).expect("answers are text")
    }

    fn greeting(persistence: Persistence) -> Answer {
        Answer {
            content: Content::Greeting,
            head_only: false,
            persistence,
        }
    }

    #[test]
    fn the_prepared_answer_is_what_would_be_written() {
        let closing = written(greeting(Persistence::Close));
        let open = closing.replace("Connection: close\r\n", "");
        assert_eq!(open, GREETING_ANSWER);
        assert_eq!(written(greeting(Persistence::KeepOpen)), GREETING_ANSWER);
    }

    #[test]
    fn a_head_is_the_same_without_content() {
        for content in [
            Content::Greeting,
            Content::Stats,
            Content::Error(Status::NotFound),
        ] {
            let whole = Answer {
                content,
                ..greeting(Persistence::KeepOpen)
            };
            let head = Answer {
                head_only: true,
                ..whole
            };
            let (whole, head) = (written(whole), written(head));
            assert!(whole.starts_with(&head));
            let length = whole.len() - head.len();
            assert!(head.contains(&std::format!("Content-Length: {length}\r\n")));
        }
    }

    #[test]
    fn what_has_no_room_leaves_no_trace() {
        let mut output = Output::default();
        let answer = Answer {
            content: Content::Stats,
            ..greeting(Persistence::KeepOpen)
        };
        let fits = Fixed("x".repeat(Output::MAX_BYTES - 100));
        assert_eq!(answer.write(&fits, &mut output), Ok(()));
        let length = output.bytes().len();
        assert_eq!(answer.write(&fits, &mut output), Err(NoRoom));
        assert_eq!(output.bytes().len(), length);
    }
}
