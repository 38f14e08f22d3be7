//! Validates volume sources.
//!
//! Paths in errors match the real server, including unusual ones. Independent of mounts.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Value;

use super::finder::{Finder, child, is_true, items, map, maps, number};
use super::rule::Named;
use super::{format, reference};
use crate::object::{Body, at_path, text};

pub(super) const NAMED: Named = &[
    ("iscsi", iscsi),
    ("iscsi_volume", iscsi_volume),
    ("fibre", fibre),
    ("flex", flex),
    ("flocker", flocker),
    ("quobyte", quobyte),
    ("azure_disk", azure_disk),
    ("csi_volume", csi_volume),
    ("csi_inline", csi_inline),
    ("secret_ref", secret_ref),
    ("ephemeral", ephemeral),
    ("file", file),
    ("projected", projected),
    ("empty_dir", empty_dir),
    ("image_volume", image_volume),
];

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

fn empty_dir(finder: &mut Finder<'_>, source: &Body, at: &str) {
    let limit = source.get("sizeLimit").and_then(super::resource::amount);
    if limit.is_some_and(|limit| limit < 0) {
        let message = "SizeLimit field must be a valid resource quantity";
        finder.forbidden(child(at, "sizeLimit"), message);
    }
}

fn iscsi(finder: &mut Finder<'_>, source: &Body, at: &str) {
    disks(
        finder,
        source,
        at,
        "must be valid format starting with iqn, eui, or naa",
    );
}

fn iscsi_volume(finder: &mut Finder<'_>, source: &Body, at: &str) {
    disks(finder, source, at, "must be valid format");
}

fn disks(finder: &mut Finder<'_>, source: &Body, at: &str, strange: &str) {
    static NAMES: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
        [
            ("iqn", r"iqn\.\d{4}-\d{2}\.([[:alnum:].-]+)(:[^,;*&$|\s]+)$"),
            ("eui", "^eui.[[:alnum:]]{16}$"),
            ("naa", "^naa.[[:alnum:]]{32}$"),
        ]
        .into_iter()
        .filter_map(|(start, pattern)| Some((start, Regex::new(pattern).ok()?)))
        .collect()
    });
    for (field, told) in [("iqn", "iqn"), ("initiatorName", "initiatorname")] {
        let Some(name) = source.get(field).and_then(Value::as_str) else {
            continue;
        };
        if name.is_empty() && field == "iqn" {
            continue;
        }
        let known = NAMES.iter().find(|(start, _)| name.starts_with(start));
        match known {
            None => finder.invalid(child(at, told), &name.into(), strange),
            Some((_, pattern)) if !pattern.is_match(name) => {
                finder.invalid(child(at, told), &name.into(), "must be valid format");
            }
            Some(_) => {}
        }
    }
    let guarded = is_true(source, "chapAuthDiscovery") || is_true(source, "chapAuthSession");
    if guarded && !source.contains_key("secretRef") {
        finder.required(child(at, "secretRef"), "");
    }
}

fn fibre(finder: &mut Finder<'_>, source: &Body, at: &str) {
    let at_targets = child(at, "targetWWNs");
    let (targets, wide) = (items(source, "targetWWNs"), items(source, "wwids"));
    match (targets, wide) {
        ([], []) => {
            let message = "must specify either targetWWNs or wwids, but not both";
            finder.required(at_targets, message);
        }
        ([], _) | (_, []) => {}
        _ => {
            let message = "targetWWNs and wwids can not be specified simultaneously";
            finder.invalid(at_targets, &targets.into(), message);
        }
    }
    if targets.is_empty() {
        return;
    }
    match number(source, "lun") {
        None => {
            let message = "lun is required if targetWWNs is specified";
            finder.required(child(at, "lun"), message);
        }
        Some(lun) if !(0..=255).contains(&lun) => {
            let message = "must be between 0 and 255, inclusive";
            finder.invalid(child(at, "lun"), &lun.into(), message);
        }
        Some(_) => {}
    }
}

