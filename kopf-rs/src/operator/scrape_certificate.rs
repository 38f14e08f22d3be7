//! The certificate of the metrics endpoint: that in files, which another program renews, or one that the operator makes.
//!
//! Guarantees that a valid certificate stays in use until there is another valid one. Must not know the endpoint.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::time::sleep;

use crate::engine::report::report_of_operator;
use crate::happening::operating::MetricsCertificate;
use crate::operator::admission::files::text;
use crate::operator::admission::making::make;
use crate::operator::settings::{Settings, host_name};
use crate::rt::clock::Clock;
use crate::rt::tls::{Identity, TlsVersion, server_config};

/// The interval of reading files. Polling, because a kubelet replaces mounted files behind symbolic links.
const INTERVAL: Duration = Duration::from_secs(10);
/// The validity of a certificate that the operator makes.
const LIFE: Duration = Duration::from_secs(90 * 24 * 3600);

/// A certificate with its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    certificate: String,
    key: String,
}

/// Where certificates come from.
#[derive(Clone, Debug)]
enum Source {
    /// These files: the certificate and the key.
    Files(String, String),
    /// Made for these names.
    Made(Vec<String>, Clock),
}

/// The certificate of the metrics endpoint.
pub(super) struct ScrapeCertificate {
    source: Source,
    served: Pair,
    minimum: TlsVersion,
    identity: Identity,
}

impl ScrapeCertificate {
    /// Reads or makes the first certificate. The host is that of the endpoint's address.
    pub(super) async fn first(settings: &Settings, host: &str, clock: Clock) -> Result<Self, String> {
        let metrics = &settings.metrics;
        let source = match (&metrics.certificate_file, &metrics.key_file) {
            (Some(certificate), Some(key)) => Source::Files(certificate.clone(), key.clone()),
            (None, None) => Source::Made(names(host), clock),
            _ => {
                return Err(
                    "`metrics.certificate_file` and `metrics.key_file` belong together: give both, or none"
                        .to_owned(),
                );
            }
        };
        let minimum = settings.networking.minimum_tls;
        let served =
            source.next().await.map_err(|why| format!("metrics cannot be served over TLS: {why}"))?;
        let config = served.config(minimum);
        let config = config.map_err(|why| format!("metrics cannot be served over TLS: {why}"))?;
        let identity = Identity::new(&served.certificate, config);
        Ok(Self { source, served, minimum, identity })
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity.clone()
    }

    /// Renews the certificate for ever.
    pub(super) async fn renew(mut self) {
        let mut last_problem = None;
        loop {
            sleep(self.source.pause()).await;
            let problem = self.renew_once().await.err();
            if let Some(problem) = problem.clone().filter(|_| problem != last_problem) {
                report_of_operator(&MetricsCertificate::Failed { problem });
            }
            last_problem = problem;
        }
    }

    async fn renew_once(&mut self) -> Result<(), String> {
        let next = self.source.next().await?;
        if next == self.served {
            return Ok(());
        }
        let config = next.config(self.minimum)?;
        self.identity.replace(&next.certificate, config);
        self.served = next;
        report_of_operator(&MetricsCertificate::Served);
        Ok(())
    }
}

impl Source {
    async fn next(&self) -> Result<Pair, String> {
        match self {
            Self::Files(certificate, key) => {
                Ok(Pair { certificate: text(certificate).await?, key: text(key).await? })
            }
            Self::Made(names, clock) => made(names, *clock),
        }
    }

    /// Returns the time between two certificates.
    fn pause(&self) -> Duration {
        match self {
            Self::Files(..) => INTERVAL,
            Self::Made(..) => LIFE * 2 / 3,
        }
    }
}

impl Pair {
    fn config(&self, minimum: TlsVersion) -> Result<Arc<ServerConfig>, String> {
        server_config(&self.certificate, &self.key, None, minimum)
    }
}

fn made(names: &[String], clock: Clock) -> Result<Pair, String> {
    let made = make(names, 1, clock.wall(), LIFE)?;
    Ok(Pair { certificate: made.certificate, key: made.key })
}

/// Returns the names of the endpoint, as far as they are known.
fn names(host: &str) -> Vec<String> {
    let mut names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    for name in host_name().into_iter().chain([host.to_owned()]) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_renewed_file_is_served_and_a_damaged_one_is_not() {
        let clock = Clock::start();
        let folder = std::env::temp_dir().join(format!("kopf-rs-scrape-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let write = |pair: &Pair| {
            std::fs::write(path("tls.crt"), &pair.certificate).unwrap();
            std::fs::write(path("tls.key"), &pair.key).unwrap();
        };
        let names = ["localhost".to_owned()];
        let [first, second] = [(); 2].map(|()| made(&names, clock).unwrap());
        write(&first);
        let settings = Settings::with(|settings| {
            settings.metrics.certificate_file = Some(path("tls.crt"));
            settings.metrics.key_file = Some(path("tls.key"));
        });
        let mut certificate = ScrapeCertificate::first(&settings, "localhost", clock).await.unwrap();
        let served = |it: &ScrapeCertificate| it.served.clone();
        let former = certificate.identity().current();
        write(&Pair { certificate: second.certificate.clone(), key: first.key.clone() });
        let problem = certificate.renew_once().await.unwrap_err();
        assert!(problem.contains("cannot be served"), "{problem}");
        assert_eq!(served(&certificate), first);
        assert!(Arc::ptr_eq(&former, &certificate.identity().current()));
        write(&second);
        certificate.renew_once().await.unwrap();
        assert_eq!(served(&certificate), second);
        assert!(!Arc::ptr_eq(&former, &certificate.identity().current()));
        let half = Settings::with(|settings| settings.metrics.key_file = Some(path("tls.key")));
        assert!(
            ScrapeCertificate::first(&half, "localhost", clock)
                .await
                .is_err_and(|it| it.contains("belong together"))
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
