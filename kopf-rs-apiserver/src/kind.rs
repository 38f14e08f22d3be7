//! The kinds that are served: names, scope, subresources, and where their objects are kept.
//!
//! Promise: a path is served exactly if its kind is in [`Kinds`]. Discovery answers are made from the same table.
//! Must not know objects, verbs or transports.

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

/// Which collection of the store holds the objects of a kind; all versions of a kind share one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CollectionId(pub(crate) u32);

/// What a kind is called in requests, whatever the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) plural: String,
}

/// What a kind can do and how its objects are treated.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent traits, not states"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Has the status subresource.
    pub(crate) status: bool,
    /// Carries `metadata.generation`.
    pub(crate) generation: bool,
    /// An immediate deletion answers the object rather than a `Status`.
    pub(crate) returns_deleted: bool,
    /// A replace without resourceVersion is accepted.
    pub(crate) unconditional: bool,
    /// A replace of an absent object creates it.
    pub(crate) create_on_update: bool,
    /// Only `create`, and nothing is stored.
    pub(crate) review: bool,
    /// Comes with the server, not from a CRD.
    pub(crate) builtin: bool,
    /// Its definition is being deleted.
    pub(crate) terminating: bool,
}

/// The scale subresource: where the numbers are.
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

/// How objects of a served version differ from what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Only `apiVersion` differs.
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
    /// What everyone is told who uses it.
    pub(crate) deprecation: Option<String>,
    pub(crate) schema: Option<Arc<Value>>,
    pub(crate) selectable: Vec<String>,
    pub(crate) shape: Shape,
    pub(crate) collection: CollectionId,
    /// The version objects are kept in.
    pub(crate) stored_version: String,
    /// The schema of that version, where it is another one than this.
    pub(crate) stored_schema: Option<Arc<Value>>,
    /// The schemas of all versions of a custom kind, served or not.
    pub(crate) schemas: Arc<Schemas>,
    /// Who converts its objects, where that is a webhook's work.
    pub(crate) conversion: Option<Arc<Conversion>>,
}

// === impl Resource ===

impl std::fmt::Display for Resource {
    /// `plural.group`, or `plural` in the core group; as definitions are named.
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
    /// A kind of no name, for the rules that hold for all.
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

    /// `group/version`, or `version` in the core group.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Whether objects that verbs have in hand are in this version; others are when they are shown.
    pub(crate) fn is_native(&self) -> bool {
        self.conversion.is_some() || self.version == self.stored_version
    }

    /// The `apiVersion` of objects that verbs have in hand.
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

    /// What its objects look like, for kinds that come with the server.
    pub(crate) fn typed(&self) -> Option<&'static Struct> {
        let builtin = self.traits.builtin;
        builtin.then(|| typed::of_kind(&self.api_version(), &self.kind))?
    }

    /// What its objects look like as they are stored, for kinds that come with the server.
    pub(crate) fn stored_type(&self) -> Option<&'static Struct> {
        match self.shape {
            Shape::Stored => self.typed(),
            Shape::NewEvent => typed::of_kind("v1", "Event"),
            Shape::FirstAutoscaler => typed::of_kind("autoscaling/v2", &self.kind),
        }
    }

    /// How its objects come apart when they are merged.
    pub(crate) fn outline(&self) -> Outline<'_> {
        if self.traits.builtin {
            let stored = self.stored_type();
            return stored.map_or(Outline::Free, Outline::Struct);
        }
        self.schema.as_deref().map_or(Outline::Free, Outline::Root)
    }

    /// The metadata that a write to the status of a kind that comes with the server cannot change.
    pub(crate) fn kept_with_status(&self) -> &'static [&'static str] {
        match (self.group.as_str(), self.plural.as_str()) {
            ("apps", "deployments") => &["labels"],
            ("", "pods") => &["deletionTimestamp", "ownerReferences"],
            _ => &[],
        }
    }

    /// Whether a changed object is looked at as a new one is.
    pub(crate) fn checked_when_changed(&self) -> bool {
        let loose = [
            ("networking.k8s.io", "ipaddresses"),
            ("scheduling.k8s.io", "priorityclasses"),
            ("storage.k8s.io", "csistoragecapacities"),
        ];
        !loose.contains(&(self.group.as_str(), self.plural.as_str()))
    }

    /// What an object is when nothing is set.
    pub(crate) fn empty(&self) -> Body {
        match self.outline() {
            Outline::Struct(of) => typed::zero_object(of),
            _ => Body::new(),
        }
    }

    /// The subject of a refusal, by plural.
    pub(crate) fn subject<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject {
            group: &self.group,
            word: &self.plural,
            name,
        }
    }

    /// The subject of an `Invalid` refusal, by kind.
    pub(crate) fn subject_by_kind<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject {
            // What is wrong is found in the stored form.
            group: if self.shape == Shape::NewEvent {
                ""
            } else {
                &self.group
            },
            word: &self.kind,
            name,
        }
    }

    /// Whether this is the core kind of that plural.
    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }

    /// Whether this is the kind of custom resource definitions.
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
            // The order in which the real server names them for custom kinds.
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

    /// The verbs that discovery names: fewer than are served while the definition is being deleted.
    pub(crate) fn discovered_verbs(&self) -> &'static [&'static str] {
        if self.traits.terminating {
            &["delete", "deletecollection", "get", "list", "watch"]
        } else {
            self.verbs()
        }
    }

    /// The names of the subresources that are served.
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

/// `group/version`, or `version` in the core group.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// A group's version with its kinds, by plural.
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
    /// The place of a version, made if it is not there.
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
    /// Kinds that are defined, but of which no version is served, as they are stored: their objects wait.
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

    /// Any version of that plural: the preferred one that is served, or the stored one where none is.
    pub(crate) fn any_version(&self, group: &str, plural: &str) -> Option<&Arc<Kind>> {
        let mut versions = self.group(group).into_iter().flat_map(|it| &it.versions);
        let served = versions.find_map(|version| version.kinds.get(plural));
        let mut unserved = self.unserved.iter();
        served.or_else(|| unserved.find(|kind| kind.group == group && kind.plural == plural))
    }

    /// The kind as it is stored, by collection; another version where that one is not served.
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

    /// Start serving a kind, in place of an older definition of the same name.
    pub(crate) fn add(&mut self, kind: Kind) {
        let group = match self.groups.iter().position(|g| g.name == kind.group) {
            Some(found) => &mut self.groups[found],
            None => self.add_group(&kind),
        };
        let at = group.version(&kind.version);
        let version = &mut group.versions[at];
        version.kinds.insert(kind.plural.clone(), Arc::new(kind));
    }

    /// Groups of custom resources come after the server's own, in alphabetical order.
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

    /// Know a kind of which no version is served.
    pub(crate) fn hide(&mut self, kind: Kind) {
        self.unserved.push(Arc::new(kind));
    }

    /// Stop serving all versions of a kind.
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

/// Kubernetes' order of versions: GA over beta over alpha, newer over older, anything else last.
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
