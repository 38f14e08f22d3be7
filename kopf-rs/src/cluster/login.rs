//! Credentials that come from somebody who can be asked for new ones: kept, used, and asked for again when they expire or are refused, and when
//! the server is not trusted any more by the authorities that came with them.
//!
//! Promises that one login serves all requests that wait for it, that a request which was refused with 401 is sent again with the new
//! credentials where the server takes the former ones for nothing else either, and that credentials which were refused are not tried again.
//! Must not know how a login is made.

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
use crate::cluster::fence::copy_of;
use crate::cluster::login::review::review;
use crate::cluster::stack::is_distrust;
use crate::object::login::{LoginReason, LoginSetback};
use crate::rt::clock::Clock;

mod review;
mod session;
pub(crate) mod task;
#[cfg(test)]
mod tests;

/// A source of credentials.
pub(crate) trait LoginSource: Send {
    /// All there are. The error ends the operator: it says what has failed, and what to do.
    fn login(&mut self, why: LoginReason) -> BoxFuture<'_, Result<Vec<Candidate>, String>>;

    /// What it has given is no good, so it is asked again, after that time.
    fn will_be_asked_again(&mut self, setback: LoginSetback, pause: Duration);
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
    Wanted(LoginReason, Option<Arc<Session>>),
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
    reviews: tokio::sync::Mutex<Reviews>,
}

/// What the server has said of the credentials, asked after it had refused a request.
#[derive(Default)]
struct Reviews {
    /// When they were asked about last, and stayed in use.
    kept: Option<Instant>,
    /// Since when it gives no answer that says so or not.
    undecided: Option<Instant>,
}

/// Why there are no credentials for a client that somebody has kept.
const ENDED: &str = "the operator has ended, so its login handlers are not called any more: a client that outlives it needs credentials of its own";
/// After a review that keeps the credentials, no other one is sent for so long.
const SHOWN: Duration = Duration::from_secs(1);
/// For so long after a login the authorities that it has given are not asked for again: a login may bring the same ones each time.
const TRUSTED: Duration = Duration::from_secs(60);
/// A server that does not answer for so long does not say whether it takes them.
const REVIEW: Duration = Duration::from_secs(10);
/// Where the server does not say so for longer, the credentials count as refused.
const UNDECIDED: Duration = Duration::from_secs(60);

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
            let Some(copy) = copy_of(&parts, &body).await else {
                // What is streamed cannot be sent twice.
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

    /// The credentials in use; waits for a login where there are none.
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

    /// Whether the server takes the credentials of the session, though it has refused a request that had them: an API behind it may refuse what
    /// the server itself accepts, and another login would change nothing.
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
            // The credentials may be good: the request fails, and its next attempt asks again.
            let since = reviews.undecided.get_or_insert_with(Instant::now);
            since.elapsed() < UNDECIDED
        } else {
            reviews.undecided = None;
            code.is_some_and(|code| code.is_success())
        };
        reviews.kept = is_kept.then(Instant::now);
        is_kept
    }

    /// The session is no good any more. Where another one has taken its place, nothing is wanted.
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

/// Whether the server says that it cannot answer now.
fn is_later(code: StatusCode) -> bool {
    let is_busy = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&code);
    is_busy || code.is_server_error()
}

impl Standing {
    /// Whether that is the session in use.
    fn is(&self, session: &Session) -> bool {
        matches!(self, Self::LoggedIn(it) if it.number == session.number)
    }
}
