//! The address of a webhook: a URL, or a Service of the cluster.
//!
//! Must not depend on the question that is sent.

use std::time::Duration;

use serde_json::Value;

use super::client::Query;
use super::hook::word;
use crate::store::Store;

/// The client configuration of a webhook.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    url: Option<String>,
    service: Option<Service>,
    /// The trusted certificates: PEM, in base64.
    authority: String,
}

/// A Service of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Service {
    namespace: String,
    name: String,
    path: String,
    port: u16,
}

// === impl Client ===

impl Client {
    /// Reads a `clientConfig`.
    pub(crate) fn of(config: &Value) -> Self {
        let url = config.get("url").and_then(Value::as_str);
        let service = config.get("service").filter(|found| found.is_object());
        Self {
            url: url.map(str::to_owned),
            service: service.map(|service| Service {
                namespace: word(service, "namespace").to_owned(),
                name: word(service, "name").to_owned(),
                path: word(service, "path").to_owned(),
                port: service
                    .get("port")
                    .and_then(Value::as_u64)
                    .and_then(|port| u16::try_from(port).ok())
                    .unwrap_or(443),
            }),
            authority: word(config, "caBundle").to_owned(),
        }
    }

    /// Builds the request to the webhook.
    pub(crate) fn query(&self, store: &Store, timeout: Duration, body: Value) -> Query {
        let seconds = timeout.as_secs();
        let (start, address) = match (&self.url, &self.service) {
            (Some(url), _) => (url.clone(), None),
            (None, Some(service)) => {
                let (name, namespace) = (&service.name, &service.namespace);
                let key = (namespace.clone(), name.clone());
                let known = store.admission.services.get(&key).copied();
                let there = crate::access::token::found(store, "services", Some(namespace), name);
                let missing = || match there {
                    Some(_) => format!("no endpoints available for service {name:?}"),
                    None => format!("service {name:?} not found"),
                };
                let path = if service.path.is_empty() {
                    "/"
                } else {
                    &service.path
                };
                let url = format!("https://{name}.{namespace}.svc:{}{path}", service.port);
                (url, Some(known.ok_or_else(missing)))
            }
            (None, None) => (String::new(), None),
        };
        let mark = if start.contains('?') { '&' } else { '?' };
        Query {
            url: format!("{start}{mark}timeout={seconds}s"),
            address,
            authority: self.authority.clone(),
            timeout,
            body,
        }
    }
}
