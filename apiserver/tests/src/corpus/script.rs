//! The script format: steps with one request each, tables of variants, captured values, watches.
//!
//! A parse error names the file and the position. Must not know servers.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::digest::Digest;

/// The value with which a variant removes a field.
const ABSENT: &str = "<absent>";

/// A script: an optional custom kind, then steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The file name without extension; the API group and the namespace of the script derive from it.
    #[serde(default)]
    pub name: String,
    /// The subject of the script.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Values that YAML aliases refer to.
    #[serde(default, skip_serializing)]
    pub templates: Value,
    /// The schema of the only version of the custom kind `Thing`, which is served before the first step.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub schema: Value,
    /// Other fields of that version.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub version: Value,
    /// The steps to run.
    pub steps: Vec<Step>,
}

/// One request, or one read of a watch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// `METHOD /path?query`.
    #[serde(rename = "do", skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// Request headers besides `Content-Type`, whose default depends on the method and the body.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body as data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The body as text, for bodies that are not valid data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Changes of the body, by JSON pointer.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, Value>,
    /// The common prefix of the pointers in `with` and `each`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub under: String,
    /// Sends one request per row, with the changes of the row in addition to `with`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<BTreeMap<String, Value>>,
    /// Sends one request per query, which is appended to the path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<String>,
    /// Variables to set from the answer, by JSON pointer.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub capture: BTreeMap<String, String>,
    /// Repeats the request on each server until its answer has these values, by JSON pointer; `/code` is the status code.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub until: BTreeMap<String, Value>,
    /// Keeps the response open as a watch under this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    /// Waits for this number of events of a watch and compares each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub take: BTreeMap<String, usize>,
    /// Waits for the events of a watch up to the first object with this name, and compares each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub read_up: BTreeMap<String, String>,
    /// A remark for the reader.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

// === impl Script ===

impl Script {
    /// Reads all scripts of a folder, sorted by name.
    ///
    /// # Panics
    ///
    /// Panics if a file is unreadable or not a script, because the corpus is part of the tests.
    #[must_use]
    pub fn read_all(folder: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(folder).expect("the folder of scripts is readable");
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|found| found == "yaml"))
            .filter(|path| path.file_stem().is_some_and(|name| name != "ledger"))
            .collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a script is readable");
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Parses a script.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not YAML or has unknown fields.
    pub fn parse(name: &str, text: &str) -> Result<Self, Box<dyn std::error::Error>> {
        // Reads `N`, `y` and the like as strings, as YAML 1.2 does.
        let options = serde_saphyr::options! { strict_booleans: true };
        let value: Value = serde_saphyr::from_str_with_options(text, options)?;
        let mut script: Self = serde_json::from_value(value)?;
        name.clone_into(&mut script.name);
        Ok(script)
    }

    /// Returns the script as YAML, to save generated scripts.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).unwrap_or_else(|error| error.to_string())
    }

    /// Returns the API group of the script's own kinds.
    #[must_use]
    pub fn group(&self) -> String {
        format!("{}.corpus.example", self.name)
    }

    /// Returns all steps, with tables expanded; the steps that create the namespace and the kind come first.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step {
            request: "POST /api/v1/namespaces".to_owned(),
            body: Some(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${ns}"}}),
            ),
            ..Step::default()
        }];
        if !self.schema.is_null() {
            steps.extend(self.served());
        }
        steps.extend(self.steps.iter().flat_map(Step::written_out));
        steps
    }

    /// Returns a digest of all requests.
    ///
    /// # Panics
    ///
    /// Never panics, because steps are plain data.
    #[must_use]
    pub fn asked(&self) -> Digest {
        let add = |digest: Digest, step: Step| {
            let asked = Step {
                note: String::new(),
                ..step
            };
            digest.and(serde_json::to_string(&asked).expect("steps are data"))
        };
        self.steps().into_iter().fold(Digest::new(), add)
    }

    /// Returns the number of steps before the script's own steps.
    #[must_use]
    pub fn prelude(&self) -> usize {
        if self.schema.is_null() { 1 } else { 4 }
    }

    /// Returns the steps that create the custom kind and wait until it is served.
    fn served(&self) -> [Step; 3] {
        let mut version = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": self.schema},
        });
        for (name, value) in self.version.as_object().into_iter().flatten() {
            version[name] = value.clone();
        }
        let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.${group}"},
            "spec": {"group": "${group}", "scope": "Namespaced", "names": names, "versions": [version]},
        });
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        [
            Step {
                request: format!("POST {crds}"),
                body: Some(crd),
                ..Step::default()
            },
            Step {
                request: format!("GET {crds}/things.${{group}}"),
                until: BTreeMap::from([("/status/conditions/1/status".to_owned(), "True".into())]),
                ..Step::default()
            },
            Step {
                request: "GET ${things}".to_owned(),
                until: BTreeMap::from([("/code".to_owned(), 200.into())]),
                ..Step::default()
            },
        ]
    }
}

