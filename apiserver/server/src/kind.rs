//! The served kinds: names, scope, subresources, and the collection that stores their objects.
//!
//! The server answers a path exactly if [`Kinds`] has its kind, and discovery uses the same table.
//! Independent of objects, verbs and transports.

mod autoscaler;
pub(crate) mod builtin;
pub(crate) mod crd;
pub(crate) mod defaults;
pub(crate) mod discovery;
pub(crate) mod openapi;
pub(crate) mod registration;
pub(crate) mod shape;
pub(crate) mod swagger;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::convert::{Conversion, Schemas};
use crate::managed::outline::Outline;
use crate::object::Body;
use crate::status::Subject;
use crate::typed::{self, Struct};

/// The id of the store's collection for the objects of a kind, which all versions of the kind share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CollectionId(pub(crate) u32);

/// The name of a kind in requests, without the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) plural: String,
}

/// The capabilities of a kind, and the rules for its objects.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent traits, not states"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Has the status subresource.
    pub(crate) status: bool,
    /// Maintains `metadata.generation`.
    pub(crate) generation: bool,
    /// An immediate deletion returns the object rather than a `Status`.
    pub(crate) returns_deleted: bool,
    /// Accepts an update without a resource version.
    pub(crate) unconditional: bool,
    /// An update of an absent object creates it.
    pub(crate) create_on_update: bool,
    /// Supports only `create`, and stores nothing.
    pub(crate) review: bool,
    /// Built into the server rather than defined by a CRD.
    pub(crate) builtin: bool,
    /// Its definition is being deleted.
    pub(crate) terminating: bool,
}

/// The scale subresource: the paths of its values within the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

/// A printer column of a CRD version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) path: String,
}

/// The difference between objects of a served version and stored objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Only the `apiVersion` differs.
    Stored,
    /// `events.k8s.io/v1`, stored as core `v1` Events.
    NewEvent,
    /// `autoscaling/v1`, stored as `autoscaling/v2`.
    FirstAutoscaler,
}

/// One served version of a kind.
#[expect(
    clippy::struct_field_names,
    reason = "`kind` and `list_kind` are Kubernetes' own names"
)]
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) traits: Traits,
    pub(crate) scale: Option<Scale>,
    pub(crate) columns: Vec<Column>,
    /// The warning for every request to a deprecated version.
    pub(crate) deprecation: Option<String>,
    pub(crate) schema: Option<Arc<Value>>,
    pub(crate) selectable: Vec<String>,
    pub(crate) shape: Shape,
    pub(crate) collection: CollectionId,
    /// The version in which objects are stored.
    pub(crate) stored_version: String,
    /// The schema of the stored version, if it differs from this version.
    pub(crate) stored_schema: Option<Arc<Value>>,
    /// The schemas of all versions of a custom kind, including those that are not served.
    pub(crate) schemas: Arc<Schemas>,
    /// The webhook that converts objects between versions, if the definition has one.
    pub(crate) conversion: Option<Arc<Conversion>>,
}

// === impl Resource ===

impl std::fmt::Display for Resource {
    /// Writes `plural.group`, or `plural` in the core group, which is also the name of a definition.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.plural)?;
        if self.group.is_empty() {
            return Ok(());
        }
        write!(f, ".{}", self.group)
    }
}

// === impl Kind ===

impl Kind {
    /// Returns a nameless kind, for checks that apply to all kinds.
    pub(crate) fn anonymous() -> Self {
        Self {
            group: String::new(),
            version: String::new(),
            plural: String::new(),
            singular: String::new(),
            kind: String::new(),
            list_kind: String::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            traits: Traits::default(),
            scale: None,
            columns: Vec::new(),
            deprecation: None,
            schema: None,
            selectable: Vec::new(),
            shape: Shape::Stored,
            collection: CollectionId(0),
            stored_version: String::new(),
            stored_schema: None,
            schemas: Arc::default(),
            conversion: None,
        }
    }

    /// Returns `group/version`, or `version` in the core group.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Returns true if verbs process objects in this version; otherwise objects are converted when they are returned.
    pub(crate) fn is_native(&self) -> bool {
        self.conversion.is_some() || self.version == self.stored_version
    }

    /// Returns the `apiVersion` in which verbs process objects.
    pub(crate) fn held_version(&self) -> String {
        if self.is_native() {
            return self.api_version();
        }
        api_version(&self.group, &self.stored_version)
    }

    pub(crate) fn resource(&self) -> Resource {
        Resource {
            group: self.group.clone(),
            plural: self.plural.clone(),
        }
    }

