//! Mistakes that are the caller's to mend.

use std::fmt;

/// An error that the caller can mend: a bad option, a taken port, a missing
/// package.
///
/// It is printed as one clear line, and the command ends with status 2.
#[derive(Debug)]
pub struct Usage(String);

impl Usage {
    /// An error that is printed as `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
