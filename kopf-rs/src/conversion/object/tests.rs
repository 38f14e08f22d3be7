use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::conversion::graph::Conversions;
use crate::conversion::graph::tests::between;
use crate::handler::conversion::{ConversionFunction, conversion};
use crate::handler::error::PermanentError;

/// A version with one text for an address, and a size that the other one lacks.
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
        let (host, port) = old
            .address
            .split_once(':')
            .ok_or_else(|| PermanentError::new("no port"))?;
        Ok(New {
            host: host.to_owned(),
            port: port.parse().map_err(|_| PermanentError::new("odd port"))?,
            mode: "plain".to_owned(),
            names: Vec::new(),
        })
    });
    let down = conversion("down", |new: New| {
        assert!(new.host != "panic", "a host of that name");
        Ok(Old {
            address: format!("{}:{}", new.host, new.port),
            size: None,
        })
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

fn converted(object: Value, to: &str) -> Value {
    let converted = kind()
        .convert(object, &format!("example.com/{to}"))
        .unwrap();
    assert_eq!(converted.problem, None);
    converted.object
}

const CARRIED: &str = "conversion.kopf.rs/old";

#[test]
fn what_a_version_lacks_comes_back() {
    let old = object(
        "old",
        json!({"address": "h:1", "size": 7, "unknown": {"a": [1, null]}}),
    );
    let mut new = converted(old.clone(), "new");
    assert_eq!(
        new["spec"],
        json!({"host": "h", "port": 1, "mode": "plain"})
    );
    assert_eq!(new["other"], json!([1]));
    assert!(new["metadata"]["annotations"][CARRIED].is_string(), "{new}");
    assert_eq!(converted(new.clone(), "old"), old);
    // An edit counts, the rest is carried on.
    new["spec"]["port"] = json!(2);
    new["spec"]["names"] = json!(["n"]);
    let mut edited = converted(new.clone(), "old");
    assert_eq!(
        edited["spec"],
        json!({"address": "h:2", "size": 7, "unknown": {"a": [1, null]}})
    );
    let annotations = edited["metadata"]["annotations"].as_object().unwrap();
    let names: Vec<_> = annotations.keys().collect();
    assert_eq!(names, ["conversion.kopf.rs/new"]);
    edited["spec"]["size"] = json!(8);
    let again = converted(edited, "new");
    assert_eq!(again["spec"], new["spec"]);
    assert_eq!(converted(again, "old")["spec"]["size"], 8);
}

#[test]
fn what_nothing_is_lost_of_carries_nothing() {
    let old = object("old", json!({"address": "h:1"}));
    let new = converted(old.clone(), "new");
    assert!(new["metadata"].get("annotations").is_none(), "{new}");
    assert_eq!(converted(new, "old"), old);
}

#[test]
fn pieces_are_converted_and_nothing_is_made_up() {
    let convert = |object: Value, to: &str| {
        let converted = kind().convert(object, &format!("example.com/{to}"));
        converted.unwrap().object
    };
    let piece = |spec: Value| json!({"apiVersion": "example.com/new", "kind": "Thing", "metadata": {"name": "one"}, "spec": spec});
    // The address needs both.
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
        Ok(To {
            renamed: it.kept,
            needed: it.needed.to_string(),
            items: it.items,
            constant: 1,
        })
    });
    let kind = Conversions::of(&[between("old", "new", up)]).kinds()[0].clone();
    let of = |spec: Value| {
        let piece = json!({"apiVersion": "example.com/old", "kind": "Thing", "spec": spec});
        let converted = kind.convert(piece, "example.com/new").unwrap();
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
        (
            json!({"address": "nothing"}),
            "spec: `up` has failed: no port",
        ),
    ] {
        let old = object("old", old);
        let new = kind().convert(old.clone(), "example.com/new").unwrap();
        let told = new.problem.unwrap();
        assert!(told.starts_with(problem), "{told}");
        assert_eq!(new.object["spec"], json!({}));
        // It cannot be read now either: it stays where it is.
        let back = kind()
            .convert(new.object, "example.com/old")
            .unwrap()
            .object;
        let carried = back["metadata"]["annotations"][CARRIED].as_str().unwrap();
        assert!(carried.contains("address"), "{carried}");
        let again = kind().convert(back, "example.com/new").unwrap().object;
        let carried = again["metadata"]["annotations"][CARRIED].as_str().unwrap();
        assert!(carried.contains("address"), "{carried}");
    }
    let panics = object("new", json!({"host": "panic", "port": 1}));
    let old = kind().convert(panics, "example.com/old").unwrap();
    assert_eq!(
        old.problem.as_deref(),
        Some("spec: `down` has panicked: a host of that name")
    );
}

