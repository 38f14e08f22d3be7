//! Keeps the certificates: makes them, keeps them where all instances of the operator find them, and serves the one that is due.
//!
//! Promises that what was served goes on being served whatever becomes of the Secret, and that two instances that do the same at once come to
//! the same. Must not know who asks.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::admission::certificates::{Facts, Generation, Generations, Step, step};
use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchPace;
use crate::engine::report::report_of_operator;
use crate::happening::Happening;
use crate::happening::admission::AdmissionServing;
use crate::operator::admission::endpoint::Identity;
use crate::operator::admission::looked_after::{KeptObject, Touched};
use crate::operator::admission::making::make;
use crate::operator::admission::publishing::Published;
use crate::operator::admission::tls::{flaw, server_config};
use crate::rt::backoff::Backoff;
use crate::rt::clock::Clock;

/// Whom the API server is to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    /// PEM.
    pub(super) bundle: String,
    /// The newest generation that is in it.
    pub(super) newest: u32,
}

/// What a keeper is made of.
pub(super) struct KeeperSetup {
    pub(super) cluster: Cluster,
    /// `None`: in memory.
    pub(super) secret: Option<KeptObject>,
    pub(super) names: Vec<String>,
    pub(super) life: Duration,
    pub(super) propagation: Duration,
    /// PEM: whoever asks must show a certificate of theirs.
    pub(super) client_authorities: Option<String>,
    pub(super) backoff: (Duration, Duration),
    pub(super) pace: WatchPace,
    pub(super) clock: Clock,
    /// The newest generation that all configurations hold, and since when.
    pub(super) published: watch::Receiver<Published>,
}

/// Keeps the certificates.
pub(super) struct Keeper {
    setup: KeeperSetup,
    kept: Generations,
    /// Of the Secret, as it was seen last.
    version: Option<Seen>,
    trust: watch::Sender<Trust>,
    identity: Option<Identity>,
}

/// A Secret that is there.
#[derive(Clone)]
struct Seen {
    version: String,
    keys: Vec<String>,
}

/// Why a turn has ended early.
enum Trouble {
    /// Somebody else was faster: look again.
    Outrun,
    Failed(String),
}

type Turn<T> = Result<T, Trouble>;

impl Keeper {
    pub(super) fn new(setup: KeeperSetup, trust: watch::Sender<Trust>) -> Self {
        Self {
            setup,
            kept: Generations::default(),
            version: None,
            trust,
            identity: None,
        }
    }

    /// Find or make the first certificate.
    pub(super) async fn first(&mut self) -> Result<Identity, String> {
        let mut backoff = self.backoff();
        for _ in 0..4 {
            match self.turn().await {
                Ok(_) => break,
                Err(Trouble::Outrun) => {}
                Err(Trouble::Failed(problem)) => {
                    let pause = backoff.next_pause(self.setup.cluster.rng());
                    report(AdmissionServing::CertificatesFailed { problem, pause });
                    tokio::time::sleep(pause).await;
                }
            }
        }
        let identity = self.identity.clone();
        identity.ok_or_else(|| {
            let place = self.place();
            format!("there is no certificate to serve admission webhooks with: {place} cannot be read or written, as the lines above say")
        })
    }

    /// Keep them for ever.
    pub(super) async fn run(mut self) {
        let touched = self.setup.secret.as_ref();
        let touched =
            touched.map(|secret| secret.watch(&self.setup.cluster, self.setup.pace.clone()));
        let mut backoff = self.backoff();
        loop {
            let pause = match self.turn().await {
                Ok(until) => {
                    backoff.reset();
                    let now = self.setup.clock.now();
                    Duration::try_from(until.duration_since(now)).unwrap_or_default()
                }
                Err(Trouble::Outrun) => continue,
                Err(Trouble::Failed(problem)) => {
                    let pause = backoff.next_pause(self.setup.cluster.rng());
                    report(AdmissionServing::CertificatesFailed { problem, pause });
                    pause
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = woken(touched.as_ref()) => {}
                // Who tells it lives as long as this does.
                Ok(()) = self.setup.published.changed() => {}
            }
        }
    }

    fn backoff(&self) -> Backoff {
        let (first, longest) = self.setup.backoff;
        Backoff::new(first, longest)
    }

    /// Take the steps that are due. When to come again.
    async fn turn(&mut self) -> Turn<Timestamp> {
        self.read().await?;
        loop {
            let now = self.setup.clock.now();
            let facts = Facts {
                now,
                life: self.setup.life,
                names: &self.setup.names,
                published: *self.setup.published.borrow(),
                propagation: self.setup.propagation,
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
                    if at_once {
                        next.serving(number, now)
                    } else {
                        next
                    }
                }
            };
            self.write(next).await?;
        }
    }

    /// Keys are random: on a thread that may take its time.
    async fn make(&self, number: u32, now: Timestamp) -> Turn<Generation> {
        let (names, life) = (self.setup.names.clone(), self.setup.life);
        let made = tokio::task::spawn_blocking(move || make(&names, number, now, life)).await;
        let made = made.map_err(|error| Trouble::Failed(error.to_string()))?;
        let made = made.map_err(Trouble::Failed)?;
        report(AdmissionServing::CertificateMade { number, life });
        Ok(made)
    }

