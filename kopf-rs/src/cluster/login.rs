//! Credentials that come from somebody who can be asked for new ones: kept, used, and asked for again when they expire or are refused.
//!
//! Promises that one login serves all requests that wait for it, that a request which was refused with 401 is sent again with the new
//! credentials where the server takes the former ones for nothing else either, and that credentials which were refused are not tried again.
//! Must not know whom it asks.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tower::BoxError;

use crate::cluster::credentials::ConnectionInfo;
use crate::cluster::login::review::review;
use crate::rt::clock::Clock;

mod review;
mod session;
pub(crate) mod task;
#[cfg(test)]
mod tests;

/// A source of credentials.
pub(crate) trait LoginSource: Send {
    /// All there are. The error ends the operator: it says what has failed, and what to do.
    fn login(&mut self, why: Why) -> BoxFuture<'_, Result<Vec<Candidate>, String>>;

    /// What it has given is no good, so it is asked again, after that time.
    fn will_be_asked_again(&mut self, setback: Setback, pause: Duration);
}

/// Credentials that were no good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    /// The server has refused those of this handler, as it has the ones before: so many times in a row.
    Refused { id: Arc<str>, times: u32 },
    /// Those of this handler have expired after so short a time, as the ones before: so many times in a row.
    ShortLived {
        id: Arc<str>,
        times: u32,
        lived: Duration,
    },
    /// What a login has brought cannot be used at all: why, and what to do.
    Unusable(String),
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
    /// Nobody logs in any more.
    closed: Arc<AtomicBool>,
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
    /// When the server has said last that it takes them, after it had refused a request.
    accepted: tokio::sync::Mutex<Option<Instant>>,
}

/// Why there are no credentials for a client that somebody has kept.
const ENDED: &str = "the operator has ended, so its login handlers are not called any more: a client that outlives it needs credentials of its own";
/// So long is one look good that has shown that the server takes the credentials.
const SHOWN: Duration = Duration::from_secs(1);
/// A server that does not answer for so long does not say whether it takes them.
const REVIEW: Duration = Duration::from_secs(10);

// === impl Vault ===

impl Vault {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            standing: watch::Sender::new(Standing::Unasked),
            closed: Arc::default(),
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

    /// Whether there is no hope for credentials any more.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(*self.standing.borrow(), Standing::Failed(_))
    }

    /// From now on, and as long as this is awaited, there is no hope where a login takes longer than that.
    pub(crate) async fn hope_for(&self, patience: Duration) -> Infallible {
        let mut standing = self.standing.subscribe();
        let is_wanted = |it: &Standing| matches!(it, Standing::Wanted(..));
        loop {
            // It cannot be closed: the vault itself is its other end.
            drop(standing.wait_for(is_wanted).await);
            let login = standing.wait_for(|it| !is_wanted(it));
            if timeout(patience, login).await.is_err() {
                let seconds = patience.as_secs_f64();
                let why = format!(
                    "the operator stops, and its login handlers have given no credentials within {seconds} seconds"
                );
                self.standing.send_replace(Standing::Failed(why.into()));
            }
        }
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
            let is_refused = answer.status() == StatusCode::UNAUTHORIZED;
            if !is_refused || self.is_accepted(&session, &parts).await {
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

    /// Whether the server takes the credentials of the session, though it has refused a request that had them: an API behind it may refuse what
    /// the server itself accepts, and another login would change nothing.
    async fn is_accepted(&self, session: &Session, refused: &Parts) -> bool {
        let mut accepted = session.accepted.lock().await;
        if !self.standing.borrow().is(session) {
            return false;
        }
        if accepted.is_some_and(|at| at.elapsed() < SHOWN) {
            return true;
        }
        let answer = timeout(REVIEW, session.client.send(review(refused))).await;
        let is_accepted = matches!(answer, Ok(Ok(answer)) if answer.status().is_success());
        if is_accepted {
            *accepted = Some(Instant::now());
        }
        is_accepted
    }

    /// The session is no good any more. Where another one has taken its place, nothing is wanted.
    fn want(&self, why: Why, former: &Arc<Session>) {
        self.standing.send_if_modified(|standing| {
            let is_current = standing.is(former);
            if is_current && self.closed.load(Ordering::Relaxed) {
                *standing = Standing::Failed(ENDED.into());
            } else if is_current {
                *standing = Standing::Wanted(why, Some(former.clone()));
            }
            is_current
        });
    }

    /// Nobody logs in any more: nobody waits for what will never come. What is there is used as long as it is good.
    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.standing.send_if_modified(|standing| {
            let is_open = matches!(standing, Standing::Wanted(..) | Standing::Unasked);
            if is_open {
                *standing = Standing::Failed(ENDED.into());
            }
            is_open
        });
    }
}

impl Standing {
    /// Whether that is the session in use.
    fn is(&self, session: &Session) -> bool {
        matches!(self, Self::LoggedIn(it) if it.number == session.number)
    }
}
