//! The response to a review: whether the request is allowed, the reason for a denial, the changes, and warnings.
//!
//! This module does not know how handlers are called.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::admission::review::Review;
use crate::handler::denial::Denial;
use crate::handler::outcome::Outcome;
use crate::object::operations::Operations;

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewReply {
    pub(crate) status: u16,
    /// The status code that the API server's client sees. A denial is a successful response and contains its own code.
    pub(crate) code: u16,
    /// JSON.
    pub(crate) body: Vec<u8>,
}

/// A handler's denial of the request.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) weight: Weight,
    pub(crate) message: String,
    pub(crate) denial: Denial,
}

/// The precedence of denials: only the smallest one is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    Admission,
    Permanent,
    Temporary,
    Arbitrary,
}

/// The valid status codes of denials.
const CODES: std::ops::RangeInclusive<u16> = 400..=599;

// === impl ===

impl ReviewReply {
    /// Builds the response after the handlers have run.
    pub(crate) fn reviewed(
        review: &Review,
        refusals: Vec<Refusal>,
        changes: Option<&Operations>,
        warnings: &[String],
    ) -> Self {
        let mut response = json!({"uid": review.uid, "allowed": refusals.is_empty()});
        if let Some(status) = status(review, refusals) {
            response["status"] = status;
        } else if let Some(changes) = changes {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(changes.to_string()));
        }
        let code = response["status"]["code"].as_u64();
        let code = code.and_then(|code| u16::try_from(code).ok());
        if !warnings.is_empty() {
            let warnings = warnings.iter().map(|it| printable(it));
            response["warnings"] = warnings.collect();
        }
        let body = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": response,
        });
        Self { status: 200, code: code.unwrap_or(200), body: body.to_string().into_bytes() }
    }

    /// Builds the response for a failed review. The webhook configuration decides what a failure means.
    pub(crate) fn failed(status: u16, message: &str) -> Self {
        let reason = match status {
            400 => "BadRequest",
            404 => "NotFound",
            503 => "ServiceUnavailable",
            _ => "InternalError",
        };
        let body = json!({
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": status,
        });
        Self { status, code: status, body: body.to_string().into_bytes() }
    }
}

impl Refusal {
    /// Returns the denial for the outcome of a call, if it denies the request. A panic is a failure rather than a denial.
    pub(crate) fn of(outcome: &Outcome) -> Option<Self> {
        let (weight, message, denial) = match outcome {
            Outcome::Succeeded(_)
            | Outcome::Panicked { .. }
            | Outcome::TimedOut { .. }
            | Outcome::Waiting => return None,
            Outcome::Denied { message, denial } => (Weight::Admission, message, denial.clone()),
            Outcome::Permanent { message, .. } => (Weight::Permanent, message, Denial::default()),
            Outcome::Temporary { message, .. } => (Weight::Temporary, message, Denial::default()),
            Outcome::Arbitrary { message } => (Weight::Arbitrary, message, Denial::default()),
        };
        Some(Self { weight, message: message.clone(), denial })
    }

    /// Returns the handler's status code if it is outside of the valid range.
    pub(crate) fn odd_code(&self) -> Option<u16> {
        let code = self.denial.code.filter(|it| *it != 0)?;
        (!CODES.contains(&code)).then_some(code)
    }
}

/// Returns the status of the denial with the highest precedence, the first among equals, with the causes of all denials.
fn status(review: &Review, refusals: Vec<Refusal>) -> Option<Value> {
    let all: Vec<_> = refusals.iter().flat_map(|it| it.denial.fields.iter().cloned()).collect();
    let told = refusals.into_iter().min_by_key(|it| it.weight)?;
    if told.denial.fields.is_empty() {
        let code = told.denial.code.filter(|code| CODES.contains(code));
        return Some(json!({"message": told.message, "code": code.unwrap_or(500)}));
    }
    let about = review.about();
    let group = &review.resource.group;
    let kind = match group.as_str() {
        "" => about.kind.clone(),
        group => format!("{}.{group}", about.kind),
    };
    let fields = Denial { code: None, fields: all };
    let causes =
        fields.fields.iter().map(|it| json!({"reason": it.reason, "message": it.message, "field": it.field}));
    Some(json!({
        "code": 422,
        "reason": "Invalid",
        "message": format!("{kind} {:?} is invalid: {}", about.name, fields.listed()),
        "details": {
            "name": about.name,
            "group": group,
            "kind": about.kind,
            "causes": causes.collect::<Value>(),
        },
    }))
}

