//! Credentials that come from somebody who can be asked for new ones: kept, used, and asked for again when they expire or are refused.
//!
//! Promises that one login serves all requests that wait for it, that a request which was refused with 401 is sent again with the new
//! credentials, and that credentials which were refused are not tried again. Must not know whom it asks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::BoxError;

use crate::cluster::credentials::ConnectionInfo;
use crate::cluster::login::session::connect;
use crate::rt::backoff::Backoff;
use crate::rt::clock::Clock;
use crate::rt::rng::Rng;

mod session;
#[cfg(test)]
mod tests;

/// A source of credentials.
pub(crate) trait LoginSource: Send {
    /// All there are. The error ends the operator: it says what has failed, and what to do.
    fn login(&mut self, why: Why) -> BoxFuture<'_, Result<Vec<Candidate>, String>>;
}

/// Why credentials are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    First,
    /// Those of this handler have expired.
    Expired(Arc<str>),
    /// The server has refused those of this handler.
    Refused(Arc<str>),
}

/// Credentials, and the id of the login handler that returned them.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) id: Arc<str>,
    pub(crate) info: ConnectionInfo,
}

/// What all requests share. Clones share it.
#[derive(Clone)]
pub(crate) struct Vault {
    standing: watch::Sender<Standing>,
    clock: Clock,
}

#[derive(Clone)]
enum Standing {
    /// Somebody waits for credentials, in place of these.
    Wanted(Why, Option<Arc<Session>>),
    LoggedIn(Arc<Session>),
    /// There are none, and there will be none.
    Failed(Arc<str>),
    /// Nobody has asked yet.
    Unasked,
}

/// Credentials in use.
struct Session {
    candidate: Candidate,
    number: u64,
    client: Client,
    since: Instant,
}

/// Logs in whenever that is wanted.
pub(crate) struct LoginTask<S> {
    vault: Vault,
    source: S,
    rng: Arc<Rng>,
    /// What the last login has brought, as far as it is still good.
    pool: Vec<Candidate>,
    /// By handler, the last ones that the server has refused.
    refused: BTreeMap<Arc<str>, VecDeque<ConnectionInfo>>,
    refusals: Backoff,
    next: u64,
}

/// So many refused credentials of a handler are remembered, as in Kopf.
const REMEMBERED: usize = 3;
/// Credentials that were good for so long were good ones.
const CALM: Duration = Duration::from_secs(60);
/// First and longest pause between logins whose credentials are refused.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

// === impl Vault ===

