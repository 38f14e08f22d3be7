//! Random requests to the objects of a definition.
//!
//! Resource versions come from answers, except for one that is always stale. Must not know the answers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Chance, definition, value};
use crate::corpus::script::Step;

const NAMES: [&str; 4] = ["x", "y", "z", "longname"];
pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json";
pub(super) const PARTIAL: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io, application/json";

/// Returns one request, or two if the second needs the result of the first.
pub(super) fn requests(chance: &mut Chance, root: &Value, version: &Value) -> Vec<Step> {
    let name = *chance.pick(&NAMES);
    let mut steps = match chance.below(28) {
        0..5 => vec![created(chance, root, name)],
        5..8 => vec![merged(chance, root, name)],
        8..10 => vec![patched(chance, root, name)],
        10..13 => vec![applied(chance, root, name)],
        13..15 => replaced(chance, root, name),
        15..17 => vec![status(chance, name)],
        17 => scale(chance, name),
        18 => vec![held(chance, name)],
        19 => vec![deleted(chance, name)],
        20 => vec![step(&format!("GET ${{things}}/{name}"), None)],
        21 | 22 => listed(chance, version),
        23 => paged(chance),
        24 => vec![moved(chance, root, name)],
        25 => guarded(chance, root, name),
        26 => vec![swept(chance)],
        _ => vec![drafted(chance, root, version)],
    };
    if let Some(last) = steps.last_mut() {
        query(chance, last);
    }
    steps
}

pub(super) fn step(request: &str, body: Option<Value>) -> Step {
    Step {
        request: request.to_owned(),
        body,
        ..Step::default()
    }
}

/// Adds a query to a step at random: a dry run, or another level of field validation.
pub(super) fn query(chance: &mut Chance, step: &mut Step) {
    let writes = step.body.is_some() && !step.request.starts_with("DELETE");
    let query = match chance.below(12) {
        0 | 1 if writes => "dryRun=All",
        2 | 3 if writes => "fieldValidation=Strict",
        4 if writes => "fieldValidation=Ignore",
        _ => return,
    };
    let mark = if step.request.contains('?') { '&' } else { '?' };
    step.request = format!("{}{mark}{query}", step.request);
}

fn whole(chance: &mut Chance, root: &Value, name: &str) -> Value {
    let mut body =
        json!({"apiVersion": "${group}/v1", "kind": "Thing", "metadata": {"name": name}});
    let spec = &root["properties"]["spec"];
    body["spec"] = value::object(chance, spec);
    if chance.one_in(12) {
        body["spec"] = value::value(chance, spec);
    }
    match chance.below(8) {
        0 => body["data"] = value::value(chance, &root["properties"]["data"]),
        1 => body["status"] = value::value(chance, &root["properties"]["status"]),
        2 => body["metadata"]["labels"] = json!({"l": chance.pick(&["a", "b", "a b"])}),
        3 => body["metadata"]["annotations"] = json!({"example.com/a": "1"}),
        4 => body["other"] = json!([1]),
        _ => {}
    }
    body
}

fn created(chance: &mut Chance, root: &Value, name: &str) -> Step {
    let mut body = whole(chance, root, name);
    match chance.below(20) {
        0 => {
            body["metadata"] = json!({"generateName": "g-"});
            // A dry run keeps the object out of lists, whose order would depend on the random suffix.
            return step("POST ${things}?dryRun=All", Some(body));
        }
        1 => body["metadata"]["name"] = json!("No Name"),
        2 => body["kind"] = json!("Other"),
        _ => {}
    }
    step("POST ${things}", Some(body))
}

fn merged(chance: &mut Chance, root: &Value, name: &str) -> Step {
    let body = match chance.below(6) {
        0 => {
            json!({"metadata": {"labels": {"l": chance.pick(&[json!("a"), json!("b"), json!("a b"), json!(null), json!(1)])}}})
        }
        1 => json!({"spec": null}),
        2 => json!({"data": value::value(chance, &root["properties"]["data"]), "marker": null}),
        _ => json!({"spec": value::value(chance, &root["properties"]["spec"])}),
    };
    step(&format!("PATCH ${{things}}/{name}"), Some(body))
}

fn patched(chance: &mut Chance, root: &Value, name: &str) -> Step {
    let spec = &root["properties"]["spec"];
    let field = *chance.pick(&["a", "b", "c", "d", "e"]);
    let path = format!("/spec/{field}");
    let op = match chance.below(6) {
        0 => json!({"op": "remove", "path": path}),
        1 => {
            json!({"op": "test", "path": path, "value": value::value(chance, &spec["properties"][field])})
        }
        2 => {
            json!({"op": "copy", "from": path, "path": format!("/spec/{}", chance.pick(&["a", "b"]))})
        }
        3 => {
            json!({"op": "replace", "path": path, "value": value::value(chance, &spec["properties"][field])})
        }
        _ => {
            json!({"op": "add", "path": path, "value": value::value(chance, &spec["properties"][field])})
        }
    };
    step(&format!("PATCH ${{things}}/{name}"), Some(json!([op])))
}

