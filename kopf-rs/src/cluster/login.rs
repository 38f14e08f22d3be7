//! Credentials from a renewable source. They are kept, used, and requested again when they expire, when the server refuses them, or when the
//! certificate authorities that came with them no longer verify the server.
//!
//! This module guarantees that one login serves all waiting requests, that a request refused with 401 is resent with
//! the new credentials if the server rejects the former ones altogether, and that refused credentials are not tried
//! again. It does not know how a login is made.

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

use crate::cluster::cause::is_distrust;
use crate::cluster::credentials::ConnectionInfo;
use crate::cluster::fence::copy_of;
use crate::cluster::login::review::review;
use crate::cluster::pod;
use crate::object::login::{LoginReason, LoginSetback};
use crate::rt::clock::Clock;

mod review;
mod session;
pub(crate) mod task;
#[cfg(test)]
mod tests;

/// A source of credentials.
pub(crate) trait LoginSource: Send {
    /// Returns all available credentials. An error ends the operator: it names the failure and the remedy.
    fn login(&mut self, why: LoginReason) -> BoxFuture<'_, Result<Vec<Candidate>, String>>;

    /// Announces that its credentials were unusable, and that it is asked again after the pause.
    fn will_be_asked_again(&mut self, setback: LoginSetback, pause: Duration);
}

/// Credentials, and the id of the login handler that returned them.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) id: Arc<str>,
    pub(crate) info: ConnectionInfo,
}

/// The credentials that all requests use. Clones share them.
#[derive(Clone)]
pub(crate) struct Vault {
    standing: watch::Sender<Standing>,
    /// Set when no further login takes place.
    closed: Arc<AtomicBool>,
    clock: Clock,
}

#[derive(Clone)]
enum Standing {
    /// Requests wait for credentials that replace these.
    Wanted(LoginReason, Option<Arc<Session>>),
    LoggedIn(Arc<Session>),
    /// There are no credentials, and no login will follow.
    Failed(Arc<str>),
    /// No request has asked for credentials yet.
    Unasked,
}

/// Credentials in use.
struct Session {
    candidate: Candidate,
    number: u64,
    client: Client,
    since: Instant,
    reviews: tokio::sync::Mutex<Reviews>,
}

/// The server's verdicts on the credentials, requested after it had refused a request.
#[derive(Default)]
struct Reviews {
    /// The last time when a review kept the credentials in use.
    kept: Option<Instant>,
    /// The time since when reviews have given no clear verdict.
    undecided: Option<Instant>,
}

/// The reason why a client that outlives the operator has no credentials.
const ENDED: &str = "the operator has ended, so its login handlers are not called any more: a client that outlives it needs credentials of its own";
/// After a review that keeps the credentials, no other review is sent for this long.
const SHOWN: Duration = Duration::from_secs(1);
/// For this long after a login, a distrusted certificate does not cause another one, because each login may bring the same authorities.
const TRUSTED: Duration = Duration::from_secs(60);
/// A review without a response for this long has no verdict.
const REVIEW: Duration = Duration::from_secs(10);
/// If reviews give no verdict for longer, the credentials count as refused.
const UNDECIDED: Duration = Duration::from_secs(60);

// === impl Vault ===

impl Vault {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { standing: watch::Sender::new(Standing::Unasked), closed: Arc::default(), clock }
    }

    /// Returns a client whose requests wait for credentials if there are none.
    ///
    /// Its default namespace is that of the Pod, because credentials specify none.
    pub(crate) fn client(&self) -> Client {
        let namespace = pod::namespace();
        let vault = self.clone();
        let service = tower::service_fn(move |request| {
            let vault = vault.clone();
            async move { vault.send(request).await }
        });
        Client::new(service, namespace.as_deref().unwrap_or("default"))
    }

    /// Waits until logging in has failed permanently, and returns the reason.
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

    /// Returns true if logging in has failed permanently.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(*self.standing.borrow(), Standing::Failed(_))
    }

    /// While this is awaited, a login that takes longer than `patience` counts as failed.
    pub(crate) async fn hope_for(&self, patience: Duration) -> Infallible {
        let mut standing = self.standing.subscribe();
        let is_wanted = |it: &Standing| matches!(it, Standing::Wanted(..));
        loop {
            // The channel cannot be closed: the vault itself holds the sender.
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
            let Some(copy) = copy_of(&parts, &body).await else {
                // A streamed body cannot be sent twice.
                let request = Request::from_parts(parts, body);
                return Ok(session.client.send(request).await?);
            };
            let request = Request::from_parts(parts.clone(), copy);
            let answer = match session.client.send(request).await {
                Err(error) if is_distrust(&error) && session.since.elapsed() >= TRUSTED => {
                    let id = session.candidate.id.clone();
                    self.want(LoginReason::Distrusted(id), &session);
                    continue;
                }
                answer => answer?,
            };
            let is_refused = answer.status() == StatusCode::UNAUTHORIZED;
            if !is_refused || self.is_accepted(&session, &parts).await {
                return Ok(answer);
            }
            let why = LoginReason::Refused(session.candidate.id.clone());
            self.want(why, &session);
        }
    }

    /// Returns the credentials in use, and waits for a login if there are none.
    async fn session(&self) -> Result<Arc<Session>, BoxError> {
        let mut standing = self.standing.subscribe();
        loop {
            let now = standing.borrow_and_update().clone();
            match now {
                Standing::LoggedIn(session) => {
                    if !session.candidate.info.is_expired(self.clock.wall()) {
                        return Ok(session);
                    }
                    self.want(LoginReason::Expired(session.candidate.id.clone()), &session);
                }
                Standing::Failed(why) => return Err(why.to_string().into()),
                Standing::Unasked => {
                    self.standing.send_if_modified(|standing| {
                        let is_first = matches!(standing, Standing::Unasked);
                        if is_first {
                            *standing = Standing::Wanted(LoginReason::First, None);
                        }
                        is_first
                    });
                }
                Standing::Wanted(..) => standing.changed().await?,
            }
        }
    }

    /// Returns true if the server accepts the session's credentials although it has refused a request with them. An aggregated API behind the
    /// server may refuse credentials that the server accepts, and another login would not change that.
    async fn is_accepted(&self, session: &Session, refused: &Parts) -> bool {
        let mut reviews = session.reviews.lock().await;
        if !self.standing.borrow().is(session) {
            return false;
        }
        if reviews.kept.is_some_and(|at| at.elapsed() < SHOWN) {
            return true;
        }
        let answer = timeout(REVIEW, session.client.send(review(refused))).await;
        let code = answer.ok().and_then(Result::ok).map(|it| it.status());
        let is_kept = if code.is_none_or(is_later) {
            // The credentials may be valid: this request fails, and its next attempt reviews them again.
            let since = reviews.undecided.get_or_insert_with(Instant::now);
            since.elapsed() < UNDECIDED
        } else {
            reviews.undecided = None;
            code.is_some_and(|code| code.is_success())
        };
        reviews.kept = is_kept.then(Instant::now);
        is_kept
    }

    /// Requests a login in place of an unusable session. Does nothing if another session has already replaced it.
    fn want(&self, why: LoginReason, former: &Arc<Session>) {
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

    /// Ends logins, so that waiting requests fail immediately. Existing credentials stay in use while they are valid.
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

/// Returns true if the server says that it cannot answer now.
fn is_later(code: StatusCode) -> bool {
    let is_busy = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&code);
    is_busy || code.is_server_error()
}

impl Standing {
    /// Returns true if this is the session in use.
    fn is(&self, session: &Session) -> bool {
        matches!(self, Self::LoggedIn(it) if it.number == session.number)
    }
}