    /// What the Secret holds. What is no good there is mended from memory.
    async fn read(&mut self) -> Turn<()> {
        let Some(secret) = &self.setup.secret else {
            return Ok(());
        };
        let found = match self.setup.cluster.look_at(secret.path(), false).await {
            Ok(found) => found,
            Err(ClusterError::NotFound(_)) => {
                self.version = None;
                if self.kept != Generations::default() {
                    let problem = "it was deleted".to_owned();
                    return self.mend(problem).await;
                }
                return Ok(());
            }
            Err(error) => return Err(Trouble::Failed(error.to_string())),
        };
        self.version = Some(Seen::of(&found));
        let read = Generations::of_data(&found["data"]).map_err(|error| error.to_string());
        let now = self.setup.clock.now();
        let checked = read.and_then(|read| match read.served() {
            // What has ended was good, and is replaced; so is what a clock has made that was ahead.
            Some(served) if served.is_valid(now) => match self.flaw_of(served, now) {
                Some(flaw) => Err(flaw),
                None => Ok(read),
            },
            _ => Ok(read),
        });
        match checked {
            Ok(read) => {
                self.kept = read;
                Ok(())
            }
            Err(problem) => self.mend(problem).await,
        }
    }

    fn flaw_of(&self, served: &Generation, now: Timestamp) -> Option<String> {
        let clients = self.setup.client_authorities.as_deref();
        let config = server_config(&served.certificate, &served.key, clients);
        config.err().or_else(|| flaw(served, now))
    }

    /// Write back what is in memory; where nothing is, it is made anew.
    async fn mend(&mut self, problem: String) -> Turn<()> {
        let secret = self.place();
        if self.kept != Generations::default() {
            self.write(self.kept.clone()).await?;
        }
        report(AdmissionServing::SecretMended { secret, problem });
        Ok(())
    }

    /// Keep this from now on, unless somebody else was faster.
    async fn write(&mut self, next: Generations) -> Turn<()> {
        if let Some(secret) = &self.setup.secret {
            let data = next.to_data();
            let written = match &self.version {
                None => {
                    let content = json!({
                        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                        "metadata": {"name": secret.name, "namespace": secret.namespace},
                        "data": data,
                    });
                    let cluster = &self.setup.cluster;
                    cluster.create_kept(secret.path(), &content).await
                }
                Some(seen) => {
                    let merge = seen.replaced_by(data);
                    self.setup.cluster.merge_kept(secret.path(), &merge).await
                }
            };
            let written = written.map_err(|error| match error {
                ClusterError::Conflict(_) | ClusterError::NotFound(_) => Trouble::Outrun,
                error => Trouble::Failed(error.to_string()),
            })?;
            self.version = Some(Seen::of(&written));
        }
        self.kept = next;
        Ok(())
    }

    /// Serve what is to be served, and say whom to trust.
    fn adopt(&mut self) -> Turn<()> {
        let Some(served) = self.kept.served() else {
            return Ok(());
        };
        let clients = self.setup.client_authorities.as_deref();
        let config = server_config(&served.certificate, &served.key, clients);
        let config = config.map_err(Trouble::Failed)?;
        match &self.identity {
            None => self.identity = Some(Identity::new(&served.certificate, config)),
            Some(identity) => {
                if identity.replace(&served.certificate, config) {
                    let number = self.kept.serving;
                    report(AdmissionServing::CertificateServed { number });
                }
            }
        }
        let (now, newest) = (self.setup.clock.now(), self.kept.newest());
        self.trust.send_if_modified(|known| {
            // What has ended is left out when something is added: each change is a write to each configuration.
            let is_news = self.kept.newest_in(&known.bundle) != Some(newest);
            if is_news {
                known.bundle = self.kept.bundle(now);
                known.newest = newest;
            }
            is_news
        });
        Ok(())
    }

    /// Where they are kept, for people.
    fn place(&self) -> String {
        match &self.setup.secret {
            Some(secret) => {
                let namespace = secret.namespace.as_deref().unwrap_or_default();
                format!("{namespace}/{}", secret.name)
            }
            None => "memory".to_owned(),
        }
    }
}

impl Seen {
    fn of(secret: &Value) -> Self {
        let version = secret["metadata"]["resourceVersion"].as_str();
        let keys = secret["data"].as_object().into_iter().flat_map(Map::keys);
        Self {
            version: version.unwrap_or_default().to_owned(),
            keys: keys.cloned().collect(),
        }
    }

    /// A patch of this version that leaves nothing but `data`.
    fn replaced_by(&self, data: Map<String, Value>) -> Value {
        let gone = self.keys.iter().filter(|key| !data.contains_key(*key));
        let mut all: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
        all.extend(data);
        json!({"metadata": {"resourceVersion": self.version}, "data": all})
    }
}

async fn woken(touched: Option<&Touched>) {
    match touched {
        Some(touched) => touched.touched().await,
        None => std::future::pending().await,
    }
}

fn report(happening: AdmissionServing) {
    report_of_operator(&Happening::Admission(happening));
}
