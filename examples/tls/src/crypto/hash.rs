//! SHA-256 and HMAC (FIPS 180-4, RFC 2104).

use alloc::boxed::Box;

use orion::hazardous::hash::sha2::sha256;
use orion::hazardous::mac::hmac::sha256 as hmac_sha256;
use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::crypto::hmac::{Hmac, Key, Tag};

const DIGEST_BYTES: usize = 32;

/// Neither function fails before 2^64 bits, and no transcript has as many.
const NEVER_TOO_LONG: &str = "no handshake is that long";

pub(super) struct Sha256;

impl Hash for Sha256 {
    fn start(&self) -> Box<dyn Context> {
        Box::new(Transcript(sha256::Sha256::new()))
    }

    fn hash(&self, data: &[u8]) -> Output {
        let digest = sha256::Sha256::digest(data).expect(NEVER_TOO_LONG);
        Output::new(digest.as_ref())
    }

    fn output_len(&self) -> usize {
        DIGEST_BYTES
    }

    fn algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::SHA256
    }
}

/// A hash of what has been said so far.
#[derive(Clone)]
struct Transcript(sha256::Sha256);

impl Context for Transcript {
    fn fork_finish(&self) -> Output {
        Box::new(self.clone()).finish()
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(self.clone())
    }

    fn finish(mut self: Box<Self>) -> Output {
        let digest = self.0.finalize().expect(NEVER_TOO_LONG);
        Output::new(digest.as_ref())
    }

    fn update(&mut self, data: &[u8]) {
        self.0.update(data).expect(NEVER_TOO_LONG);
    }
}

pub(super) struct HmacSha256;

impl Hmac for HmacSha256 {
    fn with_key(&self, key: &[u8]) -> Box<dyn Key> {
        let key = hmac_sha256::SecretKey::from_slice(key).expect("any key will do");
        Box::new(Keyed(key))
    }

    fn hash_output_len(&self) -> usize {
        DIGEST_BYTES
    }
}

struct Keyed(hmac_sha256::SecretKey);

impl Key for Keyed {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> Tag {
        let mut hmac = hmac_sha256::HmacSha256::new(&self.0);
        for part in [&[first], middle, &[last]].into_iter().flatten() {
            hmac.update(part).expect(NEVER_TOO_LONG);
        }
        let tag = hmac.finalize().expect(NEVER_TOO_LONG);
        Tag::new(tag.unprotected_as_bytes())
    }

    fn tag_len(&self) -> usize {
        DIGEST_BYTES
    }
}
