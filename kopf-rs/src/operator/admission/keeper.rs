//! Makes certificates, stores them where all instances of the operator find them, and serves the one that is due.
//!
//! Guarantees that the served certificate stays in use whatever happens to the Secret, that two instances that work at the same time
//! converge to the same state, and that a failure is retried with a growing back-off and reported once. Must not know the clients.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::admission::certificates::{Facts, Generation, Generations, Step, step};
use crate::cluster::error::ClusterError;
use crate::engine::report::report_of_operator;
use crate::happening::webhooks::AdmissionServing;
use crate::object::patch::difference;
use crate::operator::admission::contest::Contest;
use crate::operator::admission::driver::{Driver, Failure, Reconciler};
use crate::operator::admission::files::ClientAuthorities;
use crate::operator::admission::making::make;
use crate::operator::admission::managed_object::{KeptObject, Touched, explained};
use crate::operator::admission::publishing::{Published, Publishing};
use crate::operator::admission::setup::AdmissionSetup;
use crate::operator::admission::tls::flaw;
use crate::rt::tls::{Identity, TlsVersion, server_config};

/// Keeps the certificates.
pub(super) struct Keeper {
    setup: Arc<AdmissionSetup>,
    /// The names for which a certificate must be valid.
    names: Vec<String>,
    /// `None` to keep certificates in memory.
    secret: Option<KeptObject>,
    /// The authorities of the client certificates that are demanded.
    client_authorities: ClientAuthorities,
    publishing: Arc<Publishing>,
    published: watch::Receiver<Published>,
    kept: Generations,
    /// The last known state of the Secret.
    found: Option<Value>,
    touched: Option<Touched>,
    /// The current operation on the Secret.
    doing: &'static str,
    identity: Option<Identity>,
    contest: Contest,
}

/// The longest sleep, because the wall clock may be set and the machine may be suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// The number of attempts for the first certificate if the operator must not wait.
const TRIES: u32 = 4;

impl Keeper {
    pub(super) fn new(
        setup: Arc<AdmissionSetup>,
        names: Vec<String>,
        client_authorities: ClientAuthorities,
        publishing: Arc<Publishing>,
    ) -> Self {
        Self {
            names,
            secret: setup.secret(),
            client_authorities,
            published: publishing.published(),
            publishing,
            kept: Generations::default(),
            found: None,
            touched: None,
            doing: "",
            identity: None,
            contest: Contest::default(),
            setup,
        }
    }

