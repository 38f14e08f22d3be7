//! Volumes of Pods and where they are mounted.
//!
//! Promise: each mount is of a volume that is there. Must not know claims' own rules.

use std::collections::HashSet;

use serde_json::Value;

use super::finder::{Finder, child, items, map, maps};
use super::format::inner_path;
use super::rule::Named;
use crate::object::{Body, at_path, text};

pub(super) const NAMED: Named = &[("volume", volume), ("token", token)];

/// A token is of an account.
fn token(finder: &mut Finder<'_>, _: &Body, at: &str) {
    let account = at_path(finder.root, ".spec.serviceAccountName").and_then(Value::as_str);
    if finder.kind.is_core("pods") && account.unwrap_or_default().is_empty() {
        finder.forbidden(
            at,
            "must not be specified when serviceAccountName is not set",
        );
    }
}

/// A volume is of one kind.
fn volume(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let sources = body
        .iter()
        .filter(|(name, value)| *name != "name" && value.is_object());
    let mut names: Vec<&String> = sources.map(|(name, _)| name).collect();
    // The first counts, and an empty folder comes before all others.
    names.sort_by_key(|name| *name != "emptyDir");
    if names.is_empty() {
        finder.required(at, "must specify a volume type");
    }
    for name in names.into_iter().skip(1) {
        finder.forbidden(child(at, name), "may not specify more than 1 volume type");
    }
}

/// Volumes have names of their own, and mounts know them.
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
        }
    }
}

/// The volumes that a `StatefulSet` adds to its template.
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
        for field in ["subPath", "subPathExpr"] {
            let inner = text(mount, field);
            if !inner.is_empty() {
                // The real server leaves the number of the mount out of these paths.
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
