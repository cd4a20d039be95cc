//! Whom the client trusts.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::sync::Arc;
use core::error;
use core::fmt;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};

use crate::crypto;

/// Why the client cannot be set up.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigError {
    /// The authority's certificate is not one.
    Authority,
    /// The host cannot stand in a certificate.
    Name,
    /// The pieces do not fit together.
    Rustls(rustls::Error),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authority => f.write_str("ca= wants a certificate, as PEM has it, in one line"),
            Self::Name => f.write_str("the URL's host is no name for a certificate"),
            Self::Rustls(error) => error.fmt(f),
        }
    }
}

impl error::Error for ConfigError {}

/// A client that trusts the authority whose certificate is `authority`, in
/// base64, and nobody else.
///
/// # Errors
///
/// If that is no certificate.
pub fn config(authority: &str) -> Result<ClientConfig, ConfigError> {
    let pem = format!("-----BEGIN CERTIFICATE-----\n{authority}\n-----END CERTIFICATE-----\n");
    let authority =
        CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| ConfigError::Authority)?;
    let mut roots = RootCertStore::empty();
    roots.add(authority).map_err(|_| ConfigError::Authority)?;
    let provider = Arc::new(crypto::provider());
    let builder = ClientConfig::builder_with_details(provider, Arc::new(MachineClock));
    let builder = builder
        .with_protocol_versions(&[&TLS13])
        .map_err(ConfigError::Rustls)?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The name that a server's certificate must have: a DNS name or an address.
///
/// # Errors
///
/// If `host` is neither.
pub fn server_name(host: &str) -> Result<ServerName<'static>, ConfigError> {
    ServerName::try_from(host.to_owned()).map_err(|_| ConfigError::Name)
}

/// The machine's clock. Where there is none, no certificate is valid.
#[derive(Debug)]
struct MachineClock;

impl TimeProvider for MachineClock {
    fn current_time(&self) -> Option<UnixTime> {
        firstpoll::time::wall_clock().map(UnixTime::since_unix_epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused() {
        for authority in ["", "!", "AAAA", "MIIB"] {
            let error = config(authority).map(drop);
            assert_eq!(error, Err(ConfigError::Authority), "{authority}");
        }
    }

    #[test]
    fn names_and_addresses_can_be_asked_for() {
        for host in ["example.org", "10.0.2.2", "2001:db8::1"] {
            assert!(server_name(host).is_ok(), "{host}");
        }
        assert_eq!(server_name("a_host..").err(), Some(ConfigError::Name));
    }
}
