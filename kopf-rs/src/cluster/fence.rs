//! The gate before all writes of an operator that must hold a Lease.
//!
//! This module guarantees that a changing request is only made within a term, that the server's timeout for it ends
//! within the term, and that its body reaches the connection only if both still hold at that time. An instance that
//! was frozen, suspended or waiting for a connection therefore sends nothing that a server could act on. For a
//! request that passes just before the process stops, the bound object version decides. It does not know who grants
//! terms.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
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
    /// Converts one of our bodies to a body of kube's type.
    dresser: Client,
}

/// The permission to send one request soon.
#[derive(Clone)]
pub(super) struct Pass {
    fence: Fence,
    term: u64,
    /// The time limit that is given to the server.
    pub(super) timeout: Duration,
    /// The time limit for waiting for the response.
    pub(super) patience: Duration,
    /// Set if the body was withheld from the connection.
    is_kept_back: Arc<AtomicBool>,
}

/// The content of a request, which is released only while its pass is valid.
#[derive(Clone)]
struct FencedBody {
    pass: Pass,
    content: Option<Bytes>,
}

#[derive(Debug, thiserror::Error)]
#[error("it is not sent, since the term of this instance may be over")]
struct KeptBack;

impl Fence {
    /// Creates a closed gate. Must be called within a tokio runtime.
    pub(crate) fn closed(clock: Clock, meter: SharedMeter) -> Self {
        Self(Arc::new(Inside { clock, meter, term: Mutex::default(), dresser: dresser() }))
    }

    /// Returns the current time by the clocks of this instance.
    pub(crate) fn now(&self) -> Moment {
        let clock = &self.0.clock;
        Moment { mono: clock.elapsed(), boot: clock.elapsed_since_boot(), wall: clock.wall() }
    }

    /// Opens the gate for this term, or closes it.
    pub(crate) fn set(&self, term: Option<Term>) {
        *self.0.term.lock() = term;
    }

    /// Returns the number of the term that the gate was opened for, even if the term has ended meanwhile.
    pub(crate) fn term(&self) -> Option<u64> {
        self.0.term.lock().map(|it| it.number)
    }

    /// Returns whether a call may begin. Compares the clocks, because after a freeze the election has not noticed the end of the term yet.
    pub(crate) fn may_begin(&self) -> bool {
        let now = self.now();
        self.0.term.lock().is_some_and(|term| term.may_begin(&now))
    }

    /// Admits a request of the term with that number, or of any current term if `None`.
    pub(super) fn pass(&self, of: Option<u64>) -> Result<Pass, ClusterError> {
        let term = self.0.term.lock().filter(|it| of.is_none_or(|of| of == it.number));
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

    /// Counts a request that was held back at this point.
    fn meter(&self, point: &'static str) {
        if let Some(meter) = &self.0.meter {
            meter.fenced(point);
        }
    }
}

/// The error for a term that was renewed too late for this request but may continue.
fn late() -> ClusterError {
    ClusterError::Unreachable(
        "not sent, since the Lease of this instance was not renewed for too long".to_owned(),
    )
}

impl Pass {
    /// Returns the target with the server's timeout as a query parameter.
    pub(super) fn limited(&self, target: &str) -> String {
        let mark = if target.contains('?') { '&' } else { '?' };
        format!("{target}{mark}timeout={}ms", self.timeout.as_millis())
    }

    /// Replaces the body of the request by one that checks the pass when it is read.
    pub(super) async fn guard(&self, request: Request<Body>, content: Bytes) -> Request<Body> {
        let (mut parts, _) = request.into_parts();
        let body = FencedBody { pass: self.clone(), content: Some(content) };
        let dressed = body.clone().dressed().await;
        parts.extensions.insert(body);
        Request::from_parts(parts, dressed)
    }

    fn is_good(&self) -> bool {
        let term = self.fence.0.term.lock().filter(|it| it.number == self.term);
        let is_good = term.is_some_and(|it| it.may_send(self.timeout, &self.fence.now()));
        if !is_good && !self.is_kept_back.swap(true, Ordering::Relaxed) {
            self.fence.meter("send");
        }
        is_good
    }

    /// Returns why the gate held the request back, or `None` if it did not.
    pub(super) fn why_kept_back(&self) -> Option<ClusterError> {
        if !self.is_kept_back.load(Ordering::Relaxed) {
            return None;
        }
        let goes_on = self.fence.term() == Some(self.term);
        Some(if goes_on { late() } else { ClusterError::Fenced })
    }
}

/// Returns a copy of the body for resending a request, or `None` if the body cannot be copied.
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
    /// Converts the body to kube's type. Response bodies may have any type, but request bodies only kube's own, so the body travels through a
    /// local response.
    async fn dressed(self) -> Body {
        let client = self.pass.fence.0.dresser.clone();
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(self);
        match client.send(request).await {
            Ok(answer) => answer.into_body(),
            // Happens only while the runtime shuts down: no request is sent any more.
            Err(_) => Body::empty(),
        }
    }
}

/// Returns a client that answers each request with the body attached to it.
fn dresser() -> Client {
    let service = service_fn(|mut request: Request<Body>| async move {
        let body = request.extensions_mut().remove::<FencedBody>();
        Ok::<_, Infallible>(Response::new(MaybeBody(body)))
    });
    Client::new(service, "default")
}

/// A response body, absent only if the request had none attached.
struct MaybeBody(Option<FencedBody>);

impl HttpBody for MaybeBody {
    type Data = Bytes;
    type Error = KeptBack;

    /// A poll means that the connection is established.
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
        Poll::Ready(Some(if body.pass.is_good() { Ok(Frame::data(content)) } else { Err(KeptBack) }))
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
