//! Follows certificates in files that another program renews: reads them periodically, and serves a pair that fits.
//!
//! Guarantees that a certificate of a new authority is served only after the API server knows that authority. Must not know the clients.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::engine::report::report_of_operator;
use crate::happening::webhooks::AdmissionServing;
use crate::operator::admission::publishing::{Published, Publishing};
use crate::operator::admission::setup::AdmissionSetup;
use crate::operator::admission::tls::flaw_of_authorities;
use crate::operator::settings::Settings;
use crate::rt::tls::{Identity, TlsVersion, server_config};

/// The contents of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    certificate: String,
    key: String,
    bundle: String,
    client_authorities: Option<String>,
    minimum_tls: TlsVersion,
}

/// Follows the files.
pub(super) struct FollowedFiles {
    /// The paths of the certificate and of its key.
    files: (String, String),
    setup: Arc<AdmissionSetup>,
    /// The contents when they were last valid.
    read: Content,
    /// The authorities of the served certificate.
    served: String,
    /// The former authorities, and until when they stay trusted, because another instance may read its files later.
    former: Option<(String, Instant)>,
    /// The next certificate, which waits until its authority is known, and the start of that wait.
    awaiting: Option<(Arc<ServerConfig>, Instant)>,
    identity: Identity,
    publishing: Arc<Publishing>,
    published: watch::Receiver<Published>,
}

/// The interval of reading. Polling, because a kubelet replaces mounted files behind symbolic links.
const INTERVAL: Duration = Duration::from_secs(10);
/// The longest wait for a new authority: if configurations may not be written, the former certificate must not expire meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The time for which former authorities stay trusted.
const FORMER: Duration = Duration::from_secs(3600);

impl FollowedFiles {
    /// Reads the files for the first time.
    pub(super) async fn first(
        files: (String, String),
        setup: Arc<AdmissionSetup>,
        publishing: Arc<Publishing>,
    ) -> Result<(Self, Identity), String> {
        let read = read(&files, &setup.settings).await?;
        let identity = Identity::new(&read.certificate, read.config()?);
        publishing.change_trust(|trust| {
            trust.bundle.clone_from(&read.bundle);
            true
        });
        let this = Self {
            files,
            setup,
            served: read.bundle.clone(),
            read,
            former: None,
            awaiting: None,
            identity: identity.clone(),
            published: publishing.published(),
            publishing,
        };
        Ok((this, identity))
    }

    /// Follows the files for ever.
    pub(super) async fn run(mut self) {
        let mut problems = Problems::default();
        loop {
            let admission = &self.setup.settings.admission;
            let pause = match self.awaiting {
                Some(_) => INTERVAL.min(admission.propagation),
                None => INTERVAL,
            };
            tokio::select! {
                () = sleep(pause.max(SHORTEST)) => {}
                // This task keeps the sender.
                Ok(()) = self.published.changed() => {}
            }
            let read = match read(&self.files, &self.setup.settings).await {
                Ok(read) if read == self.read => Ok(None),
                Ok(read) => read.config().map(|config| Some((read, config))),
                Err(problem) => Err(problem),
            };
            if let Some((read, config)) = problems.without(read).flatten() {
                self.adopt(read, config);
            }
            self.serve_what_is_known();
            self.forget_what_is_former();
        }
    }

    /// Adopts new, valid contents. A new authority is first published beside the trusted one.
    fn adopt(&mut self, read: Content, config: Arc<ServerConfig>) {
        let is_known = read.bundle == self.read.bundle;
        self.read = read;
        if !is_known {
            self.change_trust(1);
        }
        if is_known && self.awaiting.is_none() || self.setup.settings.admission.managed.is_none() {
            self.serve(config);
            return;
        }
        let since = self.awaiting.take().filter(|_| is_known);
        let since = since.map_or_else(Instant::now, |(_, since)| since);
        self.awaiting = Some((config, since));
    }

