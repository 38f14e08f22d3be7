//! The servers of webhooks: how each is built and started, and where it is asked.
//!
//! All serve the same certificate. Must not know what they are asked.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use kopf_rs_tests::{Package, go_program, python_of};
use rcgen::{CertificateParams, KeyPair};

use super::asked::Sort;
use crate::contender::{build_release, kopf_command, release_binary, root};
use crate::peers;

const PACKAGE: &str = "bench-reviews";

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Server {
    Ours,
    ControllerRuntime,
    Kopf,
}

/// A certificate for this machine, and its key, as files of a folder.
pub struct Certificate {
    folder: PathBuf,
    /// What clients trust.
    pub der: Vec<u8>,
}

impl peers::Peer for Server {
    const ALL: &'static [Self] = &[Self::Ours, Self::ControllerRuntime, Self::Kopf];

    fn label(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::ControllerRuntime => "controller-runtime",
            Self::Kopf => "Kopf",
        }
    }
}

impl Server {
    /// Builds or installs it. Where its program lies.
    pub fn prepare(self) -> Result<PathBuf> {
        match self {
            Self::Ours => {
                build_release(PACKAGE)?;
                Ok(release_binary(PACKAGE))
            }
            Self::ControllerRuntime => {
                let sources = root().join("contenders/controller-runtime");
                Ok(go_program(&sources, "reviews")?)
            }
            Self::Kopf => Ok(python_of(Package::Kopf)?),
        }
    }

    /// How it is started, to be asked at this port.
    pub fn command(
        self,
        program: &Path,
        namespace: &str,
        certificate: &Certificate,
        port: u16,
    ) -> Result<Command> {
        let mut command = match self {
            Self::Kopf => kopf_command(namespace, "reviews.py")?,
            Self::Ours | Self::ControllerRuntime => Command::new(program),
        };
        if self != Self::Ours {
            command.env("BENCH_PORT", port.to_string()).env("BENCH_CERTIFICATES", &certificate.folder);
            return Ok(command);
        }
        let address = format!("127.0.0.1:{port}");
        let server = format!("https://{address}");
        command.args(["-n", namespace]);
        for (setting, value) in [
            ("SERVER", server.into()),
            ("LISTEN", address.into()),
            ("CERTIFICATE_FILE", certificate.folder.join("tls.crt").into_os_string()),
            ("KEY_FILE", certificate.folder.join("tls.key").into_os_string()),
        ] {
            command.env(format!("KOPF_RS_ADMISSION_{setting}"), value);
        }
        Ok(command)
    }

    /// Where it is asked, as its webhook configuration would say.
    pub fn path(self, sort: Sort) -> &'static str {
        match (self, sort) {
            (Self::Ours, Sort::Validating) => "/validate/valid?timeout=10s",
            (Self::Ours, Sort::Mutating) => "/mutate/labelled?timeout=10s",
            (Self::ControllerRuntime, Sort::Validating) => "/validate-bench-kopf-rs-v1-benchobj?timeout=10s",
            (Self::ControllerRuntime, Sort::Mutating) => "/mutate-bench-kopf-rs-v1-benchobj?timeout=10s",
            (Self::Kopf, Sort::Validating) => "/valid?timeout=10s",
            (Self::Kopf, Sort::Mutating) => "/labelled?timeout=10s",
        }
    }
}

impl Certificate {
    pub fn make() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("kopf-rs-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.self_signed(&key)?;
        std::fs::write(folder.join("tls.crt"), certificate.pem())?;
        std::fs::write(folder.join("tls.key"), key.serialize_pem())?;
        let der = certificate.der().to_vec();
        Ok(Self { folder, der })
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
