use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::conversion::graph::Conversions;
use crate::conversion::graph::tests::between;
use crate::handler::conversion::{ConversionFunction, conversion};
use crate::handler::error::PermanentError;
use crate::object::essence::digest;

/// A version with one text for an address, and a size that the other version lacks.
#[derive(Serialize, Deserialize)]
struct Old {
    address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct New {
    host: String,
    port: u16,
    #[serde(default)]
    mode: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
}

fn functions() -> Vec<Arc<ConversionFunction>> {
    let up = conversion("up", |old: Old| {
        let (host, port) = old.address.split_once(':').ok_or_else(|| PermanentError::new("no port"))?;
        Ok(New {
            host: host.to_owned(),
            port: port.parse().map_err(|_| PermanentError::new("odd port"))?,
            mode: "plain".to_owned(),
            names: Vec::new(),
        })
    });
    let down = conversion("down", |new: New| {
        assert!(new.host != "panic", "a host of that name");
        Ok(Old { address: format!("{}:{}", new.host, new.port), size: None })
    });
    vec![between("old", "new", up), between("new", "old", down)]
}

fn kind() -> ConvertedKind {
    Conversions::of(&functions()).kinds()[0].clone()
}

fn object(version: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Thing",
        "metadata": {"name": "one", "uid": "u", "finalizers": ["a/b"]}, "other": [1],
    });
    object["spec"] = spec;
    object
}

/// Objects are stored in the version `new`.
fn rules() -> Rules {
    let version = |name: &str, properties: Value| {
        json!({
            "name": name, "storage": name == "new", "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}},
        })
    };
    let old = json!({"address": {"type": "string"}, "size": {"type": "integer", "maximum": 100}});
    let new = json!({"host": {"type": "string"}, "port": {"type": "integer"}});
    Rules::of(&json!({
        "spec": {"versions": [version("old", old), version("new", new)]},
        "status": {"storedVersions": ["new"]},
    }))
}

fn converted(object: Value, to: &str) -> Value {
    let converted = kind().convert(object, &format!("example.com/{to}"), &rules()).unwrap();
    assert_eq!(converted.problem, None);
    converted.object
}

const CARRIED: &str = "conversion.kopf.rs/old";

#[test]
fn fields_that_a_version_lacks_return() {
    let old = object("old", json!({"address": "h:1", "size": 7, "unknown": {"a": [1, null]}}));
    let mut new = converted(old.clone(), "new");
    assert_eq!(new["spec"], json!({"host": "h", "port": 1, "mode": "plain"}));
    assert_eq!(new["other"], json!([1]));
    assert!(new["metadata"]["annotations"][CARRIED].is_string(), "{new}");
    assert_eq!(converted(new.clone(), "old"), old);
    // An edited field counts, and the rest is still preserved.
    new["spec"]["port"] = json!(2);
    new["spec"]["names"] = json!(["n"]);
    let mut edited = converted(new.clone(), "old");
    assert_eq!(edited["spec"], json!({"address": "h:2", "size": 7, "unknown": {"a": [1, null]}}));
    let annotations = edited["metadata"]["annotations"].as_object().unwrap();
    let names: Vec<_> = annotations.keys().collect();
    assert_eq!(names, ["conversion.kopf.rs/new"]);
    edited["spec"]["size"] = json!(8);
    let again = converted(edited, "new");
    assert_eq!(again["spec"], new["spec"]);
    assert_eq!(converted(again, "old")["spec"]["size"], 8);
}

#[test]
fn a_lossless_conversion_carries_nothing() {
    let old = object("old", json!({"address": "h:1"}));
    let new = converted(old.clone(), "new");
    assert!(new["metadata"].get("annotations").is_none(), "{new}");
    assert_eq!(converted(new, "old"), old);
}

