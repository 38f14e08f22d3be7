//! An `AdmissionReview`: builds the question for a webhook and reads its answer.
//!
//! Guarantees that an invalid answer is reported in kube-apiserver's words. Must not depend on transports.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::object::MANAGED;

/// The answer of a webhook.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reply {
    pub(super) denial: Option<Denial>,
    /// A JSON patch.
    pub(super) patch: Option<Value>,
    pub(super) warnings: Vec<String>,
}

/// A refusal, in the webhook's words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Denial {
    pub(super) code: u16,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) details: Option<Map<String, Value>>,
}

/// The review version and the type of a webhook.
#[derive(Clone, Debug, Default)]
pub(super) struct Dialect {
    /// The version of reviews.
    pub(super) version: String,
    /// The webhook validates, so its answer must not change the object.
    pub(super) validating: bool,
}

/// Builds the review of a request.
pub(super) fn review(dialect: &Dialect, uid: &str, request: &Value) -> Value {
    let mut request = request.clone();
    request["uid"] = uid.into();
    let version = &dialect.version;
    json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request})
}

/// Removes the parts that differ between two runs of the same verb: timestamps and managed fields.
pub(super) fn essence(request: &Value) -> Value {
    let mut request = request.clone();
    for part in ["object", "oldObject"] {
        let meta = request
            .get_mut(part)
            .and_then(|part| part.get_mut("metadata"));
        if let Some(Value::Object(meta)) = meta {
            meta.remove(MANAGED);
            meta.remove("creationTimestamp");
        }
    }
    request
}

/// Reads an answer; the error says why it is invalid.
pub(super) fn read(dialect: &Dialect, uid: &str, answer: &Value) -> Result<Reply, String> {
    let word = |field: &str| {
        answer
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let wanted = format!("admission.k8s.io/{}", dialect.version);
    let (found, kind) = (word("apiVersion"), word("kind"));
    let invalid = |why: String| Err(format!("received invalid webhook response: {why}"));
    if (found, kind) != (wanted.as_str(), "AdmissionReview") {
        let slash = if found.contains('/') { "" } else { "/" };
        return invalid(format!(
            "expected webhook response of {wanted}, Kind=AdmissionReview, got {slash}{found}, Kind={kind}"
        ));
    }
    let Some(response) = answer.get("response").filter(|found| found.is_object()) else {
        return invalid("webhook response was absent".to_owned());
    };
    let word = |field: &str| {
        response
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    if word("uid") != uid {
        let found = word("uid");
        return invalid(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    let patch = word("patch");
    if dialect.validating {
        for (field, found) in [("patch", patch), ("patchType", word("patchType"))] {
            if !found.is_empty() {
                let why = format!("validating webhook may not return response.{field}");
                return invalid(why);
            }
        }
    }
    match (patch.is_empty(), word("patchType")) {
        (true, "") | (false, "JSONPatch") => {}
        (false, "") => {
            let why = "webhook returned response.patch but not response.patchType";
            return invalid(why.to_owned());
        }
        (true, _) => {
            let why = "webhook returned response.patchType but not response.patch";
            return invalid(why.to_owned());
        }
        (false, other) => {
            let why = format!("webhook returned invalid response.patchType of {other:?}");
            return invalid(why);
        }
    }
    let warnings = response.get("warnings").and_then(Value::as_array);
    let warnings = warnings.into_iter().flatten().filter_map(Value::as_str);
    let allowed = response.get("allowed").and_then(Value::as_bool);
    Ok(Reply {
        denial: (allowed != Some(true)).then(|| denial(response.get("status"))),
        patch: decoded(patch)?,
        warnings: warnings.map(str::to_owned).collect(),
    })
}

fn decoded(patch: &str) -> Result<Option<Value>, String> {
    if patch.is_empty() {
        return Ok(None);
    }
    let bytes = STANDARD.decode(patch).map_err(|why| why.to_string())?;
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|why| why.to_string())
}

fn denial(status: Option<&Value>) -> Denial {
    let word = |field: &str| {
        let found = status.and_then(|status| status.get(field));
        found.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let code = status.and_then(|status| status.get("code"));
    let code = code.and_then(Value::as_u64).unwrap_or_default();
    let details = status.and_then(|status| status.get("details"));
    Denial {
        // A lower code would not be a refusal.
        code: u16::try_from(code)
            .ok()
            .filter(|code| *code >= 400)
            .unwrap_or(400),
        reason: word("reason"),
        message: word("message"),
        details: details.and_then(Value::as_object).cloned(),
    }
}

// === impl Denial ===

impl Denial {
    /// Returns the message for the client.
    pub(super) fn told(&self, hook: &str) -> String {
        let start = format!("admission webhook {hook:?} denied the request");
        match (self.message.as_str(), self.reason.as_str()) {
            ("", "") => format!("{start} without explanation"),
            ("", reason) => format!("{start}: {reason}"),
            (message, _) => format!("{start}: {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect() -> Dialect {
        Dialect {
            version: "v1".to_owned(),
            validating: false,
        }
    }

    fn answer(response: &Value) -> Value {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    #[test]
    fn what_is_wrong_with_answers_is_told() {
        let start = "received invalid webhook response: ";
        for (answer, expected) in [
            (
                json!({}),
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
            (answer(&Value::Null), "webhook response was absent"),
            (
                answer(&json!({"uid": "x"})),
                r#"expected response.uid="u", got "x""#,
            ),
            (
                answer(&json!({"uid": "u", "patch": "W10="})),
                "webhook returned response.patch but not response.patchType",
            ),
        ] {
            assert_eq!(
                read(&dialect(), "u", &answer).unwrap_err(),
                format!("{start}{expected}")
            );
        }
    }

    #[test]
    fn a_denial_is_told_with_the_name_of_its_webhook() {
        let read = |status: Value| {
            read(
                &dialect(),
                "u",
                &answer(&json!({"uid": "u", "allowed": false, "status": status})),
            )
        };
        let told = |status: Value| read(status).unwrap().denial.unwrap().told("w");
        let start = r#"admission webhook "w" denied the request"#;
        assert_eq!(told(Value::Null), format!("{start} without explanation"));
        assert_eq!(told(json!({"reason": "r"})), format!("{start}: r"));
        assert_eq!(
            told(json!({"message": "m", "reason": "r"})),
            format!("{start}: m")
        );
        let allowed = answer(
            &json!({"uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": "W10="}),
        );
        assert_eq!(
            super::read(&dialect(), "u", &allowed).unwrap().patch,
            Some(json!([]))
        );
    }
}
