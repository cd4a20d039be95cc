//! A TLS connection over any stream.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::error;
use core::fmt;

use embedded_io_async::{ErrorKind, ErrorType, Read, Write};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{CertificateError, ClientConfig, Error as RustlsError};

/// The content of the largest record (RFC 8446 §5.1).
const MAX_CONTENT_BYTES: usize = 1 << 14;
/// The largest record, header and all (RFC 8446 §5.2).
const MAX_RECORD_BYTES: usize = 5 + MAX_CONTENT_BYTES + 256;
/// The largest message of a handshake that is taken, such as a long chain of
/// certificates.
const MAX_INCOMING_BYTES: usize = 4 * MAX_RECORD_BYTES;

/// The client's end of a TLS connection over the stream `S`.
pub struct TlsStream<S> {
    stream: S,
    connection: UnbufferedClientConnection,
    /// What came from the server; only the beginning is filled.
    incoming: Vec<u8>,
    filled: usize,
    /// What is to go to the server.
    outgoing: Vec<u8>,
    /// What was deciphered, and how much of it was read.
    plain: Vec<u8>,
    plain_read: usize,
    /// Whether the server has said that it is done.
    closed: bool,
}

/// Why a TLS connection failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Error<E> {
    /// The stream below broke.
    Stream(E),
    /// The server broke the protocol, or is not to be trusted.
    Tls(RustlsError),
    /// The stream below ended, but the server did not say that it is done:
    /// somebody may have cut the connection.
    CutShort,
    /// A message of the server is longer than any that makes sense.
    TooLong,
    /// There was an attempt to write after the end.
    Closed,
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Tls(RustlsError::InvalidCertificate(error)) => {
                write!(f, "the server is not trusted: {}", Distrust(error))
            }
            Self::Tls(error) => error.fmt(f),
            Self::CutShort => f.write_str("the connection was cut"),
            Self::TooLong => f.write_str("a message is too long"),
            Self::Closed => f.write_str("the connection is closed"),
        }
    }
}

impl<E: error::Error> error::Error for Error<E> {}

/// What is wrong with a certificate, in words where there are some.
struct Distrust<'a>(&'a CertificateError);

impl fmt::Display for Distrust<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CertificateError::UnknownIssuer => {
                f.write_str("its certificate is not from the given authority")
            }
            CertificateError::BadSignature => {
                f.write_str("its certificate only pretends to be from the given authority")
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                f.write_str("its certificate has expired")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                f.write_str("its certificate is not valid yet")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                f.write_str("its certificate is for another host")
            }
            other => other.fmt(f),
        }
    }
}

impl<E: embedded_io_async::Error> embedded_io_async::Error for Error<E> {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Stream(error) => error.kind(),
            Self::Tls(_) | Self::TooLong => ErrorKind::InvalidData,
            Self::CutShort => ErrorKind::ConnectionAborted,
            Self::Closed => ErrorKind::NotConnected,
        }
    }
}

/// What has to happen before a connection gets on.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Look again at what has come.
    Look,
    /// Send what has to go out.
    Send,
    /// Receive more.
    Receive,
    /// Nothing: the handshake is over. Says how many bytes were enciphered.
    Ready { enciphered: usize },
    /// Nothing: the server is done.
    Closed,
}

impl<S: Read + Write> TlsStream<S> {
    /// Shakes hands with the server called `name` over `stream`.
    ///
    /// Not cancel-safe: what was said so far is lost with the stream.
    ///
    /// # Errors
    ///
    /// If the server is not to be trusted, or the handshake fails otherwise.
    pub async fn connect(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        stream: S,
    ) -> Result<Self, Error<S::Error>> {
        let connection = UnbufferedClientConnection::new(config, name).map_err(Error::Tls)?;
        let mut tls = Self {
            stream,
            connection,
            incoming: vec![0; MAX_RECORD_BYTES],
            filled: 0,
            outgoing: Vec::new(),
            plain: Vec::new(),
            plain_read: 0,
            closed: false,
        };
        loop {
            match tls.advance(&[]).await? {
                Next::Look => {}
                Next::Send => tls.send().await?,
                Next::Receive => tls.receive().await?,
                Next::Ready { .. } => return Ok(tls),
                Next::Closed => return Err(Error::CutShort),
            }
        }
    }

