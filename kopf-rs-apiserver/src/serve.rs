//! The in-memory transport: a `tower::Service` around the core.
//!
//! Promise: the same answers as over TCP, under virtual time too. Must not know verbs.

pub(crate) mod body;
pub(crate) mod listen;
pub(crate) mod tls;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header, request::Parts};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::watch;

use crate::call::Call;
use crate::fault::{Action, Faults};
use crate::journal::{Journal, Outcome};
use crate::render;
use crate::status::Refusal;
use crate::store::Store;
use crate::verb::{self, Answer, Content};
use body::{ApiBody, WatchBody};

/// The largest request body that is read.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// What all handles of a server share.
#[derive(Debug)]
pub(crate) struct Core {
    store: Mutex<Store>,
    pub(crate) journal: Journal,
    pub(crate) faults: Faults,
}

// === impl Core ===

impl Core {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store: Mutex::new(store),
            journal: Journal::new(),
            faults: Faults::new(),
        }
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection was dropped, as a fault demanded.
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
    /// Demanded of every request, if there is one.
    token: Option<Arc<str>>,
    /// Ends watches when it turns true.
    closing: Option<watch::Receiver<bool>>,
}

// === impl ApiService ===

impl ApiService {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            token: None,
            closing: None,
        }
    }

    pub(crate) fn guarded(mut self, token: Arc<str>, closing: watch::Receiver<bool>) -> Self {
        self.token = Some(token);
        self.closing = Some(closing);
        self
    }

    async fn respond<B>(self, request: Request<B>) -> Result<Response<ApiBody>, Dropped>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let call = match read(body).await {
            Ok(bytes) => Call::new(&parts, bytes),
            Err(Unread::TooLarge) => return Ok(self.too_large(&parts)),
            Err(Unread::Broken) => return Err(Dropped),
        };
        let call = Arc::new(call);
        if !self.is_admitted(&call) {
            return Ok(self.refuse(&call, &Refusal::unauthorized()));
        }
        let faults = self.core.faults.of_request(&call);
        for fault in &faults {
            match fault {
                Action::Delay(delay) => tokio::time::sleep(*delay).await,
                Action::DropBefore => return Err(Dropped),
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
        let result = verb::answer(&mut self.core.store(), &call);
        self.finish(&call, result, &faults)
    }

    /// Note what came of a call and turn it into a response, unless a fault loses it.
    fn finish(
        &self,
        call: &Arc<Call>,
        result: Result<Answer, Refusal>,
        faults: &[Action],
    ) -> Result<Response<ApiBody>, Dropped> {
        let mut outcome = match &result {
            Ok(answer) => Outcome {
                code: answer.code,
                revision: answer.revision,
                changed: answer.changed,
            },
            Err(refusal) => refused(refusal),
        };
        for fault in faults {
            match fault {
                Action::AnswerAfterWrite(code) => {
                    outcome.code = *code;
                    self.core.journal.note(call.clone(), outcome);
                    return Ok(refusal_response(&Refusal::of_code(*code)));
                }
                Action::DropAfter => {
                    self.core.journal.note(call.clone(), outcome);
                    return Err(Dropped);
                }
                _ => {}
            }
        }
        self.core.journal.note(call.clone(), outcome);
        Ok(match result {
            Ok(answer) => self.response(call, answer),
            Err(refusal) => refusal_response(&refusal),
        })
    }

    fn is_admitted(&self, call: &Call) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let open = matches!(
            call.segments.first().map(String::as_str),
            Some("healthz" | "readyz" | "livez" | "version")
        );
        let given = call
            .authorization
            .as_deref()
            .and_then(|text| text.strip_prefix("Bearer "));
        match given {
            Some(given) => given.trim() == &**token,
            None => open,
        }
    }

    fn refuse(&self, call: &Arc<Call>, refusal: &Refusal) -> Response<ApiBody> {
        self.core.journal.note(call.clone(), refused(refusal));
        refusal_response(refusal)
    }

    fn too_large(&self, parts: &Parts) -> Response<ApiBody> {
        let call = Arc::new(Call::new(parts, Bytes::new()));
        let message = format!("Request entity too large: limit is {BODY_LIMIT}");
        self.refuse(&call, &Refusal::too_large(message))
    }

    fn response(&self, call: &Arc<Call>, answer: Answer) -> Response<ApiBody> {
        let body = match answer.content {
            Content::Bytes(bytes) => ApiBody::full(bytes),
            Content::Watch(watch) => {
                let faults = self.core.faults.clone();
                ApiBody::watch(WatchBody::new(
                    *watch,
                    faults,
                    call.clone(),
                    self.closing.clone(),
                ))
            }
        };
        let mut response = response(answer.code, answer.content_type, body);
        for warning in &answer.warnings {
            let text = format!(
                "299 - \"{}\"",
                warning.replace('\\', "\\\\").replace('"', "\\\"")
            );
            if let Ok(value) = HeaderValue::from_str(&text) {
                response.headers_mut().append(header::WARNING, value);
            }
        }
        response
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
    }
}

fn refusal_response(refusal: &Refusal) -> Response<ApiBody> {
    if let Some(text) = refusal.plain_text() {
        let body = ApiBody::full(Bytes::copy_from_slice(text.as_bytes()));
        return response(refusal.code, "text/plain; charset=utf-8", body);
    }
    let body = ApiBody::full(render::to_bytes(&refusal.body()));
    let mut response = response(refusal.code, "application/json", body);
    if let Some(seconds) = refusal.retry_after_seconds() {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn response(code: u16, content_type: &'static str, body: ApiBody) -> Response<ApiBody> {
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
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