    /// Returns the type of the objects of a built-in kind.
    pub(crate) fn typed(&self) -> Option<&'static Struct> {
        let builtin = self.traits.builtin;
        builtin.then(|| typed::of_kind(&self.api_version(), &self.kind))?
    }

    /// Returns the type of the stored objects of a built-in kind.
    pub(crate) fn stored_type(&self) -> Option<&'static Struct> {
        match self.shape {
            Shape::Stored => self.typed(),
            Shape::NewEvent => typed::of_kind("v1", "Event"),
            Shape::FirstAutoscaler => typed::of_kind("autoscaling/v2", &self.kind),
        }
    }

    /// Returns the structure by which objects are merged field by field.
    pub(crate) fn outline(&self) -> Outline<'_> {
        if self.traits.builtin {
            let stored = self.stored_type();
            return stored.map_or(Outline::Free, Outline::Struct);
        }
        self.schema.as_deref().map_or(Outline::Free, Outline::Root)
    }

    /// Returns the metadata fields that a status update of a built-in kind cannot change.
    pub(crate) fn kept_with_status(&self) -> &'static [&'static str] {
        match (self.group.as_str(), self.plural.as_str()) {
            ("apps", "deployments") => &["labels"],
            ("", "pods") => &["deletionTimestamp", "ownerReferences"],
            _ => &[],
        }
    }

    /// Returns true if a changed object undergoes the same validation as a new one.
    pub(crate) fn checked_when_changed(&self) -> bool {
        let loose = [
            ("networking.k8s.io", "ipaddresses"),
            ("scheduling.k8s.io", "priorityclasses"),
            ("storage.k8s.io", "csistoragecapacities"),
        ];
        !loose.contains(&(self.group.as_str(), self.plural.as_str()))
    }

    /// Returns an object of this kind with no fields set.
    pub(crate) fn empty(&self) -> Body {
        match self.outline() {
            Outline::Struct(of) => typed::zero_object(of),
            _ => Body::new(),
        }
    }

    /// Returns the subject of an error, named by the plural.
    pub(crate) fn subject<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject {
            group: &self.group,
            word: &self.plural,
            name,
        }
    }

    /// Returns the subject of an `Invalid` error, named by the kind.
    pub(crate) fn subject_by_kind<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject {
            // Validation runs on the stored form, so the error names its group.
            group: if self.shape == Shape::NewEvent {
                ""
            } else {
                &self.group
            },
            word: &self.kind,
            name,
        }
    }

    /// Returns true if this is the core kind with that plural.
    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }

    /// Returns true if this is `CustomResourceDefinition`.
    pub(crate) fn is_crd(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.plural == "customresourcedefinitions"
    }

    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        if self.traits.review {
            &["create"]
        } else if self.is_core("componentstatuses") {
            &["get", "list"]
        } else if self.is_core("namespaces") {
            &[
                "create", "delete", "get", "list", "patch", "update", "watch",
            ]
        } else if !self.traits.builtin {
            // The real server lists the verbs of custom kinds in this order.
            &[
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "create",
                "update",
                "watch",
            ]
        } else {
            &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ]
        }
    }

    /// Returns the verbs for discovery: fewer than are served while the definition is being deleted.
    pub(crate) fn discovered_verbs(&self) -> &'static [&'static str] {
        if self.traits.terminating {
            &["delete", "deletecollection", "get", "list", "watch"]
        } else {
            self.verbs()
        }
    }

    /// Returns the names of the served subresources.
    pub(crate) fn subresources(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        if self.scale.is_some() {
            names.push("scale");
        }
        if self.traits.status {
            names.push("status");
        }
        names.extend_from_slice(match self.plural.as_str() {
            "namespaces" if self.group.is_empty() => &["finalize"],
            "nodes" | "services" if self.group.is_empty() => &["proxy"],
            "serviceaccounts" if self.group.is_empty() => &["token"],
            "certificatesigningrequests" if self.traits.builtin => &["approval"],
            "pods" if self.group.is_empty() => &[
                "attach",
                "binding",
                "ephemeralcontainers",
                "eviction",
                "exec",
                "log",
                "portforward",
                "proxy",
                "resize",
            ],
            _ => &[],
        });
        names.sort_unstable();
        if !self.traits.builtin {
            names.reverse();
        }
        names
    }
}

/// Returns `group/version`, or `version` in the core group.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// A version of a group with its kinds, by plural.
#[derive(Debug, Default)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) kinds: BTreeMap<String, Arc<Kind>>,
}

/// A group with its versions, the preferred one first.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) versions: Vec<Version>,
    pub(crate) builtin: bool,
}

// === impl Group ===

impl Group {
    /// Returns the index of a version; adds the version if it is absent.
    fn version(&mut self, name: &str) -> usize {
        let place = |group: &Self| group.versions.iter().position(|v| v.name == name);
        if let Some(at) = place(self) {
            return at;
        }
        self.versions.push(Version {
            name: name.to_owned(),
            ..Version::default()
        });
        if !self.builtin {
            self.versions
                .sort_by_key(|version| Reverse(version_order(&version.name)));
        }
        place(self).unwrap_or_default()
    }
}

