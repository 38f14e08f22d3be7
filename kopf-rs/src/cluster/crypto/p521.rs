//! Adds keys of the curve P-521, which ring does not support but certificates of clients and servers may use.
//!
//! This module must not depend on connections.

use std::fmt;
use std::sync::{Arc, OnceLock};

use p521::SecretKey;
use p521::ecdsa::signature::{Signer as _, Verifier as _};
use p521::ecdsa::{DerSignature, SigningKey as Secret, VerifyingKey};
use p521::pkcs8::DecodePrivateKey as _;
use rustls::crypto::{CryptoProvider, KeyProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, PrivateKeyDer, SignatureVerificationAlgorithm,
    SubjectPublicKeyInfoDer, alg_id,
};
use rustls::sign::{Signer, SigningKey, public_key_to_spki};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

/// Returns the provider with support for P-521.
pub(super) fn added_to(provider: CryptoProvider) -> CryptoProvider {
    CryptoProvider {
        signature_verification_algorithms: *algorithms(provider.signature_verification_algorithms),
        key_provider: keys(provider.key_provider),
        ..provider
    }
}

/// Created once per process, because rustls requires a static lifetime.
fn algorithms(known: WebPkiSupportedAlgorithms) -> &'static WebPkiSupportedAlgorithms {
    static ALGORITHMS: OnceLock<WebPkiSupportedAlgorithms> = OnceLock::new();
    ALGORITHMS.get_or_init(|| {
        let mut all = known.all.to_vec();
        all.push(&Verification);
        let mut mapping = known.mapping.to_vec();
        mapping.push((SignatureScheme::ECDSA_NISTP521_SHA512, &[&Verification]));
        WebPkiSupportedAlgorithms { all: all.leak(), mapping: mapping.leak() }
    })
}

fn keys(known: &'static dyn KeyProvider) -> &'static dyn KeyProvider {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| Keys(known))
}

/// Loads keys that the other provider refuses.
#[derive(Debug)]
struct Keys(&'static dyn KeyProvider);

impl KeyProvider for Keys {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        match key_of(&key) {
            Some(key) => Ok(Arc::new(key)),
            None => self.0.load_private_key(key),
        }
    }

    fn fips(&self) -> bool {
        false
    }
}

fn key_of(key: &PrivateKeyDer<'static>) -> Option<Key> {
    let secret = match key {
        PrivateKeyDer::Sec1(key) => SecretKey::from_sec1_der(key.secret_sec1_der()).ok()?,
        PrivateKeyDer::Pkcs8(key) => SecretKey::from_pkcs8_der(key.secret_pkcs8_der()).ok()?,
        _ => return None,
    };
    Some(Key(Secret::from(secret)))
}

#[derive(Clone)]
struct Key(Secret);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_offered = offered.contains(&SignatureScheme::ECDSA_NISTP521_SHA512);
        is_offered.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        let point = VerifyingKey::from(&self.0).to_sec1_point(false);
        Some(public_key_to_spki(&alg_id::ECDSA_P521, point.as_bytes()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature: DerSignature = self.0.sign(message);
        Ok(signature.as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP521_SHA512
    }
}

#[derive(Debug)]
struct Verification;

impl SignatureVerificationAlgorithm for Verification {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = VerifyingKey::from_sec1_bytes(public_key).map_err(|_| InvalidSignature)?;
        let signature = DerSignature::from_bytes(signature).map_err(|_| InvalidSignature)?;
        key.verify(message, &signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P521
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_SHA512
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;

    #[test]
    fn only_signatures_of_the_key_are_verified() {
        let provider = added_to(rustls::crypto::ring::default_provider());
        let secret = SecretKey::from_slice(&[&[0; 34][..], &[1; 32]].concat()).unwrap();
        let der = p521::pkcs8::EncodePrivateKey::to_pkcs8_der(&secret).unwrap();
        let der = PrivatePkcs8KeyDer::from(der.as_bytes().to_vec());
        let key = provider.key_provider.load_private_key(der.into()).unwrap();
        let scheme = SignatureScheme::ECDSA_NISTP521_SHA512;
        assert!(key.choose_scheme(&[SignatureScheme::ED25519]).is_none());
        let signature = key.choose_scheme(&[scheme]).unwrap().sign(b"a").unwrap();
        let point = VerifyingKey::from(&Secret::from(secret)).to_sec1_point(false);
        let known = provider.signature_verification_algorithms.mapping;
        let (_, known) = known.iter().find(|(it, _)| *it == scheme).unwrap();
        let verify = |message: &[u8]| {
            let point = point.as_bytes();
            known[0].verify_signature(point, message, &signature).is_ok()
        };
        assert!(verify(b"a") && !verify(b"b"));
    }
}
