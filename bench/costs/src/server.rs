//! The in-process API server as a client's service. Each poll of it is enclosed in [`in_server`], and neither side frees memory that the
//! other one has allocated.
//!
//! Must not know the requests.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use kopf_rs_apiserver::{ApiBody, ApiService, Dropped, Reset};
use kube::client::Body;
use tower::Service;

use crate::counted::{in_server, look};

/// The server as the operator sees it.
#[derive(Clone)]
pub struct Counted(pub ApiService);

/// The body of an answer; `None` once it is dropped.
pub struct CountedBody(Option<Pin<Box<ApiBody>>>);

/// A future that is polled and dropped inside of [`in_server`].
pub struct InServer<F>(Option<Pin<Box<F>>>);

impl<F: Future> InServer<F> {
    pub fn new(work: impl FnOnce() -> F) -> Self {
        Self(Some(in_server(|| Box::pin(work()))))
    }
}

impl<F: Future> Future for InServer<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let work = self.0.as_mut().expect("polled until it is ready");
        in_server(|| work.as_mut().poll(context))
    }
}

impl<F> Drop for InServer<F> {
    fn drop(&mut self) {
        in_server(|| drop(self.0.take()));
    }
}

impl Service<Request<Body>> for Counted {
    type Response = Response<CountedBody>;
    type Error = Dropped;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Dropped>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Dropped>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut service = self.0.clone();
        Box::pin(async move {
            look();
            let (parts, body) = request.into_parts();
            let sent = body.collect().await.map_err(|_| Dropped)?.to_bytes();
            let answering = InServer::new(|| {
                let mut copy = Request::new(Full::new(Bytes::copy_from_slice(&sent)));
                *copy.method_mut() = parts.method.clone();
                let target = parts.uri.to_string();
                *copy.uri_mut() = target.parse().expect("a target that was one before");
                for (name, value) in &parts.headers {
                    let value = http::HeaderValue::from_bytes(value.as_bytes());
                    let name = http::HeaderName::from_bytes(name.as_str().as_bytes());
                    copy.headers_mut().append(name.expect("a name"), value.expect("a value"));
                }
                service.call(copy)
            });
            let (answer, body) = answering.await?.into_parts();
            let mut copy = Response::new(CountedBody(Some(in_server(|| Box::pin(body)))));
            *copy.status_mut() = answer.status;
            for (name, value) in &answer.headers {
                copy.headers_mut().append(name.clone(), value.clone());
            }
            in_server(|| drop(answer));
            Ok(copy)
        })
    }
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = Reset;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Reset>>> {
        look();
        let body = self.0.as_mut().expect("there until it is dropped");
        let polled = in_server(|| body.as_mut().poll_frame(context));
        let copied = |frame: Frame<Bytes>| {
            let data = frame.into_data().unwrap_or_default();
            let copy = Bytes::copy_from_slice(&data);
            in_server(|| drop(data));
            Frame::data(copy)
        };
        polled.map(|frame| frame.map(|frame| frame.map(copied)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|body| body.is_end_stream())
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        in_server(|| drop(self.0.take()));
    }
}
