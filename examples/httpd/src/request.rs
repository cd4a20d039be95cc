//! The head of one request: what the server needs to know of it.

use core::mem::MaybeUninit;

use crate::answer::Status;

/// More header fields than this are answered with 431.
const MAX_FIELDS: usize = 64;

/// A request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// Without the query.
    pub(crate) path: &'a str,
    /// What follows the question mark, if there is one.
    pub(crate) query: Option<&'a str>,
    /// HTTP/1.0, not 1.1.
    pub(crate) is_1_0: bool,
    /// Whether the client asks for another protocol on this connection.
    pub(crate) upgrades: bool,
    pub(crate) persistence: Persistence,
    pub(crate) framing: Framing,
    /// Whether the client waits for leave to send the body.
    pub(crate) expects_continue: bool,
    /// How many bytes of input the head took.
    pub(crate) length: usize,
}

/// What becomes of the connection after the answer (RFC 9112 §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// It stays open; HTTP/1.1 takes that for granted.
    KeepOpen,
    /// It stays open, and an HTTP/1.0 client has to be told so.
    KeepOpenTold,
    /// It is closed.
    Close,
}

/// Where the body ends (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// After this many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
}

/// Reads the head that `input` starts with; `None` if there is more to come.
///
/// # Errors
///
/// The status to answer with. Where this request ends is then unknown.
pub(crate) fn parse(input: &[u8]) -> Result<Option<Request<'_>>, Status> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut []);
    let length = match head.parse_with_uninit_headers(input, &mut fields) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Status::HeadersTooLarge),
        Err(httparse::Error::Version) => return other_version(input),
        Err(_) => return Err(Status::BadRequest),
    };
    let (Some(method), Some(target), Some(minor_version)) = (head.method, head.path, head.version)
    else {
        return Err(Status::BadRequest);
    };
    let fields = Fields::read(head.headers)?;
    let is_1_0 = minor_version == 0;
    // RFC 9112 §3.2.
    if fields.hosts > 1 || (fields.hosts == 0 && !is_1_0) {
        return Err(Status::BadRequest);
    }
    let framing = fields.framing(is_1_0)?;
    let (path, query) = origin(target).ok_or(Status::BadRequest)?;
    Ok(Some(Request {
        method,
        path,
        query,
        is_1_0,
        upgrades: fields.upgrade && !is_1_0,
        persistence: fields.persistence(is_1_0),
        framing,
        expects_continue: fields.expects_continue && !is_1_0 && framing != Framing::Length(0),
        length,
    }))
}

/// The names and values of the fields of a head that [`parse`] accepted.
pub(crate) fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    // Empty lines may come before the request line; the fields end at the next.
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let _request_line = lines.find(|line| !line.is_empty());
    lines.map_while(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// The header fields that matter here.
#[derive(Default)]
struct Fields {
    hosts: usize,
    close: bool,
    keep_alive: bool,
    upgrade: bool,
    length: Option<u64>,
    chunked: bool,
    expects_continue: bool,
}

impl Fields {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Self, Status> {
        let mut fields = Self::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            // The length tells most names apart without comparing them.
            match header.name.len() {
                4 if is("host") => fields.hosts += 1,
                6 if is("expect") => fields.add_expectation(header.value)?,
                10 if is("connection") => fields.add_connection(header.value),
                14 if is("content-length") => fields.add_length(header.value)?,
                17 if is("transfer-encoding") => fields.add_coding(header.value)?,
                _ => {}
            }
        }
        Ok(fields)
    }

    fn add_connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            self.upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }

    fn add_expectation(&mut self, value: &[u8]) -> Result<(), Status> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Status::ExpectationFailed);
        }
        self.expects_continue = true;
        Ok(())
    }

    /// A second length is refused, even if it is the same: two parsers that
    /// pick different ones are how requests are smuggled.
    fn add_length(&mut self, value: &[u8]) -> Result<(), Status> {
        if self.length.is_some() || value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(Status::BadRequest);
        }
        let length = value.iter().try_fold(0_u64, |length, digit| {
            length.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        });
        self.length = Some(length.ok_or(Status::ContentTooLarge)?);
        Ok(())
    }

    fn add_coding(&mut self, value: &[u8]) -> Result<(), Status> {
        if self.chunked {
            return Err(Status::BadRequest);
        }
        if value.eq_ignore_ascii_case(b"chunked") {
            self.chunked = true;
            return Ok(());
        }
        let mut codings = value.rsplit(|&byte| byte == b',');
        let last = codings.next().unwrap_or_default().trim_ascii();
        // The end of a body whose last coding is another cannot be found.
        Err(if last.eq_ignore_ascii_case(b"chunked") {
            Status::NotImplemented
        } else {
            Status::BadRequest
        })
    }

    fn framing(&self, is_1_0: bool) -> Result<Framing, Status> {
        match (self.chunked, self.length) {
            (false, length) => Ok(Framing::Length(length.unwrap_or(0))),
            (true, None) if !is_1_0 => Ok(Framing::Chunked),
            (true, _) => Err(Status::BadRequest),
        }
    }

    fn persistence(&self, is_1_0: bool) -> Persistence {
        match (self.close, is_1_0, self.keep_alive) {
            (true, ..) | (false, true, false) => Persistence::Close,
            (false, true, true) => Persistence::KeepOpenTold,
            (false, false, _) => Persistence::KeepOpen,
        }
    }
}

/// Path and query of a request target in origin or absolute form, or `*`
/// (RFC 9112 §3.2).
fn origin(target: &str) -> Option<(&str, Option<&str>)> {
    let is_absolute = |scheme: &str| {
        let start = target.as_bytes().get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    let target = if target.starts_with('/') || target == "*" {
        target
    } else if is_absolute("http://") {
        let authority_and_path = &target["http://".len()..];
        let start = authority_and_path.find(['/', '?']);
        start.map_or("/", |start| &authority_and_path[start..])
    } else {
        return None;
    };
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    Some((if path.is_empty() { "/" } else { path }, query))
}

/// What to make of a version that is not HTTP/1.0 or 1.1: `None` while its line
/// is incomplete.
fn other_version(input: &[u8]) -> Result<Option<Request<'_>>, Status> {
    let input = input.trim_ascii_start();
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
        return Ok(None);
    };
    let mut words = input[..end].trim_ascii_end().rsplit(|&byte| byte == b' ');
    match words.next() {
        Some([b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9']) => {
            Err(Status::VersionNotSupported)
        }
        _ => Err(Status::BadRequest),
    }
}
