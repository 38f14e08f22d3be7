//! Validates storage kinds: attachments, drivers, CSI nodes, capacities and classes.
//!
//! Paths in errors match the real server, including unusual ones. Never looks at the old object of an update.

use std::collections::HashSet;

use serde_json::Value;

use super::finder::{Finder, child, is_empty, items, map, maps, number};
use super::format;
use super::resource::amount;
use super::rule::Named;
use crate::object::{Body, metadata, text};
use crate::rules::names;

pub(super) const NAMED: Named = &[
    ("persistent_volume", persistent_volume),
    ("attachment_source", attachment_source),
    ("csi_driver", csi_driver),
    ("csi_node", csi_node),
    ("csi_node_driver", csi_node_driver),
    ("capacity", capacity),
    ("storage_class", storage_class),
    ("attributes_class", attributes_class),
    ("topology", topology),
];

/// The volume sources that support mount options.
const WITH_OPTIONS: [&str; 12] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "gcePersistentDisk",
    "glusterfs",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "quobyte",
    "rbd",
    "vsphereVolume",
];

fn persistent_volume(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let key = "volume.beta.kubernetes.io/mount-options";
    let annotations = metadata(body).and_then(|meta| map(meta, "annotations"));
    let wants = annotations.is_some_and(|found| found.contains_key(key));
    let can = map(body, "spec")
        .is_some_and(|spec| WITH_OPTIONS.iter().any(|name| spec.contains_key(*name)));
    if wants && !can {
        let message = "may not specify mount options for this volume type";
        finder.forbidden(format!("metadata.annotations.{key}"), message);
    }
}

fn attachment_source(finder: &mut Finder<'_>, source: &Body, at: &str) {
    let volume = source.get("persistentVolumeName").and_then(Value::as_str);
    let message = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (volume, map(source, "inlineVolumeSpec")) {
        (None, None) => finder.required(at, message),
        (Some(_), Some(_)) => finder.forbidden(at, message),
        (Some(volume), None) => {
            let at = child(at, "persistentVolumeName");
            if volume.is_empty() {
                finder.required(at.as_str(), "must specify non empty persistentVolumeName");
            }
            format::check(finder, "name", &at, &volume.into());
        }
        (None, Some(spec)) => inline_volume(finder, spec, &child(at, "inlineVolumeSpec")),
    }
}

/// Checks an inline volume: it must have a CSI driver, and no fields for claims.
fn inline_volume(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    if !spec.contains_key("csi") {
        let message = "has to be specified in the context of inline volumes";
        finder.required(child(at, "csi"), message);
    }
    for field in [
        "capacity",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
    ] {
        if !is_empty(spec.get(field)) && spec[field] != "Retain" {
            let message = "may not be specified in the context of inline volumes";
            finder.forbidden(child(at, field), message);
        }
    }
}

fn csi_driver(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let modes = ["Persistent", "Ephemeral"];
    for mode in items(spec, "volumeLifecycleModes") {
        if !modes.iter().any(|known| mode == known) {
            finder.unsupported(child(at, "volumeLifecycleModes"), mode, &modes);
        }
    }
    let mut seen = HashSet::new();
    for (at, request) in maps(spec, "tokenRequests", at) {
        let audience = text(request, "audience");
        if !seen.insert(audience) {
            finder.duplicate(child(&at, "audience"), &audience.into());
            continue;
        }
        let message = match number(request, "expirationSeconds") {
            Some(seconds) if seconds < 600 => "may not specify a duration less than 10 minutes",
            Some(seconds) if seconds > 1 << 32 => {
                "may not specify a duration larger than 2^32 seconds"
            }
            _ => continue,
        };
        let value = &request["expirationSeconds"];
        finder.invalid(child(&at, "expirationSeconds"), value, message);
    }
    if let Some(period) = number(spec, "nodeAllocatableUpdatePeriodSeconds")
        && period < 10
    {
        let message = "must be greater than or equal to 10 seconds";
        let at = child(at, "nodeAllocatableUpdatePeriodSeconds");
        finder.invalid(at, &period.into(), message);
    }
    let field = "serviceAccountTokenInSecrets";
    if let Some(value) = spec.get(field)
        && items(spec, "tokenRequests").is_empty()
    {
        let message = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        finder.invalid(child(at, field), value, message);
    }
}