fn applied(chance: &mut Chance, root: &Value, name: &str) -> Step {
    let mut body = whole(chance, root, name);
    if let Some(map) = body.as_object_mut() {
        map.remove("status");
    }
    let manager = *chance.pick(&["one", "two"]);
    let force = *chance.pick(&["", "&force=true"]);
    let mut step = step(
        &format!("PATCH ${{things}}/{name}?fieldManager={manager}{force}"),
        Some(body),
    );
    let header = ("Content-Type".to_owned(), APPLY.to_owned());
    step.headers = BTreeMap::from([header]);
    step
}

/// Returns a JSON patch with several operations, some of them on metadata.
fn moved(chance: &mut Chance, root: &Value, name: &str) -> Step {
    let spec = &root["properties"]["spec"];
    let mut operations = Vec::new();
    for _ in 0..=chance.below(3) {
        let field = *chance.pick(&["a", "b", "c", "d", "e"]);
        let path = format!("/spec/{field}");
        operations.push(match chance.below(8) {
            0 => json!({"op": "move", "from": path, "path": "/spec/a"}),
            1 => json!({"op": "add", "path": "/metadata/labels", "value": {"l": "a"}}),
            2 => json!({"op": "add", "path": "/metadata/labels/l", "value": chance.pick(&["b", "a b"])}),
            3 => json!({"op": "remove", "path": "/metadata/annotations"}),
            4 => json!({"op": "test", "path": "/spec/replicas", "value": chance.pick(&[json!(null), json!(3), json!(5)])}),
            5 => json!({"op": "add", "path": format!("{path}/-"), "value": "one"}),
            6 => json!({"op": "replace", "path": format!("{path}/0"), "value": 3}),
            _ => json!({"op": "add", "path": path, "value": value::value(chance, &spec["properties"][field])}),
        });
    }
    step(
        &format!("PATCH ${{things}}/{name}"),
        Some(operations.into()),
    )
}

/// Reads an object, then changes or deletes it with preconditions on its version or uid, some of which do not match.
fn guarded(chance: &mut Chance, root: &Value, name: &str) -> Vec<Step> {
    let mut look = step(&format!("GET ${{things}}/{name}"), None);
    let seen = |name: &str, at: &str| (name.to_owned(), format!("/metadata/{at}"));
    look.capture = BTreeMap::from([seen("version", "resourceVersion"), seen("uid", "uid")]);
    let version = *chance.pick(&["${version}", "${version}", "1"]);
    let spec = value::object(chance, &root["properties"]["spec"]);
    let then = match chance.below(4) {
        0 => {
            let body = json!({"preconditions": {"resourceVersion": version}});
            step(&format!("DELETE ${{things}}/{name}"), Some(body))
        }
        1 => {
            let body = json!({"preconditions": {"uid": "${uid}", "resourceVersion": version}});
            step(&format!("DELETE ${{things}}/{name}"), Some(body))
        }
        2 => {
            let body =
                json!({"metadata": {"resourceVersion": version, "uid": "${uid}"}, "spec": spec});
            step(&format!("PATCH ${{things}}/{name}"), Some(body))
        }
        _ => {
            let body = json!({"metadata": {"generation": 9, "creationTimestamp": null, "annotations": {"a": chance.pick(&["1", "2"])}}});
            step(&format!("PATCH ${{things}}/{name}"), Some(body))
        }
    };
    vec![look, then]
}

/// Deletes the objects that match a selector.
fn swept(chance: &mut Chance) -> Step {
    let query = *chance.pick(&[
        "labelSelector=l%3Da",
        "labelSelector=l+in+(b,c)",
        "fieldSelector=metadata.name%3Dy",
        "labelSelector=s&dryRun=All",
        "labelSelector=%21",
    ]);
    step(&format!("DELETE ${{things}}?{query}"), None)
}

/// Lists objects in pages.
fn paged(chance: &mut Chance) -> Vec<Step> {
    let limit = 1 + chance.below(2);
    let mut first = step(&format!("GET ${{things}}?limit={limit}"), None);
    let at = "/metadata/continue".to_owned();
    first.capture = BTreeMap::from([("next".to_owned(), at)]);
    let next = step(
        &format!("GET ${{things}}?limit={limit}&continue=${{next}}"),
        None,
    );
    vec![first, next]
}

/// Reads the version of an object, then replaces the object with it.
fn replaced(chance: &mut Chance, root: &Value, name: &str) -> Vec<Step> {
    let mut body = whole(chance, root, name);
    body["metadata"]["resourceVersion"] = "${version}".into();
    let mut look = step(&format!("GET ${{things}}/{name}"), None);
    let at = "/metadata/resourceVersion".to_owned();
    look.capture = BTreeMap::from([("version".to_owned(), at)]);
    if chance.one_in(5) {
        body["metadata"]["resourceVersion"] = "1".into();
    }
    if chance.one_in(8)
        && let Some(meta) = body["metadata"].as_object_mut()
    {
        meta.remove("resourceVersion");
    }
    let part = *chance.pick(&["", "", "/status"]);
    vec![
        look,
        step(&format!("PUT ${{things}}/{name}{part}"), Some(body)),
    ]
}

