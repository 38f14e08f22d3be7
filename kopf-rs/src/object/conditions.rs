//! Conditions of a status as described by Kubernetes' KEP-1623: merges the changes that handlers request into the newest list.
//!
//! This module guarantees that conditions of other types, their order and their times stay unchanged, and that the
//! transition time of a condition changes only with its status. It does not know who requests changes or how the list
//! is sent.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The maximum length of a message, in characters.
const LONGEST_MESSAGE: usize = 32_768;
/// The maximum length of a type, in bytes.
const LONGEST_TYPE: usize = 316;
/// The maximum length of a reason, in bytes.
const LONGEST_REASON: usize = 1024;

/// The status of a condition. `true` and `false` convert to the first two variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The state is unknown.
    Unknown,
}

/// One condition in the status of an object.
///
/// A type of yours that describes the whole status can have `conditions: Vec<Condition>`, so that the schema generated from it keeps them
/// (with the cargo feature `schemars`); [`Status::conditions`](crate::Status::conditions) changes them. For clients that apply single
/// conditions, declare the list's key, as Kubernetes does for its own types, by this attribute on the field:
/// `#[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemars",
    derive(schemars::JsonSchema),
    schemars(description = "One condition, as KEP-1623 describes them.")
)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Condition {
    /// Its type, such as `Ready`.
    pub r#type: String,
    /// The status of the condition.
    pub status: ConditionStatus,
    /// The reason in one word, such as `MinimumReplicasAvailable`.
    #[serde(default)]
    pub reason: String,
    /// The reason for human readers.
    #[serde(default)]
    pub message: String,
    /// The generation of the object that this condition was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The time when `status` last changed, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

/// The status changes that handlers request and whose result depends on the server's state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StatusEdits {
    conditions: Vec<ConditionEdit>,
    /// The generation of the object that was observed.
    observed_generation: Option<i64>,
    /// Keys of conditions that the schema lacks.
    left_out: BTreeSet<String>,
}

/// A change of one condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConditionEdit {
    pub(crate) kind: String,
    /// `None` to remove the condition.
    pub(crate) wanted: Option<WantedCondition>,
    /// The generation of the object that the change was computed from.
    pub(crate) generation: Option<i64>,
}

/// The desired state of a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WantedCondition {
    pub(crate) status: ConditionStatus,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// The current status of the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundStatus<'a> {
    /// The object's conditions.
    pub(crate) conditions: Option<&'a Value>,
    pub(crate) observed_generation: Option<i64>,
    /// The object's generation.
    pub(crate) generation: Option<i64>,
}

/// The context in which changes are sent.
#[derive(Clone, Copy)]
struct Sending<'a> {
    now: Timestamp,
    /// The object's generation.
    generation: Option<i64>,
    /// Keys that the schema lacks.
    left_out: &'a BTreeSet<String>,
}

// === impl ConditionStatus ===

impl ConditionStatus {
    /// Returns `True`, `False` or `Unknown`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// `None` converts to [`ConditionStatus::Unknown`].
impl From<Option<bool>> for ConditionStatus {
    fn from(holds: Option<bool>) -> Self {
        holds.map_or(Self::Unknown, Self::from)
    }
}

impl std::fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

// === impl ConditionEdit ===

impl ConditionEdit {
    /// Sets a condition. A message that exceeds the API's limit is shortened.
    pub(crate) fn set(kind: &str, wanted: WantedCondition, generation: Option<i64>) -> Self {
        let WantedCondition { status, reason, message } = wanted;
        let cut = message.char_indices().nth(LONGEST_MESSAGE);
        let message = cut.map_or(message.clone(), |(at, _)| message[..at].to_owned());
        Self { kind: kind.to_owned(), wanted: Some(WantedCondition { status, reason, message }), generation }
    }

    /// Removes a condition.
    pub(crate) fn remove(kind: &str, generation: Option<i64>) -> Self {
        Self { kind: kind.to_owned(), wanted: None, generation }
    }

    /// Checks for mistakes that the API server would refuse.
    pub(crate) fn check(&self) -> Result<(), String> {
        let kind = &self.kind;
        if !is_type(kind) {
            return Err(format!(
                "`{kind}` is not a valid type of a condition: expected letters and digits, such as `Ready`, or `example.com/Ready`"
            ));
        }
        let Some(WantedCondition { reason, .. }) = &self.wanted else {
            return Ok(());
        };
        if is_reason(reason) {
            return Ok(());
        }
        let meant = camel_case(reason);
        let advice =
            if is_reason(&meant) { format!("did you mean `{meant}`?") } else { "it is required".to_owned() };
        Err(format!(
            "`{reason}` is not a valid reason of the condition `{kind}`: a reason is one word in CamelCase, such as `MinimumReplicasAvailable`; {advice} \
             (sentences belong into the message)"
        ))
    }

    /// Applies the change to a list that is only shown, not written.
    pub(crate) fn show_in(&self, list: &mut Vec<Value>) {
        let sending =
            Sending { now: Timestamp::UNIX_EPOCH, generation: self.generation, left_out: &BTreeSet::new() };
        self.apply(list, sending);
    }

    /// Applies the change to a list, and returns true if the list has changed.
    fn apply(&self, list: &mut Vec<Value>, sending: Sending<'_>) -> bool {
        let found = list.iter().position(|it| it["type"] == *self.kind);
        if found.is_some_and(|at| self.is_older_than(&list[at], sending.generation)) {
            return false;
        }
        match (found, &self.wanted) {
            (Some(at), Some(wanted)) => {
                let renewed = self.renewed(&list[at], wanted, sending);
                let changes = renewed != list[at];
                list[at] = renewed;
                changes
            }
            (Some(at), None) => {
                list.remove(at);
                true
            }
            (None, Some(wanted)) => {
                let mut entry = Map::new();
                entry.insert("type".to_owned(), self.kind.clone().into());
                list.push(self.renewed(&entry.into(), wanted, sending));
                true
            }
            (None, None) => false,
        }
    }