/// Checks that the options of a flex volume use no reserved names.
fn flex(finder: &mut Finder<'_>, source: &Body, at: &str) {
    let options = map(source, "options").into_iter().flatten();
    for (key, _) in options {
        let domain = key
            .split_once('/')
            .map_or(key.as_str(), |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let message = "kubernetes.io and k8s.io namespaces are reserved";
            let at = format!("{at}.options[{key}]");
            finder.invalid(at, &key.as_str().into(), message);
        }
    }
}

fn flocker(finder: &mut Finder<'_>, source: &Body, at: &str) {
    let (name, id) = (text(source, "datasetName"), text(source, "datasetUUID"));
    if name.is_empty() && id.is_empty() {
        finder.required(at, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !id.is_empty() {
        let message = "datasetName and datasetUUID can not be specified simultaneously";
        finder.invalid(at, &"resource".into(), message);
    }
    if name.contains('/') {
        finder.invalid(
            child(at, "datasetName"),
            &name.into(),
            "must not contain '/'",
        );
    }
}

fn quobyte(finder: &mut Finder<'_>, source: &Body, at: &str) {
    let registry = text(source, "registry");
    let at = child(at, "registry");
    let message = "must be a host:port pair or multiple pairs separated by commas";
    if registry.is_empty() {
        return finder.required(at, message);
    }
    for _ in registry.split(',').filter(|pair| !pair.contains(':')) {
        finder.invalid(at.as_str(), &registry.into(), message);
    }
}

fn azure_disk(finder: &mut Finder<'_>, source: &Body, at: &str) {
    let (kind, address) = (text(source, "kind"), text(source, "diskURI"));
    let (start, known) = if kind == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        (
            "https://",
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
        )
    };
    if !kind.is_empty() && !address.starts_with(start) {
        finder.unsupported(child(at, "diskURI"), &address.into(), &[known]);
    }
}

fn csi_inline(finder: &mut Finder<'_>, source: &Body, at: &str) {
    let Some(secret) = map(source, "nodePublishSecretRef") else {
        return;
    };
    match text(secret, "name") {
        "" => finder.required(child(at, "nodePublishSecretRef.name"), ""),
        name => format::check(finder, "name", &child(at, "name"), &name.into()),
    }
}

fn csi_volume(finder: &mut Finder<'_>, source: &Body, at: &str) {
    for field in [
        "controllerPublishSecretRef",
        "nodePublishSecretRef",
        "controllerExpandSecretRef",
        "nodeExpandSecretRef",
    ] {
        let Some(secret) = map(source, field) else {
            continue;
        };
        for (part, form) in [("name", "subdomain"), ("namespace", "label")] {
            let (at, value) = (format!("{at}.{field}.{part}"), text(secret, part));
            if value.is_empty() {
                finder.required(at, "");
            } else {
                format::check(finder, form, &at, &value.into());
            }
        }
    }
}

/// Checks that a reference to a Secret has a name.
fn secret_ref(finder: &mut Finder<'_>, source: &Body, at: &str) {
    let secret = map(source, "secretRef");
    if secret.is_some_and(|secret| text(secret, "name").is_empty()) {
        finder.required(child(at, "secretRef.name"), "");
    }
}

fn ephemeral(finder: &mut Finder<'_>, source: &Body, at: &str) {
    let at = child(at, "volumeClaimTemplate");
    let Some(template) = map(source, "volumeClaimTemplate") else {
        return finder.required(at, "");
    };
    let meta = map(template, "metadata").into_iter().flatten();
    for (field, _) in meta.filter(|(field, _)| *field != "labels" && *field != "annotations") {
        finder.forbidden(format!("{at}.metadata.{field}"), "cannot be set");
    }
}

fn image_volume(finder: &mut Finder<'_>, source: &Body, at: &str) {
    if finder.kind.is_core("pods") && text(source, "reference").is_empty() {
        finder.required(child(at, "reference"), "");
    }
}

/// Checks a downward API file; errors name the list instead of the item.
fn file(finder: &mut Finder<'_>, file: &Body, at: &str) {
    let at = at.rsplit_once(".items[").map_or(at, |(list, _)| list);
    let path = text(file, "path");
    if path.is_empty() {
        finder.required(child(at, "path"), "");
    }
    format::check(finder, "localpath", &child(at, "path"), &path.into());
    match (map(file, "fieldRef"), map(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            reference::field(finder, field, &child(at, "fieldRef"), &reference::OF_FILES);
            if resource.is_some() {
                let message = "fieldRef and resourceFieldRef can not be specified simultaneously";
                finder.invalid(at, &"resource".into(), message);
            }
        }
        (None, Some(resource)) => {
            reference::resource(finder, resource, &child(at, "resourceFieldRef"), true);
        }
        (None, None) => finder.required(at, "one of fieldRef and resourceFieldRef is required"),
    }
    if let Some(mode) = number(file, "mode").filter(|mode| !(0..=0o777).contains(mode)) {
        finder.invalid(child(at, "mode"), &mode.into(), MODE);
    }
}

/// Checks a projected volume: each path may occur once, and each entry has one source.
fn projected(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let mut paths: HashSet<&str> = HashSet::new();
    for (at_source, source) in maps(body, "sources", at) {
        for field in ["secret", "configMap", "downwardAPI"] {
            let Some(found) = map(source, field) else {
                continue;
            };
            for item in items(found, "items") {
                let path = item["path"].as_str().unwrap_or_default();
                if !path.is_empty() && !paths.insert(path) {
                    let blamed = match field {
                        "downwardAPI" => path,
                        _ => text(found, "name"),
                    };
                    finder.invalid(at, &blamed.into(), "conflicting duplicate paths");
                }
            }
        }
        if let Some(token) = map(source, "serviceAccountToken") {
            a_token(finder, token, at, &child(&at_source, "serviceAccountToken"));
        }
        if source.len() > 1 {
            let message = "may not specify more than 1 volume type per source";
            finder.forbidden(at_source, message);
        }
    }
}

/// Checks a service account token; errors of its path name the volume.
fn a_token(finder: &mut Finder<'_>, token: &Body, at: &str, at_token: &str) {
    let message = match number(token, "expirationSeconds") {
        Some(seconds) if seconds < 600 => "may not specify a duration less than 10 minutes",
        Some(seconds) if seconds > 1 << 32 => "may not specify a duration larger than 2^32 seconds",
        _ => "",
    };
    if !message.is_empty() {
        let value = &token["expirationSeconds"];
        finder.invalid(child(at_token, "expirationSeconds"), value, message);
    }
    let (path, at) = (text(token, "path"), child(at, "path"));
    if path.is_empty() {
        finder.required(at, "");
    } else {
        format::check(finder, "localpath", &at, &path.into());
    }
}

/// Checks the source of a `PersistentVolume` against its spec.
pub(super) fn of_volume(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let mut found = ORDER.iter().filter(|name| spec.contains_key(**name));
    if found.next().is_none() {
        finder.required(at, "must specify a volume type");
    }
    for other in found {
        finder.forbidden(child(at, other), "may not specify more than 1 volume type");
    }
    let folder = at_path(spec, ".hostPath.path").and_then(Value::as_str);
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" && folder == Some("/") {
        let message = "may not be 'recycle' for a hostPath mount of '/'";
        finder.forbidden(child(at, "persistentVolumeReclaimPolicy"), message);
    }
    match map(spec, "nodeAffinity") {
        None if spec.contains_key("local") => {
            let message = "Local volume requires node affinity";
            finder.required(child(at, "nodeAffinity"), message);
        }
        Some(affinity) if !affinity.contains_key("required") => {
            let message = "must specify required node constraints";
            finder.required(child(at, "nodeAffinity.required"), message);
        }
        _ => {}
    }
    let field = "volumeAttributesClassName";
    if let Some(class) = spec.get(field).and_then(Value::as_str) {
        if class.is_empty() {
            finder.required(child(at, field), "an empty string is disallowed");
        } else {
            format::check(finder, "subdomain", &child(at, field), &class.into());
        }
        if !spec.contains_key("csi") {
            let message = "has to be specified when using volumeAttributesClassName";
            finder.required(child(at, "csi"), message);
        }
    }
}

/// The volume sources in the order in which the real server checks them.
const ORDER: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];