/// Applies a status.
fn status_applied(chance: &mut Chance, name: &str) -> Step {
    let status = match chance.below(3) {
        0 => json!({"n": chance.pick(&[0, 1]), "l": ["x"]}),
        1 => json!({"s": "a", "replicas": 2}),
        _ => json!({"odd": true, "s": 1}),
    };
    let body = json!({"apiVersion": "${group}/v1", "kind": "Thing", "metadata": {"name": name}, "status": status});
    let manager = *chance.pick(&["one", "two"]);
    let mut step = step(
        &format!("PATCH ${{things}}/{name}/status?fieldManager={manager}"),
        Some(body),
    );
    step.headers = BTreeMap::from([("Content-Type".to_owned(), APPLY.to_owned())]);
    step
}

fn status(chance: &mut Chance, name: &str) -> Step {
    if chance.one_in(4) {
        return status_applied(chance, name);
    }
    let body = match chance.below(6) {
        0 => json!({"status": null}),
        1 => {
            json!({"status": {"s": chance.pick(&["a", "c"]), "l": ["x", chance.pick(&["x", "y"])]}})
        }
        2 => {
            json!({"status": {"replicas": chance.pick(&[json!(2), json!(-1), json!("2")]), "selector": "a=b"}})
        }
        3 => json!({"spec": {"replicas": 7}, "metadata": {"labels": {"s": "t"}}}),
        4 => json!({"status": {"odd": 1, "n": 2.0}}),
        _ => json!({"status": {"n": chance.pick(&[0, 1, -1])}}),
    };
    step(&format!("PATCH ${{things}}/{name}/status"), Some(body))
}

fn scale(chance: &mut Chance, name: &str) -> Vec<Step> {
    let path = format!("${{things}}/{name}/scale");
    let replicas = chance
        .pick(&[json!(2), json!(-1), json!(20), json!("2")])
        .clone();
    match chance.below(3) {
        0 => vec![step(&format!("GET {path}"), None)],
        1 => {
            let body = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": "${ns}"}, "spec": {"replicas": replicas}});
            vec![step(&format!("PUT {path}"), Some(body))]
        }
        _ => {
            let body = json!({"spec": {"replicas": replicas}});
            vec![step(&format!("PATCH {path}"), Some(body))]
        }
    }
}

fn held(chance: &mut Chance, name: &str) -> Step {
    let finalizers = chance
        .pick(&[
            json!(["example.com/hold"]),
            json!(null),
            json!([]),
            json!(["plain"]),
        ])
        .clone();
    let body = json!({"metadata": {"finalizers": finalizers}});
    step(&format!("PATCH ${{things}}/{name}"), Some(body))
}

fn deleted(chance: &mut Chance, name: &str) -> Step {
    let body = match chance.below(6) {
        // The garbage collector of the real server discovers new kinds only periodically, so it would remove the finalizer too late.
        0 => Some(
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan", "dryRun": ["All"]}),
        ),
        3 => Some(json!({"propagationPolicy": "Background"})),
        1 => Some(json!({"preconditions": {"uid": "11111111-2222-4333-8444-555555555555"}})),
        2 => Some(json!({"dryRun": ["All"]})),
        _ => None,
    };
    step(&format!("DELETE ${{things}}/{name}"), body)
}

fn listed(chance: &mut Chance, version: &Value) -> Vec<Step> {
    let selectable = version["selectableFields"].as_array();
    let path = selectable.and_then(|fields| fields.first()?["jsonPath"].as_str());
    let field = path.unwrap_or(".spec.a").trim_start_matches('.');
    let query = match chance.below(12) {
        8 => "?labelSelector=l+notin+(a,b),s".to_owned(),
        9 => "?resourceVersion=0".to_owned(),
        10 => "?labelSelector=l+in+(b,c)&limit=1".to_owned(),
        0 => "?labelSelector=l%3Da".to_owned(),
        1 => "?labelSelector=l%21%3Da".to_owned(),
        2 => format!(
            "?fieldSelector={field}%3D{}",
            chance.pick(&["one", "3", "true", ""])
        ),
        3 => format!("?fieldSelector={field}%21%3Done"),
        4 => "?fieldSelector=metadata.name%3Dx".to_owned(),
        5 => "?limit=2".to_owned(),
        _ => String::new(),
    };
    let mut step = step(&format!("GET ${{things}}{query}"), None);
    let accept = match chance.below(5) {
        0 => TABLE,
        1 => PARTIAL,
        _ => return vec![step],
    };
    step.headers = BTreeMap::from([("Accept".to_owned(), accept.to_owned())]);
    vec![step]
}

fn drafted(chance: &mut Chance, root: &Value, version: &Value) -> Step {
    let draft = definition::nearly(chance, root, version);
    step("POST ${crds}?dryRun=All", Some(draft))
}
