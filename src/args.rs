//! The options on the kernel command line.

use core::fmt;
use core::str::{self, FromStr};

use log::warn;

use crate::drivers::virtio_mmio::{self, Place};
use crate::net::Config;

/// The options of this crate beside those of the network; a program adds its
/// own by [`entry!`](crate::entry).
const OWN: [&str; 1] = ["log"];

/// The options on the kernel command line: words of the form `name=value`.
///
/// An option that stands there twice has its last value.
#[derive(Clone, Copy, Debug)]
pub struct Args {
    line: &'static [u8],
}

impl Args {
    /// The options on `line`.
    pub const fn new(line: &'static [u8]) -> Self {
        Self { line }
    }

    /// The value of the option `name`, if it stands there.
    pub fn get(self, name: &str) -> Option<&'static str> {
        let options = self.options().filter(|option| option.name == name);
        options.last().map(|option| option.value)
    }

    /// The value of the option `name` as a `T`. A value that is none is
    /// reported and ignored.
    pub fn parse<T: FromStr>(self, name: &str) -> Option<T> {
        let value = self.get(name)?;
        let parsed = value.parse().ok();
        if parsed.is_none() {
            warn!("the option `{name}={value}` is ignored: its value is not understood");
        }
        parsed
    }

    /// All options.
    pub fn options(self) -> impl Iterator<Item = Opt> {
        self.words().filter_map(|word| word.ok())
    }

    /// Reports what neither this crate nor the program knows, and devices'
    /// places that are none.
    pub(crate) fn warn_about_unknown(self, of_program: &[&str]) {
        for word in self.words() {
            match word {
                Ok(option) if OWN.contains(&option.name) => {}
                Ok(option) if option.name == virtio_mmio::OPTION => {
                    if let Err(error) = option.value.parse::<Place>() {
                        warn!("the option `{option}` is ignored: {error}");
                    }
                }
                Ok(option) if Config::OPTIONS.contains(&option.name) => {}
                Ok(option) if of_program.contains(&option.name) => {}
                Ok(option) => warn!("the unknown option `{option}` is ignored"),
                Err(garbage) => warn!("`{garbage}` on the command line is no option"),
            }
        }
    }

    fn words(self) -> impl Iterator<Item = Result<Opt, Garbage>> {
        let words = self.line.split(u8::is_ascii_whitespace);
        words.filter(|word| !word.is_empty()).map(|word| {
            let text = str::from_utf8(word).map_err(|_| Garbage(word))?;
            let (name, value) = text.split_once('=').ok_or(Garbage(word))?;
            if name.is_empty() {
                return Err(Garbage(word));
            }
            Ok(Opt { name, value })
        })
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// What stands before the first `=`; never empty.
    pub name: &'static str,
    /// What stands behind it.
    pub value: &'static str,
}

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

/// A word that is no option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Garbage(&'static [u8]);

impl fmt::Display for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn options_are_found_by_name() {
        let args = Args::new(b"  mode=async log=info\tport=80 empty= a=b=c ");
        assert_eq!(args.get("mode"), Some("async"));
        assert_eq!(args.get("empty"), Some(""));
        assert_eq!(args.get("a"), Some("b=c"));
        assert_eq!(args.get("mod"), None);
        assert_eq!(args.parse("port"), Some(80u16));
        assert_eq!(args.options().count(), 5);
    }

    #[test]
    fn the_last_of_two_counts() {
        assert_eq!(Args::new(b"mode=a mode=b").get("mode"), Some("b"));
    }

    #[test]
    fn garbage_is_skipped() {
        let args = Args::new(b"word =x \xff\xfe=1 port=x \0 ok=1");
        let names: Vec<_> = args.options().map(|option| option.name).collect();
        assert_eq!(names, ["port", "ok"]);
        assert_eq!(args.parse::<u16>("port"), None);
        let garbage: Vec<_> = args.words().filter_map(Result::err).collect();
        let shown: Vec<_> = garbage.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["word", "=x", "\\xff\\xfe=1", "\\x00"]);
    }

    #[test]
    fn no_line_has_no_options() {
        assert_eq!(Args::new(b"").options().count(), 0);
    }
}
