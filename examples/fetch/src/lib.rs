//! An HTTP/1.1 client, in layers of which only the last knows the network.
//!
//! | file | what it holds |
//! |---|---|
//! | `options` | what can be chosen on the command line |
//! | `url` | where a resource is |
//! | `body` | where a body ends: by length, by chunks, by the end of the stream |
//! | `http` | one request and its answer over any stream of `embedded-io-async` |
//! | `failure` | why a resource could not be fetched |
//! | `client` | resolve, connect, ask, follow redirects, all within a time |
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

extern crate alloc;

mod body;
mod client;
mod failure;
pub mod http;
mod options;
mod url;

pub use body::{Body, BodyError, Framing};
pub use client::{Client, Fetched, connect};
pub use failure::Failure;
pub use options::{OptionError, Options};
pub use url::{Scheme, Url, UrlError};
