//! Performs logins on demand, chooses among their credentials, sorts out unusable ones, and decides when logging in has permanently failed.
//!
//! This module guarantees that logins with unusable credentials are repeated with growing pauses, and that these are
//! reported. It does not know which requests wait.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::time::Instant;

use crate::cluster::credentials::ConnectionInfo;
use crate::cluster::login::session::connect;
use crate::cluster::login::{Candidate, LoginSource, Session, Standing, TRUSTED, Vault};
use crate::object::login::{LoginReason, LoginSetback};
use crate::rt::backoff::Backoff;
use crate::rt::rng::Rng;

/// Performs logins on demand.
pub(crate) struct LoginTask<S> {
    vault: Vault,
    source: S,
    rng: Arc<Rng>,
    /// The credentials of the last login that are still usable.
    pool: Vec<Candidate>,
    /// The last refused credentials of each handler.
    refused: BTreeMap<Arc<str>, VecDeque<ConnectionInfo>>,
    /// The back-off for consecutive unusable credentials.
    setbacks: Backoff,
    times: u32,
    next: u64,
}

/// The number of refused credentials remembered per handler, as in Kopf.
const REMEMBERED: usize = 3;
/// Credentials that were refused only after this long count as good ones.
const CALM: Duration = Duration::from_secs(60);
/// Credentials that expired only after this long count as good ones.
const SHORT: Duration = Duration::from_millis(500);
/// The first and the longest pause between logins with unusable credentials.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// An operator that has worked before tolerates this many logins with unusable credentials before it ends, over about a minute, because their
/// source may be in the middle of being replaced.
const UNUSABLE: u32 = 6;

impl<S: LoginSource> LoginTask<S> {
    pub(crate) fn new(vault: Vault, source: S, rng: Arc<Rng>) -> Self {
        Self {
            vault,
            source,
            rng,
            pool: Vec::new(),
            refused: BTreeMap::new(),
            setbacks: Backoff::new(PAUSES.0, PAUSES.1),
            times: 0,
            next: 0,
        }
    }

    /// Logs in on demand until it fails permanently.
    pub(crate) async fn run(mut self) {
        let mut standing = self.vault.standing.subscribe();
        loop {
            let wanted = standing.wait_for(|it| matches!(it, Standing::Wanted(..)));
            let wanted = wanted.await.map(|it| it.clone());
            let Ok(Standing::Wanted(why, former)) = wanted else {
                return;
            };
            let next = match self.next_session(why, former).await {
                Ok(session) => Standing::LoggedIn(Arc::new(session)),
                Err(why) => Standing::Failed(why.into()),
            };
            let has_failed = matches!(next, Standing::Failed(_));
            self.vault.standing.send_if_modified(|standing| {
                let is_wanted = matches!(standing, Standing::Wanted(..));
                if is_wanted {
                    *standing = next;
                }
                is_wanted
            });
            if has_failed {
                return;
            }
        }
    }

    async fn next_session(
        &mut self,
        why: LoginReason,
        former: Option<Arc<Session>>,
    ) -> Result<Session, String> {
        if let (LoginReason::Distrusted(_), Some(former)) = (&why, &former) {
            return Ok(self.with_other_authorities(why, former).await);
        }
        let lived = former.as_ref().map(|it| it.since.elapsed());
        let was_good = match why {
            LoginReason::Expired(_) => lived.is_some_and(|lived| lived >= SHORT),
            LoginReason::Refused(_) => lived.is_some_and(|lived| lived >= CALM),
            LoginReason::First | LoginReason::Distrusted(_) => false,
        };
        if was_good {
            self.setbacks.reset();
            self.times = 0;
        }
        if let (LoginReason::Refused(_), Some(former)) = (&why, former) {
            self.refuse(former.candidate.clone());
        }
        self.drop_expired();
        if let Ok(session) = self.best().await {
            return Ok(session);
        }
        if !was_good {
            self.pause(&why, lived.unwrap_or_default()).await;
        }
        self.log_in(why, was_good).await
    }

    /// Logs in to get credentials with the server's current authorities. If that fails, the former credentials stay in use, because the
    /// server itself may be misconfigured.
    async fn with_other_authorities(&mut self, why: LoginReason, former: &Session) -> Session {
        self.pool.clear();
        match self.log_in(why, false).await {
            Ok(session) => session,
            Err(reason) => {
                let setback = LoginSetback::Unusable(reason);
                self.source.will_be_asked_again(setback, TRUSTED);
                self.session(former.candidate.clone(), former.client.clone())
            }
        }
    }

