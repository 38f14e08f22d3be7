//! What can go wrong between us and the API server, in our words.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::object::resource::Resource;

/// No server is left alone for longer, whatever its `Retry-After` asks for: a mistake in a header must not stop an object or a watch for a
/// year. The only such limit: every pause is made from [`ClusterError::retry_after`], by `Backoff::next_pause_after`.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// A request that did not do what it was for. Displays as one line fit for a log.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    /// 409: the object has changed meanwhile, or is another one.
    #[error("conflict: {0}")]
    Conflict(String),
    /// 409: an apply that does not force meets fields of other managers.
    #[error("conflict: {}", listed(.0))]
    FieldConflicts(Vec<FieldConflict>),
    /// 422: the object is another one.
    #[error("another object has this name now: {0}")]
    OtherObject(String),
    /// 404: object, kind or namespace is not there.
    #[error("not found: {0}")]
    NotFound(NotFound),
    /// 410: the version asked for is too old.
    #[error("gone: {0}")]
    Gone(String),
    /// 401.
    #[error("unauthorized: {0}")]
    Unauthorized(String),
    /// 403, with the RBAC rule that would allow it; empty where RBAC is not the reason (quota, admission, a namespace that ends).
    #[error("forbidden: {message}")]
    Denied { message: String, rule: String },
    /// 400, 413, 415, 422: the request itself is refused and will be again.
    #[error("invalid: {0}")]
    Invalid(String),
    /// 429, 5xx: later.
    #[error("the server cannot answer now ({code}): {message}")]
    Busy {
        code: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    /// No answer: connection refused, reset, timed out. The request may have been carried out.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// This instance does not hold the Lease any more, or has acquired it anew since the request was thought of.
    #[error(
        "not sent: another instance of the operator may be at work, since this one does not hold the Lease any more"
    )]
    Fenced,
}

/// What a server says of what is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotFound {
    message: String,
    /// The object that is not there; `None` where its kind is not served, or the answer does not say.
    object: Option<String>,
}

/// A field that another manager has set to another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldConflict {
    pub(crate) field: String,
    /// As the server says it: the manager, and how it has set the field.
    pub(crate) message: String,
}

/// What was asked for, so that a refusal can name the rule that is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) verbs: &'static [&'static str],
    /// `None`: a path outside of all resources, such as discovery.
    pub(crate) resource: Option<&'a Resource>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) subresource: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// For objects of a resource themselves, and not for a subresource.
    pub(crate) fn of(
        resource: &'a Resource,
        namespace: Option<&'a str>,
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            verbs,
            resource: Some(resource),
            namespace,
            subresource: None,
        }
    }
}

/// The body of a refusal, as far as we read it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    message: Option<String>,
    reason: Option<String>,
    code: Option<u16>,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    #[serde(rename = "retryAfterSeconds")]
    retry_after: Option<u64>,
    causes: Option<Vec<StatusCause>>,
    name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusCause {
    reason: Option<String>,
    message: Option<String>,
    field: Option<String>,
}

// === impl ClusterError ===

impl ClusterError {
    /// Whether the same request may well succeed a little later.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Unreachable(_))
    }

    /// Whether the request may have been carried out nevertheless.
    pub(crate) fn may_have_landed(&self) -> bool {
        matches!(self, Self::Busy { code, .. } if *code != 429)
            || matches!(self, Self::Unreachable(_))
    }

    /// Whether waiting alone will not help, before somebody grants or defines something.
    ///
    /// Refused credentials do not count: new ones are asked for below, files of tokens are read anew, and a server whose authentication is out
    /// refuses good ones, too.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::Denied { .. } | Self::NotFound(_) | Self::Invalid(_)
        )
    }

    /// Whether the server says that the object of this name is not there, and not only that it does not serve such objects.
    pub(crate) fn says_gone(&self, name: &str) -> bool {
        matches!(self, Self::NotFound(absence) if absence.object.as_deref() == Some(name))
    }

    /// The outage that this is a part of, where requests for a resource fail: those that fail for the same reason have the same name.
    pub(crate) fn outage(&self, resource: &Resource) -> String {
        match self {
            Self::Unreachable(_) => "the server does not answer".to_owned(),
            Self::Unauthorized(_) => "the credentials are refused".to_owned(),
            // The first line says where: the same for every namespace but for its name.
            Self::Denied { rule, .. } if !rule.is_empty() => {
                let what = rule.split_once('\n').map_or(&**rule, |(_, what)| what);
                format!("forbidden:\n{what}")
            }
            Self::Denied { .. } => format!("{resource} is forbidden"),
            Self::Busy { code, .. } => format!("the server answers {code} for {resource}"),
            _ => format!("{resource} is refused"),
        }
    }

    /// How long the server wants to be left alone; of absurd times, what is reasonable.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => {
                retry_after.map(|asked| asked.min(LONGEST_RETRY_AFTER))
            }
            _ => None,
        }
    }
}

