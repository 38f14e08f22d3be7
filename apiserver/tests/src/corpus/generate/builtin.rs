//! Random requests to objects of built-in kinds.
//!
//! Avoids objects that the controllers of a real cluster would change during the script. Must not know the answers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Chance;
use super::request::{APPLY, PARTIAL, TABLE, query, step};
use crate::corpus::script::Step;

const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A kind: the path of its objects, a sample object, and possible changes of it.
struct Subject {
    path: &'static str,
    body: Value,
    changes: Vec<(&'static str, Value)>,
    /// Uses dry runs only, because a controller acts on objects of this kind.
    dry: bool,
}

/// Returns one request, or two if the second needs the result of the first.
pub(super) fn requests(chance: &mut Chance) -> Vec<Step> {
    let subject = subject(chance);
    let name = *chance.pick(&["x", "y", "z"]);
    let (path, object) = (subject.path, format!("{}/{name}", subject.path));
    let mut steps = match chance.below(16) {
        0..4 => vec![step(
            &format!("POST {path}"),
            Some(whole(chance, &subject, name)),
        )],
        4..6 => vec![patched(
            chance,
            &subject,
            &object,
            "application/merge-patch+json",
        )],
        6..8 => vec![patched(chance, &subject, &object, STRATEGIC)],
        8 | 9 => vec![applied(chance, &subject, name)],
        10 | 11 => replaced(chance, &subject, name),
        12 => vec![operated(chance, &subject, &object)],
        13 => vec![listed(chance, path)],
        14 => vec![step(&format!("GET {object}"), None)],
        _ => vec![step(&format!("DELETE {object}"), None)],
    };
    if let Some(last) = steps.last_mut() {
        if subject.dry && last.request.split(' ').next() != Some("GET") {
            let mark = if last.request.contains('?') { '&' } else { '?' };
            last.request = format!("{}{mark}dryRun=All", last.request);
        } else {
            query(chance, last);
        }
    }
    steps
}

/// Returns an object with at most three random changes.
fn whole(chance: &mut Chance, subject: &Subject, name: &str) -> Value {
    let mut body = subject.body.clone();
    body["metadata"] = json!({"name": name});
    for _ in 0..chance.below(4) {
        let (pointer, value) = change(chance, subject);
        put(&mut body, &pointer, value);
    }
    body
}

fn change(chance: &mut Chance, subject: &Subject) -> (String, Value) {
    let common = [
        ("/metadata/labels", json!({"l": "a"})),
        ("/metadata/labels/l", json!("b")),
        ("/metadata/labels/l", json!("a b")),
        ("/metadata/annotations", json!({"example.com/a": "1"})),
        ("/metadata/annotations/b", json!("2")),
        ("/metadata/finalizers", json!(["example.com/hold"])),
        ("/metadata/finalizers", json!([])),
        ("/metadata/odd", json!(1)),
        ("/odd", json!({"x": 1})),
    ];
    let (pointer, value) = if chance.one_in(4) {
        chance.pick(&common)
    } else {
        chance.pick(&subject.changes)
    };
    ((*pointer).to_owned(), value.clone())
}

/// Sets a value at a pointer and creates missing maps on the way.
fn put(body: &mut Value, pointer: &str, value: Value) {
    let mut slot = body;
    for part in pointer.split('/').skip(1) {
        let has_items = slot.as_array().is_some_and(|items| !items.is_empty());
        if !has_items && !slot.is_object() {
            *slot = json!({});
        }
        slot = if has_items {
            &mut slot[0]
        } else {
            &mut slot[part]
        };
    }
    *slot = value;
}

fn patched(chance: &mut Chance, subject: &Subject, object: &str, media: &str) -> Step {
    let mut body = json!({});
    for _ in 0..=chance.below(2) {
        let (pointer, value) = change(chance, subject);
        // A merge patch replaces lists as a whole.
        if !pointer.contains("/0/") {
            let value = if chance.one_in(5) { Value::Null } else { value };
            put(&mut body, &pointer, value);
        }
    }
    let part = *chance.pick(&["", "", "", "", "/status"]);
    let mut step = step(&format!("PATCH {object}{part}"), Some(body));
    step.headers = BTreeMap::from([("Content-Type".to_owned(), media.to_owned())]);
    step
}

fn operated(chance: &mut Chance, subject: &Subject, object: &str) -> Step {
    let (pointer, value) = change(chance, subject);
    let op = *chance.pick(&["add", "replace", "test"]);
    let operation = if chance.one_in(4) {
        json!({"op": "remove", "path": pointer})
    } else {
        json!({"op": op, "path": pointer, "value": value})
    };
    step(&format!("PATCH {object}"), Some(json!([operation])))
}

fn applied(chance: &mut Chance, subject: &Subject, name: &str) -> Step {
    let body = whole(chance, subject, name);
    let manager = *chance.pick(&["one", "two"]);
    let force = *chance.pick(&["", "&force=true"]);
    let path = subject.path;
    let mut step = step(
        &format!("PATCH {path}/{name}?fieldManager={manager}{force}"),
        Some(body),
    );
    step.headers = BTreeMap::from([("Content-Type".to_owned(), APPLY.to_owned())]);
    step
}

fn replaced(chance: &mut Chance, subject: &Subject, name: &str) -> Vec<Step> {
    let mut body = whole(chance, subject, name);
    if chance.one_in(3) {
        body["metadata"]["resourceVersion"] = chance.pick(&["${version}", "1"]).to_owned().into();
    }
    let object = format!("{}/{name}", subject.path);
    let mut look = step(&format!("GET {object}"), None);
    let at = "/metadata/resourceVersion".to_owned();
    look.capture = BTreeMap::from([("version".to_owned(), at)]);
    vec![look, step(&format!("PUT {object}"), Some(body))]
}

fn listed(chance: &mut Chance, path: &str) -> Step {
    let query = *chance.pick(&[
        "",
        "?labelSelector=l%3Da",
        "?fieldSelector=metadata.name%3Dx",
        "?fieldSelector=type%3DOpaque",
        "?limit=1",
    ]);
    let mut step = step(&format!("GET {path}{query}"), None);
    let accept = *chance.pick(&["", TABLE, PARTIAL]);
    if !accept.is_empty() {
        step.headers = BTreeMap::from([("Accept".to_owned(), accept.to_owned())]);
    }
    step
}

fn subject(chance: &mut Chance) -> Subject {
    match chance.below(6) {
        0 => config_map(),
        1 => secret(),
        2 => service(),
        3 => stateful_set(),
        4 => lease(),
        _ => Subject {
            path: "/apis/apps/v1/namespaces/${ns}/deployments",
            body: json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template()},
            }),
            changes: workload(&[
                ("/spec/strategy/type", json!("Recreate")),
                (
                    "/spec/strategy",
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}}),
                ),
                ("/spec/paused", json!(true)),
                ("/spec/minReadySeconds", json!(-1)),
            ]),
            dry: true,
        },
    }
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Returns changes for kinds that have a Pod template.
fn workload(own: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    let mut all = vec![
        ("/spec/replicas", json!(2)),
        ("/spec/replicas", json!(-1)),
        ("/spec/replicas", json!("2")),
        ("/spec/revisionHistoryLimit", json!(3)),
        ("/spec/template/metadata/labels", json!({"a": "c"})),
        ("/spec/template/metadata/labels/more", json!("x")),
        (
            "/spec/template/spec/containers",
            json!([{"name": "c", "image": "j"}]),
        ),
        (
            "/spec/template/spec/containers",
            json!([{"name": "d", "image": "i", "ports": [{"containerPort": 80}]}]),
        ),
        ("/spec/template/spec/containers", json!([])),
        ("/spec/template/spec/restartPolicy", json!("Never")),
        (
            "/spec/template/spec/containers/0/env",
            json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
        ),
        (
            "/spec/template/spec/containers/0/resources",
            json!({"limits": {"cpu": "0.5", "memory": "1Gi"}}),
        ),
        (
            "/spec/template/spec/terminationGracePeriodSeconds",
            json!(5),
        ),
        ("/spec/selector", json!({"matchLabels": {"a": "c"}})),
        ("/spec/odd", json!(1)),
    ];
    all.extend(own.iter().cloned());
    all
}

