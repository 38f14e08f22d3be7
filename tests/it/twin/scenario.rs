//! A scenario as data: handlers that follow a script, and what a user does to one object.
//!
//! Read from `tests/twin/*.yaml`, one document per scenario. Must not know who plays it.

use std::collections::BTreeMap;
use std::path::Path;

use kopf_rs_tests::documents;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The one object of a scenario.
pub(super) const OBJECT: &str = "a";

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// Where it is written, from the root of the repository.
    #[serde(skip)]
    pub(crate) file: String,
    pub(crate) name: String,
    /// Whether the kind has the status subresource.
    #[serde(default = "yes")]
    pub(super) status_subresource: bool,
    /// Whether the kind's schema takes any status; else it has the field `known`, and the rest is pruned.
    #[serde(default = "yes")]
    pub(super) open_status: bool,
    #[serde(default = "asap")]
    pub(super) lifecycle: String,
    pub(super) handlers: Vec<Handler>,
    pub(super) steps: Vec<Step>,
    /// The calls both make, as `id reason retry`; where they differ, this is what Kopf makes.
    pub(super) calls: Vec<String>,
    #[serde(default)]
    pub(super) differs: Vec<Difference>,
}

/// A handler, under the option names that are the same on both sides.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Handler {
    /// Nothing for sub-handlers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) on: String,
    pub(super) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) old: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new: Option<Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) errors: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) backoff: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deleted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) optional: Option<bool>,
    /// What each attempt does, the last one again and again; `ok` where nothing is said.
    #[serde(default = "succeed")]
    pub(super) does: Vec<Attempt>,
    /// Handlers that are registered by this one, whenever it is called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) subs: Vec<Handler>,
    /// How Kopf registers them: by `decorator`, by `register`, or by `execute`, which runs them before anything is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) form: Option<String>,
}

/// One action, or several in order.
#[derive(Clone, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum Attempt {
    One(Action),
    Many(Vec<Action>),
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Ok,
    Permanent,
    Error,
    /// The delay in seconds.
    Temporary(f64),
    Result(Value),
    Patch(Value),
    /// Add to the list at this path, by a function of the object.
    Append(BTreeMap<String, Value>),
    /// Merge this into the object, by a function of it.
    Assign(Value),
    /// Seconds.
    Sleep(f64),
    /// Wait for the step that releases this gate.
    Hold(String),
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Step {
    /// Start the operator; before the first step where no step says so.
    Start,
    /// End it gracefully.
    Stop,
    /// End it as SIGKILL does.
    Kill,
    /// Make the object, of these stanzas.
    Create(Value),
    /// Merge into the object.
    Patch(Value),
    /// Merge into its status.
    Status(Value),
    Delete,
    /// Await that so many calls have been made since the beginning.
    Calls(usize),
    /// Await that the object's present state is the one handled last, and that nothing is left to be done.
    Handled,
    /// Await that so many attempts of a handler are on record.
    Recorded(BTreeMap<String, u64>),
    /// Await that the object contains this; `null` is absence.
    Has(Value),
    Gone,
    Release(String),
}

/// Where the two differ, and by which row of the deviation table.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Difference {
    pub(super) row: u32,
    #[serde(rename = "in")]
    pub(super) aspect: Aspect,
    /// What Kopf shows: a list of calls, a count of writes, or a part of the object.
    pub(super) kopf: Value,
    pub(super) ours: Value,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Aspect {
    /// Which handlers are called in which order, why, and with which retry.
    Calls,
    /// What they are told: old, new, diff.
    Arguments,
    /// What is left of the object.
    Object,
    /// How many writes are made.
    Writes,
}

fn yes() -> bool {
    true
}

fn asap() -> String {
    "asap".into()
}

fn succeed() -> Vec<Attempt> {
    vec![Attempt::One(Action::Ok)]
}

impl Handler {
    /// What the handler does at its attempt `number`, from 0.
    pub(super) fn attempt(&self, number: usize) -> Vec<Action> {
        match &self.does[number.min(self.does.len() - 1)] {
            Attempt::One(action) => vec![action.clone()],
            Attempt::Many(actions) => actions.clone(),
        }
    }
}

impl Scenario {
    /// All scenarios, in the order of files and documents.
    pub(crate) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("twin");
        let listing = std::fs::read_dir(&folder).expect("the scenarios are there");
        let mut files: Vec<_> = listing
            .map(|entry| entry.expect("a folder can be listed").path())
            .filter(|path| path.extension().is_some_and(|suffix| suffix == "yaml"))
            .collect();
        files.sort();
        files.iter().flat_map(|file| Self::read(file)).collect()
    }

    fn read(file: &Path) -> Vec<Self> {
        let text = std::fs::read_to_string(file).expect("a scenario can be read");
        let written = file.file_name().unwrap_or_default().to_string_lossy();
        let scenario = |document: Value| {
            let name = document["name"].to_string();
            let scenario = serde_json::from_value(document)
                .unwrap_or_else(|error| panic!("{}: {name}: {error}", file.display()));
            Self {
                file: format!("tests/twin/{written}"),
                ..scenario
            }
        };
        documents(&text).into_iter().map(scenario).collect()
    }
}
