//! Label and field selectors of lists and watches.
//!
//! Guarantees that exactly the selectors are valid that the real server accepts. Must not depend on the origin of objects.

pub(crate) mod choice;
pub(crate) mod labels;
pub(crate) mod object;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::{Stored, at_path};
use crate::status::Refusal;
use labels::Rule;

/// The conditions that an object of a list or watch meets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<(String, Rule)>,
    fields: Vec<Field>,
}

#[derive(Clone, Debug)]
struct Field {
    path: String,
    value: String,
    equal: bool,
}

// === impl Selector ===

impl Selector {
    pub(crate) fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Refusal> {
        let found = parse_fields(fields)?;
        let mut fields = found;
        for field in &mut fields {
            check_selectable(kind, &field.path)?;
            if kind.plural == "events" && kind.traits.builtin {
                field.path = stored_path(&field.path);
            }
        }
        Ok(Self {
            labels: labels::parse(labels).map_err(Refusal::bad_request)?,
            fields,
        })
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.labels
            .iter()
            .all(|(key, rule)| rule.holds(stored.slim.labels.get(key).map(String::as_str)))
            && self.fields_match(stored)
    }

    /// Restricts the selector to one name, for a watch of a single object.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.fields.push(Field {
            path: "metadata.name".to_owned(),
            value: name.to_owned(),
            equal: true,
        });
        self
    }

    /// Returns whether only one name can match.
    pub(crate) fn is_of_one(&self) -> bool {
        let mut fields = self.fields.iter();
        fields.any(|field| field.equal && field.path == "metadata.name")
    }

    fn fields_match(&self, stored: &Stored) -> bool {
        let mut body = None;
        self.fields.iter().all(|field| {
            let same = match field.path.as_str() {
                "metadata.name" => stored.slim.name == field.value,
                "metadata.namespace" => {
                    stored.slim.namespace.as_deref().unwrap_or("") == field.value
                }
                path => {
                    let body = body.get_or_insert_with(|| stored.body());
                    shown(at_path(body, path)) == field.value
                }
            };
            same == field.equal
        })
    }
}

/// Returns the stored path of an Event's field.
fn stored_path(path: &str) -> String {
    match path {
        "reportingController" => "reportingComponent".to_owned(),
        "source" => "source.component".to_owned(),
        path => path.replacen("regarding.", "involvedObject.", 1),
    }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn check_selectable(kind: &Kind, path: &str) -> Result<(), Refusal> {
    if path == "metadata.name" || path == "metadata.namespace" {
        return Ok(());
    }
    let builtin = selectable(kind);
    if builtin.contains(&path) || kind.selectable.iter().any(|found| found == path) {
        return Ok(());
    }
    Err(Refusal::bad_request(
        if kind.traits.builtin && builtin.is_empty() {
            format!(
                "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )
        } else {
            format!("field label not supported: {path}")
        },
    ))
}

/// Returns the fields, besides name and namespace, by which a built-in kind can be selected.
fn selectable(kind: &Kind) -> &'static [&'static str] {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "reason",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reportingController",
            "type",
        ],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        ("resource.k8s.io", "resourceslices") => &["spec.nodeName", "spec.driver"],
        ("", "secrets") => &["type"],
        ("", "namespaces") => &["status.phase"],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        _ => &[],
    }
}

/// Splits a selector at commas that are not escaped.
fn terms(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Removes the backslashes that escape commas, equals signs and backslashes.
fn unescaped(value: &str) -> Result<String, Refusal> {
    let bad = |why: String| {
        Err(Refusal::bad_request(format!(
            "invalid field selector: {why}"
        )))
    };
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                next => {
                    let sequence: String = ['\\'].into_iter().chain(next).collect();
                    return bad(format!("invalid escape sequence: {sequence}"));
                }
            },
            ',' | '=' => {
                let code = u32::from(letter);
                return bad(format!("unescaped character in value: {code}"));
            }
            letter => plain.push(letter),
        }
    }
    Ok(plain)
}

/// Returns whether a text is a valid field selector for some kind.
pub(crate) fn reads_fields(text: &str) -> bool {
    parse_fields(text).is_ok()
}

fn parse_fields(text: &str) -> Result<Vec<Field>, Refusal> {
    let mut fields = Vec::new();
    let mut parts = terms(text);
    parts.sort_unstable();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let operators = ["!=", "==", "="];
        let found = part.char_indices().find_map(|(at, _)| {
            let operator = operators
                .iter()
                .find(|word| part[at..].starts_with(**word))?;
            Some((&part[..at], *operator, &part[at + operator.len()..]))
        });
        let (path, value, equal) = if let Some((path, operator, value)) = found {
            (path, unescaped(value)?, operator != "!=")
        } else {
            return Err(Refusal::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{part}'"
            )));
        };
        fields.push(Field {
            path: path.to_owned(),
            value,
            equal,
        });
    }
    Ok(fields)
}
