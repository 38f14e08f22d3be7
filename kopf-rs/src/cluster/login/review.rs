//! Builds the request that finds out whether the server accepts credentials at all.
//!
//! This module must not depend on the consequences of the response.

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderValue, Method, Request};
use kube::client::Body;

const PATH: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const BODY: &[u8] = br#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Builds a `SelfSubjectReview`, which every authenticated user may send and which the server itself answers. A server before Kubernetes 1.28
/// does not support it, so its response does not confirm the credentials. `like` is the request that was refused.
pub(super) fn review(like: &Parts) -> Request<Body> {
    let mut request = Request::new(Body::from(BODY.to_vec()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static(PATH);
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, JSON);
    if let Some(agent) = like.headers.get(USER_AGENT) {
        headers.insert(USER_AGENT, agent.clone());
    }
    request
}
