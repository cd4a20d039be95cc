//! One request and its answer over any stream (RFC 9112).

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::error;
use core::fmt;

use embedded_io_async::{Read, Write};
use httparse::{EMPTY_HEADER, Header, Response, Status};

use crate::body::{Body, BodyError, Framing};
use crate::url::Url;

/// More fields than a head may have.
const MAX_FIELDS: usize = 64;

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Where the resource is instead, if the status says so.
    pub location: Option<String>,
    /// The length of the body.
    pub body_bytes: u64,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error<E> {
    /// The stream broke.
    Stream(E),
    /// What came is no answer.
    Answer(AnswerError),
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// The server closed the connection without one.
    None,
    /// Its head is not one of HTTP/1.
    Head,
    /// Its head was cut short.
    HeadCutShort,
    /// Its head does not fit into the buffer.
    HeadTooLong,
    /// It does not say, or not clearly, where its body ends.
    Framing,
    /// Its body is broken.
    Body(BodyError),
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "the server closed the connection without one",
            Self::Head => "it is not HTTP/1",
            Self::HeadCutShort => "its head was cut short",
            Self::HeadTooLong => "its head is too long",
            Self::Framing => "it contradicts itself about where it ends",
            Self::Body(error) => return error.fmt(f),
        })
    }
}

impl error::Error for AnswerError {}

impl<E> From<AnswerError> for Error<E> {
    fn from(error: AnswerError) -> Self {
        Self::Answer(error)
    }
}

impl<E> From<BodyError> for Error<E> {
    fn from(error: BodyError) -> Self {
        Self::Answer(AnswerError::Body(error))
    }
}

/// Asks for `url` on a connection to its server, which then closes it.
///
/// `buffer` must have room for the answer's head; `sink` is given the body as
/// it arrives.
///
/// Not cancel-safe: the connection is of no use afterwards.
///
/// # Errors
///
/// Why there was no answer, or no whole one.
pub async fn get<S: Read + Write>(
    stream: &mut S,
    url: &Url,
    buffer: &mut [u8],
    mut sink: impl FnMut(&[u8]),
) -> Result<Answer, Error<S::Error>> {
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: firstpoll\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n",
        url.target,
        url.authority(),
    );
    let write = stream.write_all(request.as_bytes()).await;
    write.map_err(Error::Stream)?;
    stream.flush().await.map_err(Error::Stream)?;

    let mut end = 0;
    let head = loop {
        match Head::parse(&buffer[..end])? {
            Some(head) if head.is_interim() => {
                buffer.copy_within(head.bytes..end, 0);
                end -= head.bytes;
                continue;
            }
            Some(head) => break head,
            None if end == buffer.len() => return Err(AnswerError::HeadTooLong.into()),
            None => {}
        }
        match stream.read(&mut buffer[end..]).await {
            Ok(0) if end == 0 => return Err(AnswerError::None.into()),
            Ok(0) => return Err(AnswerError::HeadCutShort.into()),
            Ok(count) => end += count,
            Err(error) => return Err(Error::Stream(error)),
        }
    };

    let mut body = Body::new(head.framing);
    let mut body_bytes = 0;
    let mut start = head.bytes;
    loop {
        while start < end && !body.is_complete() {
            let piece = body.take(&buffer[start..end])?;
            start += piece.taken;
            if !piece.data.is_empty() {
                body_bytes += piece.data.len() as u64;
                sink(piece.data);
            }
        }
        if body.is_complete() {
            break;
        }
        start = 0;
        end = stream.read(buffer).await.map_err(Error::Stream)?;
        if end == 0 {
            body.end()?;
        }
    }
    Ok(Answer {
        status: head.status,
        location: head.location,
        body_bytes,
    })
}

/// What matters of an answer's head.
#[derive(Debug)]
struct Head {
    /// Its length in the stream.
    bytes: usize,
    status: u16,
    framing: Framing,
    location: Option<String>,
}

impl Head {
    /// Reads a head; `None` if it has not arrived wholly.
    fn parse(bytes: &[u8]) -> Result<Option<Self>, AnswerError> {
        let mut fields = [EMPTY_HEADER; MAX_FIELDS];
        let mut response = Response::new(&mut fields);
        let length = match response.parse(bytes) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return Ok(None),
            Err(_) => return Err(AnswerError::Head),
        };
        let (Some(status), Some(version)) = (response.code, response.version) else {
            return Err(AnswerError::Head);
        };
        // Nobody asked for another protocol.
        if status == 101 || !(100..600).contains(&status) {
            return Err(AnswerError::Head);
        }
        let location = values(response.headers, "Location").next();
        let location = location.and_then(|value| core::str::from_utf8(value).ok());
        Ok(Some(Self {
            bytes: length,
            status,
            framing: framing(status, version, response.headers)?,
            location: location.map(ToOwned::to_owned),
        }))
    }

    /// Whether another one follows.
    fn is_interim(&self) -> bool {
        self.status < 200
    }
}

