//! Validates kinds with few rules, such as `ConfigMaps`, Secrets, Events, disruption budgets, priority classes and leases.
//!
//! Size limits apply to the decoded data. Never looks at the old object of an update.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::finder::{Finder, is_empty, items, map, number};
use super::format::config_key;
use super::rule::Named;
use crate::kind::Shape;
use crate::object::{Body, meta_text, metadata, text};
use crate::rules::names;
use crate::status::Cause;

pub(super) const NAMED: Named = &[
    ("config_map", config_map),
    ("secret", secret),
    ("event", event),
    ("namespace", namespace),
    ("budget", budget),
    ("priority_class", priority_class),
    ("api_service", api_service),
];

/// The maximal size of a `ConfigMap` or Secret.
const LIMIT: usize = 1024 * 1024;

fn decoded(value: &Value) -> Vec<u8> {
    STANDARD
        .decode(value.as_str().unwrap_or_default())
        .unwrap_or_default()
}

/// Checks the keys of encoded values, and returns the decoded size.
fn encoded(finder: &mut Finder<'_>, field: &str, values: &Body) -> usize {
    let mut size = 0;
    for (key, value) in values {
        let at = format!("{field}[{key}]");
        finder.all(&at, &key.as_str().into(), config_key(key));
        size += decoded(value).len();
    }
    size
}

fn too_long(finder: &mut Finder<'_>, at: &str) {
    let message = format!("Too long: may not be more than {LIMIT} bytes");
    finder
        .causes
        .push(Cause::new("FieldValueTooLong", at, message));
}

fn config_map(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let empty = Body::new();
    let (data, binary) = (
        map(body, "data").unwrap_or(&empty),
        map(body, "binaryData").unwrap_or(&empty),
    );
    let mut size = 0;
    for (key, value) in data {
        let at = format!("data[{key}]");
        finder.all(&at, &key.as_str().into(), config_key(key));
        if binary.contains_key(key) {
            let message = "duplicate of key present in binaryData";
            finder.invalid(at, &key.as_str().into(), message);
        }
        size += value.as_str().unwrap_or_default().len();
    }
    size += encoded(finder, "binaryData", binary);
    if size > LIMIT {
        too_long(finder, "");
    }
}

fn secret(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let empty = Body::new();
    let data = map(body, "data").unwrap_or(&empty);
    if encoded(finder, "data", data) > LIMIT {
        too_long(finder, "data");
    }
    let needs = |finder: &mut Finder<'_>, keys: &[&str]| {
        for key in keys.iter().filter(|key| !data.contains_key(**key)) {
            finder.required(format!("data[{key}]"), "");
        }
    };
    match text(body, "type") {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            let account = metadata(body).and_then(|meta| map(meta, "annotations"));
            if is_empty(account.and_then(|found| found.get(key))) {
                finder.required(format!("metadata.annotations[{key}]"), "");
            }
        }
        "kubernetes.io/dockercfg" => docker(finder, data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => docker(finder, data, ".dockerconfigjson"),
        "kubernetes.io/basic-auth"
            if !data.contains_key("username") && !data.contains_key("password") =>
        {
            needs(finder, &["username", "password"]);
        }
        "kubernetes.io/ssh-auth" if is_empty(data.get("ssh-privatekey")) => {
            finder.required("data[ssh-privatekey]", "");
        }
        "kubernetes.io/tls" => needs(finder, &["tls.crt", "tls.key"]),
        _ => {}
    }
}

fn docker(finder: &mut Finder<'_>, data: &Body, key: &str) {
    let at = format!("data[{key}]");
    let Some(value) = data.get(key) else {
        return finder.required(at, "");
    };
    if let Err(why) = crate::call::go::parse(&decoded(value)) {
        finder.invalid(at, &"<secret contents redacted>".into(), &why);
    }
}

fn event(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let namespace = meta_text(body, "namespace");
    let involved = map(body, "involvedObject").map_or("", |object| text(object, "namespace"));
    let newer = !is_empty(body.get("eventTime"));
    let fits = match involved {
        "" if newer => matches!(namespace, "default" | "kube-system"),
        "" => namespace == "default",
        other => newer || other == namespace,
    };
    if !fits {
        let message = "does not match event.namespace";
        finder.invalid("involvedObject.namespace", &involved.into(), message);
    }
    if !newer {
        return new_event_needs_time(finder);
    }
    let is_new = finder.kind.shape == Shape::NewEvent;
    let controller = if is_new {
        "reportingController"
    } else {
        "reportingComponent"
    };
    let name = text(body, "reportingComponent");
    if name.is_empty() {
        finder.required(controller, "");
    }
    finder.all(controller, &name.into(), names::qualified(name));
    for field in ["reportingInstance", "action", "reason"] {
        let value = text(body, field);
        if value.is_empty() {
            finder.required(field, "");
        } else if value.len() > 128 {
            finder.invalid(field, &"".into(), "can have at most 128 characters");
        }
    }
    if text(body, "message").len() > 1024 {
        finder.invalid("message", &"".into(), "can have at most 1024 characters");
    }
    let of = text(body, "type");
    if is_new && !matches!(of, "Normal" | "Warning") {
        finder.invalid("type", &"".into(), &format!("has invalid value: {of}"));
    }
}