// === impl NotFound ===

impl NotFound {
    /// The object of this name is not there.
    pub(crate) fn of_object(name: &str, message: String) -> Self {
        Self {
            message,
            object: Some(name.to_owned()),
        }
    }
}

impl From<String> for NotFound {
    fn from(message: String) -> Self {
        Self {
            message,
            object: None,
        }
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// === impl Status ===

impl Status {
    /// Read the body of an answer that is not 2xx. Text that is no `Status` becomes the message, cut short.
    pub(crate) fn read(code: u16, body: &[u8]) -> Self {
        let mut status = serde_json::from_slice::<Self>(body).unwrap_or_else(|_| Self {
            message: Some(first_words(&String::from_utf8_lossy(body))),
            ..Self::default()
        });
        status.code = Some(code);
        status
    }

    pub(crate) fn code(&self) -> u16 {
        self.code.unwrap_or(500)
    }

    /// `header` is the `Retry-After` of the answer, in seconds.
    pub(crate) fn into_error(self, asked: &Asked<'_>, header: Option<u64>) -> ClusterError {
        let code = self.code();
        let other_object = self.names_other_object();
        let conflicts = self.field_conflicts();
        let retry_after = header.or(self.details.as_ref().and_then(|found| found.retry_after));
        let message = self
            .message
            .filter(|text| !text.is_empty())
            .or(self.reason)
            .unwrap_or_else(|| format!("status {code} without a message"));
        match code {
            401 => ClusterError::Unauthorized(message),
            403 => ClusterError::Denied {
                rule: asked.rule(&message),
                message,
            },
            404 => ClusterError::NotFound(NotFound {
                message,
                object: self.details.and_then(|details| details.name),
            }),
            409 if !conflicts.is_empty() => ClusterError::FieldConflicts(conflicts),
            409 => ClusterError::Conflict(message),
            410 => ClusterError::Gone(message),
            422 if other_object => ClusterError::OtherObject(message),
            408 | 429 | 500.. => ClusterError::Busy {
                code,
                message,
                retry_after: retry_after.map(Duration::from_secs),
            },
            _ => ClusterError::Invalid(message),
        }
    }

    fn field_conflicts(&self) -> Vec<FieldConflict> {
        let causes = self.details.iter().filter_map(|it| it.causes.as_ref());
        let conflicts = causes
            .flatten()
            .filter(|it| it.reason.as_deref() == Some("FieldManagerConflict"));
        conflicts
            .map(|cause| FieldConflict {
                field: cause.field.clone().unwrap_or_default(),
                message: cause.message.clone().unwrap_or_default(),
            })
            .collect()
    }

    /// A uid in a patch that is not the object's is answered as a wrong value of an immutable field.
    fn names_other_object(&self) -> bool {
        self.details
            .iter()
            .flat_map(|details| details.causes.iter().flatten())
            .any(|cause| cause.field.as_deref() == Some("metadata.uid"))
    }
}

// === impl Asked ===

impl Asked<'_> {
    /// The rule to add, in YAML; empty where the message is not RBAC's.
    fn rule(&self, message: &str) -> String {
        if !message.contains("\" cannot ") {
            return String::new();
        }
        self.granting()
    }

    /// The rule that allows it.
    fn granting(&self) -> String {
        let verbs = quoted(self.verbs);
        let Some(resource) = self.resource else {
            return format!(
                "to a ClusterRole bound to this operator:\n  - nonResourceURLs: [\"/api\", \"/api/*\", \"/apis\", \"/apis/*\", \"/version\"]\n    verbs: {verbs}"
            );
        };
        let place = match self.namespace.filter(|_| resource.namespaced) {
            Some(namespace) => format!("to a Role in namespace \"{namespace}\" (or a ClusterRole)"),
            None => "to a ClusterRole".to_owned(),
        };
        let mut plural = resource.plural.clone();
        if let Some(subresource) = self.subresource {
            plural = format!("{plural}/{subresource}");
        }
        format!(
            "{place} bound to this operator:\n  - apiGroups: [\"{}\"]\n    resources: [\"{plural}\"]\n    verbs: {verbs}",
            resource.group
        )
    }
}

/// The rule for who refers to objects of a resource as owners whose deletion waits: where the server asks for it.
pub(crate) fn rule_for_finalizers(resource: &Resource, namespace: Option<&str>) -> String {
    let asked = Asked {
        subresource: Some("finalizers"),
        ..Asked::of(resource, namespace, &["update"])
    };
    asked.granting()
}

/// The rule for who gives objects of a resource an owner: where the server asks for it.
pub(crate) fn rule_for_deletion(resource: &Resource, namespace: Option<&str>) -> String {
    Asked::of(resource, namespace, &["delete"]).granting()
}

fn listed(conflicts: &[FieldConflict]) -> String {
    let each = conflicts
        .iter()
        .map(|it| format!("{} ({})", it.field, it.message));
    each.collect::<Vec<_>>().join(", ")
}

fn quoted(words: &[&str]) -> String {
    format!("[\"{}\"]", words.join("\", \""))
}

fn first_words(text: &str) -> String {
    const LONGEST: usize = 256;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(resource: &Resource) -> Asked<'_> {
        Asked::of(resource, Some("prod"), &["list", "watch"])
    }

