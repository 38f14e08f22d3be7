//! Certificates in files, which somebody else renews: read again and again, and served once a pair of them fits.
//!
//! Promises that one whose authority is new is served only after whoever asks knows it. Must not know who asks.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::engine::report::report_of_operator;
use crate::happening::Happening;
use crate::happening::admission::AdmissionServing;
use crate::operator::admission::endpoint::Identity;
use crate::operator::admission::publishing::{Published, Trust};
use crate::operator::admission::tls::{flaw_of_authorities, server_config};

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

/// What is known of who trusts whom by now.
pub(super) struct Publication {
    /// Somebody tells the API server whom to trust, and that it is done.
    pub(super) is_awaited: bool,
    pub(super) published: watch::Receiver<Published>,
    pub(super) propagation: Duration,
}

/// Follows the files.
pub(super) struct FollowedFiles {
    files: CertificateFiles,
    /// What they held when they were last good.
    read: Content,
    /// The authorities of what is served.
    served: String,
    /// Those of what was served before, and until when: another instance may read its files later.
    former: Option<(String, Instant)>,
    /// What is to be served once its authority is known, and since when it is.
    awaiting: Option<(Arc<ServerConfig>, Instant)>,
    identity: Identity,
    trust: watch::Sender<Trust>,
    publication: Publication,
}

/// How often the files are read: what a kubelet mounts changes behind its name.
const INTERVAL: Duration = Duration::from_secs(10);
/// A new authority is waited for so long at most: where nobody may write configurations, the former certificate must not end meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// For so long, former authorities are trusted.
const FORMER: Duration = Duration::from_secs(3600);

impl FollowedFiles {
    /// Read them for the first time.
    pub(super) async fn first(
        files: CertificateFiles,
        trust: watch::Sender<Trust>,
        publication: Publication,
    ) -> Result<(Self, Identity), String> {
        let read = read(&files).await?;
        let config = read.config()?;
        let identity = Identity::new(&read.certificate, config);
        trust.send_replace(Trust {
            bundle: read.bundle.clone(),
            newest: 0,
        });
        let this = Self {
            files,
            served: read.bundle.clone(),
            read,
            former: None,
            awaiting: None,
            identity: identity.clone(),
            trust,
            publication,
        };
        Ok((this, identity))
    }

    /// Follow them for ever.
    pub(super) async fn run(mut self) {
        let mut told = None;
        loop {
            let pause = match self.awaiting {
                Some(_) => INTERVAL.min(self.publication.propagation),
                None => INTERVAL,
            };
            tokio::select! {
                () = sleep(pause.max(SHORTEST)) => {}
                // Who tells it lives as long as this does.
                Ok(()) = self.publication.published.changed() => {}
            }
            let read = match read(&self.files).await {
                Ok(read) if read == self.read => Ok(None),
                Ok(read) => read.config().map(|config| Some((read, config))),
                Err(problem) => Err(problem),
            };
            match read {
                Ok(read) => {
                    told = None;
                    if let Some((read, config)) = read {
                        self.adopt(read, config);
                    }
                }
                // Each once, for as long as it lasts.
                Err(problem) if told.as_ref() == Some(&problem) => {}
                Err(problem) => {
                    told = Some(problem.clone());
                    report(AdmissionServing::FilesFailed { problem });
                }
            }
            self.serve_what_is_known();
            self.forget_what_is_former();
        }
    }

    /// The files hold something else, which is good. Another authority is told first, beside the one that is trusted.
    fn adopt(&mut self, read: Content, config: Arc<ServerConfig>) {
        let is_known = read.bundle == self.read.bundle;
        self.read = read;
        if !is_known {
            self.tell_trust(1);
        }
        if is_known && self.awaiting.is_none() || !self.publication.is_awaited {
            self.serve(config);
            return;
        }
        let since = self.awaiting.take().filter(|_| is_known);
        let since = since.map_or_else(Instant::now, |(_, since)| since);
        self.awaiting = Some((config, since));
    }

    fn serve_what_is_known(&mut self) {
        let number = self.trust.borrow().newest;
        let is_done =
            |since: &Instant| self.publication.knows(number) || since.elapsed() >= LONGEST_WAIT;
        if let Some((config, _)) = self.awaiting.take_if(|(_, since)| is_done(since)) {
            self.serve(config);
        }
    }

    fn serve(&mut self, config: Arc<ServerConfig>) {
        if self.identity.replace(&self.read.certificate, config) {
            let number = self.trust.borrow().newest;
            report(AdmissionServing::CertificateServed { number });
        }
        let bundle = self.read.bundle.clone();
        if bundle != self.served {
            let former = std::mem::replace(&mut self.served, bundle);
            self.former = Some((former, Instant::now() + FORMER));
        }
    }

    fn forget_what_is_former(&mut self) {
        let now = Instant::now();
        let is_over = |(_, until): &mut (String, Instant)| *until <= now;
        if self.former.take_if(is_over).is_some() {
            self.tell_trust(0);
        }
    }

    /// Tell the API server whom to trust: the next, the present and the former authorities. `more`: so many generations later.
    fn tell_trust(&self, more: u32) {
        let former = self.former.as_ref().map(|(bundle, _)| bundle);
        let all = [Some(&self.read.bundle), Some(&self.served), former];
        let mut bundle = String::new();
        for one in all.into_iter().flatten().map(|it| it.trim()) {
            if !bundle.contains(one) {
                bundle.push_str(one);
                bundle.push('\n');
            }
        }
        self.trust.send_modify(|trust| {
            trust.bundle = bundle;
            trust.newest += more;
        });
    }
}

/// What is awaited is not looked for more often.
const SHORTEST: Duration = Duration::from_millis(100);

impl Publication {
    /// Whether all who ask have known this generation for long enough.
    fn knows(&self, number: u32) -> bool {
        let published = *self.published.borrow();
        published
            .is_some_and(|(newest, since)| newest >= number && since.elapsed() >= self.propagation)
    }
}

/// The file with the authorities of which those who ask must show a certificate, if there is one: read again and again.
pub(super) struct ClientAuthorities {
    file: Option<String>,
    text: Option<String>,
    told: Option<String>,
}

impl ClientAuthorities {
    /// Read it for the first time.
    pub(super) async fn first(file: Option<String>) -> Result<Self, String> {
        let text = match &file {
            Some(file) => Some(text(file).await?),
            None => None,
        };
        Ok(Self {
            file,
            text,
            told: None,
        })
    }

    /// PEM.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Wait until the file holds other ones, which are good. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        let Some(file) = self.file.clone() else {
            return std::future::pending().await;
        };
        loop {
            sleep(INTERVAL).await;
            let read = text(&file).await.and_then(|read| {
                let flaw = flaw_of_authorities(&read);
                flaw.map_or(Ok(read), |flaw| Err(format!("{file}: {flaw}")))
            });
            match read {
                Ok(read) => {
                    self.told = None;
                    if self.text.as_ref() != Some(&read) {
                        self.text = Some(read);
                        return;
                    }
                }
                Err(problem) if self.told.as_ref() == Some(&problem) => {}
                Err(problem) => {
                    self.told = Some(problem.clone());
                    report(AdmissionServing::FilesFailed { problem });
                }
            }
        }
    }
}

impl Content {
    fn config(&self) -> Result<Arc<ServerConfig>, String> {
        let clients = self.client_authorities.as_deref();
        server_config(&self.certificate, &self.key, clients)
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