fn config_map() -> Subject {
    Subject {
        path: "${core}/configmaps",
        body: json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}),
        changes: vec![
            ("/data", json!({"b": "2"})),
            ("/data/c", json!("3")),
            ("/data/c", json!(3)),
            ("/data", json!([])),
            ("/data/no name", json!("x")),
            ("/binaryData", json!({"z": "YQ=="})),
            ("/binaryData/a", json!("YQ==")),
            ("/binaryData/y", json!("%")),
            ("/immutable", json!(true)),
            ("/immutable", json!("yes")),
        ],
        dry: false,
    }
}

fn secret() -> Subject {
    Subject {
        path: "${core}/secrets",
        body: json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "YQ=="}}),
        changes: vec![
            ("/data/b", json!("Yg==")),
            ("/data/b", json!("b")),
            ("/data", json!({"c": ""})),
            ("/stringData", json!({"a": "plain"})),
            ("/stringData/d", json!("text")),
            ("/type", json!("Opaque")),
            ("/type", json!("kubernetes.io/basic-auth")),
            ("/type", json!("kubernetes.io/dockerconfigjson")),
            ("/type", json!("example.com/own")),
            ("/immutable", json!(true)),
        ],
        dry: false,
    }
}

fn service() -> Subject {
    Subject {
        path: "${core}/services",
        body: json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
        changes: vec![
            ("/spec/ports", json!([{"port": 81, "name": "a"}])),
            ("/spec/ports", json!([{"port": 80}, {"port": 81}])),
            (
                "/spec/ports",
                json!([{"port": 80, "name": "a"}, {"port": 81, "name": "b", "targetPort": "web"}]),
            ),
            ("/spec/ports", json!([{"port": 0}])),
            ("/spec/ports/0/protocol", json!("UDP")),
            ("/spec/ports/0/targetPort", json!(8080)),
            ("/spec/selector", json!({"a": "b"})),
            ("/spec/selector/c", json!("d")),
            ("/spec/sessionAffinity", json!("ClientIP")),
            ("/spec/sessionAffinity", json!("Odd")),
            ("/spec/type", json!("NodePort")),
            ("/spec/publishNotReadyAddresses", json!(true)),
            ("/spec/externalName", json!("a.example")),
        ],
        dry: false,
    }
}

