//! The storage of an operator's state on objects, and how the checks read it.
//!
//! This module must not depend on the meaning of the state.

use kopf_rs::Persistence;
use kopf_rs::storage::{StatusDiffBaseStorage, StatusProgressStorage};
use serde_json::Value;

use super::roles::essence;
use crate::operating::NAME;
use crate::operating::in_status::InStatus;

/// A storage of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    /// The default annotations of kopf-rs.
    Named,
    /// Kopf's default annotations.
    Kopf,
    /// Kopf's status storages.
    Status,
    /// Custom storages of a user.
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
            Self::Own => Persistence::named(NAME).progress(InStatus).diff_base(InStatus),
        }
    }

    /// Returns whether the format stores the state that a handler's last attempt saw. Without it, a restart in the middle of a cycle may
    /// repeat or miss the same calls as in Kopf.
    pub(super) fn remembers_sights(self) -> bool {
        self == Self::Named
    }

    /// Returns whether the progress is stored in the status.
    pub(super) fn is_in_status(self) -> bool {
        matches!(self, Self::Status | Self::Own)
    }

    pub(super) fn finalizer(self) -> &'static str {
        match self {
            Self::Named | Self::Own => "tester.kopf.rs/finalizer",
            Self::Kopf | Self::Status => "kopf.zalando.org/KopfFinalizerMarker",
        }
    }

    /// Returns the essence handled last, as stored on the object; `None` if the object has only its digest.
    pub(super) fn handled(self, object: &Value) -> Option<Value> {
        let stored: Value = serde_json::from_str(self.stored(object)?).ok()?;
        Some(essence(&stored))
    }

    /// Returns whether the object stores only a digest of the essence handled last.
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

    /// Returns the handlers whose progress is stored on the object.
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
        ours.filter(|name| !kept.contains(name)).map(str::to_owned).collect()
    }
}
