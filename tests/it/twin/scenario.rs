//! A scenario as data: handlers that follow a script, and the steps of a user on one object.
//!
//! Read from `tests/twin/*.yaml`, one document per scenario. This module does not know how it is played.

use std::collections::BTreeMap;
use std::path::Path;

use kopf_rs_tests::documents;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The only object of a scenario.
pub(super) const OBJECT: &str = "a";

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// The path of its file from the root of the repository.
    #[serde(skip)]
    pub(crate) file: String,
    pub(crate) name: String,
    /// True if the kind has the status subresource.
    #[serde(default = "yes")]
    pub(super) status_subresource: bool,
    /// True if the schema accepts any status; otherwise it has only the field `known`, and the server prunes the rest.
    #[serde(default = "yes")]
    pub(super) open_status: bool,
    #[serde(default = "asap")]
    pub(super) lifecycle: String,
    /// True if the operator posts Events.
    #[serde(default)]
    pub(super) posting: bool,
    #[serde(default)]
    pub(super) compared: Compared,
    pub(super) handlers: Vec<Handler>,
    pub(super) steps: Vec<Step>,
    /// The calls of both sides, as `id reason retry`; if they differ, those of Kopf.
    pub(super) calls: Vec<String>,
    /// How operators ended by themselves, and their answers to requests as `path code text`; if they differ, those of Kopf.
    #[serde(default)]
    pub(super) answers: Vec<String>,
    /// The Events of both sides, as `type reason message`; if they differ, those of Kopf.
    #[serde(default)]
    pub(super) events: Vec<String>,
    #[serde(default)]
    pub(super) differs: Vec<Difference>,
}

/// The calls to compare.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Compared {
    /// All calls, in order.
    #[default]
    Sequence,
    /// All calls, in any order, for scenarios with a random order.
    Set,
    /// The first calls, in order, for a timer whose number of calls is random.
    First(usize),
}

/// A handler, with the option names that both sides share.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Handler {
    /// Empty for sub-handlers.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) initial_delay: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interval: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sharp: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idle: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancellation_backoff: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancellation_timeout: Option<f64>,
    /// For index functions: the spec field that holds the result, such as `{keyed: {key: value}}`, `{plain: value}`, `{temporary: 5}`.
    /// Without it, they return nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    /// True if the result of an index function has no keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plain: Option<bool>,
    /// The actions of each attempt, the last of which repeats; `ok` by default.
    #[serde(default = "succeed")]
    pub(super) does: Vec<Attempt>,
    /// Handlers that this one registers at every call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) subs: Vec<Handler>,
    /// How Kopf registers them: by `decorator`, by `register`, or by `execute`, which runs them before the other actions.
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
    /// Fails with a temporary error; the delay is in seconds.
    Temporary(f64),
    Result(Value),
    Patch(Value),
    /// Appends to the list at this path, with a patch function.
    Append(BTreeMap<String, Value>),
    /// Merges this into the object, with a patch function.
    Assign(Value),
    /// Sleeps for this number of seconds.
    Sleep(f64),
    /// Waits for the step that releases this gate.
    Hold(String),
    /// Records this word as a call.
    Note(String),
    /// Waits for a stop with this reason, and records all reasons.
    Told(String),
    /// Waits forever, and records its cancellation.
    Linger,
    /// Waits until the latest known state of the object contains this.
    See(Value),
    /// Returns a counter that is kept in the memo.
    Count,
    /// Records the contents of the index with this name.
    Read(String),
    /// Returns credentials.
    Login(Credentials),
    /// Posts an Event about the object.
    Post(Posted),
    /// Applies a hierarchy function to new objects and returns them.
    Make(Made),
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Credentials {
    /// `good` for the administrator's token; any other is a token that the server refuses.
    pub(super) token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<i32>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Posted {
    /// The function in Kopf: `info`, `warn`, `exception` or `event`.
    pub(super) how: String,
    pub(super) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// The error, for `exception`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// The type, for `event`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Made {
    /// The function in Kopf, such as `adopt`.
    pub(super) how: String,
    /// The objects.
    pub(super) of: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) forced: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) nested: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) block_owner_deletion: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Step {
    /// Starts the operator; implied before the first step if no step does so.
    Start,
    /// Stops it gracefully.
    Stop,
    /// Kills it with SIGKILL.
    Kill,
    /// Starts the operator, and waits until it ends by itself with an error.
    Fails,
    /// Creates the object from these stanzas.
    Create(Value),
    /// Merges into the object.
    Patch(Value),
    /// Merges into its status.
    Status(Value),
    Delete,
    /// Waits until this number of calls has been made since the start.
    Calls(usize),
    /// Waits until the object's present state is stored as handled, and no work is left.
    Handled,
    /// Waits until these numbers of attempts are stored on the object, by handler.
    Recorded(BTreeMap<String, u64>),
    /// Waits until the object contains this; `null` means absence.
    Has(Value),
    /// Waits until the results of these handlers are in the status.
    Written(Vec<String>),
    /// Waits until the operator's finalizer is on the object.
    Held,
    Gone,
    Release(String),
    /// Waits for this number of seconds until a delay is over. Never used to wait for an event.
    Wait(f64),
    /// Applies the step to another object with this name.
    Of(String, Box<Step>),
    /// Requests this path from the liveness endpoint.
    Probe(String),
    /// Waits for this number of Events about the object.
    Events(usize),
}

/// A difference between the two sides, with its row in the deviation table.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Difference {
    pub(super) row: u32,
    #[serde(rename = "in")]
    pub(super) aspect: Aspect,
    /// Kopf's result: a list of calls, a count of writes, or a part of the object.
    pub(super) kopf: Value,
    pub(super) ours: Value,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Aspect {
    /// The handlers called, with their order, reasons and retries.
    Calls,
    /// Their arguments: old, new, diff.
    Arguments,
    /// The final object.
    Object,
    /// The number of writes.
    Writes,
    /// How operators end by themselves, and their answers to requests.
    Answers,
    /// The posted Events.
    Events,
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
    /// Returns the actions of attempt `number`, counted from 0.
    pub(super) fn attempt(&self, number: usize) -> Vec<Action> {
        match &self.does[number.min(self.does.len() - 1)] {
            Attempt::One(action) => vec![action.clone()],
            Attempt::Many(actions) => actions.clone(),
        }
    }
}

impl Scenario {
    /// Returns whether it requests the liveness endpoint.
    pub(super) fn probes(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Probe(_)))
    }

    /// Returns whether its operators log in by handlers.
    pub(super) fn logs_in(&self) -> bool {
        self.handlers.iter().any(|handler| handler.on == "login")
    }

    /// Returns all scenarios, in the order of files and documents.
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
            Self { file: format!("tests/twin/{written}"), ..scenario }
        };
        documents(&text).into_iter().map(scenario).collect()
    }
}