fn stateful_set() -> Subject {
    Subject {
        path: "/apis/apps/v1/namespaces/${ns}/statefulsets",
        body: json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "spec": {"serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": template()},
        }),
        changes: workload(&[
            ("/spec/podManagementPolicy", json!("Parallel")),
            ("/spec/podManagementPolicy", json!("Odd")),
            ("/spec/updateStrategy", json!({"type": "OnDelete"})),
            (
                "/spec/updateStrategy",
                json!({"rollingUpdate": {"partition": 1}}),
            ),
            ("/spec/serviceName", json!("t")),
            ("/status/replicas", json!(1)),
        ]),
        dry: false,
    }
}

fn lease() -> Subject {
    Subject {
        path: "/apis/coordination.k8s.io/v1/namespaces/${ns}/leases",
        body: json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "h"}}),
        changes: vec![
            ("/spec/holderIdentity", json!("i")),
            ("/spec/holderIdentity", json!("")),
            ("/spec/leaseDurationSeconds", json!(15)),
            ("/spec/leaseDurationSeconds", json!(0)),
            ("/spec/leaseTransitions", json!(-1)),
            ("/spec/renewTime", json!("2020-01-01T00:00:00.000000Z")),
            ("/spec/renewTime", json!("2020-01-01T00:00:00Z")),
            ("/spec/acquireTime", json!("soon")),
            ("/spec", json!(null)),
        ],
        dry: false,
    }
}
