//! Why a resource could not be fetched.

use core::error;
use core::fmt;

use firstpoll::net;

use crate::http::{self, AnswerError};
use crate::url::UrlError;

/// Why a resource could not be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The URL, or one that a redirection named, is of no use.
    Url(UrlError),
    /// The URL is one of a scheme that this client does not speak.
    Scheme,
    /// No address was found for the host.
    Unresolved(net::Error),
    /// The host answered that nobody listens there.
    Refused,
    /// The server reset the connection.
    Reset,
    /// The time was up: while connecting, waiting or reading.
    TimedOut,
    /// There is no way to the host.
    Unreachable,
    /// What came is no whole answer.
    Answer(AnswerError),
    /// The server said that it cannot, or will not.
    Status(u16),
    /// The server named another place, one time more than it may.
    Redirected,
    /// The network failed in a way that is not the server's.
    Network(net::Error),
}

impl Failure {
    /// What kind of failure it is, in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Url(_) | Self::Scheme => "url",
            Self::Unresolved(_) => "unresolved",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::TimedOut => "timeout",
            Self::Unreachable => "unreachable",
            Self::Answer(_) => "answer",
            Self::Status(_) => "status",
            Self::Redirected => "redirected",
            Self::Network(_) => "network",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => write!(f, "the URL cannot be used: {error}"),
            Self::Scheme => f.write_str("the URL's scheme is not spoken here"),
            Self::Unresolved(error) => write!(f, "the host was not found: {error}"),
            Self::Refused => f.write_str("the connection was refused"),
            Self::Reset => f.write_str("the connection was reset"),
            Self::TimedOut => f.write_str("the time was up"),
            Self::Unreachable => f.write_str("the host cannot be reached"),
            Self::Answer(error) => write!(f, "bad answer: {error}"),
            Self::Status(status) => write!(f, "the server answered {status}"),
            Self::Redirected => f.write_str("redirected too often"),
            Self::Network(error) => write!(f, "the network failed: {error}"),
        }
    }
}

impl error::Error for Failure {}

impl From<UrlError> for Failure {
    fn from(error: UrlError) -> Self {
        Self::Url(error)
    }
}

impl From<net::Error> for Failure {
    fn from(error: net::Error) -> Self {
        match error {
            net::Error::ConnectionRefused => Self::Refused,
            net::Error::ConnectionReset => Self::Reset,
            net::Error::TimedOut => Self::TimedOut,
            net::Error::NetworkUnreachable => Self::Unreachable,
            other => Self::Network(other),
        }
    }
}

impl From<http::Error<net::Error>> for Failure {
    fn from(error: http::Error<net::Error>) -> Self {
        match error {
            http::Error::Stream(error) => error.into(),
            http::Error::Answer(error) => Self::Answer(error),
        }
    }
}
