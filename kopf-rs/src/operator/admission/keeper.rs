//! Makes certificates, stores them where all instances of the operator find them, and serves the one that is due.
//!
//! Guarantees that the served certificate stays in use whatever happens to the Secret, that two instances that work at the same time
//! converge to the same state, and that a failure is retried with a growing back-off and reported once. Must not know the clients.

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
use crate::operator::admission::contest::Contest;
use crate::operator::admission::endpoint::Identity;
use crate::operator::admission::files::ClientAuthorities;
use crate::operator::admission::making::make;
use crate::operator::admission::managed_object::{KeptObject, Touched, explained};
use crate::operator::admission::publishing::{Published, Trust};
use crate::operator::admission::tls::{flaw, server_config};
use crate::rt::backoff::Backoff;
use crate::rt::clock::Clock;

/// The parts that a keeper needs.
pub(super) struct KeeperSetup {
    pub(super) cluster: Cluster,
    /// `None` to keep certificates in memory.
    pub(super) secret: Option<KeptObject>,
    pub(super) names: Vec<String>,
    pub(super) life: Duration,
    pub(super) propagation: Duration,
    /// The authorities of the client certificates that are demanded.
    pub(super) client_authorities: ClientAuthorities,
    pub(super) backoff: (Duration, Duration),
    pub(super) pace: WatchPace,
    pub(super) clock: Clock,
    /// The newest generation that all configurations contain, and since when.
    pub(super) published: watch::Receiver<Published>,
}

/// Keeps the certificates.
pub(super) struct Keeper {
    setup: KeeperSetup,
    kept: Generations,
    /// The last known state of the Secret.
    version: Option<Seen>,
    trust: watch::Sender<Trust>,
    identity: Option<Identity>,
    failures: Backoff,
    /// The back-off after write conflicts.
    conflicts: Backoff,
    /// The last reported problem.
    told: Option<String>,
    contest: Contest,
}

/// The delay after a write conflict.
const CONFLICT_RETRY: Duration = Duration::from_millis(20);
/// The longest sleep, because the wall clock may be set and the machine may be suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// The number of attempts for the first certificate if the operator must not wait.
const TRIES: u32 = 4;

/// An existing Secret.
#[derive(Clone)]
struct Seen {
    version: String,
    keys: Vec<String>,
}

/// Why a turn has ended early.
enum Trouble {
    /// A write conflict: look again.
    Outrun,
    Failed {
        problem: String,
        /// The pause that the server has asked for.
        asked_for: Duration,
    },
    /// Retries cannot help.
    Fatal(String),
}

type Turn<T> = Result<T, Trouble>;

impl Keeper {
    pub(super) fn new(setup: KeeperSetup, trust: watch::Sender<Trust>) -> Self {
        let (first, longest) = setup.backoff;
        Self {
            setup,
            kept: Generations::default(),
            version: None,
            trust,
            identity: None,
            failures: Backoff::new(first, longest),
            conflicts: Backoff::new(CONFLICT_RETRY, longest),
            told: None,
            contest: Contest::new(),
        }
    }

