//! Defaults that depend on other fields of the object.
//!
//! Each function concerns one type and is named in the table. Independent of kinds and of the store.

use super::whole;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{GENERATION, absent};
use crate::object::{Body, map_mut, metadata, metadata_mut, text};

/// Returns the function with that name in the table.
pub(super) fn named(name: &str) -> Option<fn(&mut Body)> {
    Some(match name {
        "account" => account,
        "autoscaler" => autoscaler,
        "claims" => claims,
        "controller" => controller,
        "counted" => counted,
        "endpoint" => endpoint,
        "event" => event,
        "exactly" => exactly,
        "image" => image,
        "job" => job,
        "limits" => limits,
        "namespace" => namespace,
        "networks" => networks,
        "node" => node,
        "pod" => pod,
        "policy" => policy,
        "port" => port,
        "rolling" => rolling,
        "secret" => fold_string_data,
        "service" => service,
        "set_rolling" => set_rolling,
        "subject" => subject,
        "volume" => volume,
        _ => return None,
    })
}

/// Copies `serviceAccountName` to the deprecated `serviceAccount`.
fn account(spec: &mut Body) {
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        spec.insert("serviceAccount".to_owned(), account);
    }
}

/// Drops a field of older versions.
fn endpoint(endpoint: &mut Body) {
    endpoint.remove("deprecatedTopology");
}

/// Keeps `podCIDR` equal to the first entry of `podCIDRs`; `podCIDR` wins if they differ.
fn networks(spec: &mut Body) {
    let first = spec.get("podCIDRs").and_then(|found| found.get(0)).cloned();
    let alone = text(spec, "podCIDR");
    if alone.is_empty() {
        if let Some(first) = first {
            spec.insert("podCIDR".to_owned(), first);
        }
    } else if first.is_none_or(|first| first != alone) {
        let networks = json!([alone]);
        spec.insert("podCIDRs".to_owned(), networks);
    }
}

/// Returns true if an image has the tag `latest`, explicitly or by default.
fn is_newest(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    !last.is_empty()
        && !last.contains('@')
        && last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn pull_policy(image: &str) -> Value {
    if is_newest(image) {
        "Always"
    } else {
        "IfNotPresent"
    }
    .into()
}

fn image(container: &mut Body) {
    let policy = pull_policy(text(container, "image"));
    absent(container, "imagePullPolicy", policy);
    absent(container, "resources", json!({}));
}

fn volume(volume: &mut Body) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(Value::Object(image)) = volume.get_mut("image") {
        let policy = pull_policy(text(image, "reference"));
        absent(image, "pullPolicy", policy);
    }
}

fn pod(pod: &mut Body) {
    let spec = map_mut(pod, "spec");
    absent(spec, "enableServiceLinks", true.into());
    let grace = spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64);
    if grace.is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    let host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        let found = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in found.into_iter().flatten().filter_map(Value::as_object_mut) {
            requests(container);
            if host {
                host_ports(container);
            }
        }
    }
    whole::resources(spec);
}

/// Sets missing requests to the limits.
fn requests(container: &mut Body) {
    let resources = map_mut(container, "resources");
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else {
        return;
    };
    let requests = map_mut(resources, "requests");
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

fn host_ports(container: &mut Body) {
    let ports = container.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(number) = port.get("containerPort").cloned() {
            absent(port, "hostPort", number);
        }
    }
}

fn service(service: &mut Body) {
    let spec = map_mut(service, "spec");
    absent(spec, "sessionAffinity", "None".into());
    match text(spec, "sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            let config = map_mut(spec, "sessionAffinityConfig");
            absent(map_mut(config, "clientIP"), "timeoutSeconds", 10800.into());
        }
        _ => {}
    }
    absent(spec, "type", "ClusterIP".into());
    let of = text(spec, "type").to_owned();
    let external = spec.get("externalIPs").and_then(Value::as_array);
    let reachable = matches!(of.as_str(), "NodePort" | "LoadBalancer")
        || (of == "ClusterIP" && external.is_some_and(|ips| !ips.is_empty()));
    if reachable {
        absent(spec, "externalTrafficPolicy", "Cluster".into());
    }
    if matches!(of.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        absent(spec, "internalTrafficPolicy", "Cluster".into());
    }
    if of == "LoadBalancer" {
        absent(spec, "allocateLoadBalancerNodePorts", true.into());
        address_modes(service);
    }
}

/// Sets the default mode for IP addresses of load balancers.
fn address_modes(service: &mut Body) {
    let found = service.get_mut("status");
    let found = found.and_then(|status| status.get_mut("loadBalancer")?.get_mut("ingress"));
    let places = found.and_then(Value::as_array_mut).into_iter().flatten();
    for place in places.filter_map(Value::as_object_mut) {
        if !text(place, "ip").is_empty() {
            absent(place, "ipMode", "VIP".into());
        }
    }
}

/// Sets the target port of a Service port to the same number.
fn port(port: &mut Body) {
    let target = port.get("targetPort");
    let unset = target.is_none_or(|found| found.as_i64() == Some(0) || found == "");
    if let Some(number) = port.get("port").cloned().filter(|_| unset) {
        port.insert("targetPort".to_owned(), number);
    }
}