    fn error(code: u16, body: &str) -> ClusterError {
        let resource = Resource {
            group: "demo.rtfm.co.ua".into(),
            plural: "myapps".into(),
            namespaced: true,
            ..Resource::default()
        };
        Status::read(code, body.as_bytes()).into_error(&asked(&resource), None)
    }

    #[test]
    fn a_denial_by_rbac_carries_the_rule() {
        let body = r#"{"kind":"Status","code":403,"reason":"Forbidden","message":"myapps.demo.rtfm.co.ua is forbidden: User \"op\" cannot list resource \"myapps\" in API group \"demo.rtfm.co.ua\" in the namespace \"prod\""}"#;
        let ClusterError::Denied { message, rule } = error(403, body) else {
            panic!("not a denial");
        };
        assert!(message.starts_with("myapps.demo.rtfm.co.ua is forbidden"));
        assert_eq!(
            rule,
            "to a Role in namespace \"prod\" (or a ClusterRole) bound to this operator:\n  - apiGroups: [\"demo.rtfm.co.ua\"]\n    resources: [\"myapps\"]\n    verbs: [\"list\", \"watch\"]"
        );
    }

    #[test]
    fn a_denial_for_another_reason_has_no_rule() {
        let body = r#"{"message":"pods \"x\" is forbidden: exceeded quota: small"}"#;
        let ClusterError::Denied { rule, .. } = error(403, body) else {
            panic!("not a denial");
        };
        assert_eq!(rule, "");
    }

    #[test]
    fn only_an_object_that_is_named_is_not_there() {
        let of_object = r#"{"reason":"NotFound","message":"myapps \"a\" not found","details":{"name":"a","kind":"myapps"}}"#;
        assert!(error(404, of_object).says_gone("a"));
        assert!(!error(404, of_object).says_gone("b"));
        for other in [
            r#"{"reason":"NotFound","message":"the server could not find the requested resource","details":{}}"#,
            r#"{"reason":"NotFound","message":"namespaces \"x\" not found","details":{"name":"x","kind":"namespaces"}}"#,
            "404 page not found\n",
            "",
        ] {
            assert!(!error(404, other).says_gone("a"), "{other}");
        }
    }

    #[test]
    fn every_code_has_its_word() {
        for (code, word) in [
            (400, "invalid: no"),
            (401, "unauthorized: no"),
            (404, "not found: no"),
            (409, "conflict: no"),
            (410, "gone: no"),
            (415, "invalid: no"),
            (422, "invalid: no"),
            (429, "the server cannot answer now (429): no"),
            (503, "the server cannot answer now (503): no"),
        ] {
            assert_eq!(error(code, r#"{"message":"no"}"#).to_string(), word);
        }
    }

    #[test]
    fn text_that_is_no_status_is_cut_and_a_silent_refusal_is_named() {
        let page = format!("<html>\n  {}", "x".repeat(1000));
        let ClusterError::Busy { message, .. } = error(502, &page) else {
            panic!("not busy");
        };
        assert_eq!(message.len(), 256);
        assert!(message.starts_with("<html> xxx"));
        assert_eq!(
            error(404, "").to_string(),
            "not found: status 404 without a message"
        );
    }

    #[test]
    fn a_foreign_uid_is_another_object_although_the_server_calls_it_invalid() {
        let body = r#"{"message":"is invalid: metadata.uid: Invalid value: \"b\": field is immutable","details":{"causes":[{"reason":"FieldValueInvalid","field":"metadata.uid"}]}}"#;
        assert!(matches!(error(422, body), ClusterError::OtherObject(_)));
    }

    #[test]
    fn retry_after_is_read_from_the_header_or_from_the_body() {
        let resource = Resource::default();
        let body = br#"{"message":"slow down","details":{"retryAfterSeconds":7}}"#;
        let from_body = Status::read(429, body).into_error(&asked(&resource), None);
        assert_eq!(from_body.retry_after(), Some(Duration::from_secs(7)));
        let from_header = Status::read(429, body).into_error(&asked(&resource), Some(3));
        assert_eq!(from_header.retry_after(), Some(Duration::from_secs(3)));
        let absurd = Status::read(429, body).into_error(&asked(&resource), Some(u64::MAX));
        assert_eq!(absurd.retry_after(), Some(Duration::from_secs(300)));
    }
}
