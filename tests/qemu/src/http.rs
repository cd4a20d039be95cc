//! A plain HTTP/1.1 client, over any stream.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection to a server.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    received: Vec<u8>,
}

/// What a server answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The status line and the header fields.
    pub head: String,
    /// The content.
    pub body: String,
}

impl Client<TcpStream> {
    /// Connects over the host's network.
    ///
    /// # Errors
    ///
    /// If that fails.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Self::new(stream))
    }
}

impl<S: Read + Write> Client<S> {
    /// A client on a connection that was just made.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            received: Vec::new(),
        }
    }

    /// Sends any bytes.
    ///
    /// # Errors
    ///
    /// If the connection broke.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Requests `path` and reads the answer.
    ///
    /// # Errors
    ///
    /// If the connection broke or what came is no answer.
    pub fn get(&mut self, path: &str) -> io::Result<Response> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: guest\r\n\r\n"))?;
        self.response()
    }

    /// Reads an answer.
    ///
    /// # Errors
    ///
    /// If the connection broke or what came is no answer.
    pub fn response(&mut self) -> io::Result<Response> {
        let head = self.head()?;
        let mut body = Vec::new();
        if field(&head, "Transfer-Encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk()? {
                body.extend(chunk);
            }
        } else {
            let length = field(&head, "Content-Length").and_then(|length| length.parse().ok());
            body = self.bytes(length.unwrap_or(0))?;
        }
        Ok(Response {
            status: status(&head)?,
            head,
            body: String::from_utf8(body).map_err(|_| ErrorKind::InvalidData)?,
        })
    }

    /// Reads a chunk of an answer's content; `None` is the end of the content.
    ///
    /// # Errors
    ///
    /// If the connection broke or what came is no chunk.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let size = usize::from_str_radix(line.trim_end(), 16);
        let size = size.map_err(|_| ErrorKind::InvalidData)?;
        let chunk = self.bytes(size)?;
        if self.line()? != "\r\n" {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok((size > 0).then_some(chunk))
    }

    /// Reads a line, with its end.
    ///
    /// # Errors
    ///
    /// If the connection broke or what came is no text.
    pub fn line(&mut self) -> io::Result<String> {
        let end = loop {
            match self.received.iter().position(|&byte| byte == b'\n') {
                Some(end) => break end,
                None => self.receive()?,
            }
        };
        let line = self.received.drain(..=end).collect();
        String::from_utf8(line).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// Reads `count` bytes.
    ///
    /// # Errors
    ///
    /// If the connection broke.
    pub fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.received.len() < count {
            self.receive()?;
        }
        Ok(self.received.drain(..count).collect())
    }

    /// Reads the head of an answer, and leaves the rest.
    ///
    /// # Errors
    ///
    /// If the connection broke or what came is no answer.
    pub fn head(&mut self) -> io::Result<String> {
        let end = loop {
            let end = self.received.windows(4).position(|end| end == b"\r\n\r\n");
            match end {
                Some(end) => break end,
                None => self.receive()?,
            }
        };
        let head = self.received.drain(..end + 4).collect();
        String::from_utf8(head).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// Waits for the end of the stream.
    ///
    /// # Errors
    ///
    /// If something else comes first.
    pub fn expect_end(&mut self) -> io::Result<()> {
        match self.receive() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && self.received.is_empty() => {
                Ok(())
            }
            Err(error) => Err(error),
            Ok(()) => Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("more came: {}", self.received.escape_ascii()),
            )),
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => {
                self.received.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }
}

/// The value of a header field.
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find_map(|(field, value)| field.eq_ignore_ascii_case(name).then_some(value))
}

fn status(head: &str) -> io::Result<u16> {
    let code = head
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    code.and_then(|code| code.parse().ok())
        .ok_or_else(|| ErrorKind::InvalidData.into())
}
