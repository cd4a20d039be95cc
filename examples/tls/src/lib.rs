//! TLS 1.3 for clients (RFC 8446), by `rustls` in its form without `std`.
//!
//! | file | what it holds |
//! |---|---|
//! | `options` | what can be chosen on the command line |
//! | `config` | whom the client trusts: one authority, and the machine's clock |
//! | `stream` | a TLS connection over any stream, as one of `embedded-io-async` |
//! | `crypto` | what `rustls` wants computed: one cipher suite, in pure Rust |
//!
//! `rustls` checks the certificate: that a chain of signatures leads from the
//! given authority to it, each link being allowed to sign, that it is one for
//! servers and for the host that was asked for, and that none of the chain has
//! expired. `embedded-tls` does not: up to 0.19 it accepts a server that shows
//! no certificate at all, and lets any certificate sign another.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

extern crate alloc;

mod config;
mod crypto;
mod options;
mod stream;

pub use config::{ConfigError, config, server_name};
pub use options::{OptionError, Options};
pub use stream::{Error, TlsStream};
