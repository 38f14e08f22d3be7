//! Aggregated discovery: all groups, versions and resources in one response.

use serde::{Deserialize, Deserializer};

use crate::object::resource::Resource;

/// The resources of one group version, or the reason why they are unknown.
pub(super) struct Found {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resources: Vec<Resource>,
    pub(super) broken: Option<String>,
}

/// One API group, with its versions in order of preference.
#[derive(Deserialize)]
pub(super) struct Group {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default, deserialize_with = "or_empty")]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    /// Absent for the core group.
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "version")]
    name: String,
    #[serde(default, deserialize_with = "or_empty")]
    resources: Vec<Served>,
    /// `Stale` if an aggregated API server does not respond.
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Served {
    resource: String,
    #[serde(default, deserialize_with = "or_empty")]
    response_kind: ResponseKind,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default, deserialize_with = "or_empty")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    categories: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    subresources: Vec<Subresource>,
}

#[derive(Default, Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct Subresource {
    subresource: String,
}

/// Deserializes `null` as an empty value, as Go writes it.
pub(super) fn or_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Returns the resources of all versions.
pub(super) fn found(groups: Vec<Group>) -> Vec<Found> {
    let mut all = Vec::new();
    for group in groups {
        for (place, version) in group.versions.into_iter().enumerate() {
            let stale = version.freshness == "Stale";
            let resources = version.resources.into_iter();
            all.push(Found {
                resources: resources
                    // A resource without a kind is only the parent of subresources.
                    .filter(|served| !served.response_kind.kind.is_empty())
                    .map(|served| served.resource(&group.metadata.name, &version.name, place == 0))
                    .collect(),
                group: group.metadata.name.clone(),
                version: version.name,
                broken: stale.then(|| "the server calls it stale".to_owned()),
            });
        }
    }
    all
}

impl Served {
    fn resource(self, group: &str, version: &str, preferred: bool) -> Resource {
        let kind = self.response_kind.kind;
        Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: self.resource,
            singular: if self.singular_resource.is_empty() {
                kind.to_lowercase()
            } else {
                self.singular_resource
            },
            kind,
            short_names: self.short_names,
            categories: self.categories,
            subresources: self.subresources.into_iter().map(|part| part.subresource).collect(),
            namespaced: self.scope == "Namespaced",
            preferred,
            verbs: self.verbs,
        }
    }
}
