//! Parses an HTTP request: verb, target, query, accepted form and body.
//!
//! Pure: no I/O, no store, and the same request always gives the same call. Independent of whether the target exists.

mod body;
mod form;
pub(crate) mod go;
mod option;
mod path;
pub(crate) mod timeout;
mod yaml;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, header, request::Parts};

pub(crate) use body::{Document, PROTOBUF, Wanted};
pub(crate) use form::{Accepted, Form, Included, Look};
pub(crate) use option::{UnknownFields, bad_dry_run, unmarshal_errors};
pub(crate) use path::Path;

use crate::access::User;
use path::{decode, legacy_watch, parse_query, resource_path, segments, verb_of};

/// The verb of a request, in Kubernetes' terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Read one object, or a page such as discovery.
    Get,
    /// Read a collection.
    List,
    /// Watch a collection.
    Watch,
    /// `POST` to a collection.
    Create,
    /// `PUT` to an object.
    Update,
    /// `PATCH` to an object.
    Patch,
    /// `DELETE` of one object.
    Delete,
    /// `DELETE` of a collection.
    DeleteCollection,
    /// Anything else: discovery, health, unknown paths.
    Other,
}

/// A parsed request.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) raw_path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) verb: Verb,
    /// The decoded segments of the path.
    pub(crate) segments: Vec<String>,
    pub(crate) ends_in_slash: bool,
    /// The path itself asks for a watch, in the deprecated form.
    pub(crate) watched_by_path: bool,
    pub(crate) path: Option<Path>,
    pub(crate) accepted: Accepted,
    pub(crate) content_type: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) authorization: Option<String>,
    /// The impersonation headers, with names in lower case.
    pub(crate) impersonation: Vec<(String, String)>,
    /// The user of the request; anonymous until authentication.
    pub(crate) user: Arc<User>,
    /// The `If-None-Match` header.
    pub(crate) known: Option<String>,
    pub(crate) body: Bytes,
}

// === impl Call ===

impl fmt::Debug for Call {
    /// Omits the token and the body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.method)
            .field("raw_path", &self.raw_path)
            .field("query", &self.query)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Call {
    pub(crate) fn new(parts: &Parts, body: Bytes) -> Self {
        let raw_path = parts.uri.path().to_owned();
        let (mut segments, ends_in_slash) = segments(&decode(&raw_path, false));
        let query = parse_query(parts.uri.query().unwrap_or_default());
        let watched = legacy_watch(&mut segments);
        let path = resource_path(&segments);
        let wants_watch = watched
            || query
                .iter()
                .any(|(key, value)| key == "watch" && is_on(value));
        Self {
            verb: verb_of(&parts.method, path.as_ref(), wants_watch, watched),
            method: parts.method.clone(),
            raw_path,
            segments,
            ends_in_slash,
            watched_by_path: watched,
            path,
            accepted: Accepted::of(&parts.headers, included(&query)),
            query,
            content_type: header_text(&parts.headers, &header::CONTENT_TYPE),
            user_agent: header_text(&parts.headers, &header::USER_AGENT),
            authorization: header_text(&parts.headers, &header::AUTHORIZATION),
            impersonation: impersonation(&parts.headers),
            user: User::anonymous(),
            known: header_text(&parts.headers, &header::IF_NONE_MATCH),
            body,
        }
    }

    /// Returns true if all percent escapes of the path are valid.
    pub(crate) fn has_readable_path(&self) -> bool {
        path::is_readable(&self.raw_path)
    }

    /// Returns a query parameter, or an empty string if it is absent.
    pub(crate) fn param(&self, key: &str) -> &str {
        self.query
            .iter()
            .find(|(found, _)| found == key)
            .map_or("", |(_, value)| value)
    }

    /// Returns all values of a query parameter.
    pub(crate) fn params(&self, key: &str) -> impl Iterator<Item = &str> {
        let found = self.query.iter().filter(move |(found, _)| found == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns a boolean query parameter; an absent one is false.
    pub(crate) fn switch(&self, key: &str) -> bool {
        let given = self.query.iter().find(|(found, _)| found == key);
        given.is_some_and(|(_, value)| is_on(value))
    }
}

/// Returns true unless the value is `0` or `false`, as in the real server.
fn is_on(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

/// Decodes percent escapes.
pub(crate) fn decoded(text: &str) -> String {
    decode(text, false)
}

/// Returns the query parameter that selects which part of each object a table includes.
fn included(query: &[(String, String)]) -> &str {
    let found = query.iter().find(|(key, _)| key == "includeObject");
    found.map_or("", |(_, value)| value)
}

fn impersonation(headers: &HeaderMap) -> Vec<(String, String)> {
    let wanted = |name: &header::HeaderName| name.as_str().starts_with("impersonate-");
    let found = headers.iter().filter(|(name, _)| wanted(name));
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    found
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect()
}

fn header_text(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, uri: &str) -> Call {
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .body(())
            .unwrap();
        Call::new(&request.into_parts().0, Bytes::new())
    }

    #[test]
    fn paths_by_table() {
        for line in [
            "GET /api/v1/pods List pods - - -",
            "GET /api/v1/pods?watch=1 Watch pods - - -",
            "GET /api/v1/watch/pods Watch pods - - -",
            "GET /api/v1/namespaces/a Get namespaces - a -",
            "PUT /api/v1/namespaces/a/status Update namespaces - a status",
            "POST /api/v1/namespaces/a/pods Create pods a - -",
            "PATCH /apis/g/v1/namespaces/a/ws/n%2Dm/status Patch ws a n-m status",
            "DELETE /apis/g/v1/ws DeleteCollection ws - - -",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let call = call(words[0], words[1]);
            let path = call.path.unwrap();
            let shown = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
            let found = [
                format!("{:?}", call.verb),
                path.plural,
                shown(path.namespace),
                shown(path.name),
                shown(path.subresource),
            ];
            assert_eq!(found.as_slice(), &words[2..], "{line}");
        }
        assert_eq!(call("GET", "/apis/g/v1").path, None);
    }
}
