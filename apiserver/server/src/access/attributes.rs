//! The authorization attributes of a request.
//!
//! Guarantees kube-apiserver's wording of refusals. Must not depend on rules.

use crate::access::user::User;
use crate::call::{Call, Verb};
use crate::status::{Refusal, Subject};

/// A verb, and the resource or the page to which it applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The path of a non-resource page; the resource fields are empty then.
    pub(crate) page: Option<String>,
}

// === impl Attributes ===

impl Attributes {
    pub(crate) fn of_call(call: &Call) -> Self {
        let Some(path) = &call.path else {
            return Self {
                verb: call.method.as_str().to_lowercase(),
                page: Some(call.raw_path.clone()),
                ..Self::default()
            };
        };
        let mut name = path.name.clone().unwrap_or_default();
        let is_namespace = path.group.is_empty() && path.plural == "namespaces";
        let namespace = match &path.namespace {
            Some(namespace) => namespace.clone(),
            None if is_namespace => name.clone(),
            None => String::new(),
        };
        if name.is_empty() {
            selected_name(call.param("fieldSelector")).clone_into(&mut name);
        }
        let subresource = path.subresource.as_deref().unwrap_or_default();
        Self {
            verb: word(call).to_owned(),
            group: path.group.clone(),
            resource: path.plural.clone(),
            subresource: subresource.split('/').next().unwrap_or_default().to_owned(),
            namespace,
            name,
            page: None,
        }
    }

    /// Returns `plural`, or `plural/subresource`.
    pub(crate) fn whole_resource(&self) -> String {
        if self.subresource.is_empty() {
            return self.resource.clone();
        }
        format!("{}/{}", self.resource, self.subresource)
    }

    /// Returns the refusal for a user without permission.
    pub(crate) fn refusal(&self, user: &User, reason: &str) -> Refusal {
        let (who, verb) = (&user.name, &self.verb);
        let why = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        if let Some(page) = &self.page {
            let told = format!("User {who:?} cannot {verb} path {page:?}{why}");
            return Refusal::forbidden_page(&told);
        }
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        let (resource, group) = (self.whole_resource(), &self.group);
        let told = format!(
            "User {who:?} cannot {verb} resource {resource:?} in API group {group:?} {place}{why}"
        );
        let subject = Subject {
            group,
            word: &self.resource,
            name: &self.name,
        };
        Refusal::forbidden(subject, &told)
    }
}

/// Returns the RBAC verb.
fn word(call: &Call) -> &'static str {
    match (call.verb, call.method.as_str()) {
        (Verb::Get, _) => "get",
        (Verb::List, _) => "list",
        (Verb::Watch, _) => "watch",
        (Verb::Create, _) => "create",
        (Verb::Update, _) | (_, "PUT") => "update",
        (Verb::Patch, _) | (_, "PATCH") => "patch",
        (Verb::Delete, _) => "delete",
        (Verb::DeleteCollection, _) => "deletecollection",
        (Verb::Other, _) => "",
    }
}

/// Returns the object name that a field selector requires.
fn selected_name(selector: &str) -> &str {
    let mut parts = selector.split(',').map(str::trim);
    let name = parts.find_map(|part| part.strip_prefix("metadata.name="));
    name.map_or("", |name| name.trim_start_matches('='))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn told(method: &str, uri: &str) -> String {
        let request = http::Request::builder().method(method).uri(uri).body(());
        let (parts, ()) = request.unwrap().into_parts();
        let attributes = Attributes::of_call(&Call::new(&parts, Bytes::new()));
        let refusal = attributes.refusal(&User::new("u"), "");
        refusal.body()["message"].as_str().unwrap().to_owned()
    }

    #[test]
    fn refusals_are_worded_as_the_real_ones() {
        for (method, uri, expected) in [
            (
                "GET",
                "/api/v1/pods",
                r#"pods is forbidden: User "u" cannot list resource "pods" in API group "" at the cluster scope"#,
            ),
            (
                "GET",
                "/api/v1/namespaces/x",
                r#"namespaces "x" is forbidden: User "u" cannot get resource "namespaces" in API group "" in the namespace "x""#,
            ),
            (
                "PATCH",
                "/apis/g.io/v1/namespaces/n/bars/y/status",
                r#"bars.g.io "y" is forbidden: User "u" cannot patch resource "bars/status" in API group "g.io" in the namespace "n""#,
            ),
            (
                "GET",
                "/api/v1/namespaces/n/pods?watch=1&fieldSelector=metadata.name%3Da",
                r#"pods "a" is forbidden: User "u" cannot watch resource "pods" in API group "" in the namespace "n""#,
            ),
            (
                "GET",
                "/api",
                r#"forbidden: User "u" cannot get path "/api""#,
            ),
        ] {
            assert_eq!(told(method, uri), expected);
        }
    }
}
