//! The in-memory transport: a `tower::Service` around the server's core.
//!
//! Guarantees the same answers as over TCP, under virtual time, too. Must not depend on verbs.

pub(crate) mod body;
pub(crate) mod listen;
mod polish;
mod reply;
pub(crate) mod shared;
mod socket;
pub(crate) mod tls;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, RwLockReadGuard};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::watch;

use crate::access::{self, User};
use crate::admission::{Round, client};
use crate::call::{Call, timeout};
use crate::fault::{Action, Faults};
use crate::journal::Outcome;
use crate::keep::Keeper;
use crate::status::Refusal;
use crate::store::Store;
use crate::store::batch::Effect;
use crate::verb::{self, Answer};
use body::ApiBody;
use shared::{Answered, Core};

/// The maximum size of a request body.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// The server dropped the connection because of an injected fault.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("connection dropped by the server")]
pub struct Dropped;

/// The server as a [`tower::Service`]; every HTTP client library that takes one can use it.
///
/// ```
/// # async fn example() -> Result<(), kube::Error> {
/// let server = kopf_rs_apiserver::ApiServer::new();
/// let client = kube::Client::new(server.service(), "default");
/// client.apiserver_version().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ApiService {
    core: Arc<Core>,
    /// The user of requests without credentials; `None` makes them anonymous.
    unnamed: Option<Arc<User>>,
    /// Ends watches when it becomes true.
    closing: Option<watch::Receiver<bool>>,
    /// The faults that are injected into this service's requests.
    faults: Faults,
}

// === impl ApiService ===

