//! Label and field selectors: what a list or watch is narrowed to.
//!
//! Promise: parses what the real server parses and refuses the rest. Must not know where objects come from.

use serde_json::Value;

use crate::kind::Kind;
use crate::object::{Stored, at_path};
use crate::status::Refusal;

/// A label requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Has,
    HasNot,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

/// What an object must be like to be in a list or watch.
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
        for field in &found {
            if !is_selectable(kind, &field.path) {
                return Err(Refusal::bad_request(format!(
                    "Unable to find {:?} that match label selector {labels:?}, field selector {fields:?}: \
                     field label not supported: {}",
                    format!("{}, Resource={}", group_version(kind), kind.plural),
                    field.path
                )));
            }
        }
        Ok(Self {
            labels: parse_labels(labels)?,
            fields: found,
        })
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.labels
            .iter()
            .all(|(key, rule)| rule.holds(stored.slim.labels.get(key).map(String::as_str)))
            && self.fields_match(stored)
    }

    /// Narrow to one name, as watching a single object does.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.fields.push(Field {
            path: "metadata.name".to_owned(),
            value: name.to_owned(),
            equal: true,
        });
        self
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

fn group_version(kind: &Kind) -> String {
    // The core group prints as an empty word before the slash.
    format!("{}/{}", kind.group, kind.version)
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn is_selectable(kind: &Kind, path: &str) -> bool {
    if path == "metadata.name" || path == "metadata.namespace" {
        return true;
    }
    let builtin: &[&str] = match (kind.group.as_str(), kind.plural.as_str()) {
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
        ("", "secrets") => &["type"],
        ("", "namespaces") => &["status.phase"],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        _ => &[],
    };
    builtin.contains(&path) || kind.selectable.iter().any(|found| found == path)
}

fn parse_fields(text: &str) -> Result<Vec<Field>, Refusal> {
    let mut fields = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = part.split_once("==") {
            (path, value, true)
        } else if let Some((path, value)) = part.split_once('=') {
            (path, value, true)
        } else {
            return Err(Refusal::bad_request(format!(
                "invalid field selector: {text:?}; can't understand {part:?}"
            )));
        };
        fields.push(Field {
            path: path.to_owned(),
            value: value.replace("\\,", ",").replace("\\=", "="),
            equal,
        });
    }
    Ok(fields)
}

fn parse_labels(text: &str) -> Result<Vec<(String, Rule)>, Refusal> {
    let mut rules = Vec::new();
    for part in split_outside_parentheses(text) {
        let part = part.trim();
        if !part.is_empty() {
            rules.push(parse_label(part)?);
        }
    }
    Ok(rules)
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_label(part: &str) -> Result<(String, Rule), Refusal> {
    let bad = || Refusal::bad_request(format!("unable to parse requirement: {part}"));
    if let Some(key) = part.strip_prefix('!') {
        return checked(key.trim(), Rule::HasNot);
    }
    if let Some(open) = part.find('(') {
        let values = part[open + 1..].strip_suffix(')').ok_or_else(bad)?;
        let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
        let mut words = part[..open].split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => checked(key, Rule::In(values)),
            (Some(key), Some("notin"), None) => checked(key, Rule::NotIn(values)),
            _ => Err(bad()),
        };
    }
    for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((key, value)) = part.split_once(sign) {
            let value = vec![value.trim().to_owned()];
            let rule = if equal {
                Rule::In(value)
            } else {
                Rule::NotIn(value)
            };
            return checked(key.trim(), rule);
        }
    }
    for (sign, greater) in [('>', true), ('<', false)] {
        if let Some((key, value)) = part.split_once(sign) {
            let value = value.trim().parse().map_err(|_| bad())?;
            let rule = if greater {
                Rule::Greater(value)
            } else {
                Rule::Less(value)
            };
            return checked(key.trim(), rule);
        }
    }
    checked(part, Rule::Has)
}

fn checked(key: &str, rule: Rule) -> Result<(String, Rule), Refusal> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if key.is_empty() || !key.chars().all(fits) {
        return Err(Refusal::bad_request(format!(
            "unable to parse requirement: <nil>: Invalid value: {key:?}: name part must consist of alphanumeric characters, \
             '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
             '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )));
    }
    Ok((key.to_owned(), rule))
}

// === impl Rule ===

impl Rule {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        match self {
            Self::Has => value.is_some(),
            Self::HasNot => value.is_none(),
            Self::In(values) => value.is_some_and(|found| values.iter().any(|v| v == found)),
            Self::NotIn(values) => value.is_none_or(|found| values.iter().all(|v| v != found)),
            Self::Greater(limit) => number().is_some_and(|found| found > *limit),
            Self::Less(limit) => number().is_some_and(|found| found < *limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn holds(text: &str, labels: &BTreeMap<String, String>) -> bool {
        parse_labels(text).is_ok_and(|rules| {
            let value = |key| labels.get(key).map(String::as_str);
            rules.iter().all(|(key, rule)| rule.holds(value(key)))
        })
    }

    #[test]
    fn label_selectors_by_table() {
        let labels: BTreeMap<String, String> = [
            ("a".to_owned(), "1".to_owned()),
            ("b".to_owned(), "x".to_owned()),
        ]
        .into();
        for (text, expected) in [
            ("", true),
            ("a=1", true),
            ("a==1,b=x", true),
            ("a=1,b=y", false),
            ("a!=2", true),
            ("c!=2", true),
            ("a in (1,2)", true),
            ("a in (2, 3),b", false),
            ("b notin (y,z)", true),
            ("!c", true),
            ("!a", false),
            ("a>0", true),
            ("a<1", false),
            ("c", false),
        ] {
            assert_eq!(holds(text, &labels), expected, "{text}");
        }
        assert!(parse_labels("a b").is_err());
    }
}
