//! Validates changes of kinds related to storage, nodes and networks.
//!
//! Prints nested values in the real server's internal form. Independent of which client makes the change.

use serde_json::{Value, json};

use super::finder::{Finder, child, items, map, maps};
use crate::object::{Body, at_path, text};

const FIXED: &str = "field is immutable";

/// Returns the check for changes of a kind.
pub(super) fn of(kind: &str) -> Option<fn(&mut Finder<'_>, &Body, &Body)> {
    Some(match kind {
        "CSIDriver" => driver,
        "CSINode" => csi_node,
        "CSIStorageCapacity" => capacity,
        "IPAddress" => address,
        "Node" => node,
        "ServiceCIDR" => networks,
        "VolumeAttachment" => attachment,
        "VolumeAttributesClass" => attributes,
        _ => return None,
    })
}

fn driver(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    for (field, told) in [
        ("attachRequired", "spec.attachedRequired"),
        ("volumeLifecycleModes", "spec.volumeLifecycleModes"),
    ] {
        let path = format!(".spec.{field}");
        let after = at_path(new, &path);
        if at_path(old, &path) != after {
            finder.invalid(told, after.unwrap_or(&Value::Null), FIXED);
        }
    }
}

/// Checks that drivers stay the same, except for their allocatable count.
fn csi_node(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let empty = Body::new();
    let spec = |body| map(body, "spec").unwrap_or(&empty);
    for (_, before) in maps(spec(old), "drivers", "") {
        for (_, after) in maps(spec(new), "drivers", "") {
            let same = |field: &str| before.get(field) == after.get(field);
            if same("name") && !(same("nodeID") && same("topologyKeys")) {
                let keys = after.get("topologyKeys").unwrap_or(&Value::Null);
                let shown = format!(
                    "{{\"Name\":{},\"NodeID\":{},\"TopologyKeys\":{keys},\"Allocatable\":null}}",
                    json!(text(after, "name")),
                    json!(text(after, "nodeID"))
                );
                finder.invalid_as("spec.drivers", &shown, FIXED);
            }
        }
    }
}

fn capacity(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    for field in ["nodeTopology", "storageClassName"] {
        if old.get(field) != new.get(field) {
            finder.invalid_as(field, &super::change::printed(new.get(field)), FIXED);
        }
    }
}

fn address(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let parent = |body| at_path(body, ".spec.parentRef").and_then(Value::as_object);
    let (before, after) = (parent(old), parent(new));
    if before == after {
        return;
    }
    let shown = after.map_or_else(
        || "null".to_owned(),
        |after| {
            let word = |field| json!(text(after, field));
            format!(
                "{{\"Group\":{},\"Resource\":{},\"Namespace\":{},\"Name\":{}}}",
                word("group"),
                word("resource"),
                word("namespace"),
                word("name")
            )
        },
    );
    finder.invalid_as("spec.parentRef", &shown, FIXED);
}

fn node(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let empty = Body::new();
    let (before, after) = (
        map(old, "spec").unwrap_or(&empty),
        map(new, "spec").unwrap_or(&empty),
    );
    let (had, has) = (items(before, "podCIDRs"), items(after, "podCIDRs"));
    let changes = if had.len() == has.len() {
        had.iter().zip(has).filter(|(had, has)| had != has).count()
    } else {
        usize::from(!had.is_empty())
    };
    for _ in 0..changes {
        let message = "node updates may not change podCIDR except from \"\" to valid";
        finder.forbidden("spec.podCIDRs", message);
    }
    // The real server validates taints again on updates.
    super::node::taints(finder, after);
    let provider = |spec| text(spec, "providerID");
    if !provider(before).is_empty() && provider(before) != provider(after) {
        let message = "node updates may not change providerID except from \"\" to valid";
        finder.forbidden("spec.providerID", message);
    }
    if text(before, "externalID") != text(after, "externalID") {
        finder.forbidden("spec.externalID", "may not be updated");
    }
}

fn networks(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let list = |body: &Body| {
        let found = map(body, "spec").map_or(&[][..], |spec| items(spec, "cidrs"));
        found.to_vec()
    };
    let (had, has) = (list(old), list(new));
    if had.len() != has.len() && !(had.len() == 1 && has.len() == 2) {
        return finder.invalid("spec.cidrs", &has.into(), FIXED);
    }
    for (index, (had, has)) in had.iter().zip(&has).enumerate() {
        if had != has {
            finder.invalid(format!("spec.cidrs[{index}]"), has, FIXED);
        }
    }
}

fn attachment(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    if old.get("spec") == new.get("spec") {
        return;
    }
    let empty = Body::new();
    let spec = map(new, "spec").unwrap_or(&empty);
    let source = map(spec, "source").unwrap_or(&empty);
    let part = |field: &str| source.get(field).cloned().unwrap_or_default();
    let shown = format!(
        "{{\"Attacher\":{},\"Source\":{{\"PersistentVolumeName\":{},\"InlineVolumeSpec\":{}}},\"NodeName\":{}}}",
        json!(text(spec, "attacher")),
        part("persistentVolumeName"),
        part("inlineVolumeSpec"),
        json!(text(spec, "nodeName"))
    );
    finder.invalid_as("spec", &shown, FIXED);
}

fn attributes(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    for field in ["driverName", "parameters"] {
        if old.get(field) != new.get(field) {
            let message = format!("updates to {field} are forbidden.");
            finder.forbidden(child("", field), &message);
        }
    }
}