#[test]
fn pieces_are_converted_without_invented_values() {
    let convert = |object: Value, to: &str| {
        let converted = kind().convert(object, &format!("example.com/{to}"), &rules());
        converted.unwrap().object
    };
    let piece = |spec: Value| json!({"apiVersion": "example.com/new", "kind": "Thing", "metadata": {"name": "one"}, "spec": spec});
    // The address needs both fields.
    let old = convert(piece(json!({"host": "h"})), "old");
    assert!(old.get("spec").is_none(), "{old}");
    assert!(old["metadata"].get("annotations").is_none());
    let old = convert(piece(json!({})), "old");
    assert!(old.get("spec").is_none(), "{old}");
    for bare in [
        json!({"apiVersion": "example.com/new", "kind": "Thing"}),
        json!({"apiVersion": "example.com/new", "kind": "Thing", "metadata": null, "status": {"a": 1}}),
    ] {
        let old = convert(bare.clone(), "old");
        assert_eq!(old["metadata"], json!({}));
        assert_eq!(old.get("status"), bare.get("status"));
    }
}

#[test]
fn members_that_stay_the_same_pass_through_pieces() {
    #[derive(Serialize, Deserialize)]
    struct From {
        kept: String,
        needed: u32,
        items: Vec<Item>,
    }
    #[derive(Serialize, Deserialize)]
    struct Item {
        name: String,
        image: String,
    }
    #[derive(Serialize, Deserialize)]
    struct To {
        renamed: String,
        needed: String,
        items: Vec<Item>,
        constant: u8,
    }
    let up = conversion("up", |it: From| {
        Ok(To { renamed: it.kept, needed: it.needed.to_string(), items: it.items, constant: 1 })
    });
    let kind = Conversions::of(&[between("old", "new", up)]).kinds()[0].clone();
    let of = |spec: Value| {
        let piece = json!({"apiVersion": "example.com/old", "kind": "Thing", "spec": spec});
        let converted = kind.convert(piece, "example.com/new", &rules()).unwrap();
        converted.object.get("spec").cloned()
    };
    assert_eq!(of(json!({"kept": "x"})), Some(json!({"renamed": "x"})));
    assert_eq!(of(json!({"needed": 5})), Some(json!({"needed": "5"})));
    assert_eq!(
        of(json!({"items": [{"name": "a"}, {"name": "b", "image": "i"}]})),
        Some(json!({"items": [{"name": "a"}, {"name": "b", "image": "i"}]}))
    );
    assert_eq!(of(json!({})), None);
}

#[test]
fn an_object_that_cannot_be_converted_is_kept_whole() {
    for (old, problem) in [
        (json!({"address": 5}), "spec: address: invalid type"),
        (json!({"address": "nothing"}), "spec: `up` has failed: no port"),
    ] {
        let old = object("old", old);
        let new = kind().convert(old.clone(), "example.com/new", &rules()).unwrap();
        let told = new.problem.unwrap();
        assert!(told.starts_with(problem), "{told}");
        assert_eq!(new.object["spec"], json!({}));
        // It cannot be read now either, so it stays in the annotation.
        let back = kind().convert(new.object, "example.com/old", &rules()).unwrap().object;
        let carried = back["metadata"]["annotations"][CARRIED].as_str().unwrap();
        assert!(carried.contains("address"), "{carried}");
        let again = kind().convert(back, "example.com/new", &rules()).unwrap().object;
        let carried = again["metadata"]["annotations"][CARRIED].as_str().unwrap();
        assert!(carried.contains("address"), "{carried}");
    }
    let panics = object("new", json!({"host": "panic", "port": 1}));
    let old = kind().convert(panics, "example.com/old", &rules()).unwrap();
    assert_eq!(old.problem.as_deref(), Some("spec: `down` has panicked: a host of that name"));
}