impl ApiService {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self {
            faults: core.faults.clone(),
            core,
            unnamed: Some(Arc::new(User::admin())),
            closing: None,
        }
    }

    /// Returns a service of the same server without faults: [`ApiServer::fault`](crate::ApiServer::fault) does not affect its requests.
    /// Use it in a test that inspects the cluster while its operator experiences faults.
    #[must_use]
    pub fn without_faults(mut self) -> Self {
        self.faults = Faults::new();
        self
    }

    /// Returns a service of the same server for a user: requests without a token are authorized by RBAC as this user.
    #[must_use]
    pub fn as_user(mut self, user: User) -> Self {
        self.unnamed = Some(Arc::new(user.authenticated()));
        self
    }

    pub(crate) fn guarded(mut self, closing: watch::Receiver<bool>) -> Self {
        self.unnamed = None;
        self.closing = Some(closing);
        self
    }

    async fn respond<B>(self, request: Request<B>) -> Result<Response<ApiBody>, Dropped>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (mut parts, body) = request.into_parts();
        let wish = socket::Wish::of(&mut parts);
        let mut call = match read(body).await {
            Ok(bytes) => Call::new(&parts, bytes),
            Err(Unread::TooLarge) => return Ok(self.too_large(&parts)),
            Err(Unread::Broken) => return Err(Dropped),
        };
        if !call.has_readable_path() {
            return Ok(self.refuse(&Arc::new(call), &Refusal::unreadable_path()));
        }
        let admitted = timeout::check(&call).and_then(|()| self.admit(&mut call));
        let call = Arc::new(call);
        if let Err(refusal) = admitted {
            return Ok(self.refuse(&call, &refusal));
        }
        let faults = self.faults.of_request(&call);
        for fault in &faults {
            match fault {
                Action::Delay(delay) => tokio::time::sleep(*delay).await,
                Action::DropBefore => return Err(Dropped),
                Action::Compact => self.core.store().compact(),
                Action::JumpClock(seconds) => self.core.jump_clock(*seconds),
                Action::Answer(code, after) => {
                    let refusal = Refusal::of_code(*code);
                    let refusal = match after {
                        Some(after) => refusal.retry_after(after.as_secs()),
                        None => refusal,
                    };
                    return Ok(self.refuse(&call, &refusal));
                }
                _ => {}
            }
        }
        let response = {
            let ((result, effects), noting) = self.answer(&call).await;
            Keeper::start(&self.core);
            let response = self.finish(&call, result, effects, &faults);
            drop(noting);
            response
        };
        let response = response.map(|response| socket::over(wish, response));
        for fault in &faults {
            if let Action::DelayAnswer(delay) = fault {
                tokio::time::sleep(*delay).await;
            }
        }
        response
    }

    /// Answers a call. If webhooks must be called, calls them and runs the verb again with their answers.
    async fn answer(&self, call: &Arc<Call>) -> (Answered, RwLockReadGuard<'_, ()>) {
        let mut round = Round::new(call.clone());
        loop {
            let run = |store: &mut Store| round.play(store, |store| verb::answer(store, call));
            {
                let noting = self.core.journal.noting();
                if let Some((result, effects)) = self.core.answer(run) {
                    let warned = |mut answer: Answer| {
                        answer.warnings.extend(round.warnings());
                        answer
                    };
                    return ((result.map(warned), effects), noting);
                }
            }
            let said = client::ask_all(round.questions()).await;
            round.note(said);
        }
    }

    /// Records the result in the journal and converts it to a response, unless a fault replaces it.
    fn finish(
        &self,
        call: &Arc<Call>,
        result: Result<Answer, Refusal>,
        effects: Vec<Effect>,
        faults: &[Action],
    ) -> Result<Response<ApiBody>, Dropped> {
        let mut outcome = match &result {
            Ok(answer) => Outcome {
                code: answer.code,
                revision: answer.revision,
                changed: answer.changed,
                effects: Vec::new(),
            },
            Err(refusal) => refused(refusal),
        };
        outcome.effects = effects;
        for fault in faults {
            match fault {
                Action::AnswerAfterWrite(code) => {
                    outcome.code = *code;
                    self.core.journal.note(call.clone(), &outcome);
                    return Ok(reply::of_refusal(&Refusal::of_code(*code)));
                }
                Action::DropAfter => {
                    self.core.journal.note(call.clone(), &outcome);
                    return Err(Dropped);
                }
                _ => {}
            }
        }
        self.core.journal.note(call.clone(), &outcome);
        Ok(match result {
            Ok(answer) => {
                let closing = self.closing.as_ref();
                reply::of_answer(call, answer, &self.faults, closing)
            }
            Err(refusal) => reply::of_refusal(&refusal),
        })
    }

    /// Authenticates and authorizes a call.
    fn admit(&self, call: &mut Call) -> Result<(), Refusal> {
        let named = call.authorization.is_some() || !call.impersonation.is_empty();
        if let Some(user) = self
            .unnamed
            .as_ref()
            .filter(|user| user.is_master() && !named)
        {
            call.user = user.clone();
            return Ok(());
        }
        let token = call.authorization.as_deref();
        if let Some(user) = self.core.tokens.master(token)
            && call.impersonation.is_empty()
        {
            call.user = user;
            return Ok(());
        }
        access::admit(&mut self.core.store(), call, self.unnamed.as_ref())
    }

    fn refuse(&self, call: &Arc<Call>, refusal: &Refusal) -> Response<ApiBody> {
        self.core.journal.note(call.clone(), &refused(refusal));
        reply::of_refusal(refusal)
    }

    fn too_large(&self, parts: &Parts) -> Response<ApiBody> {
        let call = Arc::new(Call::new(parts, Bytes::new()));
        let message = format!("Request entity too large: limit is {BODY_LIMIT}");
        self.refuse(&call, &Refusal::too_large(message))
    }
}

enum Unread {
    TooLarge,
    Broken,
}

async fn read<B>(body: B) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Unread::TooLarge),
        Err(_) => Err(Unread::Broken),
    }
}

fn refused(refusal: &Refusal) -> Outcome {
    Outcome {
        code: refusal.code,
        revision: None,
        changed: false,
        effects: Vec::new(),
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ApiBody>;
    type Error = Dropped;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.clone().respond(request))
    }
}