/// All served kinds, in discovery order.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    pub(crate) groups: Vec<Group>,
    /// The stored versions of defined kinds of which no version is served; their objects stay in the store.
    unserved: Vec<Arc<Kind>>,
    next_collection: u32,
}

// === impl Kinds ===

impl Kinds {
    pub(crate) fn new_collection(&mut self) -> CollectionId {
        self.next_collection += 1;
        CollectionId(self.next_collection)
    }

    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    pub(crate) fn version(&self, group: &str, version: &str) -> Option<&Version> {
        let group = self.group(group)?;
        group.versions.iter().find(|found| found.name == version)
    }

    pub(crate) fn kind(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.version(group, version)?.kinds.get(plural)
    }

    /// Returns any version of a kind: the preferred served one, or the stored one if none is served.
    pub(crate) fn any_version(&self, group: &str, plural: &str) -> Option<&Arc<Kind>> {
        let mut versions = self.group(group).into_iter().flat_map(|it| &it.versions);
        let served = versions.find_map(|version| version.kinds.get(plural));
        let mut unserved = self.unserved.iter();
        served.or_else(|| unserved.find(|kind| kind.group == group && kind.plural == plural))
    }

    /// Returns the stored version of the kind in a collection, or another version if the stored one is not served.
    pub(crate) fn of_collection(&self, id: CollectionId) -> Option<&Arc<Kind>> {
        let all = || {
            let kinds = self.iter();
            kinds.filter(|kind| kind.collection == id && kind.shape == Shape::Stored)
        };
        let stored = all().find(|kind| kind.version == kind.stored_version);
        let mut unserved = self.unserved.iter();
        stored
            .or_else(|| all().next())
            .or_else(|| unserved.find(|kind| kind.collection == id))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.groups
            .iter()
            .flat_map(|group| &group.versions)
            .flat_map(|version| version.kinds.values())
    }

    /// Starts to serve a kind; replaces an older definition of the same name.
    pub(crate) fn add(&mut self, kind: Kind) {
        let group = match self.groups.iter().position(|g| g.name == kind.group) {
            Some(found) => &mut self.groups[found],
            None => self.add_group(&kind),
        };
        let at = group.version(&kind.version);
        let version = &mut group.versions[at];
        version.kinds.insert(kind.plural.clone(), Arc::new(kind));
    }

    /// Adds a group: groups of custom kinds follow the built-in ones, in alphabetical order.
    fn add_group(&mut self, kind: &Kind) -> &mut Group {
        let builtin = kind.traits.builtin;
        let at = if builtin {
            self.groups.len()
        } else {
            self.groups
                .iter()
                .position(|g| !g.builtin && g.name > kind.group)
                .unwrap_or(self.groups.len())
        };
        self.groups.insert(
            at,
            Group {
                name: kind.group.clone(),
                versions: Vec::new(),
                builtin,
            },
        );
        &mut self.groups[at]
    }

    /// Registers a kind of which no version is served.
    pub(crate) fn hide(&mut self, kind: Kind) {
        self.unserved.push(Arc::new(kind));
    }

    /// Stops serving all versions of a kind.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.unserved
            .retain(|kind| kind.group != group || kind.plural != plural);
        for found in self.groups.iter_mut().filter(|g| g.name == group) {
            for version in &mut found.versions {
                version.kinds.remove(plural);
            }
            found.versions.retain(|version| !version.kinds.is_empty());
        }
        self.groups.retain(|group| !group.versions.is_empty());
    }
}

/// Returns the sort key of Kubernetes' version order: GA before beta before alpha, newer before older, anything else last.
pub(crate) fn version_order(version: &str) -> (u8, u64, u64, Reverse<String>) {
    let last = |text: &str| Reverse(text.to_owned());
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0, last(version));
    };
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse::<u64>() else {
        return (0, 0, 0, last(version));
    };
    let (rank, minor) = match &rest[digits..] {
        "" => return (4, major, 0, last("")),
        tail if tail.starts_with("beta") => (3, &tail[4..]),
        tail if tail.starts_with("alpha") => (2, &tail[5..]),
        _ => return (0, 0, 0, last(version)),
    };
    match minor.parse::<u64>() {
        Ok(minor) => (rank, major, minor, last("")),
        Err(_) => (0, 0, 0, last(version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_kubernetes_orders_them() {
        let mut versions = ["v1alpha1", "foo", "v2", "v1beta2", "v10", "v1", "v1beta10"];
        versions.sort_by_key(|version| Reverse(version_order(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]
        );
    }
}
