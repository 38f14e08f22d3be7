//! Builds discovery documents, plain and aggregated, from the table of kinds.
//!
//! Both forms have the same content. Independent of requests.

use serde_json::{Value, json};

use super::{Group, Kind, Kinds, Version, api_version};

/// Returns the page `/api`.
pub(crate) fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// Returns the page `/apis`.
pub(crate) fn groups(kinds: &Kinds) -> Value {
    let groups: Vec<Value> = named_groups(kinds)
        .map(|g| describe_group(g, false))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns the page `/apis/GROUP`.
pub(crate) fn group(kinds: &Kinds, name: &str) -> Option<Value> {
    named_groups(kinds)
        .find(|group| group.name == name)
        .map(|group| describe_group(group, true))
}

/// Returns the page `/api/v1` or `/apis/GROUP/VERSION`.
pub(crate) fn resources(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let found = kinds.version(group, version)?;
    let mut resources = Vec::new();
    for kind in found.kinds.values() {
        resources.push(describe_kind(kind));
        for name in kind.subresources() {
            resources.push(describe_subresource(kind, name));
        }
    }
    let mut page = json!({
        "kind": "APIResourceList",
        "groupVersion": api_version(group, version),
        "resources": resources,
    });
    // The real server omits `apiVersion` for the core group.
    if !group.is_empty() {
        page["apiVersion"] = "v1".into();
    }
    Some(page)
}

/// Returns the page `/api` or `/apis` in the aggregated form.
pub(crate) fn aggregated(kinds: &Kinds, core: bool) -> Value {
    let items: Vec<Value> = kinds
        .groups
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(aggregate_group)
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn named_groups(kinds: &Kinds) -> impl Iterator<Item = &Group> {
    kinds.groups.iter().filter(|group| !group.name.is_empty())
}

fn describe_group(group: &Group, alone: bool) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            json!({
                "groupVersion": api_version(&group.name, &version.name),
                "version": version.name,
            })
        })
        .collect();
    let mut answer = json!({
        "name": group.name,
        "versions": versions,
        "preferredVersion": versions.first(),
    });
    if alone {
        answer["kind"] = "APIGroup".into();
        answer["apiVersion"] = "v1".into();
    }
    answer
}

fn describe_kind(kind: &Kind) -> Value {
    let mut answer = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.discovered_verbs(),
    });
    if !kind.short_names.is_empty() {
        answer["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        answer["categories"] = json!(kind.categories);
    }
    if kind.verbs().contains(&"create") && !kind.traits.review {
        answer["storageVersionHash"] = storage_hash(kind).into();
    }
    answer
}

/// Returns eight bytes that change with the stored version; clients only compare them.
fn storage_hash(kind: &Kind) -> String {
    use base64::Engine as _;
    let text = format!("{}/{}/{}", kind.group, kind.stored_version, kind.kind);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    base64::engine::general_purpose::STANDARD.encode(hash.to_be_bytes())
}

fn describe_subresource(kind: &Kind, name: &str) -> Value {
    let mut answer = json!({
        "name": format!("{}/{name}", kind.plural),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": subresource_verbs(name),
    });
    if let Some((group, word)) = foreign(&kind.kind, name) {
        answer["kind"] = word.into();
        if !group.is_empty() {
            answer["group"] = group.into();
            answer["version"] = "v1".into();
        }
    }
    answer
}

/// Returns group and kind of the object that a subresource reads or writes, if it differs from the main object.
pub(super) fn foreign(kind: &str, name: &str) -> Option<(&'static str, &'static str)> {
    match name {
        "proxy" => Some((
            "",
            match kind {
                "Node" => "NodeProxyOptions",
                "Pod" => "PodProxyOptions",
                _ => "ServiceProxyOptions",
            },
        )),
        "scale" => Some(("autoscaling", "Scale")),
        "token" => Some(("authentication.k8s.io", "TokenRequest")),
        "eviction" => Some(("policy", "Eviction")),
        "binding" => Some(("", "Binding")),
        "attach" => Some(("", "PodAttachOptions")),
        "exec" => Some(("", "PodExecOptions")),
        "portforward" => Some(("", "PodPortForwardOptions")),
        _ => None,
    }
}

pub(super) fn subresource_verbs(name: &str) -> &'static [&'static str] {
    match name {
        "token" | "eviction" | "binding" => &["create"],
        "attach" | "exec" | "portforward" => &["create", "get"],
        "log" => &["get"],
        "proxy" => &["create", "delete", "get", "patch", "update"],
        "finalize" => &["update"],
        _ => &["get", "patch", "update"],
    }
}

fn aggregate_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| aggregate_version(group, version))
        .collect();
    let metadata = if group.name.is_empty() {
        json!({})
    } else {
        json!({"name": group.name})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregate_version(group: &Group, version: &Version) -> Value {
    let resources: Vec<Value> = version
        .kinds
        .values()
        .map(|kind| aggregate_kind(group, version, kind))
        .collect();
    json!({"version": version.name, "resources": resources, "freshness": "Current"})
}

fn aggregate_kind(group: &Group, version: &Version, kind: &Kind) -> Value {
    // Built-in kinds omit the group and the version if they equal those of the page.
    let told = |of: &str, word: &str| {
        if kind.traits.builtin && of == group.name {
            json!({"group": "", "version": "", "kind": word})
        } else {
            json!({"group": of, "version": "v1", "kind": word})
        }
    };
    let mut response_kind = told(&group.name, &kind.kind);
    if !kind.traits.builtin {
        response_kind["version"] = json!(version.name);
    }
    let mut answer = json!({
        "resource": kind.plural,
        "responseKind": response_kind,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.discovered_verbs(),
    });
    if !kind.short_names.is_empty() {
        answer["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        answer["categories"] = json!(kind.categories);
    }
    let subresources: Vec<Value> = kind
        .subresources()
        .into_iter()
        .map(|name| {
            let read = match foreign(&kind.kind, name) {
                Some((group, word)) => told(group, word),
                None => response_kind.clone(),
            };
            json!({"subresource": name, "responseKind": read, "verbs": subresource_verbs(name)})
        })
        .collect();
    if !subresources.is_empty() {
        answer["subresources"] = subresources.into();
    }
    answer
}