    /// Finds or makes the first certificate; with `once`, after a few attempts at most.
    ///
    /// # Errors
    ///
    /// Returns the reason why retries cannot help.
    pub(super) async fn first(&mut self, once: bool) -> Result<Identity, String> {
        let mut tries = 0;
        loop {
            let trouble = self.turn().await.err();
            if let (None, Some(identity)) = (&trouble, self.identity.clone()) {
                self.recovered();
                return Ok(identity);
            }
            tries += 1;
            match trouble {
                Some(Trouble::Fatal(problem)) => return Err(problem),
                Some(Trouble::Failed { problem, .. }) if once && tries >= TRIES => {
                    return Err(format!(
                        "there is no certificate to serve admission webhooks with: {problem}"
                    ));
                }
                trouble => {
                    let pause = self.pause_after(trouble.unwrap_or(Trouble::Outrun));
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Keeps the certificates for ever.
    pub(super) async fn run(mut self) {
        let touched = self.setup.secret.as_ref();
        let touched =
            touched.map(|secret| secret.watch(&self.setup.cluster, self.setup.pace.clone()));
        loop {
            let pause = match self.turn().await {
                Ok(until) => {
                    self.recovered();
                    let now = self.setup.clock.wall();
                    let left = Duration::try_from(until.duration_since(now));
                    left.unwrap_or_default().min(LONGEST_SLEEP)
                }
                Err(trouble) => self.pause_after(trouble),
            };
            let contest = &self.contest;
            let touched = async {
                contest.over().await;
                woken(touched.as_ref()).await;
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = touched => {}
                // The publisher lives as long as this task.
                Ok(()) = self.setup.published.changed() => {}
                () = self.setup.client_authorities.changed() => {}
            }
        }
    }

    fn recovered(&mut self) {
        self.failures.reset();
        self.conflicts.reset();
        self.told = None;
    }

    /// Returns the pause before the next turn. Reports each problem once, until it is over.
    fn pause_after(&mut self, trouble: Trouble) -> Duration {
        let rng = self.setup.cluster.rng();
        let (problem, asked_for) = match trouble {
            Trouble::Outrun => return self.conflicts.next_pause(rng),
            Trouble::Failed { problem, asked_for } => (problem, asked_for),
            Trouble::Fatal(problem) => (problem, Duration::ZERO),
        };
        let pause = self.failures.next_pause_after(asked_for, rng);
        if self.told.as_ref() != Some(&problem) {
            self.told = Some(problem.clone());
            report(AdmissionServing::CertificatesFailed { problem, pause });
        }
        pause
    }

    /// Takes the steps that are due. Returns the time of the next turn.
    async fn turn(&mut self) -> Turn<Timestamp> {
        self.read().await?;
        loop {
            let now = self.setup.clock.wall();
            let published = *self.setup.published.borrow();
            let facts = Facts {
                now,
                life: self.setup.life,
                names: &self.setup.names,
                published: published.map(|(newest, since)| {
                    let ago = now.checked_sub(since.elapsed());
                    (newest, ago.unwrap_or(now))
                }),
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

    /// Makes a generation on a blocking thread, because generating keys takes time.
    async fn make(&self, number: u32, now: Timestamp) -> Turn<Generation> {
        let (names, life) = (self.setup.names.clone(), self.setup.life);
        let made = tokio::task::spawn_blocking(move || make(&names, number, now, life)).await;
        let made = made.map_err(|error| Trouble::Fatal(error.to_string()))?;
        let made = made.map_err(Trouble::Fatal)?;
        report(AdmissionServing::CertificateMade { number, life });
        Ok(made)
    }

    /// Reads the Secret. If its contents are unusable, restores them from memory.
    async fn read(&mut self) -> Turn<()> {
        let Some(secret) = &self.setup.secret else {
            return Ok(());
        };
        let found = match self.setup.cluster.look_at(secret.path(), false).await {
            Ok(found) => found,
            Err(ClusterError::NotFound(_)) => {
                self.version = None;
                if self.kept != Generations::default() {
                    let (kept, problem) = (self.kept.clone(), "it was deleted".to_owned());
                    return self.mend(kept, problem, None).await;
                }
                return Ok(());
            }
            Err(error) => return Err(self.failed("read", &error)),
        };
        self.version = Some(Seen::of(&found));
        let read = match Generations::of_data(&found["data"]) {
            Ok(read) => read,
            Err(error) => {
                let kept = self.kept.clone();
                return self.mend(kept, error.to_string(), Some(&found)).await;
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
        self.mend(mended, problem, Some(&found)).await
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
    async fn mend(
        &mut self,
        wanted: Generations,
        problem: String,
        found: Option<&Value>,
    ) -> Turn<()> {
        let secret = self.place();
        if wanted.served().is_some() {
            self.write(wanted).await?;
            let what = format!("The Secret {secret}");
            self.contest
                .repaired(&what, found, self.setup.cluster.rng());
        } else {
            self.kept = wanted;
        }
        report(AdmissionServing::SecretMended { secret, problem });
        Ok(())
    }

    fn failed(&self, done: &str, error: &ClusterError) -> Trouble {
        let (secret, why) = (self.place(), explained(error));
        Trouble::Failed {
            problem: format!("the Secret {secret} cannot be {done}: {why}"),
            asked_for: error.retry_after().unwrap_or_default(),
        }
    }

    /// Stores these generations, unless another writer has changed the Secret.
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
                ClusterError::Conflict(_) => Trouble::Outrun,
                // Deleted meanwhile. When it has to be created, the 404 means that its namespace does not exist.
                ClusterError::NotFound(_) if self.version.is_some() => Trouble::Outrun,
                error => self.failed("written", &error),
            })?;
            self.version = Some(Seen::of(&written));
        }
        self.kept = next;
        Ok(())
    }

    /// Serves the certificate that is due, and publishes the authorities to trust.
    fn adopt(&mut self) -> Turn<()> {
        let Some(served) = self.kept.served() else {
            return Ok(());
        };
        let clients = self.setup.client_authorities.text();
        let config = server_config(&served.certificate, &served.key, clients);
        let config = config.map_err(Trouble::Fatal)?;
        match &self.identity {
            None => self.identity = Some(Identity::new(&served.certificate, config)),
            Some(identity) => {
                if identity.replace(&served.certificate, config) {
                    let number = self.kept.serving;
                    report(AdmissionServing::CertificateServed { number });
                }
            }
        }
        let (now, newest) = (self.setup.clock.wall(), self.kept.newest());
        self.trust.send_if_modified(|known| {
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

    /// Returns the place where the certificates are kept, for people.
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

    /// Returns a patch of this version that leaves only `data`.
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

fn flaw_of(served: &Generation, now: Timestamp) -> Option<String> {
    let config = server_config(&served.certificate, &served.key, None);
    config.err().or_else(|| flaw(served, now))
}
