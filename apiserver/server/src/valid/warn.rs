//! Warnings about accepted objects.
//!
//! The text of warnings matches the real server. Independent of validation errors.

mod address;
mod key_pair;
mod label;
mod path;
mod pod;

use std::borrow::Cow;

use serde_json::{Value, json};

use super::finder::{is_empty, map, maps, number};
use super::resource::amount;
use crate::kind::{Kind, defaults};
use crate::object::{Body, at_path, meta_text, metadata, text};
use crate::rules::names;

/// Returns the warnings for an object of a built-in kind, with or without defaults.
pub(crate) fn warnings(kind: &Kind, old: Option<&Body>, body: &Body) -> Vec<String> {
    if !kind.traits.builtin {
        return Vec::new();
    }
    let empty = Body::new();
    let spec = map(body, "spec").unwrap_or(&empty);
    match kind.kind.as_str() {
        "Pod" if old.is_none() => pod_warnings(kind, body),
        "Deployment"
        | "ReplicaSet"
        | "ReplicationController"
        | "StatefulSet"
        | "DaemonSet"
        | "Job"
        | "CronJob"
        | "PodTemplate" => workload(kind, old, body),
        "Service" => service(body, spec),
        "EndpointSlice" => slice(old, body),
        "Endpoints" => endpoints(body),
        "Ingress" if old.is_none() => ingress(body, spec),
        "NetworkPolicy" => network_policy(spec),
        "Node" => node(&filled(kind, body)),
        "PersistentVolume" => volume(body, spec),
        "PersistentVolumeClaim" => claim(body, spec),
        "ResourceQuota" if old.is_none() => quota(spec),
        "RuntimeClass" => label::runtime_class(body),
        "Secret" if text(body, "type") == "kubernetes.io/tls" => {
            key_pair::warning(body).into_iter().collect()
        }
        "ServiceAccount" => account(old, body),
        "StorageClass" => label::storage_class(body),
        "CSIStorageCapacity" => label::capacity(body),
        _ => Vec::new(),
    }
}

fn annotations(body: &Body) -> &Body {
    static NONE: std::sync::LazyLock<Body> = std::sync::LazyLock::new(Body::new);
    let found = metadata(body).and_then(|meta| map(meta, "annotations"));
    found.unwrap_or(&NONE)
}

fn filled<'a>(kind: &Kind, body: &'a Body) -> Cow<'a, Body> {
    let mut body = body.clone();
    defaults::fill(kind, &mut body);
    Cow::Owned(body)
}

/// Warns of a name that cannot be part of other names; a generated name counts with one more letter.
fn name_warning(body: &Body, of: &str) -> Option<String> {
    let name = match (meta_text(body, "name"), meta_text(body, "generateName")) {
        ("", start) => format!("{start}x"),
        (name, _) => name.to_owned(),
    };
    let why = match names::label(&name)? {
        _ if name.len() > 63 => "must be no more than 63 characters".to_owned(),
        why => why,
    };
    Some(format!(
        "metadata.name: this is used in {of}, which can result in surprising behavior; a DNS label is recommended: [{why}]"
    ))
}

fn pod_warnings(kind: &Kind, body: &Body) -> Vec<String> {
    let mut told: Vec<String> = name_warning(body, "the Pod's hostname")
        .into_iter()
        .collect();
    let body = filled(kind, body);
    told.extend(pod::warnings(&body, ""));
    told
}

/// Warns of a template; only if its owner is new or the template changed.
fn workload(kind: &Kind, old: Option<&Body>, body: &Body) -> Vec<String> {
    let body = filled(kind, body);
    let mut told = Vec::new();
    let named = [
        "Deployment",
        "ReplicaSet",
        "ReplicationController",
        "Job",
        "CronJob",
    ];
    if old.is_none() && named.contains(&kind.kind.as_str()) {
        told.extend(name_warning(&body, "Pod names and hostnames"));
    }
    let at = match kind.kind.as_str() {
        "CronJob" => "spec.jobTemplate.spec.template",
        "PodTemplate" => "template",
        _ => "spec.template",
    };
    let whole = if kind.kind == "PodTemplate" {
        "template"
    } else {
        "spec"
    };
    let counts = if kind.kind == "DaemonSet" { at } else { whole };
    let path = format!(".{counts}");
    let same = old.is_some_and(|old| {
        let noted = kind.kind != "Deployment" || annotations(old) == annotations(&body);
        noted && at_path(old, &path) == at_path(&body, &path)
    });
    let looked_at = match old {
        // The real server has a bug here: it looks at the old object.
        Some(old) if kind.kind == "ReplicationController" => old,
        _ => &body,
    };
    let template = at_path(looked_at, &format!(".{at}")).and_then(Value::as_object);
    if let Some(template) = template.filter(|_| !same) {
        told.extend(many_indexes(&body, at));
        told.extend(pod::warnings(template, at));
    }
    match kind.kind.as_str() {
        "StatefulSet" => stateful_set(old, &body, &mut told),
        "CronJob" if old.is_some() && at_path(&body, ".spec.schedule").is_some_and(has_zone) => {
            told.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
        }
        _ => {}
    }
    told
}

