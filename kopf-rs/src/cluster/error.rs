//! The errors of requests to the API server, in this crate's own terms.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::object::resource::Resource;
use crate::object::rights::Rights;

/// The upper limit for a server's `Retry-After`, so that a mistake in a header does not stop an object or a watch for a year. This is the
/// only such limit: every pause is computed from [`ClusterError::retry_after`] by `Backoff::next_pause_after`.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// An error of a request. Displays as one line for a log.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    /// 409: the object has changed meanwhile, or is another object.
    #[error("conflict: {0}")]
    Conflict(String),
    /// 409: an apply without force touches fields that other managers own.
    #[error("conflict: {}", listed(.0))]
    FieldConflicts(Vec<FieldConflict>),
    /// 422: the object is another one.
    #[error("another object has this name now: {0}")]
    OtherObject(String),
    /// 404: the object, kind or namespace does not exist.
    #[error("not found: {0}")]
    NotFound(NotFound),
    /// 410: the requested version is too old.
    #[error("gone: {0}")]
    Gone(String),
    /// 401.
    #[error("unauthorized: {0}")]
    Unauthorized(String),
    /// 403, with the RBAC rule that would allow the request. The rule is empty if RBAC is not the reason (quota, admission, a namespace that
    /// terminates).
    #[error("forbidden: {message}")]
    Denied { message: String, rule: String },
    /// 400, 413, 415, 422: the request itself is invalid and will be refused again.
    #[error("invalid: {0}")]
    Invalid(String),
    /// 429, 5xx: the server asks to retry later.
    #[error("the server cannot answer now ({code}): {message}")]
    Busy { code: u16, message: String, retry_after: Option<Duration> },
    /// No response of the server: connection refused, reset or timed out, or a response that another program has made up. The server may
    /// have executed the request.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// This instance no longer holds the Lease, or has acquired it again since the request was planned.
    #[error(
        "not sent: another instance of the operator may be the leader, since this one does not hold the Lease any more"
    )]
    Fenced,
}

/// The server's description of what does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotFound {
    message: String,
    /// The name of the missing object, or `None` if its kind is not served or the response does not name it.
    object: Option<String>,
}

/// A field that another manager has set to another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldConflict {
    pub(crate) field: String,
    /// The server's message, which names the manager and how it has set the field.
    pub(crate) message: String,
}

/// The subject of a request, so that a refusal can name the missing RBAC rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) verbs: &'static [&'static str],
    /// `None` for a path outside of all resources, such as discovery.
    pub(crate) resource: Option<&'a Resource>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) subresource: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// Describes a request for objects of a resource themselves, not for a subresource.
    pub(crate) fn of(
        resource: &'a Resource,
        namespace: Option<&'a str>,
        verbs: &'static [&'static str],
    ) -> Self {
        Self { verbs, resource: Some(resource), namespace, subresource: None }
    }
}

/// The body of a refusal, limited to the fields that we use.
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
    /// Returns true if the same request may succeed a little later.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Unreachable(_))
    }

    /// Returns true if the server may have executed the request despite the error.
    pub(crate) fn may_have_landed(&self) -> bool {
        matches!(self, Self::Busy { code, .. } if *code != 429) || matches!(self, Self::Unreachable(_))
    }

    /// Returns true if waiting alone does not help until permissions or definitions change.
    ///
    /// Refused credentials do not count: lower layers ask for new ones, token files are read again, and a server with an authentication
    /// outage refuses valid credentials, too.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::Denied { .. } | Self::NotFound(_) | Self::Invalid(_))
    }

    /// Returns true if the server says that the object of this name does not exist, rather than that its kind is not served.
    pub(crate) fn says_gone(&self, name: &str) -> bool {
        matches!(self, Self::NotFound(absence) if absence.object.as_deref() == Some(name))
    }

    /// Returns the name of the outage that this error belongs to. Requests for a resource that fail for the same reason share the name.
    pub(crate) fn outage(&self, resource: &Resource) -> String {
        match self {
            Self::Unreachable(_) => "the server does not answer".to_owned(),
            Self::Unauthorized(_) => "the credentials are refused".to_owned(),
            // The first line names the place: without it, the text is the same for every namespace.
            Self::Denied { rule, .. } if !rule.is_empty() => {
                let what = rule.split_once('\n').map_or(&**rule, |(_, what)| what);
                format!("forbidden:\n{what}")
            }
            Self::Denied { .. } => format!("{resource} is forbidden"),
            Self::Busy { code, .. } => format!("the server answers {code} for {resource}"),
            _ => format!("{resource} is refused"),
        }
    }

    /// Returns the pause that the server asks for, limited to a reasonable length.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => retry_after.map(|asked| asked.min(LONGEST_RETRY_AFTER)),
            _ => None,
        }
    }
}

// === impl NotFound ===

impl NotFound {
    /// Creates the error for a missing object of this name.
    pub(crate) fn of_object(name: &str, message: String) -> Self {
        Self { message, object: Some(name.to_owned()) }
    }
}

