//! The types that both forms of discovery share.

use serde::{Deserialize, Deserializer};

use crate::cluster::error::Asked;
use crate::cluster::request::Call;
use crate::object::resource::Resource;

/// The resources of one group version, or the reason why they are unknown.
pub(super) struct Found {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resources: Vec<Resource>,
    pub(super) broken: Option<String>,
}

pub(super) fn call(path: String) -> Call<'static> {
    let asked = Asked {
        verbs: &["get"],
        resource: None,
        namespace: None,
        subresource: None,
    };
    Call::get(path, asked)
}

pub(super) fn name(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Deserializes `null` as an empty list, as Go writes it.
pub(super) fn or_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
