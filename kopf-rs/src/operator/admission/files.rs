//! Certificates in files, which somebody else renews: read again and again, and served once a pair of them fits.
//!
//! Must not know who asks.

use std::time::Duration;

use tokio::sync::watch;

use crate::engine::report::report_of_operator;
use crate::happening::Happening;
use crate::happening::admission::AdmissionServing;
use crate::operator::admission::endpoint::Identity;
use crate::operator::admission::keeper::Trust;
use crate::operator::admission::tls::server_config;

/// Where the files are.
#[derive(Clone, Debug)]
pub(super) struct CertificateFiles {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) authority: Option<String>,
    pub(super) client_authority: Option<String>,
}

/// What the files hold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    certificate: String,
    key: String,
    bundle: String,
    client_authorities: Option<String>,
}

/// Follows the files.
pub(super) struct FollowedFiles {
    files: CertificateFiles,
    read: Content,
    identity: Identity,
    trust: watch::Sender<Trust>,
}

/// How often the files are read: what a kubelet mounts changes behind its name.
const INTERVAL: Duration = Duration::from_secs(10);

impl FollowedFiles {
    /// Read them for the first time.
    pub(super) async fn first(
        files: CertificateFiles,
        trust: watch::Sender<Trust>,
    ) -> Result<(Self, Identity), String> {
        let read = read(&files).await?;
        let config = read.config()?;
        let identity = Identity::new(&read.certificate, config);
        trust.send_replace(read.trust(0));
        let this = Self {
            files,
            read,
            identity: identity.clone(),
            trust,
        };
        Ok((this, identity))
    }

    /// Follow them for ever.
    pub(super) async fn run(mut self) {
        let mut told = None;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let read = match read(&self.files).await {
                Ok(read) if read == self.read => continue,
                Ok(read) => read.config().map(|config| (read, config)),
                Err(problem) => Err(problem),
            };
            match read {
                Ok((read, config)) => {
                    told = None;
                    self.adopt(read, config);
                }
                // Each once, for as long as it lasts.
                Err(problem) if told.as_ref() == Some(&problem) => {}
                Err(problem) => {
                    told = Some(problem.clone());
                    report(AdmissionServing::FilesFailed { problem });
                }
            }
        }
    }

    fn adopt(&mut self, read: Content, config: std::sync::Arc<rustls::ServerConfig>) {
        let number = self.trust.borrow().newest + 1;
        self.trust.send_replace(read.trust(number));
        if self.identity.replace(&read.certificate, config) {
            report(AdmissionServing::CertificateServed { number });
        }
        self.read = read;
    }
}

impl Content {
    fn config(&self) -> Result<std::sync::Arc<rustls::ServerConfig>, String> {
        let clients = self.client_authorities.as_deref();
        server_config(&self.certificate, &self.key, clients)
    }

    fn trust(&self, newest: u32) -> Trust {
        Trust {
            bundle: self.bundle.clone(),
            newest,
        }
    }
}

async fn read(files: &CertificateFiles) -> Result<Content, String> {
    let certificate = text(&files.certificate).await?;
    let bundle = match &files.authority {
        Some(file) => text(file).await?,
        None => certificate.clone(),
    };
    let client_authorities = match &files.client_authority {
        Some(file) => Some(text(file).await?),
        None => None,
    };
    Ok(Content {
        certificate,
        key: text(&files.key).await?,
        bundle,
        client_authorities,
    })
}

pub(super) async fn text(file: &str) -> Result<String, String> {
    let path = file.to_owned();
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let read = read.map_err(|error| error.to_string())?;
    read.map_err(|error| format!("{file}: {error}"))
}

fn report(happening: AdmissionServing) {
    report_of_operator(&Happening::Admission(happening));
}
