//! What can be chosen at boot.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::error;
use core::fmt;
use core::num::NonZero;
use core::str::FromStr;
use core::time::Duration;

use firstpoll::runtime::Args;

/// The client's options, each from a word `name=value` on the kernel's command
/// line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What to fetch: those in `urls=`, with commas in between, and `count=` of
    /// them that begin with `base=` and end with their number, from 0 on.
    pub urls: Vec<String>,
    /// `concurrency=16`: how many are fetched at the same time.
    pub concurrency: usize,
    /// `connect_timeout_ms=3000`: how long connecting may take.
    pub connect_timeout: Duration,
    /// `timeout_ms=10000`: how long each may take in all.
    pub timeout: Duration,
    /// `redirects=0`: how many redirections are followed.
    pub redirects: u32,
}

/// Why nothing can be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// The value of the option is not a number that it can have.
    Number(&'static str),
    /// `base=` and `count=` are only of use together.
    Base,
    /// There is nothing to fetch.
    Nothing,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(name) => write!(f, "{name}= wants a number that makes sense"),
            Self::Base => f.write_str("base= and count= go together"),
            Self::Nothing => f.write_str("urls= or base= and count= must say what to fetch"),
        }
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
        let listed = args.get("urls").unwrap_or_default().split(',');
        let listed = listed.filter(|url| !url.is_empty());
        let mut urls: Vec<_> = listed.map(ToString::to_string).collect();
        match (args.get("base"), number::<u32>(args, "count")?) {
            (Some(base), Some(count)) => {
                urls.extend((0..count).map(|number| format!("{base}{number}")));
            }
            (None, None) => {}
            _ => return Err(OptionError::Base),
        }
        if urls.is_empty() {
            return Err(OptionError::Nothing);
        }
        Ok(Self {
            urls,
            concurrency: number(args, "concurrency")?.map_or(16, NonZero::get),
            connect_timeout: milliseconds(args, "connect_timeout_ms")?
                .unwrap_or(Duration::from_secs(3)),
            timeout: milliseconds(args, "timeout_ms")?.unwrap_or(Duration::from_secs(10)),
            redirects: number(args, "redirects")?.unwrap_or(0),
        })
    }
}

fn number<T: FromStr>(args: Args, name: &'static str) -> Result<Option<T>, OptionError> {
    let value = args.get(name).map(str::parse).transpose();
    value.map_err(|_| OptionError::Number(name))
}

fn milliseconds(args: Args, name: &'static str) -> Result<Option<Duration>, OptionError> {
    let value: Option<NonZero<u64>> = number(args, name)?;
    Ok(value.map(|value| Duration::from_millis(value.get())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &'static str) -> Result<Options, OptionError> {
        Options::read(Args::new(line.as_bytes()))
    }

    #[test]
    fn every_option_can_be_set() {
        let line = "urls=http://a/,http://b/?x=y base=http://c/ count=2 concurrency=3 \
                    connect_timeout_ms=40 timeout_ms=500 redirects=6";
        let options = Options {
            urls: ["http://a/", "http://b/?x=y", "http://c/0", "http://c/1"]
                .map(ToString::to_string)
                .to_vec(),
            concurrency: 3,
            connect_timeout: Duration::from_millis(40),
            timeout: Duration::from_millis(500),
            redirects: 6,
        };
        assert_eq!(read(line), Ok(options));
    }

    #[test]
    fn nonsense_is_named() {
        for (line, error) in [
            ("", OptionError::Nothing),
            ("urls=,", OptionError::Nothing),
            ("base=http://a/ count=0", OptionError::Nothing),
            ("base=http://a/", OptionError::Base),
            ("count=3", OptionError::Base),
            ("base=x count=-1", OptionError::Number("count")),
            ("urls=x concurrency=0", OptionError::Number("concurrency")),
            ("urls=x timeout_ms=1s", OptionError::Number("timeout_ms")),
            ("urls=x redirects=", OptionError::Number("redirects")),
        ] {
            assert_eq!(read(line), Err(error), "{line}");
        }
    }
}