    /// Says that nothing more will be sent.
    ///
    /// # Errors
    ///
    /// If the connection broke.
    pub async fn close(&mut self) -> Result<(), Error<S::Error>> {
        self.send().await?;
        let UnbufferedStatus { discard, state } = self
            .connection
            .process_tls_records(&mut self.incoming[..self.filled]);
        // In any other state the server has not waited for it either.
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            let mut alert = vec![0; MAX_RECORD_BYTES];
            let written = traffic.queue_close_notify(&mut alert);
            let count = written.map_err(|_| Error::Closed)?;
            self.outgoing.extend_from_slice(&alert[..count]);
        }
        self.discard(discard);
        self.send().await
    }

    /// Goes one step through what has come, and enciphers the beginning of
    /// `data` where that is possible. Before an error is reported, the server is
    /// told.
    async fn advance(&mut self, data: &[u8]) -> Result<Next, Error<S::Error>> {
        match self.step(data) {
            Ok(next) => Ok(next),
            Err(error) => {
                while let Ok(Next::Look | Next::Send) = self.step(&[]) {}
                // The error that matters is the first.
                let _ = self.send().await;
                Err(Error::Tls(error))
            }
        }
    }

    fn step(&mut self, data: &[u8]) -> Result<Next, RustlsError> {
        let UnbufferedStatus { discard, state } = self
            .connection
            .process_tls_records(&mut self.incoming[..self.filled]);
        let mut discard = discard;
        let next = match state {
            Err(error) => Err(error),
            Ok(ConnectionState::EncodeTlsData(mut record)) => {
                append(&mut self.outgoing, |space| record.encode(space)).map(|_| Next::Look)
            }
            Ok(ConnectionState::TransmitTlsData(transmit)) => {
                transmit.done();
                Ok(Next::Send)
            }
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                let mut read = Ok(Next::Look);
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            discard += record.discard;
                            self.plain.extend_from_slice(record.payload);
                        }
                        Err(error) => read = Err(error),
                    }
                }
                read
            }
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                let part = &data[..data.len().min(MAX_CONTENT_BYTES)];
                let enciphered = if part.is_empty() {
                    Ok(0)
                } else {
                    append(&mut self.outgoing, |space| traffic.encrypt(part, space))
                };
                enciphered.map(|_| Next::Ready {
                    enciphered: part.len(),
                })
            }
            Ok(ConnectionState::BlockedHandshake) => Ok(Next::Receive),
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Next::Closed),
            Ok(state) => Err(RustlsError::General(alloc::format!("unexpected {state:?}"))),
        };
        self.discard(discard);
        next
    }

    fn discard(&mut self, bytes: usize) {
        self.incoming.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
    }

    /// Sends what has to go out. Cancel-safe.
    async fn send(&mut self) -> Result<(), Error<S::Error>> {
        while !self.outgoing.is_empty() {
            let written = self.stream.write(&self.outgoing).await;
            self.outgoing.drain(..written.map_err(Error::Stream)?);
        }
        Ok(())
    }

    /// Receives something. Cancel-safe.
    async fn receive(&mut self) -> Result<(), Error<S::Error>> {
        if self.filled == self.incoming.len() {
            if self.filled >= MAX_INCOMING_BYTES {
                return Err(Error::TooLong);
            }
            self.incoming.resize(2 * self.filled, 0);
        }
        let read = self.stream.read(&mut self.incoming[self.filled..]).await;
        match read.map_err(Error::Stream)? {
            0 => Err(Error::CutShort),
            count => {
                self.filled += count;
                Ok(())
            }
        }
    }
}

/// Puts a record behind what has to go out; returns its length.
fn append<E: fmt::Display>(
    outgoing: &mut Vec<u8>,
    put: impl FnOnce(&mut [u8]) -> Result<usize, E>,
) -> Result<usize, RustlsError> {
    let start = outgoing.len();
    outgoing.resize(start + MAX_RECORD_BYTES, 0);
    let put = put(&mut outgoing[start..]);
    let count = put.map_err(|error| RustlsError::General(alloc::format!("{error}")));
    outgoing.truncate(start + *count.as_ref().unwrap_or(&0));
    count
}

impl<S: ErrorType> ErrorType for TlsStream<S> {
    type Error = Error<S::Error>;
}

/// `read` is cancel-safe: bytes that were not returned are read by the next
/// call.
impl<S: Read + Write> Read for TlsStream<S> {
    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Self::Error> {
        if buffer.is_empty() {
            return Ok(0);
        }
        // The server may wait for it.
        self.send().await?;
        loop {
            let plain = &self.plain[self.plain_read..];
            if !plain.is_empty() {
                let count = plain.len().min(buffer.len());
                buffer[..count].copy_from_slice(&plain[..count]);
                self.plain_read += count;
                if self.plain_read == self.plain.len() {
                    self.plain.clear();
                    self.plain_read = 0;
                }
                return Ok(count);
            }
            if self.closed {
                return Ok(0);
            }
            match self.advance(&[]).await? {
                Next::Look => {}
                Next::Send => self.send().await?,
                Next::Receive | Next::Ready { .. } => self.receive().await?,
                Next::Closed => self.closed = true,
            }
        }
    }
}

/// `write` is cancel-safe: nothing was taken if it did not return. What was
/// taken leaves with the next call, at the latest with `flush`.
impl<S: Read + Write> Write for TlsStream<S> {
    async fn write(&mut self, data: &[u8]) -> Result<usize, Self::Error> {
        if data.is_empty() {
            return Ok(0);
        }
        self.send().await?;
        loop {
            match self.advance(data).await? {
                Next::Look => {}
                Next::Send => self.send().await?,
                Next::Receive => self.receive().await?,
                Next::Ready { enciphered } => return Ok(enciphered),
                Next::Closed => return Err(Error::Closed),
            }
        }
    }

    async fn flush(&mut self) -> Result<(), Self::Error> {
        self.send().await?;
        self.stream.flush().await.map_err(Error::Stream)
    }
}

impl<S> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").finish_non_exhaustive()
    }
}