    /// Returns true if the existing condition was computed from a later generation. A generation that the object has not reached yet stems
    /// from a backup and does not count.
    fn is_older_than(&self, entry: &Value, generation: Option<i64>) -> bool {
        let said_of = entry["observedGeneration"].as_i64();
        let said_of = said_of.filter(|it| generation.is_none_or(|newest| *it <= newest));
        said_of.is_some_and(|it| self.generation.is_some_and(|own| own < it))
    }

    fn renewed(&self, entry: &Value, wanted: &WantedCondition, sending: Sending<'_>) -> Value {
        let status = wanted.status.as_str();
        let has_time = entry["lastTransitionTime"].is_string();
        let mut renewed = entry.clone();
        if entry["status"] != status || !has_time {
            let time = sending.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            renewed["lastTransitionTime"] = time.into();
        }
        renewed["status"] = status.into();
        renewed["reason"] = wanted.reason.as_str().into();
        renewed["message"] = wanted.message.as_str().into();
        if let Some(generation) = self.generation {
            renewed["observedGeneration"] = generation.into();
        }
        for key in sending.left_out {
            if let (Value::Object(members), None) = (&mut renewed, entry.get(key)) {
                members.remove(key);
            }
        }
        renewed
    }
}

// === impl StatusEdits ===

impl StatusEdits {
    pub(crate) fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.observed_generation.is_none()
    }

    /// Returns the requested change of the condition of this type.
    pub(crate) fn condition(&self, kind: &str) -> Option<&ConditionEdit> {
        self.conditions.iter().find(|it| it.kind == kind)
    }

    /// Requests a change of a condition, replacing an earlier one.
    pub(crate) fn edit(&mut self, edit: ConditionEdit) {
        self.conditions.retain(|it| it.kind != edit.kind);
        self.conditions.push(edit);
    }

    /// Records that this generation of the object was observed.
    pub(crate) fn observe(&mut self, generation: i64) {
        let before = self.observed_generation.unwrap_or(generation);
        self.observed_generation = Some(generation.max(before));
    }

    /// Adds all changes of `others`, which take precedence.
    pub(crate) fn absorb(&mut self, others: Self) {
        for edit in others.conditions {
            self.edit(edit);
        }
        if let Some(generation) = others.observed_generation {
            self.observe(generation);
        }
        self.left_out.extend(others.left_out);
    }

    /// Leaves out the fields at these paths, which the schema lacks.
    pub(crate) fn leave_out(&mut self, paths: &BTreeSet<Vec<String>>) {
        for path in paths {
            let path: Vec<_> = path.iter().map(String::as_str).collect();
            match path[..] {
                ["status", "conditions"] => self.conditions.clear(),
                ["status", "conditions", "[]", key] => {
                    self.left_out.insert(key.to_owned());
                }
                ["status", "observedGeneration"] => self.observed_generation = None,
                _ => {}
            }
        }
    }

    /// Returns the new list, or `None` if it stays unchanged or is not a list.
    pub(crate) fn conditions(&self, found: FoundStatus<'_>, now: Timestamp) -> Option<Value> {
        let mut list = match found.conditions {
            Some(Value::Array(list)) => list.clone(),
            None | Some(Value::Null) => Vec::new(),
            Some(_) => return None,
        };
        let sending = Sending { now, generation: found.generation, left_out: &self.left_out };
        let mut changes = false;
        for edit in &self.conditions {
            changes |= edit.apply(&mut list, sending);
        }
        changes.then(|| list.into())
    }

    /// Returns the observed generation to write, or `None` if writing would not increase it.
    pub(crate) fn observed_generation(&self, found: FoundStatus<'_>) -> Option<i64> {
        let FoundStatus { generation, .. } = found;
        let before = found.observed_generation;
        let before = before.filter(|it| generation.is_none_or(|newest| *it <= newest));
        let is_news = |it: &i64| before.is_none_or(|before| *it > before);
        self.observed_generation.filter(is_news)
    }

    /// Removes the changes that the object already has.
    pub(crate) fn effective(mut self, found: FoundStatus<'_>) -> Self {
        self.observed_generation = self.observed_generation(found);
        if self.conditions(found, Timestamp::UNIX_EPOCH).is_none() {
            self.conditions.clear();
        }
        self
    }
}

// === words ===

fn is_type(kind: &str) -> bool {
    let (domain, name) = kind.split_once('/').unwrap_or(("a", kind));
    let is_label = |it: &str| {
        let inner = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
        !it.is_empty() && it.chars().all(inner) && !it.starts_with('-') && !it.ends_with('-')
    };
    let inner = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    let is_end = |it: Option<char>| it.is_some_and(|it| it.is_ascii_alphanumeric());
    kind.len() <= LONGEST_TYPE
        && domain.split('.').all(is_label)
        && name.chars().all(inner)
        && is_end(name.chars().next())
        && is_end(name.chars().next_back())
}

fn is_reason(reason: &str) -> bool {
    let inner = |it: char| it.is_ascii_alphanumeric() || "_,:".contains(it);
    let is_letter = |it: char| it.is_ascii_alphabetic();
    reason.len() <= LONGEST_REASON
        && reason.starts_with(is_letter)
        && reason.chars().all(inner)
        && !reason.ends_with([',', ':'])
}

/// Converts words to camel case: `not ready` becomes `NotReady`.
fn camel_case(text: &str) -> String {
    let words = text.split(|it: char| !it.is_ascii_alphanumeric());
    let words = words.filter(|it| !it.is_empty()).map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

#[cfg(test)]
mod tests;