// === impl Step ===

impl Step {
    /// Expands the step to one step per variant.
    fn written_out(&self) -> Vec<Self> {
        let plain = Self {
            each: Vec::new(),
            queries: Vec::new(),
            ..self.clone()
        };
        let mut rows: Vec<Self> = vec![plain];
        if !self.queries.is_empty() {
            rows = variants(&rows, &self.queries, |step, query| {
                let mark = if step.request.contains('?') { '&' } else { '?' };
                step.request = format!("{}{mark}{query}", step.request);
            });
        }
        if !self.each.is_empty() {
            rows = variants(&rows, &self.each, |step, row| {
                step.with.extend(row.clone());
            });
        }
        rows
    }

    /// Returns the body with its changes applied.
    #[must_use]
    pub fn whole_body(&self) -> Option<Value> {
        let mut body = self.body.clone()?;
        for (pointer, value) in &self.with {
            set(&mut body, &format!("{}{pointer}", self.under), value);
        }
        Some(body)
    }
}

fn variants<T>(rows: &[Step], of: &[T], change: impl Fn(&mut Step, &T)) -> Vec<Step> {
    let of_row = |row: &Step| -> Vec<Step> {
        let with = |variant: &T| {
            let mut step = row.clone();
            change(&mut step, variant);
            step
        };
        of.iter().map(with).collect()
    };
    rows.iter().flat_map(of_row).collect()
}

/// Sets a value at a pointer and creates missing maps on the way; the value `<absent>` removes, the index `-` appends.
fn set(body: &mut Value, pointer: &str, value: &Value) {
    let (parent, last) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    let mut slot = body;
    for part in parent.split('/').skip(1) {
        let part = plain(part);
        slot = match slot {
            Value::Array(items) => {
                let at: usize = part.parse().expect("an index leads into a list");
                &mut items[at]
            }
            other => &mut other[&part],
        };
    }
    let last = plain(last);
    let absent = value.as_str() == Some(ABSENT);
    match slot {
        Value::Array(items) if last == "-" => items.push(value.clone()),
        Value::Array(items) => {
            let at: usize = last.parse().expect("an index leads into a list");
            if absent {
                items.remove(at);
            } else {
                items[at] = value.clone();
            }
        }
        Value::Object(map) if absent => drop(map.remove(&last)),
        other => other[&last] = value.clone(),
    }
}

fn plain(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_written_out() {
        let text = "steps: [{do: POST /x, body: {a: 1, l: [1, 2]}, each: [{/a: 2}, {/l/0: <absent>, /b/c: 3}], queries: [q=1, q=2]}]";
        let script = Script::parse("t", text).unwrap();
        let found: Vec<(String, Value)> = script
            .steps()
            .into_iter()
            .skip(1)
            .map(|step| (step.request.clone(), step.whole_body().unwrap()))
            .collect();
        let one = json!({"a": 2, "l": [1, 2]});
        let two = json!({"a": 1, "l": [2], "b": {"c": 3}});
        assert_eq!(
            found,
            [
                ("POST /x?q=1".to_owned(), one.clone()),
                ("POST /x?q=1".to_owned(), two.clone()),
                ("POST /x?q=2".to_owned(), one),
                ("POST /x?q=2".to_owned(), two),
            ]
        );
    }
}