/// Replaces control characters, because warnings are sent as HTTP headers.
fn printable(warning: &str) -> Value {
    let plain = |it: char| if it.is_control() { ' ' } else { it };
    warning.chars().map(plain).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::review::ConnectionFacts;
    use crate::admission::review::tests::creation;
    use crate::handler::denial::{AdmissionErrors, FieldError};
    use crate::handler::error::HandlerError;

    fn review() -> Review {
        let object = json!({"metadata": {"name": "one"}});
        let body = creation(&object).to_string();
        Review::parse(body.as_bytes(), ConnectionFacts::default()).unwrap()
    }

    fn refusal(weight: Weight, message: &str, code: Option<u16>, fields: &[FieldError]) -> Refusal {
        let (message, fields) = (message.to_owned(), fields.to_vec());
        let denial = Denial { code, fields };
        Refusal { weight, message, denial }
    }

    fn response(refusals: Vec<Refusal>) -> Value {
        let changes = Operations::between(&json!({}), &json!({"a": 1}));
        let warnings = ["two\nlines".to_owned()];
        let reply = ReviewReply::reviewed(&review(), refusals, Some(&changes), &warnings);
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((reply.status, &body["kind"]), (200, &json!("AdmissionReview")));
        assert_eq!(body["response"]["warnings"], json!(["two lines"]));
        body["response"].clone()
    }

    #[test]
    fn allowed_objects_are_patched() {
        let answer = response(Vec::new());
        assert_eq!((&answer["uid"], &answer["allowed"]), (&json!("r-1"), &json!(true)));
        let patch = STANDARD.decode(answer["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(patch, json!([{"op": "add", "path": "/a", "value": 1}]));
        assert_eq!(answer["patchType"], "JSONPatch");
        assert!(answer.get("status").is_none());
    }

    #[test]
    fn the_most_important_denial_is_reported() {
        let answer = response(vec![
            refusal(Weight::Arbitrary, "arbitrary", None, &[]),
            refusal(Weight::Temporary, "temporary", None, &[]),
            refusal(Weight::Permanent, "permanent", None, &[]),
            refusal(Weight::Admission, "first", Some(418), &[]),
            refusal(Weight::Admission, "second", None, &[]),
        ]);
        assert_eq!(answer["allowed"], false);
        assert_eq!(answer["status"], json!({"message": "first", "code": 418}));
        assert!(answer.get("patch").is_none());
    }

    #[test]
    fn codes_that_make_no_sense_are_500() {
        for (code, expected) in [
            (None, 500),
            (Some(0), 500),
            (Some(200), 500),
            (Some(399), 500),
            (Some(400), 400),
            (Some(418), 418),
            (Some(599), 599),
            (Some(999), 500),
        ] {
            let refused = refusal(Weight::Admission, "no", code, &[]);
            let is_odd = refused.odd_code().is_some();
            assert_eq!(is_odd, matches!(code, Some(200 | 399 | 999)), "{code:?}");
            assert_eq!(response(vec![refused])["status"]["code"], expected);
        }
    }

    #[test]
    fn errors_of_fields_are_reported_together() {
        let mut errors = AdmissionErrors::new();
        errors.required("spec.image", "");
        errors.invalid("spec.size", 0, "must be positive");
        let HandlerError::Admission(error) = HandlerError::from(errors) else {
            panic!("these are errors of fields");
        };
        let fields = error.into_denial().fields;
        let (one, other) = fields.split_at(1);
        let answer = response(vec![
            refusal(Weight::Arbitrary, "arbitrary", None, &[]),
            refusal(Weight::Admission, "", None, one),
            refusal(Weight::Admission, "", None, other),
        ]);
        let status = &answer["status"];
        assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
        assert_eq!(
            status["message"],
            "KopfExample.kopf.dev \"one\" is invalid: [spec.image: Required value, spec.size: Invalid value: 0: must be positive]"
        );
        let causes = &status["details"]["causes"];
        assert_eq!(causes[0]["field"], "spec.image");
        assert_eq!(causes[1]["reason"], "FieldValueInvalid");
    }
}