#[test]
fn what_somebody_made_up_is_refused_or_ignored() {
    let new = |annotation: &str| {
        let mut new = object("new", json!({"host": "h", "port": 1}));
        new["metadata"]["annotations"] = json!({CARRIED: annotation, "a": "b"});
        new
    };
    for forged in [
        "junk",
        r#"[{"at":["spec","size"],"is":"text"}]"#,
        r#"[{"at":["spec"],"is":7}]"#,
        r#"[{"at":["metadata","uid"],"is":"other"}]"#,
        r#"[{"at":["spec","size","deep"],"is":1}]"#,
    ] {
        let old = converted(new(forged), "old");
        assert_eq!(old["spec"], json!({"address": "h:1"}), "{forged}");
        assert_eq!(old["metadata"]["uid"], "u");
        assert_eq!(old["metadata"]["annotations"]["a"], "b");
    }
    let fine = converted(new(r#"[{"at":["spec","size"],"is":3}]"#), "old");
    assert_eq!(fine["spec"]["size"], 3);
    // A copy of an annotation where there is nothing to be put back.
    let mut copied = object("old", json!({"address": "h:1"}));
    copied["metadata"]["annotations"] = json!({CARRIED: r#"[{"at":["spec","size"],"is":3}]"#});
    let new = converted(copied, "new");
    assert!(new["metadata"].get("annotations").is_none(), "{new}");
}

#[test]
fn what_cannot_be_carried_is_refused_with_its_place() {
    let mut seed = 1_u64;
    let noise = (0..14_000).map(|_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{seed:x}")
    });
    let noise: String = noise.collect();
    let old = object("old", json!({"address": "h:1", "unknown": noise}));
    let refused = kind().convert(old, "example.com/new").unwrap_err();
    assert!(
        refused.contains("example.com/new has no place for what old has in spec.unknown"),
        "{refused}"
    );
}

#[test]
fn versions_of_others_are_refused() {
    let old = object("old", json!({"address": "h:1"}));
    for desired in ["example.com/v9", "example.org/new", "new", ""] {
        assert!(kind().convert(old.clone(), desired).is_err(), "{desired}");
    }
    let other = kind().convert(json!({"apiVersion": "v1"}), "example.com/new");
    assert!(other.is_err());
    assert!(kind().convert(json!("text"), "example.com/new").is_err());
    assert_eq!(converted(old.clone(), "old"), old);
}

#[test]
fn each_step_of_a_way_carries_what_is_lost_there() {
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
        let converted = kind.convert(object, &format!("example.com/{version}"));
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
        let size = object["metadata"]["labels"]["size"]
            .as_str()
            .and_then(|it| it.parse().ok());
        object["spec"] = json!({"size": size.unwrap_or(0_u64)});
        Ok(object)
    });
    let functions = [
        between("old", "new", up.of_object()),
        between("new", "old", down.of_object()),
    ];
    let kind = Conversions::of(&functions).kinds()[0].clone();
    let old = object("old", json!({"size": 7}));
    let new = kind.convert(old.clone(), "example.com/new").unwrap().object;
    assert_eq!(new["metadata"]["labels"], json!({"size": "7"}));
    assert_eq!(new["metadata"]["finalizers"], json!(["a/b"]));
    assert!(new["metadata"].get("annotations").is_none(), "{new}");
    let back = kind.convert(new, "example.com/old").unwrap().object;
    assert_eq!(back["spec"], old["spec"]);
}
