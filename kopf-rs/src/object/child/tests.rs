use super::*;

fn marks() -> ChildMarks {
    ChildMarks { manager: "op.kopf.rs".to_owned() }
}

fn owner() -> OwnerFacts {
    OwnerFacts::of(&json!({
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": {"name": "one", "namespace": "prod", "uid": "u1", "labels": {"app": "x"}},
    }))
    .unwrap()
}

fn reference(uid: &str) -> Value {
    json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "one", "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

fn sent(object: Value, namespaced: bool, ownership: Ownership) -> Result<Value, String> {
    let belonging = Belonging { ownership, set: None };
    let prepared = prepared(object, namespaced, &owner(), belonging, &marks());
    prepared.map(|(_, object)| object).map_err(|misfit| misfit.to_string())
}

#[test]
fn a_child_is_completed_and_loses_fields_of_the_server() {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"creationTimestamp": null, "uid": "x", "resourceVersion": "7", "generation": 2, "managedFields": [], "labels": {"app": "y"}},
        "spec": {"replicas": null, "template": {"volumes": [{"name": "v", "emptyDir": {}, "secret": null}]}},
        "status": {},
    });
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "one", "namespace": "prod", "labels": {"app": "y", "op.kopf.rs/owned": "true"},
            "ownerReferences": [reference("u1")],
        },
        "spec": {"template": {"volumes": [{"name": "v", "emptyDir": {}}]}},
    });
    assert_eq!(sent(object, true, Ownership::Controller), Ok(expected));
}

#[test]
fn names_are_the_same_each_time() {
    let named = |metadata: &Value| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let sent = sent(object, true, Ownership::Controller).unwrap();
        assert!(sent["metadata"]["generateName"].is_null());
        sent["metadata"]["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(named(&json!({"name": "mine"})), "mine");
    assert_eq!(named(&Value::Null), "one");
    let generated = named(&json!({"generateName": "job-"}));
    assert!(generated.starts_with("job-") && generated.len() == 12);
    assert_eq!(named(&json!({"generateName": "job-"})), generated);
}

#[test]
fn children_that_kubernetes_would_delete_are_refused_unless_unowned() {
    let elsewhere =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "other"}});
    let custom = json!({"apiVersion": "a.io/v1", "kind": "Zone", "metadata": {"name": "c"}});
    for (object, namespaced, told) in [
        (&elsewhere, true, "ConfigMap `c` is in the namespace `other`"),
        (&custom, false, "Zone `c` is cluster-scoped"),
    ] {
        let refused = sent(object.clone(), namespaced, Ownership::Controller).unwrap_err();
        assert!(refused.starts_with(told), "{refused}");
        let sent = sent(object.clone(), namespaced, Ownership::Unowned).unwrap();
        assert!(sent["metadata"]["ownerReferences"].is_null());
        assert_eq!(sent["metadata"]["labels"]["op.kopf.rs/owner-uid"], "u1");
    }
    let nameless = json!({"kind": "ConfigMap"});
    let refused = sent(nameless, true, Ownership::Controller).unwrap_err();
    assert!(refused.contains("has no `apiVersion`"), "{refused}");
}

fn managed(manager: &str, operation: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": operation, "fieldsV1": fields})
}

fn stranger(why: &str) -> Claim {
    Claim::Stranger(why.to_owned())
}

fn unclaimed(why: &str) -> Claim {
    Claim::Unclaimed(why.to_owned())
}