fn has_zone(schedule: &Value) -> bool {
    schedule.as_str().is_some_and(|text| text.contains("TZ"))
}

/// Warns of a Job with very many indexes.
fn many_indexes(body: &Body, at: &str) -> Option<String> {
    let at = at.strip_suffix(".template")?;
    let spec = at_path(body, &format!(".{at}"))?.as_object()?;
    let many = text(spec, "completionMode") == "Indexed"
        && number(spec, "completions")? > 100_000
        && number(spec, "parallelism")? > 10_000;
    many.then(|| format!("{at}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"))
}

fn stateful_set(old: Option<&Body>, body: &Body, told: &mut Vec<String>) {
    let empty = Body::new();
    let spec = map(body, "spec").unwrap_or(&empty);
    for (at, claim) in maps(spec, "volumeClaimTemplates", "spec") {
        let at = if old.is_some() {
            format!("{at}.Spec")
        } else {
            at
        };
        told.extend(claim_spec(map(claim, "spec").unwrap_or(&empty), &at));
    }
    if number(spec, "revisionHistoryLimit").is_some_and(|limit| limit < 0) {
        told.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
    }
}

/// Warns of a fractional number of bytes.
fn fraction(resources: &Body, list: &str, name: &str, at: &str) -> Option<String> {
    let value = map(resources, list)?.get(name)?;
    let fractional = amount(value)? % 1_000_000_000 != 0;
    let shown = value.as_str().unwrap_or_default();
    fractional.then(|| {
        format!(
            "{at}.{list}[{name}]: fractional byte value {shown:?} is invalid, must be an integer"
        )
    })
}

fn claim_spec(spec: &Body, at: &str) -> Vec<String> {
    let empty = Body::new();
    let resources = map(spec, "resources").unwrap_or(&empty);
    ["requests", "limits"]
        .into_iter()
        .filter_map(|list| fraction(resources, list, "storage", &format!("{at}.resources")))
        .collect()
}

fn claim(body: &Body, spec: &Body) -> Vec<String> {
    let key = "volume.beta.kubernetes.io/storage-class";
    let old = annotations(body).contains_key(key);
    let why = "deprecated since v1.8; use \"storageClassName\" attribute instead";
    let old = old.then(|| format!("metadata.annotations[{key}]: {why}"));
    old.into_iter().chain(claim_spec(spec, "spec")).collect()
}

fn volume(body: &Body, spec: &Body) -> Vec<String> {
    let mut told = Vec::new();
    for (key, why) in [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (
            "volume.beta.kubernetes.io/mount-options",
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ] {
        if annotations(body).contains_key(key) {
            told.push(format!("metadata.annotations[{key}]: {why}"));
        }
    }
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
        told.push(format!("spec.persistentVolumeReclaimPolicy: {why}"));
    }
    let required = map(spec, "nodeAffinity").and_then(|affinity| map(affinity, "required"));
    if let Some(required) = required {
        let at = "spec.nodeAffinity.required";
        for (at, term) in maps(required, "nodeSelectorTerms", at) {
            told.extend(label::of_term(term, false, &at));
        }
    }
    let gone = pod::GONE
        .iter()
        .filter(|(name, _)| *name != "quobyte" && *name != "flocker");
    told.extend(
        gone.filter(|(name, _)| spec.contains_key(*name))
            .map(|(name, why)| format!("spec.{name}: {why}")),
    );
    told
}

fn node(body: &Body) -> Vec<String> {
    let mut told = Vec::new();
    let Some(spec) = map(body, "spec") else {
        return told;
    };
    if !text(spec, "externalID").is_empty() {
        let why = "this field is deprecated, and is unused by Kubernetes";
        told.push(format!("spec.externalID: {why}"));
    }
    told.extend(address::of_blocks(spec, "podCIDRs", "spec"));
    told
}

