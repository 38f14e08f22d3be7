//! Keys and certificates of one temporary server, generated in the process so that no tool is needed.
//!
//! Clients verify the server by the certificate authority in the kubeconfig, as they would a real one.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// A key or certificate could not be made.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct KeyError(#[from] rcgen::Error);

/// The keys and certificates as PEM.
#[derive(Debug)]
pub(super) struct Keys {
    /// The certificate authority that clients trust.
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) private_key: String,
    /// The key that signs service-account tokens.
    pub(super) accounts_private: String,
    /// The key that verifies them: kube-apiserver accepts PKCS #8 for signing, but not as a source of the public key.
    pub(super) accounts_public: String,
}

impl Keys {
    pub(super) fn generate() -> Result<Self, KeyError> {
        let mut root = CertificateParams::new(Vec::new())?;
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root.distinguished_name
            .push(DnType::CommonName, "kopf-rs tests");
        let root_key = KeyPair::generate()?;
        let authority = root.self_signed(&root_key)?.pem();
        let issuer = Issuer::new(root, root_key);

        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
        let mut leaf = CertificateParams::new(names.to_vec())?;
        leaf.distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        let leaf_key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&leaf_key, &issuer)?.pem();

        let accounts = KeyPair::generate()?;
        Ok(Self {
            authority,
            certificate,
            private_key: leaf_key.serialize_pem(),
            accounts_private: accounts.serialize_pem(),
            accounts_public: accounts.public_key_pem(),
        })
    }
}