#[test]
fn an_object_of_the_name_is_a_child_or_a_strangers() {
    let ours = || managed("op.kopf.rs", "Apply", &json!({"f:data": {}}));
    let theirs = || managed("kubectl", "Update", &json!({"f:data": {}}));
    let other =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u9", "controller": true});
    let own_update = managed("op.kopf.rs", "Update", &json!({}));
    for (references, entries, deleting, expected) in [
        (vec![reference("u1")], vec![ours()], false, Claim::Ours),
        // The managed fields were reset, or a former release has made the object.
        (vec![reference("u1")], vec![theirs()], false, Claim::Ours),
        (vec![reference("u1")], vec![ours()], true, Claim::Terminating),
        // The owner was recreated.
        (vec![reference("u0")], vec![ours()], false, Claim::Ours),
        (vec![reference("u0")], vec![theirs()], false, stranger("controlled by KopfExample `one`")),
        (vec![other.clone()], vec![ours()], false, stranger("controlled by ReplicaSet `r`")),
        (vec![other], vec![theirs()], true, stranger("controlled by ReplicaSet `r`")),
        // The reference was removed by hand.
        (vec![], vec![ours()], false, Claim::Ours),
        (vec![], vec![theirs(), theirs()], false, unclaimed("managed by \"kubectl\"")),
        (vec![], vec![own_update], false, unclaimed("managed by \"op.kopf.rs\"")),
        (vec![], vec![], false, unclaimed("not made by this operator")),
    ] {
        let mut found = json!({"metadata": {"ownerReferences": references, "managedFields": entries}});
        if deleting {
            found["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let claimed = claim(&found, &owner(), Ownership::Controller, &marks());
        assert_eq!(claimed, expected, "{found}");
    }
}

#[test]
fn unowned_children_are_identified_by_label() {
    let found = |uid: &str| {
        let entry = managed("op.kopf.rs", "Apply", &json!({"f:data": {}}));
        json!({"metadata": {"labels": {"op.kopf.rs/owner-uid": uid}, "managedFields": [entry]}})
    };
    let claimed = |uid: &str| claim(&found(uid), &owner(), Ownership::Unowned, &marks());
    assert_eq!(claimed("u1"), Claim::Ours);
    assert!(matches!(claimed("u2"), Claim::Stranger(_)));
}

#[test]
fn objects_from_before_a_first_apply_have_other_managers() {
    let ours = managed("op.kopf.rs", "Apply", &json!({"f:data": {}}));
    let mut status = managed("controller", "Update", &json!({"f:status": {}}));
    status["subresource"] = json!("status");
    let annotated = managed("kubectl", "Update", &json!({"f:metadata": {}}));
    let theirs = managed("kubectl", "Update", &json!({"f:data": {}}));
    let there = |entries: &Value| was_there(&json!({"metadata": {"managedFields": entries}}), &marks());
    assert_eq!(there(&json!([ours, status, annotated])), None);
    assert_eq!(there(&json!([ours, theirs])), Some("managed by \"kubectl\"".to_owned()));
}

#[test]
fn a_release_keeps_the_name_only() {
    let found = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "u", "labels": {"a": "b"}}, "data": {}});
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "u"}});
    assert_eq!(released(&found), bare);
}

#[test]
fn an_orphan_loses_its_owner_and_the_marks_only() {
    let other = json!({"kind": "Other", "name": "o", "uid": "u9"});
    let found = json!({"metadata": {
        "uid": "c", "resourceVersion": "7", "ownerReferences": [reference("u1"), other],
        "labels": {"app": "x", "op.kopf.rs/owned": "true"}, "annotations": {"op.kopf.rs/set": "keep", "a": "b"},
    }});
    let expected = json!({"metadata": {
        "uid": "c", "resourceVersion": "7", "ownerReferences": [other],
        "labels": {"op.kopf.rs/owned": null}, "annotations": {"op.kopf.rs/set": null},
    }});
    assert_eq!(orphaned(&found, &owner(), &marks()), Some(expected));
    let free = json!({"metadata": {"uid": "c", "resourceVersion": "7", "ownerReferences": [other], "labels": {"app": "x"}}});
    assert_eq!(orphaned(&free, &owner(), &marks()), None);
}

#[test]
fn another_apply_under_the_same_name_shows_in_the_state() {
    let found = |changes: Value| {
        let mut found = json!({"metadata": {
            "uid": "c", "resourceVersion": "7", "labels": {"a": "1", "theirs": "x"},
            "managedFields": [
                {
                    "manager": "op.kopf.rs", "operation": "Apply", "time": "2026-01-01T00:00:00Z",
                    "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {"f:a": {}}},
                },
                {"manager": "other", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {}},
            ],
        }});
        for (pointer, value) in changes.as_object().into_iter().flatten() {
            *found.pointer_mut(pointer).unwrap() = value.clone();
        }
        ChildSight::of(&found, &marks())
    };
    let applied = found(json!({}));
    let time = "/metadata/managedFields/0/time";
    let later = found(json!({time: "2026-01-01T00:00:01Z"}));
    assert_ne!(later.state, applied.state);
    assert_ne!(later.noted, applied.noted);
    let relabelled = found(json!({"/metadata/labels/a": "2"}));
    assert_ne!(relabelled.state, applied.state);
    let theirs = found(json!({"/metadata/labels/theirs": "y", "/metadata/resourceVersion": "8"}));
    assert_eq!(theirs.state, applied.state);
    assert!(theirs.hides_an_apply(&applied, false));
    let other = "/metadata/managedFields/1/time";
    let theirs = found(json!({other: "2026-01-01T00:00:01Z", "/metadata/resourceVersion": "8"}));
    assert_eq!(theirs.state, applied.state);
    assert!(!theirs.hides_an_apply(&applied, false));
    assert!(theirs.hides_an_apply(&applied, true), "there may be two");
}
