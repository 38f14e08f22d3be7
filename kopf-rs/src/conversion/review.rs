//! The body of a conversion review: the request and the response.
//!
//! This module does not know how objects are converted.

use serde::Deserialize;
use serde_json::{Value, json};

/// Objects to convert.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConversionReview {
    pub(crate) uid: String,
    /// `group/version`
    pub(crate) desired: String,
    pub(crate) objects: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Posted {
    api_version: Option<String>,
    kind: Option<String>,
    request: Option<Request>,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    uid: String,
    #[serde(rename = "desiredAPIVersion", default)]
    desired: String,
    objects: Option<Vec<Value>>,
}

const VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "ConversionReview";

impl ConversionReview {
    /// Parses the body of a POST request.
    ///
    /// # Errors
    /// The reason why the body is not a review.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        // The error does not quote the body, which may be long and secret.
        let posted: Posted = serde_json::from_slice(body).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => {
                format!("the body is not a {KIND}: a value has another type")
            }
            _ => "the body is not JSON".to_owned(),
        })?;
        let found = (posted.kind.as_deref(), posted.api_version.as_deref());
        if found != (Some(KIND), Some(VERSION)) {
            return Err(format!("expected a {KIND} of {VERSION}"));
        }
        let request = posted.request.ok_or("the review has no request")?;
        if request.uid.is_empty() || request.desired.is_empty() {
            return Err("the review has no request.uid or no request.desiredAPIVersion".to_owned());
        }
        Ok(Self { uid: request.uid, desired: request.desired, objects: request.objects.unwrap_or_default() })
    }

    /// Returns the response: the objects in their order, or the reason for a failure.
    pub(crate) fn answer(uid: &str, converted: Result<Vec<Value>, String>) -> Vec<u8> {
        let response = match converted {
            Ok(objects) => {
                json!({"uid": uid, "result": {"status": "Success"}, "convertedObjects": objects})
            }
            Err(message) => {
                json!({"uid": uid, "result": {"status": "Failure", "message": message}})
            }
        };
        let body = json!({"apiVersion": VERSION, "kind": KIND, "response": response});
        body.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posted() -> Value {
        json!({
            "apiVersion": VERSION, "kind": KIND,
            "request": {"uid": "u", "desiredAPIVersion": "example.com/v1", "objects": [{"a": 1}, {"b": 2}]},
        })
    }

    #[test]
    fn a_review_is_read_and_answered() {
        let review = ConversionReview::parse(posted().to_string().as_bytes()).unwrap();
        let ConversionReview { uid, desired, objects } = review;
        assert_eq!((uid.as_str(), desired.as_str()), ("u", "example.com/v1"));
        assert_eq!(objects, [json!({"a": 1}), json!({"b": 2})]);
        let answer: Value = serde_json::from_slice(&ConversionReview::answer(&uid, Ok(objects))).unwrap();
        assert_eq!(answer["response"]["uid"], "u");
        assert_eq!(answer["response"]["result"]["status"], "Success");
        assert_eq!(answer["response"]["convertedObjects"], json!([{"a": 1}, {"b": 2}]));
        let failure = ConversionReview::answer("u", Err("no way".to_owned()));
        let failure: Value = serde_json::from_slice(&failure).unwrap();
        assert_eq!(failure["response"]["result"], json!({"status": "Failure", "message": "no way"}));
    }

    #[test]
    fn a_review_may_have_no_objects() {
        for none in [json!([]), Value::Null] {
            let mut posted = posted();
            posted["request"]["objects"] = none;
            let review = ConversionReview::parse(posted.to_string().as_bytes()).unwrap();
            assert_eq!(review.objects, [Value::Null; 0]);
        }
    }

    #[test]
    fn an_invalid_review_is_refused() {
        let with = |path: &str, value: Value| {
            let mut posted = posted();
            *posted.pointer_mut(path).unwrap() = value;
            posted.to_string()
        };
        for (body, expected) in [
            ("junk".to_owned(), "not JSON"),
            (String::new(), "not JSON"),
            ("[".repeat(100_000), "the body is not "),
            ("{}".to_owned(), "expected a ConversionReview"),
            (with("/kind", json!("AdmissionReview")), "expected a ConversionReview"),
            (with("/apiVersion", json!("apiextensions.k8s.io/v1beta1")), "of apiextensions.k8s.io/v1"),
            (with("/request", Value::Null), "no request"),
            (with("/request/uid", json!("")), "no request.uid"),
            (with("/request/desiredAPIVersion", json!("")), "no request.uid or"),
            (with("/request/objects", json!("secret")), "has another type"),
        ] {
            let refused = ConversionReview::parse(body.as_bytes()).unwrap_err();
            assert!(refused.contains(expected), "{refused}, not {expected}");
            assert!(!refused.contains("secret"));
        }
    }
}
