//! A `ConversionReview`: builds the question for a conversion webhook and reads its answer.
//!
//! Guarantees kube-apiserver's messages, and that the webhook can change only labels and annotations in the metadata.
//! Must not depend on transports.

use serde_json::{Value, json};

use crate::object::{Body, meta_text, metadata, text};
use crate::rules;
use crate::schema::go::type_of;
use crate::status::Cause;

const GROUP: &str = "apiextensions.k8s.io";

/// The question: an object, and the version to which it is to be converted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    /// The version of the review.
    pub(super) review: &'a str,
    pub(super) uid: &'a str,
    /// The desired `apiVersion` of the object.
    pub(super) wanted: &'a str,
    pub(super) object: &'a Body,
}

// === impl Question ===

impl Question<'_> {
    /// Returns the review as JSON.
    pub(super) fn to_json(self) -> Value {
        json!({
            "kind": "ConversionReview",
            "apiVersion": format!("{GROUP}/{}", self.review),
            "request": {"uid": self.uid, "desiredAPIVersion": self.wanted, "objects": [self.object]},
        })
    }

    /// Returns the converted object of an answer, or the reason why it is invalid.
    pub(super) fn read(self, answer: Result<&Value, &str>) -> Result<Body, String> {
        let (version, kind) = (text(self.object, "apiVersion"), text(self.object, "kind"));
        let start = format!("conversion webhook for {version}, Kind={kind}");
        let objects = answer
            .map_err(str::to_owned)
            .and_then(|answer| self.objects(answer))
            .map_err(|why| format!("{start} failed: {why}"))?;
        let [object] = objects else {
            let found = objects.len();
            return Err(format!("{start} returned {found} objects, expected 1"));
        };
        let mut object = read_object(object)?;
        let invalid = |why: String| Err(format!("{start} returned invalid object{why}"));
        let found = text(&object, "apiVersion");
        if found != self.wanted {
            let expected = format!("(expected {}, received {found})", self.wanted);
            return invalid(format!(" at index 0: invalid groupVersion {expected}"));
        }
        let found = text(&object, "kind");
        if found != kind {
            let expected = format!("(expected {kind}, received {found})");
            return invalid(format!(" at index 0: invalid kind {expected}"));
        }
        for (word, field) in [("name", "name"), ("namespace", "namespace"), ("UID", "uid")] {
            let (was, is) = (meta_text(self.object, field), meta_text(&object, field));
            if was != is {
                return invalid(format!(": must have the same {word}: {was} != {is}"));
            }
        }
        restore(self.object, &mut object)
            .map_err(|why| format!("{start} returned invalid metadata: {why}"))?;
        Ok(object)
    }

    /// Returns the objects of an answer after checking that it belongs to this question.
    fn objects(self, answer: &Value) -> Result<&[Value], String> {
        self.check_type(answer)?;
        let response = answer.get("response").filter(|found| found.is_object());
        let response = response.ok_or("no response provided")?;
        let word = |of: &Value, field: &str| {
            let found = of.get(field).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let found = word(response, "uid");
        // The older version of the review does not require the uid.
        if self.review == "v1" && found != self.uid {
            let uid = self.uid;
            return Err(format!("expected response.uid={uid:?}, got {found:?}"));
        }
        let result = response.get("result").unwrap_or(&Value::Null);
        let (status, message) = (word(result, "status"), word(result, "message"));
        if status != "Success" {
            let silent = || format!("response.result.status was '{status}', not 'Success'");
            return Err(Some(message)
                .filter(|told| !told.is_empty())
                .unwrap_or_else(silent));
        }
        let objects = response.get("convertedObjects").and_then(Value::as_array);
        Ok(objects.map_or(&[], Vec::as_slice))
    }

    fn check_type(self, answer: &Value) -> Result<(), String> {
        let word = |field: &str| {
            let found = answer.get(field).and_then(Value::as_str);
            found.unwrap_or_default()
        };
        let (version, kind, review) = (word("apiVersion"), word("kind"), self.review);
        let known = |version: &str| version == "v1" || version == "v1beta1";
        match version.split_once('/') {
            _ if version.is_empty() && kind.is_empty() && review == "v1beta1" => Ok(()),
            _ if version.is_empty() && kind.is_empty() => Err(format!(
                "expected webhook response of {GROUP}/{review}, Kind=ConversionReview, got /, Kind="
            )),
            Some((GROUP, found)) if known(found) && kind == "ConversionReview" => {
                if found == review {
                    return Ok(());
                }
                Err(format!(
                    "converting ({found}.{kind}) to ({review}.{kind}): unknown conversion"
                ))
            }
            _ => Err(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )),
        }
    }
}

