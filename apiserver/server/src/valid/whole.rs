//! Validates resources at the level of the Pod, and resource claims.
//!
//! The sum of the containers must fit into the resources of the Pod. Independent of nodes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::finder::{Finder, child, items, map, maps};
use super::resource::{amount, check_name, requirements_of};
use super::rule::Named;
use crate::kind::defaults::summed;
use crate::object::{Body, text};
use crate::rules::names;

pub(super) const NAMED: Named = &[("whole", whole)];

fn whole(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    asked(finder, spec, &child(at, "resourceClaims"));
    let Some(resources) = map(spec, "resources") else {
        return;
    };
    let at = child(at, "resources");
    if map(spec, "os").is_some_and(|os| text(os, "name") == "windows") {
        finder.forbidden(at, "may not be set for a windows pod");
        return;
    }
    if resources.get("claims").is_some_and(Value::is_array) {
        let message = "claims may not be set for Resources at pod-level";
        finder.forbidden(child(&at, "claims"), message);
    }
    requirements_of(finder, resources, &at, check_whole_name);
    claims(finder, resources, &at);
    compare(finder, spec, resources, &at);
}

/// Checks a resource name; Pods support only some resources.
fn check_whole_name(finder: &mut Finder<'_>, name: &str, at: &str) {
    let known = matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    if !check_name(finder, name, at) && !known {
        finder.unsupported(at, &name.into(), &["cpu", "hugepages-", "memory"]);
    }
}

/// Checks that the sum of the containers fits into the resources of the Pod.
fn compare(finder: &mut Finder<'_>, spec: &Body, resources: &Body, at: &str) {
    let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for (list, rigid_only) in [("requests", false), ("limits", true)] {
        for (name, sum) in summed(spec, list) {
            let asked = map(resources, list).and_then(|list| list.get(&name));
            let counts = !rigid_only || name.starts_with("hugepages-");
            if let Some(asked) = asked.filter(|asked| counts && amount(&sum) > amount(asked)) {
                let message = format!(
                    "must be greater than or equal to aggregate container {list} of {}",
                    shown(&sum)
                );
                finder.invalid(format!("{at}.{list}[{name}]"), asked, &message);
            }
        }
    }
    let most = map(resources, "limits");
    for (index, container) in items(spec, "containers").iter().enumerate() {
        let limits = container["resources"]["limits"].as_object();
        for (name, limit) in limits.into_iter().flatten() {
            let most = most.and_then(|most| most.get(name));
            if let Some(most) = most.filter(|most| amount(limit) > amount(most)) {
                let at = format!("{at}.containers[{index}][{name}].limits");
                let message = format!(
                    "must be less than or equal to pod limits of {}",
                    shown(most)
                );
                finder.invalid(at, limit, &message);
            }
        }
    }
}

/// Checks the resource claims of a Pod: unique names, and exactly one kind of source.
fn asked(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let mut seen = BTreeSet::new();
    for (index, claim) in items(spec, "resourceClaims").iter().enumerate() {
        let Some(claim) = claim.as_object() else {
            continue;
        };
        let at = format!("{at}[{index}]");
        let name = text(claim, "name");
        if name.is_empty() {
            finder.required(child(&at, "name"), "");
        } else if seen.insert(name) {
            let messages = names::label(name).into_iter().collect();
            finder.all(&child(&at, "name"), &name.into(), messages);
        } else {
            finder.duplicate(child(&at, "name"), &name.into());
        }
        let ways = ["resourceClaimName", "resourceClaimTemplateName"];
        let message = match ways.map(|way| claim.contains_key(way)) {
            [true, true] => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            [false, false] => {
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            }
            _ => "",
        };
        if !message.is_empty() {
            let [one, other] = ways.map(|way| claim.get(way).unwrap_or(&Value::Null));
            let shown = format!(
                "{{\"Name\":{name:?},\"ResourceClaimName\":{one},\"ResourceClaimTemplateName\":{other}}}"
            );
            finder.invalid_as(at.as_str(), &shown, message);
        }
        for way in ways {
            if let Some(found) = claim.get(way).and_then(Value::as_str) {
                let messages = names::subdomain(found).into_iter().collect();
                finder.all(&child(&at, way), &found.into(), messages);
            }
        }
    }
}

/// Checks the references of a container to the claims of its Pod.
pub(super) fn claims(finder: &mut Finder<'_>, resources: &Body, at: &str) {
    let specs = [".spec", ".spec.template.spec", ".template.spec"];
    let pod = specs
        .iter()
        .find_map(|path| crate::object::at_path(finder.root, path)?.as_object());
    let pod = pod.map_or(&[][..], |spec| items(spec, "resourceClaims"));
    let known: BTreeSet<&str> = pod
        .iter()
        .filter_map(|claim| claim["name"].as_str())
        .collect();
    let mut seen = BTreeSet::new();
    for (at, claim) in maps(resources, "claims", at) {
        let name = text(claim, "name");
        if name.is_empty() {
            finder.required(at, "");
            continue;
        }
        repeated(finder, &mut seen, claim, &at);
        if !known.contains(name) {
            let of = if known.is_empty() {
                " which is empty".to_owned()
            } else {
                let known: Vec<&str> = known.iter().copied().collect();
                format!(": {}", known.join(", "))
            };
            let why = format!("must be one of the names in pod.spec.resourceClaims{of}");
            finder.not_found_as(at, &format!("{name:?}: {why}"));
        }
    }
}

/// Records the use of a whole claim or of one request; adds an error if it was recorded before.
fn repeated(finder: &mut Finder<'_>, seen: &mut BTreeSet<String>, claim: &Body, at: &str) {
    let (name, request) = (text(claim, "name"), text(claim, "request"));
    if seen.contains(name) {
        finder.duplicate(at, &name.into());
        return;
    }
    let mut key = name.to_owned();
    if request.is_empty() {
        let parts = seen
            .iter()
            .filter(|part| part.split('/').next() == Some(name));
        for _ in 0..parts.count() {
            finder.duplicate(at, &name.into());
        }
    } else {
        let messages = names::label(request).into_iter().collect();
        finder.all(&child(at, "request"), &request.into(), messages);
        key = format!("{name}/{request}");
        if seen.contains(&key) {
            finder.duplicate(at, &key.as_str().into());
        }
    }
    seen.insert(key);
}