fn slice(old: Option<&Body>, body: &Body) -> Vec<String> {
    let mut told = Vec::new();
    if old.is_none() && text(body, "addressType") == "FQDN" {
        told.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    if text(body, "addressType") != "IPv4" {
        return told;
    }
    for (at, endpoint) in maps(body, "endpoints", "") {
        told.extend(address::of_list(endpoint, "addresses", &at));
    }
    told
}

fn endpoints(body: &Body) -> Vec<String> {
    let mut told = Vec::new();
    for (at, subset) in maps(body, "subsets", "") {
        for list in ["addresses", "notReadyAddresses"] {
            for (at, found) in maps(subset, list, &at) {
                told.extend(address::of_one(text(found, "ip"), &format!("{at}.ip")));
            }
        }
    }
    told
}

fn ingress(body: &Body, spec: &Body) -> Vec<String> {
    let key = "kubernetes.io/ingress.class";
    let old = annotations(body).contains_key(key) && !spec.contains_key("ingressClassName");
    old.then(|| {
        format!("annotation {key:?} is deprecated, please use 'spec.ingressClassName' instead")
    })
    .into_iter()
    .collect()
}

fn network_policy(spec: &Body) -> Vec<String> {
    let mut told = Vec::new();
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in maps(spec, rules, "spec") {
            for (at, peer) in maps(rule, peers, &at) {
                let Some(block) = map(peer, "ipBlock") else {
                    continue;
                };
                let at = format!("{at}.ipBlock");
                told.extend(address::of_block(
                    text(block, "cidr"),
                    &format!("{at}.cidr"),
                ));
                told.extend(address::of_blocks(block, "except", &at));
            }
        }
    }
    told
}

fn quota(spec: &Body) -> Vec<String> {
    let empty = Body::new();
    let hard = map(spec, "hard").unwrap_or(&empty);
    let mut told = Vec::new();
    for name in ["cpu", "memory", "ephemeral-storage"] {
        let request = format!("requests.{name}");
        let plain = name != "ephemeral-storage" && !hard.contains_key(&request);
        let request = if plain { name.to_owned() } else { request };
        let limit = format!("limits.{name}");
        let (Some(less), Some(more)) = (hard.get(&request), hard.get(&limit)) else {
            continue;
        };
        if amount(less) > amount(more) {
            let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            told.push(format!(
                "ResourceQuota {request} ({}) should be less than {limit} ({})",
                shown(less),
                shown(more)
            ));
        }
    }
    told
}

fn account(old: Option<&Body>, body: &Body) -> Vec<String> {
    let key = "kubernetes.io/enforce-mountable-secrets";
    let has = |body: &Body| annotations(body).contains_key(key);
    if !has(body) || old.is_some_and(has) {
        return Vec::new();
    }
    let why =
        "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
    vec![format!("metadata.annotations[{key}]: {why}")]
}

fn service(body: &Body, spec: &Body) -> Vec<String> {
    let mut told = Vec::new();
    let hints = "service.kubernetes.io/topology-aware-hints";
    if annotations(body).contains_key(hints) {
        told.push(format!(
            "annotation {hints} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    told.extend(address::of_list(spec, "clusterIPs", "spec"));
    let of = text(spec, "type");
    let headless = matches!(of, "" | "ClusterIP")
        && (text(spec, "clusterIP") == "None" || spec.get("clusterIPs") == Some(&json!(["None"])));
    if headless {
        let ignored = [
            ("loadBalancerIP", !is_empty(spec.get("loadBalancerIP"))),
            ("externalIPs", !is_empty(spec.get("externalIPs"))),
            (
                "SessionAffinity",
                !matches!(text(spec, "sessionAffinity"), "" | "None"),
            ),
        ];
        let ignored = ignored.into_iter().filter(|(_, set)| *set);
        told.extend(
            ignored.map(|(field, _)| format!("spec.{field} is ignored for headless services")),
        );
    }
    told.extend(address::of_list(spec, "externalIPs", "spec"));
    let addresses = !is_empty(spec.get("externalIPs"));
    if addresses && of != "ExternalName" && !headless {
        let why = "is deprecated and may no longer be implemented in some clusters";
        told.push(format!("spec.externalIPs {why}"));
    }
    let balancer = text(spec, "loadBalancerIP");
    told.extend(address::of_one(balancer, "spec.loadBalancerIP"));
    told.extend(address::of_blocks(spec, "loadBalancerSourceRanges", "spec"));
    if addresses && of == "ExternalName" {
        told.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if of != "ExternalName" && !text(spec, "externalName").is_empty() {
        let why = "is ignored when spec.type is not \"ExternalName\"";
        told.push(format!("spec.externalName {why}"));
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        let why = "\"PreferClose\" is deprecated; use \"PreferSameZone\"";
        told.push(format!("spec.trafficDistribution: {why}"));
    }
    told
}