fn namespace(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let held = map(body, "spec").map_or(&[][..], |spec| items(spec, "finalizers"));
    for (index, finalizer) in held.iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        let at = format!("spec.finalizers[{index}]");
        finder.all(at.as_str(), finalizer, names::qualified(name));
        if !name.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&name) {
            let message = "name is neither a standard finalizer name nor is it fully qualified";
            finder.invalid(at, finalizer, message);
        }
    }
}

fn new_event_needs_time(finder: &mut Finder<'_>) {
    if finder.kind.shape == Shape::NewEvent {
        finder.required("eventTime", "");
        let of = text(finder.root, "type");
        if !matches!(of, "Normal" | "Warning") {
            finder.invalid("type", &"".into(), &format!("has invalid value: {of}"));
        }
    }
}

fn budget(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let (least, most) = (spec.get("minAvailable"), spec.get("maxUnavailable"));
    if let (Some(least), Some(most)) = (least, most) {
        let selector = spec.get("selector").unwrap_or(&Value::Null);
        let policy = spec
            .get("unhealthyPodEvictionPolicy")
            .unwrap_or(&Value::Null);
        // The real server prints its internal form.
        let shown = format!(
            "{{\"MinAvailable\":{least},\"Selector\":{selector},\"MaxUnavailable\":{most},\"UnhealthyPodEvictionPolicy\":{policy}}}"
        );
        let message = "minAvailable and maxUnavailable cannot be both set";
        finder.invalid_as(at, &shown, message);
    }
}

fn priority_class(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let name = meta_text(body, "name");
    let value = number(body, "value").unwrap_or_default();
    match body.get("preemptionPolicy").and_then(Value::as_str) {
        None | Some("PreemptLowerPriority" | "Never") => {}
        Some("") => finder.required("preemptionPolicy", ""),
        Some(other) => {
            let known = ["PreemptLowerPriority", "Never"];
            finder.unsupported("preemptionPolicy", &other.into(), &known);
        }
    }
    let known = [
        ("system-node-critical", 2_000_001_000),
        ("system-cluster-critical", 2_000_000_000),
    ];
    if name.starts_with("system-") {
        if !known.contains(&(name, value)) {
            let message = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
            );
            let told = known.iter().find(|(found, _)| *found == name).map(|(_, right)| {
                format!("priority class names with 'system-' prefix are reserved for system use only. error: value of {name} PriorityClass must be {right}")
            });
            finder.forbidden("metadata.name", told.as_deref().unwrap_or(&message));
        }
    } else if value > 1_000_000_000 {
        let message = "maximum allowed value of a user defined priority is 1000000000";
        finder.forbidden("value", message);
    }
}

fn api_service(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let empty = Body::new();
    let spec = map(body, "spec").unwrap_or(&empty);
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    let name = meta_text(body, "name");
    let wanted = format!("{version}.{group}");
    if name != wanted {
        let message = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        finder.invalid("metadata.name", &name.into(), &message);
    }
    if !group.is_empty() {
        let messages = names::subdomain(group).into_iter().collect();
        finder.all("spec.group", &group.into(), messages);
    } else if version != "v1" {
        let message = "only v1 may have an empty group and it better be legacy kube";
        finder.required("spec.group", message);
    }
    let messages = names::dns_1035(version).into_iter().collect();
    finder.all("spec.version", &version.into(), messages);
    for (field, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let priority = number(spec, field).unwrap_or_default();
        if !(1..=most).contains(&priority) {
            let message = format!("must be positive and less than {most}");
            finder.invalid(format!("spec.{field}"), &priority.into(), &message);
        }
    }
    api_service_place(finder, spec);
}

/// Checks the backing Service of an API, and its CA bundle.
fn api_service_place(finder: &mut Finder<'_>, spec: &Body) {
    let bundle = decoded(spec.get("caBundle").unwrap_or(&Value::Null));
    let careless = spec.get("insecureSkipTLSVerify") == Some(&Value::Bool(true));
    let at = "spec.insecureSkipTLSVerify";
    let Some(service) = map(spec, "service") else {
        if !bundle.is_empty() {
            let shown = format!("{} bytes", bundle.len());
            let message = "local APIServices may not have a caBundle";
            finder.invalid("spec.caBundle", &shown.into(), message);
        }
        if careless {
            let message = "local APIServices may not have insecureSkipTLSVerify";
            finder.invalid(at, &true.into(), message);
        }
        return;
    };
    for field in ["namespace", "name"] {
        if text(service, field).is_empty() {
            finder.required(format!("spec.service.{field}"), "");
        }
    }
    let port = number(service, "port").unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let message = "port is not valid: must be between 1 and 65535, inclusive";
        finder.invalid("spec.service.port", &port.into(), message);
    }
    if careless && !bundle.is_empty() {
        let message = "may not be true if caBundle is present";
        finder.invalid(at, &true.into(), message);
    }
}