fn read_object(object: &Value) -> Result<Body, String> {
    match object {
        Value::Object(map) if text(map, "kind").is_empty() => {
            Err(format!("Object 'Kind' is missing in '{object}'"))
        }
        Value::Object(map) => Ok(map.clone()),
        // Go reads a null as an absent value.
        Value::Null => Err("unexpected end of JSON input".to_owned()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            rules::go_type(other)
        )),
    }
}

/// Restores the original metadata except for labels and annotations.
fn restore(original: &Body, converted: &mut Body) -> Result<(), String> {
    let said = match converted.remove("metadata") {
        Some(Value::Object(said)) => said,
        None => return Err("missing metadata in converted object".to_owned()),
        Some(other) => {
            let found = type_of(&other);
            return Err(format!(
                "invalid metadata of type {found} in converted object"
            ));
        }
    };
    let mut meta = metadata(original).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match said.get(field) {
            None | Some(Value::Null) => {
                meta.remove(field);
            }
            Some(Value::Object(map)) => {
                if meta.get(field).and_then(Value::as_object) != Some(map) {
                    check(field, map)?;
                }
                meta.insert(field.to_owned(), Value::Object(map.clone()));
            }
            Some(other) => {
                let found = type_of(other);
                return Err(format!(
                    "invalid metadata.{field} of type {found} in converted object"
                ));
            }
        }
    }
    converted.insert("metadata".to_owned(), Value::Object(meta));
    Ok(())
}

/// Validates labels or annotations from a webhook.
fn check(field: &str, map: &Body) -> Result<(), String> {
    if let Some((key, value)) = map.iter().find(|(_, value)| !value.is_string()) {
        let found = type_of(value);
        return Err(format!(
            "metadata.{field}[{key}] must be a string, but is {found} in converted object"
        ));
    }
    let mut meta = Body::new();
    meta.insert(field.to_owned(), Value::Object(map.clone()));
    let mut causes = Vec::new();
    if field == "labels" {
        rules::check_labels(&meta, &mut causes);
    } else {
        rules::check_annotations(&meta, &mut causes);
    }
    // The real server uses the singular for annotations here.
    let place = |cause: &Cause| match field {
        "labels" => cause.field.clone(),
        _ => cause
            .field
            .replace("metadata.annotations", "metadata.annotation"),
    };
    let told: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}: {}", place(cause), cause.message))
        .collect();
    match told.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(value: Value) -> Body {
        match value {
            Value::Object(body) => body,
            other => panic!("{other} is no object"),
        }
    }

    #[test]
    fn an_answer_changes_labels_and_annotations_of_metadata_and_nothing_else_of_it() {
        let object = body(json!({
            "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "uid": "u", "finalizers": ["x/y"], "labels": {"a": "b"}},
        }));
        let question = Question {
            review: "v1",
            uid: "q",
            wanted: "g/v2",
            object: &object,
        };
        let made = json!({
            "apiVersion": "g/v2", "kind": "K", "spec": 1,
            "metadata": {"name": "n", "uid": "u", "finalizers": [], "annotations": {"c": "d"}},
        });
        let answer = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": "q", "result": {"status": "Success"}, "convertedObjects": [made]},
        });
        let expected = json!({
            "apiVersion": "g/v2", "kind": "K", "spec": 1,
            "metadata": {"name": "n", "uid": "u", "finalizers": ["x/y"], "annotations": {"c": "d"}},
        });
        assert_eq!(question.read(Ok(&answer)), Ok(body(expected)));
        assert_eq!(
            question.read(Err("no route")),
            Err("conversion webhook for g/v1, Kind=K failed: no route".to_owned())
        );
    }
}