    /// Finds or makes the first certificate; if the operator must not wait, after a few attempts at most. Returns the driver that keeps it
    /// from then on.
    ///
    /// # Errors
    ///
    /// Returns the reason why retries cannot help.
    pub(super) async fn first(self) -> Result<(Identity, Driver<Self>), String> {
        let setup = self.setup.clone();
        let mut driver = Driver::new(self, &setup.cluster, setup.settings.networking.backoff());
        let mut tries = 0;
        loop {
            let (pause, error) = driver.pass().await?;
            let keeper = &mut driver.reconciler;
            if let Some(identity) = keeper.identity.clone() {
                keeper.touched = keeper.secret.as_ref().map(|it| it.watch(&setup.cluster));
                return Ok((identity, driver));
            }
            tries += 1;
            let error = error.filter(|it| !matches!(it, ClusterError::Conflict(_)));
            if let Some(error) = error.filter(|_| setup.once && tries >= TRIES) {
                let problem = keeper.problem(&error);
                return Err(format!("there is no certificate to serve admission webhooks with: {problem}"));
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Takes the steps that are due. Returns the time of the next step.
    async fn turn(&mut self) -> Result<Timestamp, Failure> {
        self.read().await?;
        loop {
            let now = self.setup.clock.wall();
            let published = *self.published.borrow();
            let admission = &self.setup.settings.admission;
            let facts = Facts {
                now,
                life: admission.certificate_life,
                names: &self.names,
                published: published.map(|(newest, since)| {
                    let ago = now.checked_sub(since.elapsed());
                    (newest, ago.unwrap_or(now))
                }),
                propagation: admission.propagation,
            };
            let next = match step(&self.kept, facts) {
                Step::Wait { until } => {
                    self.adopt()?;
                    return Ok(until);
                }
                Step::Serve { number } => self.kept.clone().serving(number, now),
                Step::Make { number, at_once } => {
                    let generation = self.make(number, now).await?;
                    let next = self.kept.clone().with(number, generation);
                    if at_once { next.serving(number, now) } else { next }
                }
            };
            self.write(next).await?;
        }
    }

    /// Makes a generation on a blocking thread, because generating keys takes time.
    async fn make(&self, number: u32, now: Timestamp) -> Result<Generation, Failure> {
        let (names, life) = (self.names.clone(), self.setup.settings.admission.certificate_life);
        let made = tokio::task::spawn_blocking(move || make(&names, number, now, life)).await;
        let made = made.map_err(|error| Failure::Fatal(error.to_string()))?;
        let made = made.map_err(Failure::Fatal)?;
        report_of_operator(&AdmissionServing::CertificateMade { number, life });
        Ok(made)
    }

    /// Reads the Secret. If its contents are unusable, restores them from memory.
    async fn read(&mut self) -> Result<(), Failure> {
        let Some(secret) = &self.secret else {
            return Ok(());
        };
        self.doing = "read";
        self.found = secret.look(&self.setup.cluster).await?;
        let Some(found) = &self.found else {
            if self.kept != Generations::default() {
                let (kept, problem) = (self.kept.clone(), "it was deleted".to_owned());
                return self.mend(kept, problem).await;
            }
            return Ok(());
        };
        let read = match Generations::of_data(&found["data"]) {
            Ok(read) => read,
            Err(error) => {
                let kept = self.kept.clone();
                return self.mend(kept, error.to_string()).await;
            }
        };
        let spoiled = self.spoiled(&read);
        let Some((_, problem)) = spoiled.first() else {
            self.kept = read;
            return Ok(());
        };
        let problem = problem.clone();
        let numbers: Vec<u32> = spoiled.iter().map(|(number, _)| *number).collect();
        let mended = read.mended(&numbers, &self.kept);
        self.mend(mended, problem).await
    }

    /// Returns the generations that are unusable although they have not expired: the API server would refuse the served certificate, or the
    /// whole bundle.
    fn spoiled(&self, read: &Generations) -> Vec<(u32, String)> {
        let now = self.setup.clock.wall();
        let lasting = read.all.iter().filter(|(_, it)| it.not_after > now);
        // A generation that was made with a clock ahead of this one is valid.
        let flaws = lasting.filter_map(|(number, it)| {
            let flaw = flaw_of(it, now.max(it.made))?;
            Some((*number, format!("generation {number}: {flaw}")))
        });
        flaws.collect()
    }

    /// Writes the wanted generations. If none of them can be served, makes a new one.
    async fn mend(&mut self, wanted: Generations, problem: String) -> Result<(), Failure> {
        let secret = self.place();
        if wanted.served().is_some() {
            let found = self.found.clone();
            self.write(wanted).await?;
            let what = format!("The Secret {secret}");
            let rng = self.setup.cluster.rng();
            self.contest.repaired(&what, found.as_ref(), rng);
        } else {
            self.kept = wanted;
        }
        report_of_operator(&AdmissionServing::SecretMended { secret, problem });
        Ok(())
    }

    fn problem(&self, error: &ClusterError) -> String {
        match (error, self.doing) {
            (ClusterError::Invalid(problem), "") => problem.clone(),
            (_, doing) => {
                let (secret, why) = (self.place(), explained(error));
                format!("the Secret {secret} cannot be {doing}: {why}")
            }
        }
    }

    /// Stores these generations, unless another writer has changed the Secret.
    async fn write(&mut self, next: Generations) -> Result<(), Failure> {
        if let Some(secret) = &self.secret {
            let data = Value::Object(next.to_data());
            let content = match &self.found {
                Some(found) => json!({"data": difference(&found["data"], &data)}),
                None => json!({"type": "Opaque", "data": data}),
            };
            self.doing = "written";
            let cluster = &self.setup.cluster;
            let written = secret.write(cluster, self.found.as_ref(), content).await?;
            self.found = Some(written);
        }
        self.kept = next;
        Ok(())
    }

    /// Serves the certificate that is due, and publishes the authorities to trust.
    fn adopt(&mut self) -> Result<(), Failure> {
        let Some(served) = self.kept.served() else {
            return Ok(());
        };
        let clients = self.client_authorities.text();
        let minimum = self.setup.settings.networking.minimum_tls;
        let config = server_config(&served.certificate, &served.key, clients, minimum);
        let config = config.map_err(Failure::Fatal)?;
        match &self.identity {
            None => self.identity = Some(Identity::new(&served.certificate, config)),
            Some(identity) => {
                if identity.replace(&served.certificate, config) {
                    let number = self.kept.serving;
                    report_of_operator(&AdmissionServing::CertificateServed { number });
                }
            }
        }
        let (now, newest) = (self.setup.clock.wall(), self.kept.newest());
        self.publishing.change_trust(|known| {
            // Expired authorities are removed only together with an addition, because each change is a write to each configuration.
            let is_news = self.kept.newest_in(&known.bundle) != Some(newest);
            if is_news {
                known.bundle = self.kept.bundle(now);
                known.newest = newest;
            }
            is_news
        });
        Ok(())
    }

    /// Returns the place where the certificates are kept, as text for messages.
    fn place(&self) -> String {
        match &self.secret {
            Some(secret) => {
                let namespace = secret.namespace.as_deref().unwrap_or_default();
                format!("{namespace}/{}", secret.name)
            }
            None => "memory".to_owned(),
        }
    }
}

impl Reconciler for Keeper {
    async fn reconcile(&mut self) -> Result<Duration, Failure> {
        let until = self.turn().await.map_err(|failure| match failure {
            // The present certificate stays in use.
            Failure::Fatal(problem) if self.identity.is_some() => {
                self.doing = "";
                Failure::Retry(ClusterError::Invalid(problem))
            }
            failure => failure,
        })?;
        let left = Duration::try_from(until.duration_since(self.setup.clock.wall()));
        Ok(left.unwrap_or_default().min(LONGEST_SLEEP))
    }

    async fn changed(&mut self) {
        let touched = async {
            self.contest.over().await;
            match &self.touched {
                Some(touched) => touched.touched().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = touched => {}
            // This task keeps the sender.
            Ok(()) = self.published.changed() => {}
            () = self.client_authorities.changed() => {}
        }
    }

    /// The problem lasts until a step succeeds: the endpoint keeps the present certificate.
    fn report(&mut self, error: &ClusterError, pause: Duration) {
        let problem = self.problem(error);
        report_of_operator(&AdmissionServing::CertificatesFailed { problem, pause });
    }
}

fn flaw_of(served: &Generation, now: Timestamp) -> Option<String> {
    let config = server_config(&served.certificate, &served.key, None, TlsVersion::default());
    config.err().or_else(|| flaw(served, now))
}
