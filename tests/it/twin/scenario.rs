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
    /// Whether Events may be posted.
    #[serde(default)]
    pub(super) posting: bool,
    #[serde(default)]
    pub(super) compared: Compared,
    pub(super) handlers: Vec<Handler>,
    pub(super) steps: Vec<Step>,
    /// The calls both make, as `id reason retry`; where they differ, this is what Kopf makes.
    pub(super) calls: Vec<String>,
    /// How operators have ended by themselves, and what they have answered to requests: `path code text`; where they differ, Kopf's.
    #[serde(default)]
    pub(super) answers: Vec<String>,
    /// The Events that both post, as `type reason message`; where they differ, Kopf's.
    #[serde(default)]
    pub(super) events: Vec<String>,
    #[serde(default)]
    pub(super) differs: Vec<Difference>,
}

/// Which of the calls are compared.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Compared {
    /// All, in order.
    #[default]
    Sequence,
    /// All, in any order, where chance decides it.
    Set,
    /// So many, in order, where chance decides how many follow: those of a timer.
    First(usize),
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
    /// For functions of indices: the field of the spec that says what is returned, such as `{keyed: {key: value}}`, `{plain: value}`,
    /// `{temporary: 5}`. Nothing is returned where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    /// Whether what the function of an index returns has no keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plain: Option<bool>,
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
    /// Note this word, as a call is noted.
    Note(String),
    /// Wait to be told to end for this reason, and note all reasons.
    Told(String),
    /// Wait for ever, and note that it has been cut off.
    Linger,
    /// Wait until the object, as it is known now, contains this.
    See(Value),
    /// Return how often something was counted in the memo.
    Count,
    /// Note all that is in the index of this name.
    Read(String),
    /// Return credentials.
    Login(Credentials),
    /// Post an Event about the object.
    Post(Posted),
    /// Return what becomes of objects that are made for this one.
    Make(Made),
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Credentials {
    /// `good`, the administrator's, or one that the server refuses.
    pub(super) token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<i32>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Posted {
    /// The function of Kopf: `info`, `warn`, `exception` or `event`.
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
    /// The function of Kopf, such as `adopt`.
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
    /// Start the operator; before the first step where no step says so.
    Start,
    /// End it gracefully.
    Stop,
    /// End it as SIGKILL does.
    Kill,
    /// Start the operator, and await that it ends by itself, with an error.
    Fails,
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
    /// Await that the results of these handlers are in the status.
    Written(Vec<String>),
    /// Await that the operator's finalizer is on the object.
    Held,
    Gone,
    Release(String),
    /// Wait for so many seconds, for something to have become due: never for something to have happened.
    Wait(f64),
    /// The same of another object, of this name.
    Of(String, Box<Step>),
    /// Ask the liveness endpoint for this path.
    Probe(String),
    /// Await so many Events about the object.
    Events(usize),
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
    /// How operators end by themselves, and what they answer to requests.
    Answers,
    /// Which Events are posted.
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
    /// What the handler does at its attempt `number`, from 0.
    pub(super) fn attempt(&self, number: usize) -> Vec<Action> {
        match &self.does[number.min(self.does.len() - 1)] {
            Attempt::One(action) => vec![action.clone()],
            Attempt::Many(actions) => actions.clone(),
        }
    }
}

impl Scenario {
    /// Whether its operators are asked whether they live.
    pub(super) fn probes(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Probe(_)))
    }

    /// Whether its operators log in by handlers.
    pub(super) fn logs_in(&self) -> bool {
        self.handlers.iter().any(|handler| handler.on == "login")
    }

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
