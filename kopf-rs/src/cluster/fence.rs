//! The gate before all writes of an operator that must hold a Lease.
//!
//! Promises that a request that changes something is made only in a term, that the server is given no more time for it than the term has, and
//! that its body is handed to the connection only if both still hold then: whoever was frozen, suspended or waited for a connection sends
//! nothing that a server could act on. What passes just before the process stops is decided by the version that the request is bound to.
//! Must not know who grants terms.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use kube::Client;
use kube::client::Body;
use tower::service_fn;

use crate::cluster::error::ClusterError;
use crate::happening::meter::SharedMeter;
use crate::object::lease::{Moment, Term};
use crate::rt::clock::Clock;

/// The gate. Clones share it.
#[derive(Clone)]
pub(crate) struct Fence(Arc<Inside>);

struct Inside {
    clock: Clock,
    meter: SharedMeter,
    term: Mutex<Option<Term>>,
    /// Makes a body of kube's out of one of ours.
    dresser: Client,
}

/// That a request may be sent, if it is sent soon.
#[derive(Clone)]
pub(super) struct Pass {
    fence: Fence,
    term: u64,
    /// How much time the server is given.
    pub(super) timeout: Duration,
    /// How long its answer may be waited for.
    pub(super) patience: Duration,
    /// It was not handed to the connection.
    is_kept_back: Arc<AtomicBool>,
}

/// The content of a request, which is handed out only while its pass is good.
#[derive(Clone)]
struct FencedBody {
    pass: Pass,
    content: Option<Bytes>,
}

#[derive(Debug, thiserror::Error)]
#[error("it is not sent, since the term of this instance may be over")]
struct KeptBack;

impl Fence {
    /// Closed. Needs a tokio runtime.
    pub(crate) fn closed(clock: Clock, meter: SharedMeter) -> Self {
        Self(Arc::new(Inside {
            clock,
            meter,
            term: Mutex::default(),
            dresser: dresser(),
        }))
    }

    /// Now, by the clocks of this instance.
    pub(crate) fn now(&self) -> Moment {
        let clock = &self.0.clock;
        Moment {
            mono: clock.elapsed(),
            boot: clock.elapsed_since_boot(),
            wall: clock.wall(),
        }
    }

    /// From now on it is open for this term, or closed.
    pub(crate) fn set(&self, term: Option<Term>) {
        *self.lock() = term;
    }

    /// The number of the term that it is open for, though that may be over by now.
    pub(crate) fn term(&self) -> Option<u64> {
        self.lock().map(|it| it.number)
    }

    /// Let a request through that belongs to the term of that number; `None`: to whichever there is.
    pub(super) fn pass(&self, of: Option<u64>) -> Result<Pass, ClusterError> {
        let term = self.lock().filter(|it| of.is_none_or(|of| of == it.number));
        let Some(term) = term else {
            self.meter("start");
            return Err(ClusterError::Fenced);
        };
        let now = self.now();
        let Some(timeout) = term.time_for_request(&now) else {
            self.meter("start");
            return Err(late());
        };
        Ok(Pass {
            fence: self.clone(),
            term: term.number,
            timeout,
            patience: term.left(&now),
            is_kept_back: Arc::default(),
        })
    }

    /// A request is kept back there.
    fn meter(&self, point: &'static str) {
        if let Some(meter) = &self.0.meter {
            meter.fenced(point);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Term>> {
        self.0.term.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The term is renewed too late for that, and may go on.
fn late() -> ClusterError {
    ClusterError::Unreachable(
        "not sent, since the Lease of this instance was not renewed for too long".to_owned(),
    )
}

impl Pass {
    /// The target with the time that the server is given.
    pub(super) fn limited(&self, target: &str) -> String {
        let mark = if target.contains('?') { '&' } else { '?' };
        format!("{target}{mark}timeout={}ms", self.timeout.as_millis())
    }

    /// The request, with a body that is looked after.
    pub(super) async fn guard(&self, request: Request<Body>, content: Bytes) -> Request<Body> {
        let (mut parts, _) = request.into_parts();
        let body = FencedBody {
            pass: self.clone(),
            content: Some(content),
        };
        let dressed = body.clone().dressed().await;
        parts.extensions.insert(body);
        Request::from_parts(parts, dressed)
    }

    fn is_good(&self) -> bool {
        let term = self.fence.lock().filter(|it| it.number == self.term);
        let is_good = term.is_some_and(|it| it.may_send(self.timeout, &self.fence.now()));
        if !is_good && !self.is_kept_back.swap(true, Ordering::Relaxed) {
            self.fence.meter("send");
        }
        is_good
    }

    /// Why the request was not sent, if it is for this gate.
    pub(super) fn why_kept_back(&self) -> Option<ClusterError> {
        if !self.is_kept_back.load(Ordering::Relaxed) {
            return None;
        }
        let goes_on = self.fence.term() == Some(self.term);
        Some(if goes_on {
            late()
        } else {
            ClusterError::Fenced
        })
    }
}

/// The body once more, for a request that is sent again; `None` where it cannot be had twice.
pub(super) fn copy_of(parts: &Parts, body: &Body) -> impl Future<Output = Option<Body>> + use<> {
    let copy = body.try_clone();
    let fenced = parts.extensions.get::<FencedBody>().cloned();
    async move {
        match (copy, fenced) {
            (Some(copy), _) => Some(copy),
            (None, Some(fenced)) => Some(fenced.dressed().await),
            (None, None) => None,
        }
    }
}

impl FencedBody {
    /// As kube takes it. Bodies of answers may be of any kind, and those of requests only kube's own: so this one becomes that of an answer.
    async fn dressed(self) -> Body {
        let client = self.pass.fence.0.dresser.clone();
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(self);
        match client.send(request).await {
            Ok(answer) => answer.into_body(),
            // Only at the end of the runtime: nothing is sent any more.
            Err(_) => Body::empty(),
        }
    }
}

/// Answers each request with the body that comes with it.
fn dresser() -> Client {
    let service = service_fn(|mut request: Request<Body>| async move {
        let body = request.extensions_mut().remove::<FencedBody>();
        Ok::<_, Infallible>(Response::new(MaybeBody(body)))
    });
    Client::new(service, "default")
}

/// A body that lacks only where nobody has given one.
struct MaybeBody(Option<FencedBody>);

impl HttpBody for MaybeBody {
    type Data = Bytes;
    type Error = KeptBack;

    /// The connection asks for it, so there is one.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, KeptBack>>> {
        let Some(body) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let Some(content) = body.content.take() else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(if body.pass.is_good() {
            Ok(Frame::data(content))
        } else {
            Err(KeptBack)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|it| it.content.is_none())
    }

    fn size_hint(&self) -> SizeHint {
        let content = self.0.as_ref().and_then(|it| it.content.as_ref());
        SizeHint::with_exact(content.map_or(0, |it| it.len() as u64))
    }
}

#[cfg(test)]
mod tests;