    /// Waits before another login after unusable credentials.
    async fn pause(&mut self, why: &LoginReason, lived: Duration) {
        let times = self.times + 1;
        let setback = match why {
            LoginReason::First | LoginReason::Distrusted(_) => return,
            LoginReason::Refused(id) => LoginSetback::Refused { id: id.clone(), times },
            LoginReason::Expired(id) => LoginSetback::ShortLived { id: id.clone(), times, lived },
        };
        self.times = times;
        let pause = self.setbacks.next_pause(&self.rng);
        if times > 1 {
            self.source.will_be_asked_again(setback, pause);
        }
        tokio::time::sleep(pause).await;
    }

    /// Calls the login handlers, and connects with the best credentials. Repeats this if the former credentials were good.
    async fn log_in(&mut self, why: LoginReason, was_good: bool) -> Result<Session, String> {
        let mut times = 0;
        loop {
            let found = self.source.login(why.clone()).await?;
            let session = match self.take_in(found) {
                Ok(()) => self.best().await,
                Err(reason) => Err(reason),
            };
            times += 1;
            match session {
                Err(reason) if was_good && times < UNUSABLE => {
                    let pause = self.setbacks.next_pause(&self.rng);
                    let setback = LoginSetback::Unusable(reason);
                    self.source.will_be_asked_again(setback, pause);
                    tokio::time::sleep(pause).await;
                }
                ended => return ended,
            }
        }
    }

    fn refuse(&mut self, candidate: Candidate) {
        self.pool.retain(|it| it.id != candidate.id);
        let refused = self.refused.entry(candidate.id).or_default();
        refused.push_back(candidate.info);
        if refused.len() > REMEMBERED {
            refused.pop_front();
        }
    }

    fn drop_expired(&mut self) {
        let now = self.vault.clock.wall();
        self.pool.retain(|it| !it.info.is_expired(now));
    }

    /// Stores the credentials of a login, except for unusable ones.
    fn take_in(&mut self, found: Vec<Candidate>) -> Result<(), String> {
        let now = self.vault.clock.wall();
        let (mut expired, mut refused) = (Vec::new(), Vec::new());
        for candidate in found {
            let known = self.refused.get(&candidate.id);
            let is_refused = |it: &ConnectionInfo| it.is_same(&candidate.info);
            if candidate.info.is_expired(now) {
                expired.push(format!("'{}'", candidate.id));
            } else if known.is_some_and(|known| known.iter().any(is_refused)) {
                refused.push(format!("'{}'", candidate.id));
            } else {
                self.pool.push(candidate);
            }
        }
        if !self.pool.is_empty() {
            return Ok(());
        }
        Err(if !refused.is_empty() {
            format!(
                "the server has refused the credentials of login handler {} (401), and the next login has returned the same ones: check \
                 where the handler has them from",
                refused.join(", ")
            )
        } else if expired.is_empty() {
            "no login handler has returned credentials: one of them must return `Ok(Some(ConnectionInfo::new(..)))`"
                .to_owned()
        } else {
            format!(
                "login handler {} has returned credentials that have expired already: check their source, and the clock of this \
                 machine",
                expired.join(", ")
            )
        })
    }

    /// Connects with the credentials of the highest priority.
    async fn best(&mut self) -> Result<Session, String> {
        let mut last = String::new();
        while let Some(at) = self.best_place() {
            let candidate = self.pool[at].clone();
            match connect(&candidate.info).await {
                Ok(client) => return Ok(self.session(candidate, client)),
                Err(reason) => {
                    self.pool.swap_remove(at);
                    let id = candidate.id;
                    last = format!("the credentials of login handler '{id}' cannot be used: {reason}");
                }
            }
        }
        Err(last)
    }

    fn session(&mut self, candidate: Candidate, client: Client) -> Session {
        self.next += 1;
        Session {
            candidate,
            number: self.next,
            client,
            since: Instant::now(),
            reviews: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the position of the first credentials with the highest priority.
    fn best_place(&self) -> Option<usize> {
        let highest = self.pool.iter().map(|it| it.info.priority).max()?;
        self.pool.iter().position(|it| it.info.priority == highest)
    }
}

impl<S> Drop for LoginTask<S> {
    fn drop(&mut self) {
        self.vault.close();
    }
}
