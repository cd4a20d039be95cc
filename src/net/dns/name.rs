//! Names of hosts, as DNS writes them (RFC 1035 §3.1).

use crate::net::Error;

/// The longest name, in bytes, and the longest of its labels.
const MAX_NAME: usize = 255;
const MAX_LABEL: usize = 63;

/// A name: its labels, each after its length, and a zero. In lower case, since
/// case does not count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    /// Zero behind the end.
    bytes: [u8; MAX_NAME],
    len: u8,
}

impl Name {
    /// The name that `text` spells, with or without a dot at its end.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] if no host can have it: it is empty or has an empty
    /// label, is too long, has other characters than ASCII letters, digits, `-`
    /// and `_`, or ends in a number (RFC 1123 §2.1), as a mistaken address does.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
        let last_is_number = text.rsplit('.').next().is_none_or(is_number);
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let labels_are_allowed = text
            .split('.')
            .all(|label| !label.is_empty() && label.bytes().all(is_allowed));
        if last_is_number || !labels_are_allowed {
            return Err(Error::InvalidName);
        }
        Self::from_labels(text.split('.').map(|label| Ok::<_, ()>(label.as_bytes())))
            .ok_or(Error::InvalidName)
    }

    /// The name with these labels, unless it is too long or one could not be read.
    pub(super) fn from_labels<'a, E>(
        labels: impl Iterator<Item = Result<&'a [u8], E>>,
    ) -> Option<Self> {
        let mut bytes = [0; MAX_NAME];
        let mut len = 0;
        for label in labels {
            let label = label.ok()?;
            if !(1..=MAX_LABEL).contains(&label.len()) {
                return None;
            }
            // One byte is left for the zero.
            let place = bytes[..MAX_NAME - 1].get_mut(len..len + 1 + label.len())?;
            place[0] = label.len() as u8;
            place[1..].copy_from_slice(label);
            place[1..].make_ascii_lowercase();
            len += place.len();
        }
        Some(Self {
            bytes,
            len: (len + 1) as u8,
        })
    }

    /// The name as it stands in a message.
    pub(super) fn wire(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether it is `localhost` or ends so (RFC 6761 §6.3).
    pub(super) fn is_localhost(&self) -> bool {
        const LOCALHOST: &[u8] = b"\x09localhost\0";
        let mut rest = self.wire();
        while let Some(&len @ 1..) = rest.first() {
            if rest == LOCALHOST {
                return true;
            }
            rest = &rest[1 + usize::from(len)..];
        }
        false
    }
}

impl core::fmt::Debug for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Name({})", self.wire().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_its_labels_in_lower_case() {
        let name = Name::parse("www.Example.ORG").unwrap();
        assert_eq!(name.wire(), b"\x03www\x07example\x03org\0");
        assert_eq!(Name::parse("www.example.org."), Ok(name));
        assert_eq!(
            Name::parse("_srv.a-b").unwrap().wire(),
            b"\x04_srv\x03a-b\0"
        );
    }

    #[test]
    fn what_no_host_can_be_called_is_refused() {
        let long_label = "a".repeat(64);
        let fits = [&"a".repeat(63)[..]; 3].join(".") + "." + &"a".repeat(61);
        let too_long = fits.clone() + "a";
        assert!(Name::parse(&fits).is_ok());
        assert!(Name::parse(&"a".repeat(63)).is_ok());
        for text in [
            "",
            ".",
            "..",
            ".a",
            "a..b",
            "a..",
            "a b",
            "a/b",
            "[::1]",
            "http://a",
            "höst",
            "10.0.2",
            "1.2.3.256",
            "a.1",
            &long_label,
            &too_long,
        ] {
            assert_eq!(Name::parse(text), Err(Error::InvalidName), "{text}");
        }
    }

    #[test]
    fn localhost_is_known_below_itself_only() {
        for (text, expected) in [
            ("localhost", true),
            ("LocalHost.", true),
            ("a.localhost", true),
            ("notlocalhost", false),
            ("localhost.example", false),
        ] {
            assert_eq!(
                Name::parse(text).unwrap().is_localhost(),
                expected,
                "{text}"
            );
        }
    }
}
