//! Finds the objects of users that remain when an operator is removed: custom objects, objects with its finalizer, and children.
//!
//! Writes nothing. This module does not know what happens to them.

use serde_json::Value;

use crate::cli::install::site::{Done, Site, failed};
use crate::object::resource::Resource;
use crate::operator::installation::Target;
use crate::operator::run::footprint::Footprint;

/// The number of names in a list for people.
const SHOWN: usize = 10;

/// The objects that are not part of the installation. They have metadata only.
pub(super) struct Leftovers {
    /// The objects of the operator's own definitions.
    pub(super) objects: Vec<Target>,
    /// Objects of all handled kinds with the finalizer of the operator.
    pub(super) held: Vec<Target>,
    children: Vec<Target>,
    /// Another installation of the operator handles objects of the same kinds.
    pub(super) is_shared: bool,
}

impl Leftovers {
    pub(super) async fn find(
        site: &Site<'_>,
        footprint: &Footprint,
        definitions: &[Target],
        is_shared: bool,
    ) -> Done<Self> {
        let defined = definitions.iter().filter_map(|it| {
            let (group, plural) = (&it.object["spec"]["group"], &it.object["spec"]["names"]["plural"]);
            let is_it = |it: &&Resource| *group == *it.group && *plural == *it.plural && it.preferred;
            site.resources.iter().find(is_it)
        });
        let mut objects = Vec::new();
        for resource in defined {
            objects.extend(list(site, resource, "").await?);
        }
        let mut children = Vec::new();
        for resource in &footprint.children {
            children.extend(list(site, resource, &footprint.child_label).await?);
        }
        let held = if is_shared { Vec::new() } else { Self::held(site, footprint).await? };
        Ok(Self { objects, held, children, is_shared })
    }

    /// Returns the objects that have the finalizer at present.
    pub(super) async fn held(site: &Site<'_>, footprint: &Footprint) -> Done<Vec<Target>> {
        let mut held = Vec::new();
        for resource in &footprint.handled {
            held.extend(list(site, resource, "").await?);
        }
        held.retain(|it| has_finalizer(&it.object, &footprint.finalizer));
        Ok(held)
    }

    /// Prints the objects that remain.
    pub(super) fn report(&self, site: &Site<'_>, finalizer: &str, are_deleted: bool, are_released: bool) {
        let kept = |what: &str, all: &[Target], end: &str| {
            if !all.is_empty() {
                (site.say)(&format!("kept: {} {what}: {}{end}", all.len(), names(all)));
            }
        };
        if !are_deleted {
            kept("objects of the operator's kinds", &self.objects, ". --delete-objects deletes them");
            if !are_released {
                let end = format!(
                    ". Their deletion waits until the operator is installed again, or until --remove-finalizers removes {finalizer}"
                );
                kept("objects with its finalizer", &self.held, &end);
            }
            kept("children", &self.children, "");
        }
    }
}

async fn list(site: &Site<'_>, resource: &Resource, labels: &str) -> Done<Vec<Target>> {
    let listed = site.cluster.list_metadata(resource, None, labels).await;
    let listed = listed.map_err(|error| failed(&format!("{resource} cannot be listed"), &error))?;
    Ok(listed.into_iter().map(|it| Target::found(resource, it)).collect())
}

pub(super) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|it| it.iter().any(|it| *it == *finalizer))
}

/// Returns the first names, with their namespaces.
pub(super) fn names(objects: &[Target]) -> String {
    let shown: Vec<String> = objects.iter().take(SHOWN).map(|it| it.shown("")).collect();
    let more = objects.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}
