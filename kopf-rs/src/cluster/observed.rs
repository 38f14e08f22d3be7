//! A client for a handler that answers a review. It notes those of its requests that the same webhook must answer first.
//!
//! The API server sends such a request to the webhook, too, and waits for it: a handler that awaits the request
//! deadlocks with itself. This module does not know how that is reported.

use std::sync::Arc;

#[cfg(feature = "testing")]
use http::{HeaderMap, Uri};
use http::{Method, Request};
use kube::client::Body;
use parking_lot::Mutex;

use crate::cluster::Client;
use crate::object::resource::Resource;
use crate::object::sent_request::SentRequest;

/// The object under review.
#[derive(Clone, Debug)]
pub(crate) struct Reviewed {
    pub(crate) resource: Arc<Resource>,
    pub(crate) subresource: Option<String>,
    pub(crate) namespace: Option<String>,
    /// Empty if the API server is to generate the name.
    pub(crate) name: String,
}

/// The requests that were sent and are still unanswered.
#[derive(Clone, Debug)]
pub(crate) struct OwnRequests {
    about: Arc<Reviewed>,
    unanswered: Arc<Mutex<Vec<OwnRequest>>>,
}

/// A request about the kind under review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// True if the request is about the reviewed object itself.
    pub(crate) is_same: bool,
}

impl OwnRequests {
    pub(crate) fn new(about: Reviewed) -> Self {
        Self { about: Arc::new(about), unanswered: Arc::default() }
    }

    /// Returns the same client, with its requests noted.
    pub(crate) fn observing(&self, client: &Client) -> Client {
        let (own, inner) = (self.clone(), client.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (own, inner) = (own.clone(), inner.clone());
            async move {
                let noted = own.about.is_about(request.method(), request.uri().path());
                own.unanswered.lock().extend(noted.clone());
                let answer = inner.send(request).await;
                own.answered(noted.as_ref());
                answer
            }
        });
        Client::new(service, client.default_namespace())
    }

    /// Returns the first unanswered request, including cancelled ones.
    pub(crate) fn first_unanswered(&self) -> Option<OwnRequest> {
        self.unanswered.lock().first().cloned()
    }

    fn answered(&self, request: Option<&OwnRequest>) {
        let mut unanswered = self.unanswered.lock();
        let at = unanswered.iter().position(|it| Some(it) == request);
        if let Some(at) = at {
            unanswered.remove(at);
        }
    }
}

impl Reviewed {
    /// Returns the request if it would change an object of this kind.
    fn is_about(&self, method: &Method, path: &str) -> Option<OwnRequest> {
        let sent = SentRequest::read(method.as_str(), path, "")?;
        let is_change = !["get", "list", "watch"].contains(&sent.verb);
        let is_kind = sent.group == self.resource.group && sent.plural == self.resource.plural;
        if !is_change || !is_kind || sent.subresource != self.subresource {
            return None;
        }
        let is_same = sent.name.as_ref() == Some(&self.name)
            && (!self.resource.namespaced || sent.namespace == self.namespace);
        Some(OwnRequest { method: method.clone(), path: path.to_owned(), is_same })
    }
}

/// Returns a client that passes the method, the URI and the headers of each request to `note` before it sends it.
#[cfg(feature = "testing")]
pub(crate) fn noting(client: &Client, note: impl Fn(&Method, &Uri, &HeaderMap) + Send + 'static) -> Client {
    let inner = client.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        note(request.method(), request.uri(), request.headers());
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    Client::new(service, client.default_namespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_about_the_kind_under_review_are_known() {
        let pod = Reviewed {
            resource: Arc::new(Resource::built_in("", "Pod", true)),
            subresource: None,
            namespace: Some("team".to_owned()),
            name: "one".to_owned(),
        };
        let app = Reviewed {
            resource: Arc::new(Resource::built_in("example.com", "App", false)),
            subresource: Some("status".to_owned()),
            namespace: None,
            name: "one".to_owned(),
        };
        for (reviewed, method, path, expected) in [
            (&pod, "PATCH", "/api/v1/namespaces/team/pods/one", Some(true)),
            (&pod, "DELETE", "/api/v1/namespaces/team/pods/one", Some(true)),
            (&pod, "PATCH", "/api/v1/namespaces/other/pods/one", Some(false)),
            (&pod, "POST", "/api/v1/namespaces/team/pods", Some(false)),
            (&pod, "GET", "/api/v1/namespaces/team/pods/one", None),
            (&pod, "PATCH", "/api/v1/namespaces/team/pods/one/status", None),
            (&pod, "PATCH", "/api/v1/namespaces/team/secrets/one", None),
            (&app, "PUT", "/apis/example.com/v2/apps/one/status", Some(true)),
            (&app, "PUT", "/apis/example.com/v2/apps/one", None),
            (&app, "PUT", "/apis/example.org/v2/apps/one/status", None),
            (&app, "PUT", "/version", None),
        ] {
            let method: Method = method.parse().unwrap();
            let found = reviewed.is_about(&method, path);
            assert_eq!(found.map(|it| it.is_same), expected, "{method} {path}");
        }
        let namespace = Reviewed {
            resource: Arc::new(Resource::built_in("", "Namespace", false)),
            subresource: None,
            namespace: None,
            name: "team".to_owned(),
        };
        let found = namespace.is_about(&Method::PATCH, "/api/v1/namespaces/team");
        assert!(found.is_some_and(|it| it.is_same));
    }
}
