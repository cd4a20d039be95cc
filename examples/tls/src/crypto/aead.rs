//! Records under ChaCha20-Poly1305 (RFC 8439, RFC 8446 §5.2).

use alloc::boxed::Box;
use alloc::vec;

use orion::hazardous::aead::chacha20poly1305::{Nonce as OrionNonce, SecretKey, open, seal};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    Nonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm,
    UnsupportedOperationError, make_tls13_aad,
};
use rustls::{ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion};

const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;

pub(super) struct ChaCha20Poly1305;

impl Tls13AeadAlgorithm for ChaCha20Poly1305 {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(Direction::new(&key, iv))
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(Direction::new(&key, iv))
    }

    fn key_len(&self) -> usize {
        KEY_BYTES
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Ok(ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv })
    }
}

/// What protects the records of one direction.
struct Direction {
    key: SecretKey,
    iv: Iv,
}

impl Direction {
    fn new(key: &AeadKey, iv: Iv) -> Self {
        let key = SecretKey::from_slice(key.as_ref()).expect("rustls derives `key_len` bytes");
        Self { key, iv }
    }

    fn nonce(&self, sequence: u64) -> OrionNonce {
        OrionNonce::from(Nonce::new(&self.iv, sequence).0)
    }
}

impl MessageEncrypter for Direction {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        sequence: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let total = self.encrypted_payload_len(message.payload.len());
        let mut plain = message.payload.to_vec();
        plain.push(u8::from(message.typ));
        let mut sealed = vec![0; total];
        let aad = make_tls13_aad(total);
        let nonce = self.nonce(sequence);
        seal(&self.key, &nonce, &plain, Some(&aad), &mut sealed)
            .map_err(|_| Error::EncryptError)?;
        let mut payload = PrefixedPayload::with_capacity(total);
        payload.extend_from_slice(&sealed);
        Ok(OutboundOpaqueMessage::new(
            ContentType::ApplicationData,
            // As all records since TLS 1.3 pretend.
            ProtocolVersion::TLSv1_2,
            payload,
        ))
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        // With the record's true type.
        payload_len + 1 + TAG_BYTES
    }
}

impl MessageDecrypter for Direction {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        sequence: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let total = message.payload.len();
        let plain_bytes = total.checked_sub(TAG_BYTES).ok_or(Error::DecryptError)?;
        let mut plain = vec![0; plain_bytes];
        let aad = make_tls13_aad(total);
        let nonce = self.nonce(sequence);
        open(&self.key, &nonce, &message.payload, Some(&aad), &mut plain)
            .map_err(|_| Error::DecryptError)?;
        message.payload[..plain_bytes].copy_from_slice(&plain);
        message.payload.truncate(plain_bytes);
        message.into_tls13_unpadded_message()
    }
}
