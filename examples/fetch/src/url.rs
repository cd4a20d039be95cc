//! Where a resource is.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::error;
use core::fmt;
use core::net::Ipv6Addr;

/// An absolute URL of a scheme that is spoken here (RFC 3986, RFC 9110 §4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// How the server is spoken to.
    pub scheme: Scheme,
    /// A name or an address; one of IPv6 stands without its brackets.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// Path and query, from the `/` on: what is asked for.
    pub target: String,
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Why a text is no URL that can be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlError {
    /// It does not begin with `http://` or `https://`.
    Scheme,
    /// No host is named, or it has characters that no host has.
    Host,
    /// The port is not between 1 and 65535.
    Port,
    /// There is a character in it that must be percent-encoded.
    Character,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "it begins neither with http:// nor with https://",
            Self::Host => "it names no host",
            Self::Port => "its port is not between 1 and 65535",
            Self::Character => "it has a character that must be percent-encoded",
        })
    }
}

impl error::Error for UrlError {}

impl Url {
    /// Reads an absolute URL. A fragment is left out.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let scheme = if scheme.eq_ignore_ascii_case("http") {
            Scheme::Http
        } else if scheme.eq_ignore_ascii_case("https") {
            Scheme::Https
        } else {
            return Err(UrlError::Scheme);
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (host, port) = split_port(authority)?;
        let port = match port {
            None | Some("") => scheme.default_port(),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
                .parse()
                .ok()
                .filter(|&port| port != 0)
                .ok_or(UrlError::Port)?,
            Some(_) => return Err(UrlError::Port),
        };
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(UrlError::Character);
        }
        let target = match target.chars().next() {
            Some('/') => target.to_owned(),
            _ => format!("/{target}"),
        };
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port,
            target,
        })
    }

    /// The URL that `reference` means where this one is the base, as in a
    /// `Location` field (RFC 3986 §5.2). Dots in paths are left to the server.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn join(&self, reference: &str) -> Result<Self, UrlError> {
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::parse(&format!("{}://{rest}", self.scheme.name()));
        }
        let path_end = reference.find(['/', '?', '#']).unwrap_or(reference.len());
        if reference[..path_end].contains(':') {
            return Self::parse(reference);
        }
        let reference = reference.split('#').next().unwrap_or_default();
        let path = self.target.split('?').next().unwrap_or_default();
        let target = match reference.chars().next() {
            None => self.target.clone(),
            Some('/') => reference.to_owned(),
            Some('?') => format!("{path}{reference}"),
            Some(_) => {
                let directory = path.rfind('/').map_or("/", |slash| &path[..=slash]);
                format!("{directory}{reference}")
            }
        };
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(UrlError::Character);
        }
        Ok(Self {
            target,
            ..self.clone()
        })
    }

    /// Host and port as a `Host` field has them: the port only if it is not
    /// the scheme's own.
    pub fn authority(&self) -> Authority<'_> {
        Authority(self)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme.name();
        write!(f, "{scheme}://{}{}", self.authority(), self.target)
    }
}

/// See [`Url::authority`].
#[derive(Clone, Copy, Debug)]
pub struct Authority<'a>(&'a Url);

impl fmt::Display for Authority<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.0;
        if url.host.contains(':') {
            write!(f, "[{}]", url.host)?;
        } else {
            f.write_str(&url.host)?;
        }
        if url.port == url.scheme.default_port() {
            return Ok(());
        }
        write!(f, ":{}", url.port)
    }
}

/// Takes the host, which must look like one, and what stands for its port.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), UrlError> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or(UrlError::Host)?;
        host.parse::<Ipv6Addr>().map_err(|_| UrlError::Host)?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(UrlError::Host),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if host.is_empty() || !host.bytes().all(of_a_name) {
        return Err(UrlError::Host);
    }
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    fn parse(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_url_is_taken_apart_and_put_together() {
        let url = parse("http://10.0.2.2:8000/a/b?c=d#e");
        assert_eq!((url.host.as_str(), url.port), ("10.0.2.2", 8000));
        assert_eq!(url.target, "/a/b?c=d");
        assert_eq!(url.to_string(), "http://10.0.2.2:8000/a/b?c=d");
        assert_eq!(parse("HTTP://host").to_string(), "http://host/");
        assert_eq!(parse("http://host?q").target, "/?q");
        assert_eq!(parse("https://host:/").port, 443);
        let six = parse("http://[2001:db8::1]:81/");
        assert_eq!(six.host, "2001:db8::1");
        assert_eq!(six.to_string(), "http://[2001:db8::1]:81/");
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for (text, error) in [
            ("", UrlError::Scheme),
            ("ftp://host/", UrlError::Scheme),
            ("/a", UrlError::Scheme),
            ("http://", UrlError::Host),
            ("http:///a", UrlError::Host),
            ("http://user@host/", UrlError::Host),
            ("http://a b/", UrlError::Host),
            ("http://[::1", UrlError::Host),
            ("http://[::1]x/", UrlError::Host),
            ("http://[10.0.0.1]/", UrlError::Host),
            ("http://host:0/", UrlError::Port),
            ("http://host:65536/", UrlError::Port),
            ("http://host:+1/", UrlError::Port),
            ("http://host:80:80/", UrlError::Port),
            ("http://host/a b", UrlError::Character),
            ("http://host/a\r\nX: y", UrlError::Character),
            ("http://host/\u{e4}", UrlError::Character),
        ] {
            assert_eq!(Url::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn references_are_read_from_their_base() {
        let base = parse("http://host:81/a/b?c");
        for (reference, joined) in [
            ("/x?y", "http://host:81/x?y"),
            ("x", "http://host:81/a/x"),
            ("?x", "http://host:81/a/b?x"),
            ("", "http://host:81/a/b?c"),
            ("#x", "http://host:81/a/b?c"),
            ("//other/x", "http://other/x"),
            ("http://other:82/x", "http://other:82/x"),
            ("https://other/", "https://other/"),
            ("x?http://y", "http://host:81/a/x?http://y"),
        ] {
            assert_eq!(base.join(reference), Ok(parse(joined)), "{reference}");
        }
        assert_eq!(base.join("mailto:x"), Err(UrlError::Scheme));
        assert_eq!(base.join("/x y"), Err(UrlError::Character));
    }
}