impl From<String> for NotFound {
    fn from(message: String) -> Self {
        Self { message, object: None }
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// === impl Status ===

impl Status {
    /// Reads the body of a response that is not 2xx. Text that is not a `Status` becomes the message, shortened.
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

    /// Converts the status to an error. `header` is the `Retry-After` of the response, in seconds.
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
            403 => ClusterError::Denied { rule: asked.rule(&message), message },
            404 => ClusterError::NotFound(NotFound {
                message,
                object: self.details.and_then(|details| details.name),
            }),
            409 if !conflicts.is_empty() => ClusterError::FieldConflicts(conflicts),
            409 => ClusterError::Conflict(message),
            410 => ClusterError::Gone(message),
            422 if other_object => ClusterError::OtherObject(message),
            408 | 429 | 500.. => {
                ClusterError::Busy { code, message, retry_after: retry_after.map(Duration::from_secs) }
            }
            // Policies deny with 422 by default, and webhooks with any code.
            400..=499 if is_denial(&message) => ClusterError::Denied { rule: String::new(), message },
            _ => ClusterError::Invalid(message),
        }
    }

    fn field_conflicts(&self) -> Vec<FieldConflict> {
        let causes = self.details.iter().filter_map(|it| it.causes.as_ref());
        let conflicts = causes.flatten().filter(|it| it.reason.as_deref() == Some("FieldManagerConflict"));
        conflicts
            .map(|cause| FieldConflict {
                field: cause.field.clone().unwrap_or_default(),
                message: cause.message.clone().unwrap_or_default(),
            })
            .collect()
    }

    /// Returns true if the uid differs: the server reports a different uid in a patch as a wrong value of an immutable field.
    fn names_other_object(&self) -> bool {
        self.details
            .iter()
            .flat_map(|details| details.causes.iter().flatten())
            .any(|cause| cause.field.as_deref() == Some("metadata.uid"))
    }
}

/// Returns true if a policy or webhook has denied the request. Such a request is valid and may be allowed later.
fn is_denial(message: &str) -> bool {
    let by_policy = message.contains("ValidatingAdmissionPolicy") && message.contains(" denied request: ");
    let by_webhook = message.contains("admission webhook ");
    by_policy || by_webhook && message.contains(" denied the request")
}

// === impl Asked ===

impl Asked<'_> {
    /// Returns the rule to add, in YAML, or an empty string if the message is not from RBAC.
    fn rule(&self, message: &str) -> String {
        if !message.contains("\" cannot ") {
            return String::new();
        }
        self.granting()
    }

    /// Returns the rule that allows the request.
    fn granting(&self) -> String {
        let Some(resource) = self.resource else {
            return "to a ClusterRole bound to this operator:\n  - nonResourceURLs: [\"/api\", \"/api/*\", \"/apis\", \"/apis/*\", \"/version\"]\n    \
                    verbs: [\"get\"]"
                .to_owned();
        };
        let namespace = self.namespace.filter(|_| resource.namespaced);
        let plural = match self.subresource {
            None => resource.plural.clone(),
            Some(subresource) => format!("{}/{subresource}", resource.plural),
        };
        let mut needed = Rights::default();
        needed.permit(namespace, &resource.group, &[&plural], self.verbs);
        needed.to_add("this operator")
    }
}

/// Returns the rule for setting owner references with `blockOwnerDeletion` to objects of a resource, which the admission plugin
/// `OwnerReferencesPermissionEnforcement` requires.
pub(crate) fn rule_for_finalizers(resource: &Resource, namespace: Option<&str>) -> String {
    let asked = Asked { subresource: Some("finalizers"), ..Asked::of(resource, namespace, &["update"]) };
    asked.granting()
}

/// Returns the rule for giving objects of a resource an owner, which the same admission plugin requires.
pub(crate) fn rule_for_deletion(resource: &Resource, namespace: Option<&str>) -> String {
    Asked::of(resource, namespace, &["delete"]).granting()
}

fn listed(conflicts: &[FieldConflict]) -> String {
    let each = conflicts.iter().map(|it| format!("{} ({})", it.field, it.message));
    each.collect::<Vec<_>>().join(", ")
}

pub(crate) fn first_words(text: &str) -> String {
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
    fn a_denial_by_a_policy_or_a_webhook_is_no_invalid_request() {
        for (code, message) in [
            (
                422,
                "validatingwebhookconfigurations \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            ),
            (422, "admission webhook \"a.b.c\" denied the request: no"),
            (400, "admission webhook \"a.b.c\" denied the request: no"),
        ] {
            let body = serde_json::json!({"message": message}).to_string();
            let denied = error(code, &body);
            assert!(matches!(denied, ClusterError::Denied { .. }), "{denied:?}");
        }
        let invalid = error(422, r#"{"message":"MyApp \"a\" is invalid: spec.size"}"#);
        assert!(matches!(invalid, ClusterError::Invalid(_)), "{invalid:?}");
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
        assert_eq!(error(404, "").to_string(), "not found: status 404 without a message");
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
