//! The limits that the definition of a kind sets for conversions: which fields may be restored, and which objects may be refused.
//!
//! This module does not know how the definition is read.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::conversion::lost::Lost;
use crate::conversion::schema::Schema;

/// The rules for the objects of a kind.
#[derive(Clone, Debug)]
pub(crate) enum Rules {
    /// The definition cannot be read, so its schemas are unknown and no field is restored.
    Unknown,
    /// Trusted objects of a test: all fields are restored.
    #[cfg(any(feature = "testing", test))]
    Trusting,
    Defined(Arc<DefinitionRules>),
}

/// The rules of a definition.
#[derive(Debug)]
pub(crate) struct DefinitionRules {
    /// The versions in which objects may be stored.
    stored: Vec<String>,
    schemas: HashMap<String, Schema>,
    /// True if a version has the status subresource: permission to write annotations does not include the status.
    protects_status: bool,
}

impl Rules {
    pub(crate) fn of(definition: &Value) -> Self {
        let versions = definition["spec"]["versions"].as_array();
        let versions: Vec<_> = versions.into_iter().flatten().collect();
        let name_of = |version: &Value| Some(version["name"].as_str()?.to_owned());
        let stored = definition["status"]["storedVersions"].as_array();
        let stored = stored.into_iter().flatten().filter_map(Value::as_str);
        let storage = versions.iter().filter(|it| it["storage"] == true);
        let storage = storage.filter_map(|it| it["name"].as_str());
        let schemas = versions.iter().filter_map(|version| {
            let schema = Schema::of(&version["schema"]["openAPIV3Schema"]);
            Some((name_of(version)?, schema))
        });
        Self::Defined(Arc::new(DefinitionRules {
            stored: stored.chain(storage).map(str::to_owned).collect(),
            schemas: schemas.collect(),
            protects_status: versions.iter().any(|it| it["subresources"]["status"].is_object()),
        }))
    }

    /// Returns true if an annotation may preserve this field. Annotations belong to the main resource, so they must not carry a protected status.
    pub(crate) fn carries(&self, lost: &Lost) -> bool {
        let protects_status = match self {
            Self::Defined(rules) => rules.protects_status,
            Self::Unknown => true,
            #[cfg(any(feature = "testing", test))]
            Self::Trusting => true,
        };
        !protects_status || !lost.is_in("status")
    }

    /// Returns the violations of the version's schema; `None` if the schema is unknown.
    pub(crate) fn faults(&self, version: &str, object: &Value) -> Option<BTreeSet<String>> {
        match self {
            Self::Unknown => None,
            #[cfg(any(feature = "testing", test))]
            Self::Trusting => Some(BTreeSet::new()),
            Self::Defined(rules) => Some(rules.schemas.get(version)?.faults(object)),
        }
    }

    /// Returns true if an object of this version can only stem from a write request: no object is stored in that version, so no listing
    /// requests its conversion.
    pub(crate) fn is_write(&self, version: &str) -> bool {
        match self {
            Self::Unknown => false,
            #[cfg(any(feature = "testing", test))]
            Self::Trusting => true,
            Self::Defined(rules) => !rules.stored.iter().any(|it| it == version),
        }
    }
}
