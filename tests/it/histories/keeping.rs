//! Where an operator of a history keeps its state on objects, and how a user finds it there.
//!
//! Must not know what the state is about.

use kopf_rs::Persistence;
use kopf_rs::storage::{StatusDiffBaseStorage, StatusProgressStorage};
use serde_json::Value;

use super::roles::essence;
use crate::operating::NAME;
use crate::operating::in_status::InStatus;

/// A way of keeping state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    /// Annotations of our own.
    Named,
    /// As Kopf does.
    Kopf,
    /// As Kopf does when told to use the status.
    Status,
    /// Storages that a user wrote.
    Own,
}

impl Keeping {
    pub(super) fn persistence(self) -> Persistence {
        match self {
            Self::Named => Persistence::named(NAME),
            Self::Kopf => Persistence::kopf(),
            Self::Status => Persistence::kopf()
                .progress(StatusProgressStorage::default())
                .diff_base(StatusDiffBaseStorage::default()),
            Self::Own => Persistence::named(NAME)
                .progress(InStatus)
                .diff_base(InStatus),
        }
    }

    /// Whether the formats have a place for what a handler's last attempt has seen: without it, a restart in the middle of a cycle costs
    /// what it costs in Kopf.
    pub(super) fn remembers_sights(self) -> bool {
        self == Self::Named
    }

    /// Whether progress is kept in the status.
    pub(super) fn is_in_status(self) -> bool {
        matches!(self, Self::Status | Self::Own)
    }

    pub(super) fn finalizer(self) -> &'static str {
        match self {
            Self::Named | Self::Own => "tester.kopf.rs/finalizer",
            Self::Kopf | Self::Status => "kopf.zalando.org/KopfFinalizerMarker",
        }
    }

    /// What was handled last, as the object says; nothing where it has only a digest of it.
    pub(super) fn handled(self, object: &Value) -> Option<Value> {
        let stored: Value = serde_json::from_str(self.stored(object)?).ok()?;
        Some(essence(&stored))
    }

    /// Of what was handled last, the object has only a digest.
    pub(super) fn has_digest_only(self, object: &Value) -> bool {
        self.stored(object).is_some() && self.handled(object).is_none()
    }

    fn stored(self, object: &Value) -> Option<&str> {
        let annotations = &object["metadata"]["annotations"];
        let text = match self {
            Self::Named => &annotations["tester.kopf.rs/last-handled-configuration"],
            Self::Kopf => &annotations["kopf.zalando.org/last-handled-configuration"],
            Self::Status => &object["status"]["kopf"]["last-handled-configuration"],
            Self::Own => &object["status"]["handled"],
        };
        text.as_str()
    }

    /// The handlers whose progress is on the object.
    pub(super) fn records(self, object: &Value) -> Vec<String> {
        let keys = |place: &Value| -> Vec<String> {
            let fields = place.as_object().into_iter().flatten();
            let there = fields.filter(|(_, value)| !value.is_null());
            there.map(|(key, _)| key.clone()).collect()
        };
        let prefix = match self {
            Self::Named => "tester.kopf.rs/",
            Self::Kopf => "kopf.zalando.org/",
            Self::Status => return keys(&object["status"]["kopf"]["progress"]),
            Self::Own => return keys(&object["status"]["progress"]),
        };
        let kept = ["last-handled-configuration", "kopf-managed"];
        let names = keys(&object["metadata"]["annotations"]);
        let ours = names.iter().filter_map(|name| name.strip_prefix(prefix));
        ours.filter(|name| !kept.contains(name))
            .map(str::to_owned)
            .collect()
    }
}
