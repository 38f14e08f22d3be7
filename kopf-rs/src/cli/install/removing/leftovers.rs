//! Finds the objects of users that remain when an operator is removed: custom objects, objects with its finalizer, and children.
//!
//! Writes nothing. This module does not know what happens to them.

use kopf_rs_flags::installing::InstallingFlags;
use serde_json::Value;

use crate::cli::install::site::{Done, Site};
use crate::object::resource::Resource;
use crate::operator::installation::Target;
use crate::operator::run::footprint::Footprint;

/// The number of names in a list for people.
const SHOWN: usize = 10;

/// The objects that are not part of the installation. They have metadata only.
pub(super) struct Leftovers {
    /// The resources of the operator's own definitions.
    defined: Vec<Resource>,
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
            site.resources.iter().find(is_it).cloned()
        });
        let defined: Vec<Resource> = defined.collect();
        let objects = site.list(&defined, "", true).await?;
        let children = site.list(&footprint.children, &footprint.child_label, true).await?;
        let held = if is_shared { Vec::new() } else { Self::held(site, footprint).await? };
        Ok(Self { defined, objects, held, children, is_shared })
    }

    /// Returns the objects that have the finalizer at present.
    pub(super) async fn held(site: &Site<'_>, footprint: &Footprint) -> Done<Vec<Target>> {
        let mut held = site.list(&footprint.handled, "", true).await?;
        held.retain(|it| has_finalizer(&it.object, &footprint.finalizer));
        Ok(held)
    }

    fn is_defined(&self, target: &Target) -> bool {
        self.defined.iter().any(|it| it.identity() == target.resource.identity())
    }

    /// Returns the objects whose deletion waits for the operator, or will wait for it if --delete-objects deletes them.
    pub(super) fn waiting(&self, flags: InstallingFlags) -> Vec<Target> {
        let is_deleted =
            |it: &Target| is_terminating(&it.object) || flags.delete_objects && self.is_defined(it);
        self.held.iter().filter(|it| is_deleted(it)).cloned().collect()
    }

    /// Fails if definitions are to be deleted, and their objects with them, although nobody has asked for that.
    pub(super) fn check(&self, flags: InstallingFlags, outcome: &str) -> Done {
        if !flags.crds || flags.delete_objects || self.objects.is_empty() {
            return Ok(());
        }
        let (count, names) = (self.objects.len(), names(&self.objects));
        Err(format!(
            "--crds would delete {count} objects with the definitions: {names}. {outcome}. Delete these objects first, or add --delete-objects"
        )
        .into())
    }

    /// Prints the objects that remain, or that would remain.
    pub(super) fn report(&self, site: &Site<'_>, finalizer: &str, flags: InstallingFlags) {
        let kept = |what: &str, all: &[Target], end: &str| {
            // Without --dry-run, the lists are those after the deletion.
            let would_go = |it: &Target| flags.dry_run && flags.delete_objects && self.is_defined(it);
            let all: Vec<Target> = all.iter().filter(|it| !would_go(it)).cloned().collect();
            if !all.is_empty() {
                (site.say)(&format!("kept: {} {what}: {}{end}", all.len(), names(&all)));
            }
        };
        kept("objects of the operator's kinds", &self.objects, ". --delete-objects deletes them");
        if !flags.remove_finalizers {
            let end = format!(
                ". Their deletion waits until the operator is installed again, or until --remove-finalizers removes {finalizer}"
            );
            kept("objects with the operator's finalizer", &self.held, &end);
        }
        // The children of deleted objects are deleted as well.
        if !flags.delete_objects {
            kept("children", &self.children, "");
        }
    }
}

pub(super) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(super) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|it| it.iter().any(|it| *it == *finalizer))
}

/// Returns the first names, with their namespaces.
pub(super) fn names(objects: &[Target]) -> String {
    let shown: Vec<String> = objects.iter().take(SHOWN).map(|it| it.shown("")).collect();
    let more = objects.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}
