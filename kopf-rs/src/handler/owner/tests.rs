use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::*;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    generate_name: Option<String>,
    namespace: Option<String>,
    labels: BTreeMap<String, String>,
    owner_references: Option<Vec<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Child {
    metadata: Meta,
}

/// A type that has no field for owner references.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Small {
    metadata: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Bare {
    kind: String,
}

fn object() -> Value {
    json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
        "metadata": {"name": "one", "namespace": "prod", "uid": "u1", "labels": {"app": "x"}},
    })
}

fn owner() -> Owner {
    Owner::of(&object()).unwrap()
}

fn is_adopted(child: &Child) -> bool {
    let meta = &child.metadata;
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    meta.generate_name.as_deref() == Some("one-")
        && meta.namespace.as_deref() == Some("prod")
        && meta.labels["app"] == "x"
        && owners[0]["uid"] == "u1"
}

#[test]
fn objects_of_all_types_and_collections_are_adopted() {
    let (mut one, mut raw) = (Child::default(), json!({"kind": "Pod"}));
    owner().adopt((&mut one, &mut raw)).unwrap();
    assert!(is_adopted(&one));
    assert_eq!(raw["metadata"]["generateName"], "one-");
    let nothing: Option<Child> = None;
    let mut many = vec![vec![Some(Child::default()), nothing], vec![]];
    owner().adopt(&mut many).unwrap();
    assert!(many[0][0].as_ref().is_some_and(is_adopted));
    assert!(many[0][1].is_none());
    let mut children = vec![Child::default(); 4];
    owner().adopt(&mut children[1..2]).unwrap();
    owner().adopt(children[2..3].iter_mut()).unwrap();
    owner().adopt([&mut children[3]]).unwrap();
    let none: Option<&mut Child> = None;
    owner().adopt((none, vec![Some(&mut raw)])).unwrap();
    assert_eq!(children[0], Child::default());
    assert!(children[1..].iter().all(is_adopted));
    let mut by_name = BTreeMap::from([("a", Child::default())]);
    owner().adopt(by_name.values_mut().collect::<Vec<_>>()).unwrap();
    assert!(is_adopted(&by_name["a"]));
}

#[test]
fn a_field_that_a_type_cannot_hold_is_an_error() {
    let mut small = Small::default();
    owner().label(&mut small).unwrap_err();
    owner().harmonize_naming(&mut small).unwrap();
    assert_eq!(small.metadata["generateName"], "one-");
    let mut bare = Bare { kind: "Pod".into() };
    let refused = owner().adopt(&mut bare).unwrap_err().to_string();
    assert!(refused.contains("Bare` has no field for `metadata"), "{refused}");
    assert_eq!(bare, Bare { kind: "Pod".into() });
    let mut text = "x".to_owned();
    let refused = owner().adopt(&mut text).unwrap_err().to_string();
    assert_eq!(refused, "expected an object, found text");
}

#[test]
fn options_replace_values_of_the_owner() {
    let mut child =
        json!({"metadata": {"name": "mine", "labels": {"app": "mine"}}, "spec": {"template": {}}});
    owner().strict().forced().nested("spec.template").adopt(&mut child).unwrap();
    assert_eq!(child["metadata"]["name"], "one");
    assert_eq!(child["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(child["spec"]["template"]["metadata"]["labels"], json!({"app": "x"}));
    let mut other = json!({});
    let given =
        owner().name("two").namespace(None).labels([("a", "b")]).controller(None).block_owner_deletion(false);
    given.adopt(&mut other).unwrap();
    let reference = json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "one", "uid": "u1", "blockOwnerDeletion": false});
    let metadata = json!({"generateName": "two-", "labels": {"a": "b"}, "ownerReferences": [reference]});
    assert_eq!(other["metadata"], metadata);
    given.remove_owner_reference(&mut other).unwrap();
    assert_eq!(other["metadata"]["ownerReferences"], json!([]));
    // The object is in a different namespace than its owner.
    let refused = owner().namespace(Some("test")).adopt(&mut json!({}));
    assert!(refused.unwrap_err().to_string().contains("Kubernetes would delete it"));
}

#[test]
fn the_current_object_is_that_of_the_innermost_call() {
    let mut child = json!({});
    let refused = adopt(&mut child).unwrap_err().to_string();
    assert!(refused.starts_with("no handler runs here"), "{refused}");
    let outer = Arc::new(Cause::from(Cause::of(object())));
    let _outer = current::enter(&outer);
    {
        let mut other = object();
        other["metadata"]["name"] = json!("two");
        let inner = Arc::new(Cause::from(Cause::of(other)));
        let _inner = current::enter(&inner);
        harmonize_naming(&mut child).unwrap();
    }
    label(&mut child).unwrap();
    adjust_namespace(&mut child).unwrap();
    append_owner_reference(&mut child).unwrap();
    remove_owner_reference(&mut child).unwrap();
    let metadata =
        json!({"generateName": "two-", "labels": {"app": "x"}, "namespace": "prod", "ownerReferences": []});
    assert_eq!(child["metadata"], metadata);
}

#[test]
fn an_owner_is_made_of_a_body_too() {
    let cause = Cause::of(object());
    let mut child = json!({});
    Owner::of(cause.body()).unwrap().label(&mut child).unwrap();
    assert_eq!(child["metadata"]["labels"], json!({"app": "x"}));
    assert!(Owner::of(&5).is_err());
}
