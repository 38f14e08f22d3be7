//! The cells of cluster-level kinds: nodes, volumes, classes and API services.
//!
//! Independent of tables.

use serde_json::Value;

use super::cells::{condition, items, or, parts, quota, text, texts};
use super::find;
use crate::object::{Body, meta_text};

pub(super) fn cell(function: &str, argument: &str, body: &Body) -> Value {
    let shown = match function {
        "@node" => node(body),
        "@roles" => roles(body),
        "@address" => address(body, argument),
        "@kernel" => kernel(body),
        "@modes" => modes(find(body, argument)),
        "@fate" => fate(body),
        "@claim" => claim(body),
        "@class" => class(body),
        "@bound" => bound(body, text(body, argument).to_owned()),
        "@boundmodes" => bound(body, modes(find(body, ".status.accessModes"))),
        "@quota" => quota(body, argument == "limits"),
        "@controller" => controller(body),
        "@parameters" => parameters(body),
        "@parent" => parent(body),
        "@audiences" => audiences(body),
        "@paramkind" => param_kind(body),
        "@paramref" => param_ref(body),
        "@service" => service(body),
        "@available" => available(body),
        "@allocated" => allocated(body),
        "@dangling" => condition(body, "Dangling")
            .and_then(|it| it["status"].as_str())
            .unwrap_or("?")
            .to_owned(),
        _ => String::new(),
    };
    shown.into()
}

/// Returns the state of a device claim.
fn allocated(body: &Body) -> String {
    let deleted = !text(body, ".metadata.deletionTimestamp").is_empty();
    let allocated = find(body, ".status.allocation").is_some();
    let reserved = !items(find(body, ".status.reservedFor")).is_empty();
    let words = [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (allocated && reserved, "reserved"),
    ];
    let words = words.into_iter().filter(|(holds, _)| *holds);
    words.map(|(_, word)| word).collect::<Vec<_>>().join(",")
}

fn node(body: &Body) -> String {
    let ready = condition(body, "Ready").map(|it| it["status"] == "True");
    let mut shown = match ready {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if find(body, ".spec.unschedulable") == Some(&Value::Bool(true)) {
        shown.push_str(",SchedulingDisabled");
    }
    shown
}

fn roles(body: &Body) -> String {
    let labels = find(body, ".metadata.labels").and_then(Value::as_object);
    let role = |(key, value): (&String, &Value)| {
        let named = key
            .strip_prefix("node-role.kubernetes.io/")
            .map(str::to_owned);
        let old =
            (key == "kubernetes.io/role").then(|| value.as_str().unwrap_or_default().to_owned());
        named.or(old).filter(|role| !role.is_empty())
    };
    let mut all: Vec<String> = labels.into_iter().flatten().filter_map(role).collect();
    all.sort();
    all.dedup();
    or(all.join(","), "<none>")
}

fn address(body: &Body, kind: &str) -> String {
    let mut all = items(find(body, ".status.addresses")).iter();
    let found = all.find(|it| it["type"] == kind);
    let shown = found.and_then(|it| it["address"].as_str());
    shown.unwrap_or("<none>").to_owned()
}

fn kernel(body: &Body) -> String {
    let kernel = or(
        text(body, ".status.nodeInfo.kernelVersion").to_owned(),
        "<unknown>",
    );
    match text(body, ".status.nodeInfo.architecture") {
        "" => kernel,
        architecture => format!("{kernel} ({architecture})"),
    }
}

fn modes(found: Option<&Value>) -> String {
    let given = texts(found);
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let shown = known.into_iter().filter(|(mode, _)| given.contains(mode));
    let shown: Vec<&str> = shown.map(|(_, short)| short).collect();
    shown.join(",")
}

fn fate(body: &Body) -> String {
    if meta_text(body, "deletionTimestamp").is_empty() {
        text(body, ".status.phase").to_owned()
    } else {
        "Terminating".to_owned()
    }
}

fn claim(body: &Body) -> String {
    let Some(claim) = find(body, ".spec.claimRef") else {
        return String::new();
    };
    let part = parts(claim);
    format!("{}/{}", part("namespace"), part("name"))
}

fn class(body: &Body) -> String {
    let annotations = find(body, ".metadata.annotations");
    let old = annotations.and_then(|all| all["volume.beta.kubernetes.io/storage-class"].as_str());
    old.unwrap_or_else(|| text(body, ".spec.storageClassName"))
        .to_owned()
}

/// Returns the text if the claim is bound to a volume, else an empty one.
fn bound(body: &Body, shown: String) -> String {
    match text(body, ".spec.volumeName") {
        "" => String::new(),
        _ => shown,
    }
}

fn controller(body: &Body) -> String {
    let mut owners = items(find(body, ".metadata.ownerReferences")).iter();
    let Some(owner) = owners.find(|owner| owner["controller"] == true) else {
        return "<none>".to_owned();
    };
    let part = parts(owner);
    let kind = part("kind").to_lowercase();
    let group = part("apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let dot = if group.is_empty() { "" } else { "." };
    format!("{kind}{dot}{group}/{}", part("name"))
}

fn parameters(body: &Body) -> String {
    let Some(found) = find(body, ".spec.parameters") else {
        return "<none>".to_owned();
    };
    let part = parts(found);
    let dot = if part("apiGroup").is_empty() { "" } else { "." };
    format!("{}{dot}{}/{}", part("kind"), part("apiGroup"), part("name"))
}

fn parent(body: &Body) -> String {
    let Some(found) = find(body, ".spec.parentRef") else {
        return "<none>".to_owned();
    };
    let part = parts(found);
    let kind = match part("group") {
        "" => part("resource").to_lowercase(),
        group => format!("{}.{group}", part("resource")).to_lowercase(),
    };
    let parts = [kind.as_str(), part("namespace"), part("name")];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

fn audiences(body: &Body) -> String {
    let Some(found) = find(body, ".spec.tokenRequests") else {
        return "<unset>".to_owned();
    };
    let shown = |it: &Value| it["audience"].as_str().unwrap_or_default().to_owned();
    let all: Vec<String> = items(Some(found)).iter().map(shown).collect();
    all.join(",")
}

fn param_kind(body: &Body) -> String {
    let Some(found) = find(body, ".spec.paramKind") else {
        return "<unset>".to_owned();
    };
    let part = parts(found);
    format!("{}/{}", part("apiVersion"), part("kind"))
}

fn param_ref(body: &Body) -> String {
    let Some(found) = find(body, ".spec.paramRef") else {
        return "<unset>".to_owned();
    };
    let part = parts(found);
    match part("namespace") {
        "" => format!("*/{}", part("name")),
        namespace => format!("{namespace}/{}", part("name")),
    }
}

fn service(body: &Body) -> String {
    let Some(found) = find(body, ".spec.service") else {
        return "Local".to_owned();
    };
    let part = parts(found);
    format!("{}/{}", part("namespace"), part("name"))
}

fn available(body: &Body) -> String {
    let Some(found) = condition(body, "Available") else {
        return "Unknown".to_owned();
    };
    let part = parts(found);
    match part("status") {
        "True" => "True".to_owned(),
        status => format!("{status} ({})", part("reason")),
    }
}
