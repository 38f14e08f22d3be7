//! Discovery without aggregation: one request per group version, each of which can fail independently.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Deserialize;

use crate::cluster::Cluster;
use crate::cluster::discover::found::{Found, call, name, or_empty};
use crate::cluster::error::ClusterError;
use crate::object::resource::Resource;

/// The maximum number of concurrent requests.
const AT_ONCE: usize = 8;

/// One API group.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Group {
    name: String,
    #[serde(default, deserialize_with = "or_empty")]
    versions: Vec<Version>,
    #[serde(default)]
    preferred_version: Version,
}

#[derive(Default, Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct List {
    #[serde(default, deserialize_with = "or_empty")]
    resources: Vec<Served>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Served {
    /// `pods`, or `pods/status`.
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "or_empty")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "or_empty")]
    categories: Vec<String>,
}

/// A group version to query.
struct Wanted {
    group: String,
    version: String,
    preferred: bool,
}

impl Cluster {
    /// Queries each group version. `core` are the versions of the core group, all of them preferred.
    pub(super) async fn ask_each(
        &self,
        core: Vec<String>,
        groups: Vec<Group>,
    ) -> Result<Vec<Found>, ClusterError> {
        let core = core.into_iter().map(|version| Wanted {
            group: String::new(),
            version,
            preferred: true,
        });
        let named = groups.into_iter().flat_map(|group| {
            let preferred = group.preferred_version.version;
            group
                .versions
                .into_iter()
                .map(move |Version { version }| Wanted {
                    group: group.name.clone(),
                    preferred: version == preferred,
                    version,
                })
        });
        stream::iter(core.chain(named))
            .map(|wanted| self.ask(wanted))
            .buffered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn ask(&self, wanted: Wanted) -> Result<Found, ClusterError> {
        let root = if wanted.group.is_empty() {
            "api"
        } else {
            "apis"
        };
        let path = format!("/{root}/{}", name(&wanted.group, &wanted.version));
        let (list, broken) = match self.persist(&call(path)).await {
            Ok(reply) => match serde_json::from_slice::<List>(&reply) {
                Ok(list) => (list.resources, None),
                Err(error) => (Vec::new(), Some(error.to_string())),
            },
            Err(ClusterError::NotFound(_)) => (Vec::new(), None),
            Err(error @ (ClusterError::Unreachable(_) | ClusterError::Unauthorized(_))) => {
                return Err(error);
            }
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        Ok(Found {
            resources: fold(list, &wanted),
            group: wanted.group,
            version: wanted.version,
            broken,
        })
    }
}

/// Folds subresources such as `pods/status` into their resources.
fn fold(list: Vec<Served>, wanted: &Wanted) -> Vec<Resource> {
    let (parts, wholes): (Vec<_>, Vec<_>) = list
        .into_iter()
        .partition(|served| served.name.contains('/'));
    let subresources = |plural: &str| {
        let named = parts.iter().filter_map(|part| part.name.split_once('/'));
        let own = named.filter(|(whole, _)| *whole == plural);
        own.map(|(_, part)| part.to_owned()).collect()
    };
    let resource = |served: Served| Resource {
        group: wanted.group.clone(),
        version: wanted.version.clone(),
        subresources: subresources(&served.name),
        plural: served.name,
        singular: if served.singular_name.is_empty() {
            served.kind.to_lowercase()
        } else {
            served.singular_name
        },
        kind: served.kind,
        short_names: served.short_names,
        categories: served.categories,
        namespaced: served.namespaced,
        preferred: wanted.preferred,
        verbs: served.verbs,
    };
    wholes.into_iter().map(resource).collect()
}