fn csi_node(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let mut seen = HashSet::new();
    for (at, driver) in maps(spec, "drivers", at) {
        let name = text(driver, "name");
        if !seen.insert(name) {
            finder.duplicate(child(&at, "name"), &name.into());
        }
    }
}

/// Checks a CSI driver of a node; errors of topology keys name the driver.
fn csi_node_driver(finder: &mut Finder<'_>, driver: &Body, at: &str) {
    let id = text(driver, "nodeID");
    if id.len() > 256 {
        let message = "must be 256 characters or less";
        finder.invalid(child(at, "nodeID"), &id.into(), message);
    }
    let mut seen = HashSet::new();
    for key in items(driver, "topologyKeys") {
        let name = key.as_str().unwrap_or_default();
        if name.is_empty() {
            finder.required(at, "");
        }
        if !seen.insert(name) {
            finder.duplicate(at, key);
        }
        finder.all(at, key, names::qualified(name));
    }
}

fn capacity(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let class = text(body, "storageClassName");
    format::check(finder, "name", "storageClassName", &class.into());
    let size = body.get("capacity");
    if let Some(size) = size.filter(|size| amount(size).is_some_and(|size| size < 0)) {
        finder.invalid("capacity", size, "must be greater than or equal to 0");
    }
}

fn provisioner(finder: &mut Finder<'_>, body: &Body, field: &str) {
    let name = text(body, field).to_lowercase();
    if name.is_empty() {
        finder.required(field, "");
    } else {
        finder.all(field, &name.as_str().into(), names::qualified(&name));
    }
    let parameters = map(body, "parameters");
    if parameters.is_some_and(|found| found.contains_key("")) {
        finder.invalid("parameters", &"".into(), "field can not be empty.");
    }
}

fn attributes_class(finder: &mut Finder<'_>, body: &Body, _: &str) {
    provisioner(finder, body, "driverName");
    if is_empty(body.get("parameters")) {
        let message = "must contain at least one key/value pair";
        finder.required("parameters", message);
    }
}

fn storage_class(finder: &mut Finder<'_>, body: &Body, _: &str) {
    provisioner(finder, body, "provisioner");
    let policy = text(body, "reclaimPolicy");
    if !matches!(policy, "" | "Delete" | "Retain") {
        finder.unsupported("reclaimPolicy", &policy.into(), &["Delete", "Retain"]);
    }
    // The real server also compares each term with an empty one.
    let mut seen: Vec<Vec<(String, HashSet<String>)>> = vec![Vec::new()];
    for (at, term) in maps(body, "allowedTopologies", "") {
        let mut keys: Vec<(String, HashSet<String>)> = Vec::new();
        for (_, requirement) in maps(term, "matchLabelExpressions", &at) {
            let values = items(requirement, "values").iter();
            let values = values.filter_map(|value| Some(value.as_str()?.to_owned()));
            keys.push((text(requirement, "key").to_owned(), values.collect()));
        }
        keys.sort_by(|one, two| one.0.cmp(&two.0));
        if seen.contains(&keys) {
            finder.duplicate(child(&at, "matchLabelExpressions"), &"".into());
        }
        seen.push(keys);
    }
}

fn topology(finder: &mut Finder<'_>, term: &Body, at: &str) {
    let mut keys = HashSet::new();
    for (at, requirement) in maps(term, "matchLabelExpressions", at) {
        let key = text(requirement, "key");
        if !keys.insert(key) {
            finder.duplicate(child(&at, "key"), &key.into());
        }
        finder.all(&child(&at, "key"), &key.into(), names::qualified(key));
        let values = items(requirement, "values");
        if values.is_empty() {
            finder.required(child(&at, "values"), "");
        }
        for (index, value) in values.iter().enumerate() {
            if values[..index].contains(value) {
                finder.duplicate(format!("{at}.values[{index}]"), value);
            }
        }
    }
}
