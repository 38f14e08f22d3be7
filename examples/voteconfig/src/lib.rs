//! `VoteConfig`: keeps the options of a vote in a `ConfigMap`, from which the application reads them.
//!
//! ```sh
//! kopf-rs run examples/voteconfig --embedded --apply examples/voteconfig
//! ```

use std::collections::BTreeSet;

use kopf_rs::prelude::*;

use versions::v1::VoteConfigSpec;

pub mod versions;

/// The status of the object.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VoteConfigStatus {
    config_map: Option<String>,
    config_map_version: Option<String>,
    updated: Option<String>,
    observed_generation: Option<i64>,
}

/// Keeps the `ConfigMap` equal to the object's spec, and records when it changed.
///
/// # Errors
///
/// Fails permanently if two options are equal; fails if the `ConfigMap` is rejected, or if it belongs to another
/// owner.
#[reconcile("voting.schoolofdevops.com", "v1", "voteconfigs", owns = ["configmaps"])]
pub async fn sync(
    spec: VoteConfigSpec,
    name: &str,
    started: String,
    children: Children,
    status: &mut Status<VoteConfigStatus>,
) -> HandlerResult {
    let (mut options, mut seen) = (spec.options.iter(), BTreeSet::new());
    if let Some(option) = options.find(|it| !seen.insert(it.to_lowercase())) {
        let mut conditions = status.conditions();
        conditions.set("Synced", false, "DoubledOption", option);
        fail!("spec.options: {option} stands there twice");
    }
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{name}-config")},
        "data": {"title": spec.title, "options": spec.options.join("\n")},
    });
    let config = children.apply(&config).await?;
    if status.config_map_version.as_deref() != Some(config.resource_version()) {
        status.config_map = Some(config.name().to_owned());
        status.config_map_version = Some(config.resource_version().to_owned());
        status.updated = Some(started);
    }
    status.conditions().set("Synced", true, "Synced", "");
    Ok(())
}

#[cfg(test)]
mod tests;
