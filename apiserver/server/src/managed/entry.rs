//! The entries of `metadata.managedFields`.
//!
//! Guarantees the real server's order; entries that cannot be read count as absent. Must not depend on how entries are computed.

use std::sync::Arc;

use serde_json::{Value, json};

use super::set::Set;
use super::shared::shared;
use crate::object::write_json;

/// The operation by which a manager got its fields; the variants have the order of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
    pub(crate) time: Option<String>,
    pub(crate) fields: Arc<Set>,
}

/// The managed fields of a stored object, and their JSON text.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) managed: Managed,
    pub(crate) text: Vec<u8>,
}

/// The fields of all managers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managed {
    pub(crate) entries: Vec<Entry>,
}

// === impl Operation ===

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

// === impl Entry ===

impl Entry {
    /// Returns whether both entries have the same identity; the version of an applier is not part of it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    fn from_json(json: &Value) -> Option<Self> {
        let text = |name: &str| json.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
            return None;
        }
        let fields = json.get("fieldsV1").filter(|fields| !fields.is_null());
        Some(Self {
            manager: text("manager").to_owned(),
            operation,
            api_version: text("apiVersion").to_owned(),
            subresource: text("subresource").to_owned(),
            time: Some(text("time").to_owned()).filter(|time| !time.is_empty()),
            fields: Arc::new(fields.map_or(Some(Set::default()), Set::from_json)?),
        })
    }

    fn to_json(&self) -> Value {
        let mut json = json!({
            "manager": self.manager,
            "operation": self.operation.word(),
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_json(),
        });
        if let Some(time) = &self.time {
            json["time"] = time.as_str().into();
        }
        if !self.subresource.is_empty() {
            json["subresource"] = self.subresource.as_str().into();
        }
        json
    }
}

// === impl Kept ===

impl Kept {
    pub(crate) fn new(mut managed: Managed) -> Arc<Self> {
        for entry in &mut managed.entries {
            entry.fields = shared(&entry.fields);
        }
        let mut text = Vec::new();
        if !managed.entries.is_empty() {
            write_json(&mut text, &managed.to_json());
        }
        text.shrink_to_fit();
        Arc::new(Self { managed, text })
    }
}

// === impl Managed ===

impl Managed {
    /// Reads `metadata.managedFields`; returns `None` if an entry is invalid.
    pub(crate) fn from_json(json: &Value) -> Option<Self> {
        let entries = json.as_array()?.iter().map(Entry::from_json);
        let mut managed = Self {
            entries: entries.collect::<Option<_>>()?,
        };
        managed.sort();
        Some(managed)
    }

    /// Writes `metadata.managedFields`.
    pub(crate) fn to_json(&self) -> Value {
        self.entries.iter().map(Entry::to_json).collect()
    }

    /// Keeps one entry per manager: the last one.
    pub(super) fn once(self) -> Self {
        let mut entries: Vec<Entry> = Vec::with_capacity(self.entries.len());
        for entry in self.entries {
            entries.retain(|other| !other.is_same(&entry));
            entries.push(entry);
        }
        Self { entries }
    }

    /// Sorts the entries: appliers first, and older ones before newer ones.
    pub(crate) fn sort(&mut self) {
        self.entries.sort_by(|a, b| {
            let key = |entry: &Entry| {
                (
                    entry.operation,
                    entry.time.clone(),
                    entry.manager.clone(),
                    entry.api_version.clone(),
                    entry.subresource.clone(),
                )
            };
            key(a).cmp(&key(b))
        });
    }

    /// Returns whether both are equal except for their timestamps.
    pub(crate) fn is_same_but_times(&self, other: &Self) -> bool {
        let timeless = |managed: &Self| {
            let mut entries = managed.entries.clone();
            for entry in &mut entries {
                entry.time = None;
            }
            let mut managed = Self { entries };
            managed.sort();
            managed
        };
        timeless(self) == timeless(other)
    }
}
