//! Refusals and their `Status` bodies: code, reason, message and details in kube-apiserver's wording.
//!
//! All refusals of the server are built here, so that the wording has one place. Must not depend on the store or HTTP transports.

mod request;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::managed::apply::Conflict;
use crate::schema::go;

/// One complaint of an `Invalid` refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) field: String,
}

impl Cause {
    pub(crate) fn required(field: impl Into<String>, message: &str) -> Self {
        let message = if message.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {message}")
        };
        Self::new("FieldValueRequired", field, message)
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, message: &str) -> Self {
        let message = format!("Invalid value: {}: {message}", shown(value));
        Self::new("FieldValueInvalid", field, message)
    }

    pub(crate) fn forbidden(field: impl Into<String>, message: &str) -> Self {
        Self::new(
            "FieldValueForbidden",
            field,
            format!("Forbidden: {message}"),
        )
    }

    pub(crate) fn new(
        reason: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            reason,
            message: message.into(),
            field: field.into(),
        }
    }
}

/// Formats a value as Kubernetes' validation prints it: strings quoted, other values as JSON.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Number(number) if number.is_f64() => go::value(value),
        other => other.to_string(),
    }
}

/// The subject of a refusal, as in `Status.details`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) group: &'a str,
    /// The plural for most refusals, the kind for `Invalid`.
    pub(crate) word: &'a str,
    pub(crate) name: &'a str,
}

/// Returns request options as a subject, for example `ListOptions` or `DeleteOptions`.
pub(crate) fn options(word: &str) -> Subject<'_> {
    Subject {
        group: "meta.k8s.io",
        word,
        name: "",
    }
}

impl Subject<'_> {
    /// Returns `plural.group`, or `plural` for the core group.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.word.to_owned()
        } else {
            format!("{}.{}", self.word, self.group)
        }
    }
}

/// A failed request.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    reason: Cow<'static, str>,
    message: String,
    details: Option<Map<String, Value>>,
    retry_after: Option<u64>,
    plain: bool,
    /// The body has no `kind` and `apiVersion`.
    bare: bool,
    late: bool,
    /// Warnings, which are sent as headers.
    pub(crate) warnings: Box<[String]>,
}

// === impl Refusal ===

impl Refusal {
    /// Returns whether the object itself was valid, and the refusal has another reason: the name exists already, or a webhook denied it.
    pub(crate) fn is_late(&self) -> bool {
        self.late || self.reason == "AlreadyExists"
    }

