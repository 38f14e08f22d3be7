//! Splits the path and query of a request, and determines the verb.
//!
//! Guarantees that every path is either that of a resource or not, without errors. Must not know which resources exist.

use http::Method;

use super::Verb;

/// The path of a request for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// Further segments follow the subresource.
    pub(crate) goes_on: bool,
}

/// Returns the segments of a decoded path, and whether it ends in a slash.
pub(super) fn segments(path: &str) -> (Vec<String>, bool) {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() {
        return (Vec::new(), false);
    }
    let (path, ends_in_slash) = match path.strip_suffix('/') {
        Some(path) => (path, true),
        None => (path, false),
    };
    (path.split('/').map(str::to_owned).collect(), ends_in_slash)
}

/// Returns whether each percent sign begins a valid escape.
pub(super) fn is_readable(path: &str) -> bool {
    path.split('%').skip(1).all(|rest| {
        let code = rest.get(..2).unwrap_or_default();
        code.len() == 2 && code.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Removes `watch` from legacy paths like `/api/v1/watch/pods`; returns whether it was there.
pub(super) fn legacy_watch(segments: &mut Vec<String>) -> bool {
    let at = match segments.first().map(String::as_str) {
        Some("api") => 2,
        Some("apis") => 3,
        _ => return false,
    };
    let found = segments.get(at).is_some_and(|word| word == "watch") && segments.len() > at + 1;
    if found {
        segments.remove(at);
    }
    found
}

pub(super) fn resource_path(segments: &[String]) -> Option<Path> {
    let (group, version, rest) = match segments {
        [api, version, rest @ ..] if api == "api" => ("", version, rest),
        [apis, group, version, rest @ ..] if apis == "apis" => (group.as_str(), version, rest),
        _ => return None,
    };
    let mut path = Path {
        group: group.to_owned(),
        version: version.clone(),
        ..Path::default()
    };
    let rest = match rest {
        [word, namespace, plural, rest @ ..]
            if word == "namespaces" && !is_namespace_subresource(group, plural, rest) =>
        {
            path.namespace = Some(namespace.clone());
            path.plural.clone_from(plural);
            rest
        }
        [plural, rest @ ..] => {
            path.plural.clone_from(plural);
            rest
        }
        [] => return None,
    };
    match rest {
        [] => {}
        [name] => path.name = Some(name.clone()),
        [name, sub, more @ ..] => {
            path.name = Some(name.clone());
            path.subresource = Some(sub.clone());
            path.goes_on = !more.is_empty();
        }
    }
    Some(path)
}

fn is_namespace_subresource(group: &str, word: &str, rest: &[String]) -> bool {
    group.is_empty() && rest.is_empty() && matches!(word, "status" | "finalize")
}

/// Returns the verb. The `watch` parameter has no effect for a named object; only a legacy path can watch it.
pub(super) fn verb_of(method: &Method, path: Option<&Path>, watch: bool, legacy: bool) -> Verb {
    let Some(path) = path else {
        return Verb::Other;
    };
    let named = path.name.is_some();
    match (method.as_str(), named) {
        _ if legacy => Verb::Watch,
        ("GET" | "HEAD", true) => Verb::Get,
        ("GET" | "HEAD", false) if watch => Verb::Watch,
        ("GET" | "HEAD", false) => Verb::List,
        ("POST", _) => Verb::Create,
        ("PUT", true) => Verb::Update,
        ("PATCH", true) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        _ => Verb::Other,
    }
}

pub(super) fn parse_query(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(key, true), decode(value, true))
        })
        .collect()
}

/// Decodes percent escapes; in queries, `+` is a space.
pub(super) fn decode(text: &str, query: bool) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let code = bytes
            .get(at + 1..at + 3)
            .filter(|_| byte == b'%')
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(code) = code {
            decoded.push(code);
            at += 3;
        } else {
            decoded.push(if query && byte == b'+' { b' ' } else { byte });
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
