//! Random conversion annotations: a read never fails, the status is unchanged, annotations stay within the server's limit, and each object
//! costs a limited number of conversions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kopf_rs_fuzz::{Run, Target, attack, texts};
use serde_json::{Value, json};

use super::graph::tests::between;
use super::graph::{Conversions, ConvertedKind};
use super::restoring::TRIES;
use super::rules::Rules;
use crate::handler::conversion::conversion;

const ANNOTATIONS: &[&str] = &[
    r#"[{"at":["spec","size"],"is":3},{"at":["spec","names",["name"],"x"],"was":"abc","is":{"name":"x","n":1}}]"#,
    r#"[{"at":["spec","list",0],"was":"abc","is":null},{"at":["status","phase"],"is":"Forged"},{"at":["spec"]}]"#,
    r#"[{"at":["spec","names",["name","x"],"n"],"is":{"deep":[[1]]}},{"at":["metadata","name"],"is":"other"},{"at":["spec","deep"],"is":{"a":{"b":{}}}}]"#,
    "incomplete: spec.a, spec.b",
    "H4sIAAAAAAAA/4uOVkosUbJSilYqLkhNVtJRKs6sSlWKjdVRyixWsjKujY2tBQBzwQjUIgAAAA==",
];

const WORDS: &[&str] = &[
    "\"at\":",
    "\"was\":",
    "\"is\":",
    "[\"spec\",\"size\"]",
    "[\"status\"]",
    "[\"metadata\",\"annotations\"]",
    "[[\"name\"],\"x\"]",
    "{\"at\":[\"spec\",\"size\"],\"is\":1},",
    "spec",
    "size",
    "names",
    "incomplete: ",
    "null",
    "[",
    "]",
    "{",
    "}",
    "\"",
    ",",
    "-1",
    "18446744073709551615",
];

/// A kind whose old version has no names and whose new version has no size. Counts the calls.
fn kind(calls: &Arc<AtomicUsize>) -> ConvertedKind {
    let counted = |taken: &'static str| {
        let calls = calls.clone();
        move |mut spec: Value| {
            calls.fetch_add(1, Ordering::Relaxed);
            if let Some(members) = spec.as_object_mut() {
                members.remove(taken);
            }
            Ok(spec)
        }
    };
    let functions = [
        between("old", "new", conversion("up", counted("size"))),
        between("new", "old", conversion("down", counted("names"))),
    ];
    Conversions::of(&functions).kinds()[0].clone()
}

fn rules() -> Rules {
    let version = |name: &str| {
        let properties = json!({"size": {"type": "integer", "maximum": 100}, "names": {"type": "array"}, "list": {"type": "array"}});
        let spec =
            json!({"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}});
        json!({"name": name, "storage": name == "new", "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}})
    };
    Rules::of(
        &json!({"spec": {"versions": [version("old"), version("new")]}, "status": {"storedVersions": ["new"]}}),
    )
}

fn annotations() -> Run {
    let calls = Arc::new(AtomicUsize::new(0));
    let (kind, rules) = (kind(&calls), rules());
    // Count the calls for the same objects without an annotation.
    let plain = ["new", "old"].map(|from| {
        let before = calls.swap(0, Ordering::Relaxed);
        assert!(kind.convert(object(from, &json!({})), other(from), &rules).is_ok(), "{before}");
        calls.swap(0, Ordering::Relaxed)
    });
    let most = plain.into_iter().max().unwrap_or_default() * (2 * TRIES + 2);
    Box::new(move |input| {
        let text = String::from_utf8_lossy(input);
        for from in ["new", "old"] {
            let annotations = json!({"conversion.kopf.rs/new": text, "conversion.kopf.rs/old": text});
            let converted = kind.convert(object(from, &annotations), other(from), &rules);
            assert!(converted.is_ok() || from == "old", "a read fails: {converted:?}");
            let cost = calls.swap(0, Ordering::Relaxed);
            assert!(cost <= most, "{cost} conversions");
            let Ok(converted) = converted else { continue };
            let metadata = &converted.object["metadata"];
            assert_eq!(converted.object["status"], json!({"phase": "Good"}));
            assert_eq!((&metadata["name"], &metadata["uid"]), (&json!("one"), &json!("u")));
            let taken = metadata["annotations"].as_object().into_iter().flatten();
            let taken: usize =
                taken.map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
            assert!(taken <= 256 * 1024, "{taken} bytes of annotations");
        }
    })
}

fn other(version: &str) -> &'static str {
    if version == "new" { "example.com/old" } else { "example.com/new" }
}

fn object(version: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Thing",
        "metadata": {"name": "one", "uid": "u", "annotations": annotations},
        "spec": {"size": 1, "names": [{"name": "x", "n": 0}], "list": [1, 2], "deep": {"a": 1}}, "status": {"phase": "Good"},
    })
}

#[test]
fn no_annotation_breaks_a_conversion() {
    let target = Target {
        name: "conversion-annotation",
        share: 1,
        tokens: WORDS,
        samples: || texts(ANNOTATIONS),
        begin: annotations,
    };
    attack(&[target], 2000);
}
