//! A resource that the cluster serves, as discovery describes it.

use std::fmt;

use crate::object::body::Body;

/// One resource of the cluster in one version. Displays as `plural.version.group`, as in Kopf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resource {
    /// API group; empty for core.
    pub group: String,
    /// API version, such as `v1`.
    pub version: String,
    /// Plural name, such as `pods`.
    pub plural: String,
    /// Kind, such as `Pod`.
    pub kind: String,
    /// Singular name, such as `pod`.
    pub singular: String,
    /// Short names, such as `po`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Names of subresources, such as `status`.
    pub subresources: Vec<String>,
    /// True if objects belong to namespaces.
    pub namespaced: bool,
    /// True if this version is the preferred one of its group.
    pub preferred: bool,
    /// Verbs that the server supports.
    pub verbs: Vec<String>,
}

impl Resource {
    /// Creates a built-in resource of Kubernetes in its version `v1`, which needs no discovery.
    pub(crate) fn built_in(group: &str, kind: &str, namespaced: bool) -> Self {
        let singular = kind.to_lowercase();
        Self {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: format!("{singular}s"),
            kind: kind.to_owned(),
            singular,
            namespaced,
            preferred: true,
            ..Self::default()
        }
    }

    /// Returns `v1` or `group/version`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the identity of the resource regardless of its version: group and plural. Events are the same in both of their groups.
    pub(crate) fn identity(&self) -> (&str, &str) {
        match (self.group.as_str(), self.plural.as_str()) {
            ("events.k8s.io", "events") => ("", "events"),
            identity => identity,
        }
    }

    /// Returns whether nothing that a watch depends on differs. Ignores the verbs: discovery lists fewer of them while the definition is being
    /// deleted, and the remaining objects must stay watched.
    pub(crate) fn is_same_kind(&self, other: &Self) -> bool {
        let without_verbs = |resource: &Self| Self { verbs: Vec::new(), ..resource.clone() };
        without_verbs(self) == without_verbs(other)
    }

    /// Returns `plural.group`, Kubernetes' name of a resource regardless of its version.
    pub(crate) fn group_resource(&self) -> String {
        match self.identity() {
            ("", plural) => plural.to_owned(),
            (group, plural) => format!("{plural}.{group}"),
        }
    }

    /// Returns the path of the collection, of one object, or of a subresource.
    pub(crate) fn path(
        &self,
        namespace: Option<&str>,
        name: Option<&str>,
        subresource: Option<&str>,
    ) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if let (true, Some(namespace)) = (self.namespaced, namespace) {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        for part in [Some(self.plural.as_str()), name, subresource].into_iter().flatten() {
            path.push('/');
            path.push_str(part);
        }
        path
    }

    /// Returns true if the resource is custom rather than built into Kubernetes.
    pub(crate) fn is_custom(&self) -> bool {
        self.group.contains('.') && !self.group.ends_with(".k8s.io")
    }

    /// Returns the generation of an object that conditions may refer to. Without a status subresource there is none, because each status
    /// write creates a new generation.
    pub(crate) fn generation_of(&self, body: &Body) -> Option<i64> {
        let counts = self.is_custom() && self.has_status_subresource();
        let generation = body.metadata()["generation"].as_i64();
        generation.filter(|_| counts)
    }

    /// Returns true if `status` is a subresource.
    #[must_use]
    pub fn has_status_subresource(&self) -> bool {
        self.subresources.iter().any(|name| name == "status")
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.plural, self.version)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}
