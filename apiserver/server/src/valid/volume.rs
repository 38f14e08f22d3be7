//! Validates volumes of Pods and their mounts.
//!
//! Each mount must name an existing volume. Independent of the rules for claims.

use std::collections::HashSet;

use serde_json::Value;

use super::finder::{Finder, child, is_true, items, map, maps};
use super::format::inner_path;
use super::rule::Named;
use crate::object::{Body, at_path, text};

pub(super) const NAMED: Named = &[("volume", volume), ("token", token)];

/// Checks that a projected token belongs to a service account.
fn token(finder: &mut Finder<'_>, _: &Body, at: &str) {
    let account = at_path(finder.root, ".spec.serviceAccountName").and_then(Value::as_str);
    if finder.kind.is_core("pods") && account.unwrap_or_default().is_empty() {
        finder.forbidden(
            at,
            "must not be specified when serviceAccountName is not set",
        );
    }
}

/// Checks that a volume has exactly one source.
fn volume(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let sources = body
        .iter()
        .filter(|(name, value)| *name != "name" && value.is_object());
    let mut names: Vec<&String> = sources.map(|(name, _)| name).collect();
    // All sources after the first are errors; an `emptyDir` always comes first.
    names.sort_by_key(|name| *name != "emptyDir");
    if names.is_empty() {
        finder.required(at, "must specify a volume type");
    }
    for name in names.into_iter().skip(1) {
        finder.forbidden(child(at, name), "may not specify more than 1 volume type");
    }
}

/// Checks that volume names are unique, and that mounts name existing volumes.
pub(super) fn check(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let mut names = HashSet::new();
    for (at, volume) in maps(spec, "volumes", at) {
        let name = text(volume, "name");
        if !names.insert(name) {
            finder.duplicate(child(&at, "name"), &name.into());
        }
    }
    let claims = claimed(finder.root, at);
    names.extend(claims.iter().map(String::as_str));
    for list in ["containers", "initContainers"] {
        for (at, container) in maps(spec, list, at) {
            mounts(finder, container, &at, &names);
            devices(finder, spec, container, &at, &names);
        }
    }
}

/// Returns the volumes that a `StatefulSet` adds to its template.
fn claimed(root: &Body, at: &str) -> Vec<String> {
    if at != "spec.template.spec" {
        return Vec::new();
    }
    let templates = map(root, "spec").map_or(&[][..], |spec| items(spec, "volumeClaimTemplates"));
    templates
        .iter()
        .filter_map(|template| at_path(template.as_object()?, ".metadata.name")?.as_str())
        .map(str::to_owned)
        .collect()
}

fn mounts(finder: &mut Finder<'_>, container: &Body, at: &str, names: &HashSet<&str>) {
    let mut paths = HashSet::new();
    let list_at = child(at, "volumeMounts");
    for (at, mount) in maps(container, "volumeMounts", at) {
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if !names.contains(name) {
            finder.not_found(child(&at, "name"), &name.into());
        }
        if !paths.insert(path) {
            finder.invalid(child(&at, "mountPath"), &path.into(), "must be unique");
        }
        let devices = items(container, "volumeDevices");
        if devices.iter().any(|device| device["name"] == name) {
            let message = "must not already exist in volumeDevices";
            finder.invalid(child(&at, "name"), &name.into(), message);
        }
        if devices.iter().any(|device| device["devicePath"] == path) {
            let message = "must not already exist as a path in volumeDevices";
            finder.invalid(child(&at, "mountPath"), &path.into(), message);
        }
        if !text(mount, "subPath").is_empty() && !text(mount, "subPathExpr").is_empty() {
            let message = "subPathExpr and subPath are mutually exclusive";
            let value = &mount["subPathExpr"];
            finder.invalid(child(&at, "subPathExpr"), value, message);
        }
        for field in ["subPath", "subPathExpr"] {
            let inner = text(mount, field);
            if !inner.is_empty() {
                // The real server omits the index of the mount from these paths.
                finder.all(&child(&list_at, field), &inner.into(), inner_path(inner));
            }
        }
        if let Some(mode) = mount.get("mountPropagation") {
            propagation(
                finder,
                container,
                mode,
                &child(&list_at, "mountPropagation"),
            );
        }
        read_only(finder, mount, &child(&list_at, "recursiveReadOnly"));
    }
}

fn read_only(finder: &mut Finder<'_>, mount: &Body, at: &str) {
    let Some(mode) = mount.get("recursiveReadOnly") else {
        return;
    };
    let known = ["Disabled", "Enabled", "IfPossible"];
    if !known.iter().any(|word| mode == word) {
        return finder.unsupported(at, mode, &known);
    }
    if mode == "Disabled" {
        return;
    }
    if !is_true(mount, "readOnly") {
        finder.forbidden(at, "may only be specified when readOnly is true");
    }
    if !matches!(text(mount, "mountPropagation"), "" | "None") {
        let message = "may only be specified when mountPropagation is None or not specified";
        finder.forbidden(at, message);
    }
}

/// Checks volumes that are used as block devices.
fn devices(
    finder: &mut Finder<'_>,
    spec: &Body,
    container: &Body,
    at: &str,
    names: &HashSet<&str>,
) {
    let mounts: Vec<&Body> = items(container, "volumeMounts")
        .iter()
        .filter_map(Value::as_object)
        .collect();
    let (mut seen, mut paths) = (HashSet::new(), HashSet::new());
    for (at, device) in maps(container, "volumeDevices", at) {
        let (name, path) = (text(device, "name"), text(device, "devicePath"));
        let (at_name, at_path) = (child(&at, "name"), child(&at, "devicePath"));
        let mut told: Vec<(&str, &str, &str)> = Vec::new();
        if !name.is_empty() && !seen.insert(name) {
            told.push((&at_name, name, "must be unique"));
        }
        let volumes = items(spec, "volumes");
        let volume = volumes.iter().find(|volume| volume["name"] == name);
        let fits = volume.is_none_or(|volume| {
            volume.get("persistentVolumeClaim").is_some() || volume.get("ephemeral").is_some()
        });
        if !fits {
            let message = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            told.push((&at_name, name, message));
        }
        if !names.contains(name) {
            finder.not_found(at_name.as_str(), &name.into());
        }
        if paths.contains(path) {
            told.push((&at_path, path, "must be unique"));
        }
        if path.split('/').any(|part| part == "..") {
            told.push((&at_path, path, "can not contain backsteps ('..')"));
        } else {
            paths.insert(path);
        }
        if mounts.iter().any(|mount| text(mount, "name") == name) {
            told.push((&at_name, name, "must not already exist in volumeMounts"));
        }
        if mounts.iter().any(|mount| text(mount, "mountPath") == path) {
            let message = "must not already exist as a path in volumeMounts";
            told.push((&at_path, path, message));
        }
        for (at, value, message) in told {
            finder.invalid(at, &value.into(), message);
        }
    }
}

fn propagation(finder: &mut Finder<'_>, container: &Body, mode: &Value, at: &str) {
    let known = ["Bidirectional", "HostToContainer", "None"];
    if !known.iter().any(|known| mode == known) {
        finder.unsupported(at, mode, &known);
    }
    let privileged = at_path(container, ".securityContext.privileged") == Some(&Value::Bool(true));
    if mode == "Bidirectional" && !privileged {
        let message = "Bidirectional mount propagation is available only to privileged containers";
        finder.forbidden(at, message);
    }
}
