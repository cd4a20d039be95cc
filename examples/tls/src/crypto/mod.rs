//! What `rustls` wants computed, without a line of C or assembly: kernels have
//! no vector registers to spare.
//!
//! There is one of each kind: ChaCha20-Poly1305 with SHA-256, keys exchanged
//! over X25519, and certificates signed by ECDSA with P-256.

mod aead;
mod exchange;
mod hash;
mod verify;

use alloc::sync::Arc;
use alloc::vec;

use rustls::crypto::tls13::HkdfUsingHmac;
use rustls::crypto::{
    CipherSuiteCommon, CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use rustls::{CipherSuite, Error, SupportedCipherSuite, Tls13CipherSuite};

/// All of it, for a configuration.
pub fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![SUITE],
        kx_groups: vec![&exchange::X25519],
        signature_verification_algorithms: verify::ALGORITHMS,
        secure_random: &Machine,
        key_provider: &NoKeys,
    }
}

static SUITE: SupportedCipherSuite = SupportedCipherSuite::Tls13(&Tls13CipherSuite {
    common: CipherSuiteCommon {
        suite: CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        hash_provider: &hash::Sha256,
        // No limit that a connection could reach (RFC 8446 §5.5).
        confidentiality_limit: u64::MAX,
    },
    hkdf_provider: &HkdfUsingHmac(&hash::HmacSha256),
    aead_alg: &aead::ChaCha20Poly1305,
    quic: None,
});

/// Random numbers from the machine.
#[derive(Debug)]
struct Machine;

impl SecureRandom for Machine {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        firstpoll::random::fill(bytes).map_err(|_| GetRandomFailed)
    }
}

/// Clients here have no certificates of their own.
#[derive(Debug)]
struct NoKeys;

impl KeyProvider for NoKeys {
    fn load_private_key(&self, _: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        Err(Error::General("there are no private keys here".into()))
    }
}