/// How the end of the body is told (RFC 9112 §6.3).
fn framing(status: u16, version: u8, fields: &[Header<'_>]) -> Result<Framing, AnswerError> {
    if status < 200 || matches!(status, 204 | 304) {
        return Ok(Framing::Length(0));
    }
    let mut lengths = values(fields, "Content-Length");
    let length = lengths.next();
    if lengths.any(|other| Some(other) != length) {
        return Err(AnswerError::Framing);
    }
    let mut codings = values(fields, "Transfer-Encoding");
    match (codings.next(), length) {
        (None, None) => Ok(Framing::ToEnd),
        (None, Some(length)) => {
            let digits = core::str::from_utf8(length).ok();
            let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            let length = digits.and_then(|digits| digits.parse().ok());
            length.map(Framing::Length).ok_or(AnswerError::Framing)
        }
        // No coding was asked for but this one, which HTTP/1.0 does not have.
        (Some(coding), None) if version == 1 && codings.next().is_none() => {
            if coding.eq_ignore_ascii_case(b"chunked") {
                Ok(Framing::Chunked)
            } else {
                Err(AnswerError::Framing)
            }
        }
        _ => Err(AnswerError::Framing),
    }
}

/// The values of the fields called `name`.
fn values<'a>(fields: &'a [Header<'a>], name: &str) -> impl Iterator<Item = &'a [u8]> {
    let fields = fields.iter();
    fields
        .filter(move |field| field.name.eq_ignore_ascii_case(name))
        .map(|field| field.value.trim_ascii())
}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use core::convert::Infallible;
    use core::future::Future;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    use super::*;

    /// A server whose answer is ready, and comes in parts.
    struct Script<'a> {
        answer: &'a [u8],
        part: usize,
        request: Vec<u8>,
    }

    impl embedded_io_async::ErrorType for Script<'_> {
        type Error = Infallible;
    }

    impl Read for Script<'_> {
        async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Infallible> {
            let count = self.part.min(buffer.len()).min(self.answer.len());
            let (now, later) = self.answer.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.answer = later;
            Ok(count)
        }
    }

    impl Write for Script<'_> {
        async fn write(&mut self, data: &[u8]) -> Result<usize, Infallible> {
            self.request.extend_from_slice(data);
            Ok(data.len())
        }

        async fn flush(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    fn ask(answer: &[u8], part: usize) -> Result<(Answer, Vec<u8>), Error<Infallible>> {
        let mut script = Script {
            answer,
            part,
            request: Vec::new(),
        };
        let url = Url::parse("http://host:81/a?b").unwrap();
        let mut buffer = [0; 200];
        let mut body = Vec::new();
        let answer = {
            let sink = |data: &[u8]| body.extend_from_slice(data);
            let future = pin!(get(&mut script, &url, &mut buffer, sink));
            match future.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => answer?,
                Poll::Pending => panic!("the script never waits"),
            }
        };
        let request = std::string::String::from_utf8(script.request).unwrap();
        assert!(request.starts_with("GET /a?b HTTP/1.1\r\nHost: host:81\r\n"));
        assert!(request.ends_with("\r\n\r\n"));
        assert_eq!(body.len() as u64, answer.body_bytes);
        Ok((answer, body))
    }

    #[test]
    fn bodies_end_where_the_head_says() {
        for (text, wanted) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"),
            (
                "HTTP/1.1 200 \r\ncontent-length:5\r\n\r\nhello, more",
                "hello",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
                "hello",
            ),
            ("HTTP/1.1 200 OK\r\n\r\nhello", "hello"),
            ("HTTP/1.0 200 OK\r\n\r\nhello", "hello"),
            ("HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n", ""),
            (
                "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                "hi",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
                "hi",
            ),
        ] {
            for part in 1..=text.len() {
                let (_, body) = ask(text.as_bytes(), part).unwrap();
                assert_eq!(body, wanted.as_bytes(), "{text} in parts of {part}");
            }
        }
    }

    #[test]
    fn a_redirection_names_its_target() {
        let text = b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n";
        let (answer, _) = ask(text, 7).unwrap();
        assert_eq!(
            (answer.status, answer.location.as_deref()),
            (302, Some("/x"))
        );
    }

    #[test]
    fn bad_answers_are_told_apart() {
        let endless = [&b"HTTP/1.1 200 OK\r\nX: "[..], &[b'x'; 500]].concat();
        for (text, error) in [
            (&b""[..], AnswerError::None),
            (b"SSH-2.0-x\r\n", AnswerError::Head),
            (b"HTTP/1.1 999 x\r\n\r\n", AnswerError::Head),
            (b"HTTP/1.1 101 x\r\n\r\n", AnswerError::Head),
            (b"HTTP/1.1 200 OK\r\nConte", AnswerError::HeadCutShort),
            (&endless, AnswerError::HeadTooLong),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                AnswerError::Framing,
            ),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx",
                AnswerError::Framing,
            ),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                AnswerError::Framing,
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
                AnswerError::Framing,
            ),
            (
                b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                AnswerError::Framing,
            ),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
                AnswerError::Body(BodyError::CutShort),
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello",
                AnswerError::Body(BodyError::Size),
            ),
        ] {
            let shown = text.escape_ascii().to_string();
            assert_eq!(ask(text, 64), Err(Error::Answer(error)), "{shown}");
        }
    }
}