    fn serve_what_is_known(&mut self) {
        let (number, published) = (self.publishing.newest(), *self.published.borrow());
        let propagation = self.setup.settings.admission.propagation;
        // API servers have known this generation for long enough.
        let is_known =
            published.is_some_and(|(newest, since)| newest >= number && since.elapsed() >= propagation);
        let is_done = |since: &Instant| is_known || since.elapsed() >= LONGEST_WAIT;
        if let Some((config, _)) = self.awaiting.take_if(|(_, since)| is_done(since)) {
            self.serve(config);
        }
    }

    fn serve(&mut self, config: Arc<ServerConfig>) {
        if self.identity.replace(&self.read.certificate, config) {
            let number = self.publishing.newest();
            report_of_operator(&AdmissionServing::CertificateServed { number });
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
            self.change_trust(0);
        }
    }

    /// Publishes the authorities to trust: the next, the present and the former ones, as a generation that is `more` later.
    fn change_trust(&self, more: u32) {
        let former = self.former.as_ref().map(|(bundle, _)| bundle);
        let all = [Some(&self.read.bundle), Some(&self.served), former];
        let mut bundle = String::new();
        for one in all.into_iter().flatten().map(|it| it.trim()) {
            if !bundle.contains(one) {
                bundle.push_str(one);
                bundle.push('\n');
            }
        }
        self.publishing.change_trust(|trust| {
            trust.bundle = bundle;
            trust.newest += more;
            true
        });
    }
}

/// The shortest interval of reading while a certificate waits.
const SHORTEST: Duration = Duration::from_millis(100);

/// The file with the authorities of client certificates, if there is one. It is read periodically.
pub(super) struct ClientAuthorities {
    file: Option<String>,
    text: Option<String>,
    problems: Problems,
}

impl ClientAuthorities {
    /// Reads the file for the first time.
    pub(super) async fn first(file: Option<String>) -> Result<Self, String> {
        let text = match &file {
            Some(file) => Some(text(file).await?),
            None => None,
        };
        Ok(Self { file, text, problems: Problems::default() })
    }

    /// Returns the authorities as PEM.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Waits until the file holds other, valid authorities. Cancel-safe.
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
            let read = self.problems.without(read);
            let news = read.filter(|read| self.text.as_ref() != Some(read));
            if news.is_some() {
                self.text = news;
                return;
            }
        }
    }
}

/// The last problem with files.
#[derive(Default)]
struct Problems(Option<String>);

impl Problems {
    /// Returns the contents. Reports each problem once, for as long as it lasts.
    fn without<T>(&mut self, read: Result<T, String>) -> Option<T> {
        let (read, problem) = match read {
            Ok(read) => (Some(read), None),
            Err(problem) => (None, Some(problem)),
        };
        if let Some(problem) = problem.clone().filter(|_| self.0 != problem) {
            report_of_operator(&AdmissionServing::FilesFailed { problem });
        }
        self.0 = problem;
        read
    }
}

impl Content {
    fn config(&self) -> Result<Arc<ServerConfig>, String> {
        let clients = self.client_authorities.as_deref();
        server_config(&self.certificate, &self.key, clients, self.minimum_tls)
    }
}

async fn read((certificate, key): &(String, String), settings: &Settings) -> Result<Content, String> {
    let Settings { admission, networking, .. } = settings;
    let certificate = text(certificate).await?;
    let bundle = match &admission.authority_file {
        Some(file) => text(file).await?,
        None => certificate.clone(),
    };
    let client_authorities = match &admission.client_authority_file {
        Some(file) => Some(text(file).await?),
        None => None,
    };
    let minimum_tls = networking.minimum_tls;
    Ok(Content { certificate, key: text(key).await?, bundle, client_authorities, minimum_tls })
}

pub(in crate::operator) async fn text(file: &str) -> Result<String, String> {
    let path = file.to_owned();
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let read = read.map_err(|error| error.to_string())?;
    read.map_err(|error| format!("{file}: {error}"))
}
