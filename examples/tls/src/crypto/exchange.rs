//! The exchange of keys over X25519 (RFC 7748).

use alloc::boxed::Box;

use orion::hazardous::ecc::x25519::{PrivateKey, PublicKey, key_agreement};
use rustls::crypto::{ActiveKeyExchange, GetRandomFailed, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved};

const KEY_BYTES: usize = 32;

#[derive(Debug)]
pub(super) struct X25519;

impl SupportedKxGroup for X25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut bytes = [0; KEY_BYTES];
        firstpoll::random::fill(&mut bytes).map_err(|_| GetRandomFailed)?;
        let private = PrivateKey::from_slice(&bytes).map_err(|_| GetRandomFailed)?;
        let public = PublicKey::try_from(&private).map_err(|_| GetRandomFailed)?;
        Ok(Box::new(Exchange {
            private,
            public: public.to_bytes(),
        }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// Our half of an exchange.
struct Exchange {
    private: PrivateKey,
    public: [u8; KEY_BYTES],
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let misbehaved = || Error::from(PeerMisbehaved::InvalidKeyShare);
        let peer = PublicKey::from_slice(peer).map_err(|_| misbehaved())?;
        // Fails where the secret would not depend on our key (RFC 8446 §7.4.2).
        let shared = key_agreement(&self.private, &peer).map_err(|_| misbehaved())?;
        Ok(SharedSecret::from(shared.unprotected_as_bytes()))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}