    /// Marks the object itself as valid.
    pub(crate) fn late(mut self) -> Self {
        self.late = true;
        self
    }

    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: None,
            retry_after: None,
            plain: false,
            bare: false,
            late: false,
            warnings: Box::default(),
        }
    }

    fn about(mut self, subject: Subject<'_>) -> Self {
        let details = self.details.get_or_insert_default();
        for (key, value) in [
            ("name", subject.name),
            ("group", subject.group),
            ("kind", subject.word),
        ] {
            if !value.is_empty() {
                details.insert(key.to_owned(), value.into());
            }
        }
        self
    }

    fn bare_details(mut self) -> Self {
        self.details.get_or_insert_default();
        self
    }

    /// Adds warnings before the existing ones.
    pub(crate) fn warned_first(mut self, warnings: &[String]) -> Self {
        self.warnings = [warnings, &*self.warnings].concat().into();
        self
    }

    /// Adds warnings.
    pub(crate) fn warned(mut self, warnings: &[String]) -> Self {
        self.warnings = [&*self.warnings, warnings].concat().into();
        self
    }

    /// Asks the client to retry after some seconds, in a header and in the details.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        let details = self.details.get_or_insert_default();
        details.insert("retryAfterSeconds".to_owned(), seconds.into());
        self
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after
    }

    /// Returns the plain text of a refusal that has no `Status` body.
    pub(crate) fn plain_text(&self) -> Option<&str> {
        self.plain.then_some(self.message.as_str())
    }

    pub(crate) fn not_found(subject: Subject<'_>) -> Self {
        let message = format!("{} {:?} not found", subject.qualified(), subject.name);
        Self::new(404, "NotFound", message).about(subject)
    }

    pub(crate) fn already_exists(subject: Subject<'_>, terminating: bool, generated: bool) -> Self {
        let going = if terminating {
            "object is being deleted: "
        } else {
            ""
        };
        let message = format!(
            "{going}{} {:?} already exists{}",
            subject.qualified(),
            subject.name,
            if generated {
                ", the server was not able to generate a unique name for the object"
            } else {
                ""
            }
        );
        let refusal = Self::new(409, "AlreadyExists", message).about(subject);
        if generated {
            refusal.retry_after(1)
        } else {
            refusal
        }
    }

    pub(crate) fn conflict(subject: Subject<'_>, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {:?}: {why}",
            subject.qualified(),
            subject.name
        );
        Self::new(409, "Conflict", message).about(subject)
    }

    pub(crate) fn stale(subject: Subject<'_>) -> Self {
        Self::conflict(
            subject,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Refuses an apply that changes fields of other managers.
    pub(crate) fn apply_conflict(message: &str, conflicts: &[Conflict]) -> Self {
        let mut refusal = Self::new(409, "Conflict", message);
        let causes: Vec<Value> = conflicts
            .iter()
            .map(|found| {
                let message = format!("conflict with {}", found.manager);
                json!({"reason": "FieldManagerConflict", "message": message, "field": found.field})
            })
            .collect();
        let details = refusal.details.get_or_insert_default();
        details.insert("causes".to_owned(), causes.into());
        refusal
    }

    pub(crate) fn forbidden(subject: Subject<'_>, why: &str) -> Self {
        let message = if subject.name.is_empty() {
            format!("{} is forbidden: {why}", subject.qualified())
        } else {
            format!(
                "{} {:?} is forbidden: {why}",
                subject.qualified(),
                subject.name
            )
        };
        Self::new(403, "Forbidden", message).about(subject)
    }

    /// Refuses a new object in a terminating namespace.
    pub(crate) fn namespace_terminating(subject: Subject<'_>, namespace: &str) -> Self {
        let mut refusal = Self::forbidden(
            subject,
            &format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            ),
        );
        let cause = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        refusal
            .details
            .get_or_insert_default()
            .insert("causes".to_owned(), cause);
        refusal
    }

    /// Refuses an invalid object. `subject.word` is the kind here, as in the real server's answers.
    pub(crate) fn invalid(subject: Subject<'_>, causes: &[Cause]) -> Self {
        // The details list a repeated cause each time; the message mentions it once.
        let mut lines: Vec<String> = Vec::new();
        for cause in causes {
            let line = format!("{}: {}", cause.field, cause.message);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let lines = match lines.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!(
            "{} {:?} is invalid: {lines}",
            subject.qualified(),
            subject.name
        );
        let mut refusal = Self::new(422, "Invalid", message).about(subject);
        let causes: Vec<Value> = causes
            .iter()
            .map(|cause| {
                json!({"reason": cause.reason, "message": cause.message, "field": cause.field})
            })
            .collect();
        refusal
            .details
            .get_or_insert_default()
            .insert("causes".to_owned(), causes.into());
        refusal
    }

    /// Refuses an eviction because of a disruption budget.
    pub(crate) fn disruption(budget: &str, why: &str) -> Self {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut refusal = Self::new(429, "TooManyRequests", message);
        let cause = json!([{"reason": "DisruptionBudget", "message": why}]);
        let details = refusal.details.get_or_insert_default();
        details.insert("name".to_owned(), budget.into());
        details.insert("causes".to_owned(), cause);
        refusal
    }

    /// Returns an internal error without a reason, where the real server did not intend the failure as an answer.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Returns an internal error in the wording of the real server.
    pub(crate) fn internal_error(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        let mut refusal = Self::new(500, "InternalError", message);
        let causes = json!([{"message": why}]);
        let details = refusal.details.get_or_insert_default();
        details.insert("causes".to_owned(), causes);
        refusal
    }

    /// Returns a refusal in the words of an admission webhook.
    pub(crate) fn denied(
        code: u16,
        reason: String,
        message: String,
        details: Option<Map<String, Value>>,
    ) -> Self {
        let mut refusal = Self::new(code, "", message);
        refusal.reason = Cow::Owned(reason);
        refusal.details = details;
        refusal
    }

    /// Returns a refusal in the words of an admission policy.
    pub(crate) fn denied_by_policy(subject: Subject<'_>, reason: &str, why: &str) -> Self {
        let mut refusal = Self::forbidden(subject, why);
        refusal.code = match reason {
            "Forbidden" => 403,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        refusal.reason = Cow::Owned(reason.to_owned());
        let details = refusal.details.get_or_insert_default();
        details.insert("causes".to_owned(), json!([{"message": why}]));
        refusal
    }

    /// Returns the `Status` object.
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            body["reason"] = self.reason.as_ref().into();
        }
        if let Some(details) = &self.details {
            body["details"] = Value::Object(details.clone());
        }
        if let Some(body) = body.as_object_mut().filter(|_| self.bare) {
            body.remove("kind");
            body.remove("apiVersion");
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_causes_are_listed_in_brackets() {
        let subject = Subject {
            group: "demo",
            word: "MyApp",
            name: "x",
        };
        let refusal = Refusal::invalid(
            subject,
            &[
                Cause::required("spec.a", ""),
                Cause::invalid("spec.b", &json!("q"), "must be shorter"),
            ],
        );
        assert_eq!(
            refusal.body()["message"],
            r#"MyApp.demo "x" is invalid: [spec.a: Required value, spec.b: Invalid value: "q": must be shorter]"#
        );
        assert_eq!(refusal.body()["details"]["kind"], "MyApp");
    }
}
