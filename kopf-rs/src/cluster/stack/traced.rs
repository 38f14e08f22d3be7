//! Adds requests to traces: the framework's own requests, and those of handlers that use the operator's client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower::Service;
use tracing::Instrument as _;

use crate::happening::spans;

/// Creates a span for each request that is sent within another span.
pub(super) struct Traced<S> {
    inner: S,
    server: Arc<str>,
}

impl<S> Traced<S> {
    pub(super) fn new(inner: S, server: &str) -> Self {
        let server = server.into();
        Self { inner, server }
    }
}

impl<S, B, A> Service<Request<B>> for Traced<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
    S::Response: Send,
    S::Error: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let span = spans::request(request.method().as_str(), request.uri().path(), &self.server);
        if span.is_disabled() {
            return Box::pin(self.inner.call(request));
        }
        #[cfg(feature = "otel")]
        let request = with_parent(request, &span);
        let answer = self.inner.call(request);
        let answered = span.clone();
        let answer = async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|it| it.status().as_u16());
            spans::answered(&answered, code);
            answer
        };
        Box::pin(answer.instrument(span))
    }
}

/// Adds the trace context, so that an API server with tracing continues the trace.
#[cfg(feature = "otel")]
fn with_parent<B>(mut request: Request<B>, span: &tracing::Span) -> Request<B> {
    let parent = spans::traceparent(span).and_then(|it| it.parse().ok());
    if let Some(parent) = parent {
        request.headers_mut().insert("traceparent", parent);
    }
    request
}