#[test]
fn forged_annotations_are_refused_or_ignored() {
    let new = |annotation: &str| {
        let mut new = object("new", json!({"host": "h", "port": 1}));
        new["metadata"]["annotations"] = json!({CARRIED: annotation, "a": "b"});
        new
    };
    let expressible = json!([{"at": ["spec", "address"], "was": digest(&json!("h:1")), "is": "h:9"}]);
    for forged in [
        "junk",
        // The value has a wrong type, or violates the schema.
        r#"[{"at":["spec","size"],"is":"text"}]"#,
        r#"[{"at":["spec","size"],"is":101}]"#,
        r#"[{"at":["spec"],"is":7}]"#,
        r#"[{"at":["metadata","uid"],"is":"other"}]"#,
        r#"[{"at":["spec","size","deep"],"is":1}]"#,
        // The host and the port of `new` determine the address.
        &expressible.to_string(),
        // Permission to write the object does not include its status.
        r#"[{"at":["status"],"is":{"approved":true}}]"#,
        r#"[{"at":["status","approved"],"is":true}]"#,
    ] {
        for (status, expected) in [(Value::Null, Value::Null), (json!({"a": 1}), json!({"a": 1}))] {
            let mut new = new(forged);
            new["status"] = status;
            let old = converted(new, "old");
            assert_eq!(old["spec"], json!({"address": "h:1"}), "{forged}");
            assert_eq!(old["status"], expected, "{forged}");
            assert_eq!(old["metadata"]["uid"], "u");
            assert_eq!(old["metadata"]["annotations"]["a"], "b");
        }
    }
    let fine = converted(new(r#"[{"at":["spec","size"],"is":3}]"#), "old");
    assert_eq!(fine["spec"]["size"], 3);
    // A copied annotation without a field to restore.
    let mut copied = object("old", json!({"address": "h:1"}));
    copied["metadata"]["annotations"] = json!({CARRIED: r#"[{"at":["spec","size"],"is":3}]"#});
    let new = converted(copied, "new");
    assert!(new["metadata"].get("annotations").is_none(), "{new}");
}

/// A value is restored, except in a status that is a subresource.
#[test]
fn no_status_and_no_field_without_a_schema_is_restored() {
    let mut old = object("old", json!({"address": "h:1", "size": 3}));
    old["status"] = json!({"phase": "x"});
    let of_status = [
        between("old", "new", conversion("up", |_: Value| Ok(json!({}))).of_status()),
        between("new", "old", conversion("down", |_: Value| Ok(json!({}))).of_status()),
    ];
    let functions: Vec<_> = functions().into_iter().chain(of_status).collect();
    let kind = Conversions::of(&functions).kinds()[0].clone();
    let there = |rules: &Rules| kind.convert(old.clone(), "example.com/new", rules).unwrap().object;
    let back = |object: Value, rules: &Rules| kind.convert(object, "example.com/old", rules).unwrap().object;

    let found = back(there(&rules()), &rules());
    assert_eq!((&found["spec"]["size"], &found["status"]), (&json!(3), &json!({})));
    // Without the subresource, the status is an ordinary part of the object.
    let open = json!({"spec": {"versions": [{"name": "old"}, {"name": "new", "storage": true}]}});
    let open = Rules::of(&open);
    assert_eq!(back(there(&open), &open), old);
    // While the definition cannot be read, the fields stay in the annotation.
    let found = back(there(&Rules::Unknown), &Rules::Unknown);
    assert_eq!(found["spec"], json!({"address": "h:1"}));
    assert!(found["metadata"]["annotations"][CARRIED].is_string(), "{found}");
    assert_eq!(back(there(&rules()), &Rules::Unknown)["spec"], found["spec"]);
}

#[test]
fn forged_annotations_cost_few_conversions() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = |name: &'static str, calls: &Arc<AtomicUsize>| {
        let calls = calls.clone();
        conversion(name, move |mut spec: Value| {
            calls.fetch_add(1, Ordering::Relaxed);
            spec.as_object_mut().unwrap().retain(|_, it| it != "gone");
            if spec.to_string().contains("bad") { Err("bad".into()) } else { Ok(spec) }
        })
    };
    let functions =
        [between("old", "new", counted("up", &calls)), between("new", "old", counted("down", &calls))];
    let kind = Conversions::of(&functions).kinds()[0].clone();
    let forged = (0..500).map(|number| {
        let value = ["bad", "gone", "seen"][number % 3];
        json!({"at": ["spec", format!("f{number}")], "is": value})
    });
    let forged: Value = forged.collect();
    for version in ["old", "new"] {
        let mut new = object("new", json!({"host": "h"}));
        new["metadata"]["annotations"] = json!({format!("conversion.kopf.rs/{version}"): forged.to_string()});
        calls.store(0, Ordering::Relaxed);
        kind.convert(new, "example.com/old", &rules()).unwrap();
        let calls = calls.load(Ordering::Relaxed);
        assert!(calls < 32, "{version}: {calls}");
    }
}

#[test]
fn fields_that_are_too_large_fail_a_write_and_no_read() {
    let mut seed = 1_u64;
    let noise = (0..14_000).map(|_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{seed:x}")
    });
    let noise: String = noise.collect();
    // Objects are stored in `new`, so an object in `old` stems from a write request.
    let old = object("old", json!({"address": "h:1", "unknown": noise}));
    let refused = kind().convert(old, "example.com/new", &rules()).unwrap_err();
    let expected = "example.com/new has no place for what old has in spec.unknown";
    assert!(refused.contains(expected), "{refused}");

    let new = object("new", json!({"host": "h", "port": 1, "names": [noise]}));
    let shown = kind().convert(new, "example.com/old", &rules()).unwrap();
    assert_eq!(shown.object["spec"], json!({"address": "h:1"}));
    let omitted = shown.omitted.unwrap();
    assert!(omitted.contains("what new has in spec.names"), "{omitted}");
    let mut written = shown.object;
    written["spec"]["size"] = json!(5);
    let refused = kind().convert(written.clone(), "example.com/new", &rules()).unwrap_err();
    assert!(refused.contains("does not show what new has in spec.names"), "{refused}");
    // Deletion must succeed regardless of the content.
    written["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    assert!(kind().convert(written.clone(), "example.com/new", &rules()).is_ok());
    // The request may be a listing.
    written["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    assert!(kind().convert(written, "example.com/new", &Rules::Unknown).is_ok());
}

#[test]
fn versions_of_others_are_refused() {
    let old = object("old", json!({"address": "h:1"}));
    for desired in ["example.com/v9", "example.org/new", "new", ""] {
        assert!(kind().convert(old.clone(), desired, &rules()).is_err(), "{desired}");
    }
    let other = kind().convert(json!({"apiVersion": "v1"}), "example.com/new", &rules());
    assert!(other.is_err());
    assert!(kind().convert(json!("text"), "example.com/new", &rules()).is_err());
    assert_eq!(converted(old.clone(), "old"), old);
}

#[test]
fn each_step_of_a_path_carries_its_own_losses() {
    let without = |name: &'static str| {
        move |mut spec: Value| {
            spec.as_object_mut().map(|it| it.remove(name));
            Ok(spec)
        }
    };
    let functions = [
        between("a", "hub", conversion("up", without("only_a"))),
        between("hub", "a", conversion("down", |spec: Value| Ok(spec))),
        between("hub", "b", conversion("on", without("only_hub"))),
        between("b", "hub", conversion("off", |spec: Value| Ok(spec))),
    ];
    let kind = Conversions::of(&functions).kinds()[0].clone();
    let to = |object: Value, version: &str| {
        let converted = kind.convert(object, &format!("example.com/{version}"), &Rules::Trusting);
        converted.unwrap().object
    };
    let a = object("a", json!({"only_a": 1, "only_hub": 2, "all": 3}));
    let b = to(a.clone(), "b");
    assert_eq!(b["spec"], json!({"all": 3}));
    let hub = to(b.clone(), "hub");
    assert_eq!(hub["spec"], json!({"only_hub": 2, "all": 3}));
    assert_eq!(hub["metadata"]["annotations"].as_object().unwrap().len(), 1);
    assert_eq!(to(hub, "a"), a);
    assert_eq!(to(b, "a"), a);
}

#[test]
fn whole_objects_may_change_their_labels() {
    let up = conversion("up", |mut object: Value| {
        object["metadata"]["labels"]["size"] = object["spec"]["size"].to_string().into();
        object["metadata"]["finalizers"] = json!([]);
        object["spec"] = json!({});
        Ok(object)
    });
    let down = conversion("down", |mut object: Value| {
        let size = object["metadata"]["labels"]["size"].as_str().and_then(|it| it.parse().ok());
        object["spec"] = json!({"size": size.unwrap_or(0_u64)});
        Ok(object)
    });
    let functions = [between("old", "new", up.of_object()), between("new", "old", down.of_object())];
    let kind = Conversions::of(&functions).kinds()[0].clone();
    let old = object("old", json!({"size": 7}));
    let new = kind.convert(old.clone(), "example.com/new", &rules()).unwrap().object;
    assert_eq!(new["metadata"]["labels"], json!({"size": "7"}));
    assert_eq!(new["metadata"]["finalizers"], json!(["a/b"]));
    assert!(new["metadata"].get("annotations").is_none(), "{new}");
    let back = kind.convert(new, "example.com/old", &rules()).unwrap().object;
    assert_eq!(back["spec"], old["spec"]);
}