/// Labels a namespace with its name.
fn namespace(namespace: &mut Body) {
    let meta = metadata_mut(namespace);
    let name = meta.get("name").cloned().unwrap_or(Value::Null);
    if name.as_str().is_some_and(|name| !name.is_empty()) {
        map_mut(meta, "labels").insert("kubernetes.io/metadata.name".to_owned(), name);
    }
}

fn node(status: &mut Body) {
    if let Some(capacity) = status.get("capacity").cloned() {
        absent(status, "allocatable", capacity);
    }
}

fn limits(item: &mut Body) {
    if text(item, "type") != "Container" {
        return;
    }
    for (from, to) in [
        ("max", "default"),
        ("default", "defaultRequest"),
        ("min", "defaultRequest"),
    ] {
        if let Some(Value::Object(values)) = item.get(from).cloned() {
            let into = map_mut(item, to);
            for (name, value) in values {
                into.entry(name).or_insert(value);
            }
        }
    }
}

fn template_labels(body: &Body) -> Option<Value> {
    let template = body.get("spec")?.get("template")?;
    let labels = template.get("metadata")?.get("labels")?;
    labels.as_object().filter(|labels| !labels.is_empty())?;
    Some(labels.clone())
}

fn label_as_template(body: &mut Body) {
    let labels = template_labels(body);
    let bare = metadata(body).is_none_or(|meta| !meta.contains_key("labels"));
    if let Some(labels) = labels.filter(|_| bare) {
        metadata_mut(body).insert("labels".to_owned(), labels);
    }
}

fn controller(body: &mut Body) {
    if let Some(labels) = template_labels(body) {
        absent(map_mut(body, "spec"), "selector", labels);
    }
    label_as_template(body);
}

fn rolling(strategy: &mut Body) {
    absent(strategy, "type", "RollingUpdate".into());
    if text(strategy, "type") == "RollingUpdate" {
        map_mut(strategy, "rollingUpdate");
    }
}

fn set_rolling(strategy: &mut Body) {
    if text(strategy, "type").is_empty() {
        rolling(strategy);
    }
}

fn job(job: &mut Body) {
    let spec = map_mut(job, "spec");
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    absent(spec, "parallelism", 1.into());
    let per_index = spec.contains_key("backoffLimitPerIndex");
    let limit = if per_index { i32::MAX } else { 6 };
    absent(spec, "backoffLimit", limit.into());
    absent(spec, "completionMode", "NonIndexed".into());
    absent(spec, "suspend", false.into());
    let failing = spec.contains_key("podFailurePolicy");
    let replacement = if failing {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    absent(spec, "podReplacementPolicy", replacement.into());
    absent(spec, "manualSelector", false.into());
    label_as_template(job);
}

/// Sets kind and version of volume claim templates.
fn claims(spec: &mut Body) {
    let templates = spec
        .get_mut("volumeClaimTemplates")
        .and_then(Value::as_array_mut);
    for template in templates
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        absent(template, "apiVersion", "v1".into());
        absent(template, "kind", "PersistentVolumeClaim".into());
    }
}

/// Starts the counter of template changes of a `DaemonSet`.
fn counted(set: &mut Body) {
    absent(
        map_mut(metadata_mut(set), "annotations"),
        GENERATION,
        "1".into(),
    );
}

fn autoscaler(spec: &mut Body) {
    let cpu = json!([{
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }]);
    absent(spec, "metrics", cpu);
    let Some(Value::Object(behavior)) = spec.get_mut("behavior") else {
        return;
    };
    let policy =
        |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
    let up = map_mut(behavior, "scaleUp");
    absent(up, "stabilizationWindowSeconds", 0.into());
    absent(up, "selectPolicy", "Max".into());
    absent(
        up,
        "policies",
        json!([policy("Pods", 4), policy("Percent", 100)]),
    );
    let down = map_mut(behavior, "scaleDown");
    absent(down, "selectPolicy", "Max".into());
    absent(down, "policies", json!([policy("Percent", 100)]));
}

fn policy(spec: &mut Body) {
    let has_egress = spec.get("egress").and_then(Value::as_array);
    let mut types = vec!["Ingress"];
    if has_egress.is_some_and(|rules| !rules.is_empty()) {
        types.push("Egress");
    }
    absent(spec, "policyTypes", json!(types));
}

fn subject(subject: &mut Body) {
    if matches!(text(subject, "kind"), "User" | "Group") {
        absent(subject, "apiGroup", "rbac.authorization.k8s.io".into());
    }
}

fn event(event: &mut Body) {
    for time in ["eventTime", "firstTimestamp", "lastTimestamp"] {
        absent(event, time, Value::Null);
    }
    absent(event, "reportingComponent", "".into());
    absent(event, "reportingInstance", "".into());
    absent(event, "source", json!({}));
}

/// Encodes the write-only `stringData` of a Secret into `data`.
fn fold_string_data(body: &mut Body) {
    let Some(Value::Object(plain)) = body.remove("stringData") else {
        return;
    };
    let data = map_mut(body, "data");
    for (key, value) in plain {
        let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
        data.insert(key, encoded.into());
    }
}

/// Sets the default count of a device request to one.
fn exactly(request: &mut Body) {
    absent(request, "allocationMode", "ExactCount".into());
    let count = request.get("count").and_then(Value::as_i64);
    if text(request, "allocationMode") == "ExactCount" && count.unwrap_or_default() == 0 {
        request.insert("count".to_owned(), 1.into());
    }
}
