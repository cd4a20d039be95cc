//! What can be chosen at boot.

use core::error;
use core::fmt;
use core::net::IpAddr;
use core::num::NonZero;
use core::time::Duration;

use fetch::{Scheme, Url, UrlError};
use firstpoll::runtime::Args;

/// The client's options, each from a word `name=value` on the kernel's command
/// line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `url=https://host:port/path`: what to fetch.
    pub url: Url,
    /// `ca=`: the certificate of the authority that must have signed the
    /// server's, in base64, as PEM has it between its first and last line but
    /// without line breaks.
    pub authority: &'static str,
    /// `address=`: where the host is, if it is not to be looked up. Its
    /// certificate must be for the host all the same.
    pub address: Option<IpAddr>,
    /// `timeout_ms=10000`: how long it may take in all.
    pub timeout: Duration,
}

/// Why nothing can be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// `url=` is missing, or of no use.
    Url(UrlError),
    /// The URL is not one of `https`.
    Scheme,
    /// `ca=` is missing.
    Authority,
    /// The value of `address=` is no address.
    Address,
    /// The value of `timeout_ms=` is no number of milliseconds.
    Timeout,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url(error) => return write!(f, "url= says what to fetch: {error}"),
            Self::Scheme => "url= must begin with https://",
            Self::Authority => "ca= must say whom to trust",
            Self::Address => "address= wants an IP address",
            Self::Timeout => "timeout_ms= wants a number of milliseconds",
        })
    }
}

impl error::Error for OptionError {}

impl Options {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn read(args: Args) -> Result<Self, OptionError> {
        let url = Url::parse(args.get("url").unwrap_or_default()).map_err(OptionError::Url)?;
        if url.scheme != Scheme::Https {
            return Err(OptionError::Scheme);
        }
        let address = args.get("address").map(str::parse).transpose();
        let timeout = args.get("timeout_ms").unwrap_or("10000");
        let timeout: NonZero<u64> = timeout.parse().map_err(|_| OptionError::Timeout)?;
        Ok(Self {
            url,
            authority: args.get("ca").ok_or(OptionError::Authority)?,
            address: address.map_err(|_| OptionError::Address)?,
            timeout: Duration::from_millis(timeout.get()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &'static str) -> Result<Options, OptionError> {
        Options::read(Args::new(line.as_bytes()))
    }

    #[test]
    fn every_option_can_be_set() {
        let options =
            read("url=https://a.example:8443/b ca=MIIB+/== address=10.0.2.2 timeout_ms=5").unwrap();
        assert_eq!(options.url.port, 8443);
        assert_eq!(options.authority, "MIIB+/==");
        assert_eq!(options.address, Some([10, 0, 2, 2].into()));
        assert_eq!(options.timeout, Duration::from_millis(5));
    }

    #[test]
    fn nonsense_is_named() {
        for (line, error) in [
            ("ca=x", OptionError::Url(UrlError::Scheme)),
            ("url=http://a/ ca=x", OptionError::Scheme),
            ("url=https://a/", OptionError::Authority),
            ("url=https://a/ ca=x address=a", OptionError::Address),
            ("url=https://a/ ca=x timeout_ms=0", OptionError::Timeout),
        ] {
            assert_eq!(read(line), Err(error), "{line}");
        }
    }
}
