//! Refusals that concern the request itself: its path, method, media type, patch, version or size.
//!
//! Must not depend on objects.

use serde_json::{Value, json};

use super::{Cause, Refusal, Subject, shown};

// === impl Refusal ===

impl Refusal {
    /// Refuses an unknown path, with a plain text instead of a `Status`.
    pub(crate) fn no_page() -> Self {
        let mut refusal = Self::new(404, "NotFound", "404 page not found\n");
        refusal.plain = true;
        refusal
    }

    /// Reports that the request timed out; the real server omits `kind` and `apiVersion` here.
    pub(crate) fn out_of_time() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        let mut refusal = Self::new(504, "Timeout", message).bare_details();
        refusal.bare = true;
        refusal
    }

    /// Refuses access to a non-resource page.
    pub(crate) fn forbidden_page(why: &str) -> Self {
        Self::new(403, "Forbidden", format!("forbidden: {why}")).bare_details()
    }

    /// Refuses a legacy watch path that does not name a resource.
    pub(crate) fn undeterminable(path: &str) -> Self {
        let message = format!(
            "Internal Server Error: {path:?}: failed to create RequestInfo: unable to determine kind and namespace from url, {path}\n"
        );
        let mut refusal = Self::new(500, "InternalError", message);
        refusal.plain = true;
        refusal
    }

    /// Refuses a path with invalid escapes.
    pub(crate) fn unreadable_path() -> Self {
        let mut refusal = Self::new(400, "BadRequest", "400 Bad Request");
        refusal.plain = true;
        refusal
    }

    pub(crate) fn no_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .bare_details()
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Refuses a JSON patch that does not apply; the real server gives no details.
    pub(crate) fn unprocessable() -> Self {
        Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .bare_details()
    }

    /// Refuses a patched document that cannot be decoded.
    pub(crate) fn undecodable_patch(document: &Value, why: &str) -> Self {
        Self::undecodable_text(document.to_string(), why)
    }

    /// Like [`undecodable_patch`](Self::undecodable_patch), for a document that is already formatted.
    pub(crate) fn undecodable_text(document: String, why: &str) -> Self {
        let subject = Subject {
            group: "",
            word: "",
            name: "",
        };
        let shown = shown(&document.into());
        let message = format!("Invalid value: {shown}: {why}");
        Self::invalid(
            subject,
            &[Cause::new("FieldValueInvalid", "patch", message)],
        )
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .bare_details()
    }

    /// Refuses a method that custom resources do not support.
    pub(crate) fn unknown_method(subject: Subject<'_>) -> Self {
        let message = format!(
            "{:?} is not supported on resources of kind {:?}",
            "",
            subject.qualified()
        );
        Self::new(405, "MethodNotAllowed", message.trim_start_matches("\"\"")).about(subject)
    }

    /// Refuses a verb that a subresource of custom resources does not support.
    pub(crate) fn unsupported_verb(verb: &str, subject: Subject<'_>) -> Self {
        let message = format!(
            "{verb} is not supported on resources of kind {:?}",
            subject.qualified()
        );
        Self::new(405, "MethodNotAllowed", message).about(subject)
    }

    /// Refuses the accepted media types of a page that has only one.
    pub(crate) fn not_acceptable(there_is: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {there_is}");
        Self::new(406, "NotAcceptable", message).bare_details()
    }

    /// Refuses the accepted media types for built-in kinds, some of which can be watched.
    pub(crate) fn no_representation(watched: bool) -> Self {
        let streams = if watched {
            ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        } else {
            ""
        };
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf{streams}"
        );
        Self::new(406, "NotAcceptable", message).bare_details()
    }

    /// Refuses a form that objects do not have.
    pub(crate) fn no_such_form() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )
    }

    /// Refuses the form of a single object for a list, or the reverse.
    pub(crate) fn unfit_form(message: &str) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn unsupported_media(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_old(asked: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    pub(crate) fn too_new(asked: u64, current: u64) -> Self {
        let mut refusal = Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        )
        .retry_after(1);
        refusal.details.get_or_insert_default().insert(
            "causes".to_owned(),
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
        );
        refusal
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// Returns the usual refusal for a code, as an injected fault.
    pub(crate) fn of_code(code: u16) -> Self {
        let (reason, message) = match code {
            400 => ("BadRequest", "the server rejected our request"),
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "forbidden"),
            404 => (
                "NotFound",
                "the server could not find the requested resource",
            ),
            409 => (
                "Conflict",
                "the object has been modified; please apply your changes to the latest version and try again",
            ),
            410 => ("Expired", "The resourceVersion is too old."),
            429 => (
                "TooManyRequests",
                "Too many requests, please try again later.",
            ),
            500 => ("InternalError", "an error on the server has occurred"),
            503 => (
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            ),
            504 => (
                "Timeout",
                "the server was unable to return a response in time",
            ),
            _ => ("Unknown", "the server answered as it was told to"),
        };
        Self::new(code, reason, message)
    }
}