impl Vault {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            standing: watch::Sender::new(Standing::Unasked),
            clock,
        }
    }

    /// A client whose requests wait for credentials where there are none.
    pub(crate) fn client(&self) -> Client {
        let vault = self.clone();
        let service = tower::service_fn(move |request| {
            let vault = vault.clone();
            async move { vault.send(request).await }
        });
        Client::new(service, "default")
    }

    /// What gives it credentials, by asking `source`.
    pub(crate) fn task<S: LoginSource>(&self, source: S, rng: Arc<Rng>) -> LoginTask<S> {
        LoginTask {
            vault: self.clone(),
            source,
            rng,
            pool: Vec::new(),
            refused: BTreeMap::new(),
            refusals: Backoff::new(PAUSES.0, PAUSES.1),
            next: 0,
        }
    }

    /// Wait until there is no hope for credentials any more; why.
    pub(crate) async fn failed(&self) -> String {
        let mut standing = self.standing.subscribe();
        let failed = |it: &Standing| matches!(it, Standing::Failed(_));
        if let Ok(failed) = standing.wait_for(failed).await
            && let Standing::Failed(why) = &*failed
        {
            return why.to_string();
        }
        std::future::pending().await
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        loop {
            let session = self.session().await?;
            let Some(copy) = body.try_clone() else {
                // What is streamed cannot be sent twice.
                let request = Request::from_parts(parts, body);
                return Ok(session.client.send(request).await?);
            };
            let request = Request::from_parts(parts.clone(), copy);
            let answer = session.client.send(request).await?;
            if answer.status() != StatusCode::UNAUTHORIZED {
                return Ok(answer);
            }
            let why = Why::Refused(session.candidate.id.clone());
            self.want(why, &session);
        }
    }

    /// The credentials in use; waits for a login where there are none.
    async fn session(&self) -> Result<Arc<Session>, BoxError> {
        let mut standing = self.standing.subscribe();
        loop {
            let now = standing.borrow_and_update().clone();
            match now {
                Standing::LoggedIn(session) => {
                    if !session.candidate.info.is_expired(self.clock.now()) {
                        return Ok(session);
                    }
                    self.want(Why::Expired(session.candidate.id.clone()), &session);
                }
                Standing::Failed(why) => return Err(why.to_string().into()),
                Standing::Unasked => {
                    self.standing.send_if_modified(|standing| {
                        let is_first = matches!(standing, Standing::Unasked);
                        if is_first {
                            *standing = Standing::Wanted(Why::First, None);
                        }
                        is_first
                    });
                }
                Standing::Wanted(..) => standing.changed().await?,
            }
        }
    }

    /// The session is no good any more. Where another one has taken its place, nothing is wanted.
    fn want(&self, why: Why, former: &Arc<Session>) {
        self.standing.send_if_modified(|standing| {
            let is_current =
                matches!(standing, Standing::LoggedIn(it) if it.number == former.number);
            if is_current {
                *standing = Standing::Wanted(why, Some(former.clone()));
            }
            is_current
        });
    }
}

// === impl LoginTask ===

impl<S: LoginSource> LoginTask<S> {
    /// Log in whenever that is wanted, until it fails.
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
            self.vault.standing.send_replace(next);
            if has_failed {
                return;
            }
        }
    }

    async fn next_session(
        &mut self,
        why: Why,
        former: Option<Arc<Session>>,
    ) -> Result<Session, String> {
        let mut pause = Duration::ZERO;
        if let (Why::Refused(_), Some(former)) = (&why, former) {
            if former.since.elapsed() >= CALM {
                self.refusals.reset();
            } else {
                pause = self.refusals.next_pause(&self.rng);
            }
            self.refuse(former.candidate.clone());
        }
        self.drop_expired();
        if self.pool.is_empty() {
            tokio::time::sleep(pause).await;
            let found = self.source.login(why).await?;
            self.take_in(found)?;
        }
        self.best().await
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
        let now = self.vault.clock.now();
        self.pool.retain(|it| !it.info.is_expired(now));
    }

    /// What a login has brought, without what is no good.
    fn take_in(&mut self, found: Vec<Candidate>) -> Result<(), String> {
        let now = self.vault.clock.now();
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
                "login handler {} has returned credentials that have expired already: check where it has them from, and the clock of this \
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
                Ok(client) => {
                    self.next += 1;
                    return Ok(Session {
                        candidate,
                        number: self.next,
                        client,
                        since: Instant::now(),
                    });
                }
                Err(reason) => {
                    self.pool.swap_remove(at);
                    let id = candidate.id;
                    last =
                        format!("the credentials of login handler '{id}' cannot be used: {reason}");
                }
            }
        }
        Err(last)
    }

    /// The first of those with the highest priority.
    fn best_place(&self) -> Option<usize> {
        let highest = self.pool.iter().map(|it| it.info.priority).max()?;
        self.pool.iter().position(|it| it.info.priority == highest)
    }
}

impl<S> Drop for LoginTask<S> {
    /// Nobody waits for what will never come.
    fn drop(&mut self) {
        self.vault.standing.send_if_modified(|standing| {
            let is_open = matches!(standing, Standing::Wanted(..) | Standing::Unasked);
            if is_open {
                *standing = Standing::Failed("the operator has ended".into());
            }
            is_open
        });
    }
}
