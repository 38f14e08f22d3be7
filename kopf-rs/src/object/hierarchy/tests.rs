use super::*;

const FLAGS: ReferenceFlags = ReferenceFlags { controller: Some(true), block_owner_deletion: Some(true) };

fn owner() -> OwnerFacts {
    OwnerFacts::of(&json!({
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": {"name": "one", "namespace": "prod", "uid": "u1", "labels": {"app": "x", "tier": "gold"}},
    }))
    .unwrap()
}

fn reference() -> Value {
    json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "one", "uid": "u1",
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Returns the changed object, or the error.
fn changed(
    mut object: Value,
    change: impl FnOnce(&mut Value) -> Result<(), Misfit>,
) -> Result<Value, String> {
    match change(&mut object) {
        Ok(()) => Ok(object),
        Err(misfit) => Err(misfit.to_string()),
    }
}

#[test]
fn a_reference_is_appended_once_and_never_changed() {
    let append = |object| changed(object, |it| owner().append_reference(it, FLAGS));
    let with = |references: Value| json!({"metadata": {"ownerReferences": references}});
    assert_eq!(append(json!({})), Ok(with(json!([reference()]))));
    assert_eq!(append(json!({"metadata": null})), Ok(with(json!([reference()]))));
    let other = json!({"uid": "u2", "kind": "Other"});
    assert_eq!(append(with(json!([other]))), Ok(with(json!([other, reference()]))));
    // The same owner with other flags: the reference stays unchanged.
    let mine = with(json!([{"uid": "u1", "controller": false}]));
    assert_eq!(append(mine.clone()), Ok(mine));
    // Kopf's `None` omits a flag.
    let bare = ReferenceFlags { controller: None, block_owner_deletion: Some(false) };
    let appended = changed(json!({}), |it| owner().append_reference(it, bare)).unwrap();
    let appended = &appended["metadata"]["ownerReferences"][0];
    assert!(appended["controller"].is_null());
    assert_eq!(appended["blockOwnerDeletion"], false);
}

#[test]
fn a_reference_that_kubernetes_refuses_or_deletes_for_is_refused() {
    let append = |object: Value| {
        let before = object.clone();
        let mut after = object;
        let refused = owner().append_reference(&mut after, FLAGS).unwrap_err();
        if before.is_object() {
            assert_eq!(before["metadata"]["ownerReferences"], after["metadata"]["ownerReferences"]);
        }
        refused.to_string()
    };
    for (object, wanted) in [
        (json!("x"), "expected an object, found text"),
        (json!({"metadata": 5}), "`metadata` of the object is a number"),
        (
            json!({"kind": "Pod", "metadata": {"name": "p", "uid": "u1"}}),
            "KopfExample `one` cannot own itself",
        ),
        (
            json!({"kind": "Pod", "metadata": {"name": "p", "ownerReferences": [
                {"uid": "u2", "kind": "ReplicaSet", "name": "r", "controller": true}]}}),
            "Pod `p` is controlled by ReplicaSet `r` (u2) already, and only one owner can be the controller",
        ),
        (
            json!({"kind": "Pod", "metadata": {"generateName": "p-", "namespace": "test"}}),
            "Pod `p-` is in the namespace `test`, and its owner KopfExample `one` in `prod`: Kubernetes would delete it",
        ),
        (
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}),
            "ClusterRole `r` is cluster-scoped, and its owner KopfExample `one` is in the namespace `prod`",
        ),
    ] {
        let told = append(object);
        assert!(told.contains(wanted), "{told}");
    }
}

#[test]
fn a_second_owner_may_be_no_controller_and_a_cluster_scoped_one_owns_anything() {
    let controlled = json!({"metadata": {"ownerReferences": [{"uid": "u2", "controller": true}]}});
    let flags = ReferenceFlags { controller: Some(false), ..FLAGS };
    let appended = changed(controlled, |it| owner().append_reference(it, flags)).unwrap();
    assert_eq!(appended["metadata"]["ownerReferences"][1]["uid"], "u1");
    let cluster_scoped = OwnerFacts { namespace: None, ..owner() };
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace"}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "test"}}),
    ] {
        let appended = changed(object, |it| cluster_scoped.append_reference(it, FLAGS));
        assert!(appended.is_ok());
    }
    // A custom kind may have the name of a built-in one.
    let custom = json!({"apiVersion": "example.com/v1", "kind": "Node"});
    assert!(changed(custom, |it| owner().append_reference(it, FLAGS)).is_ok());
}

#[test]
fn an_unstored_owner_is_refused() {
    let made = OwnerFacts { uid: String::new(), ..owner() };
    let refused = changed(json!({}), |it| made.append_reference(it, FLAGS)).unwrap_err();
    assert!(refused.starts_with("the owner has no `metadata.uid`"), "{refused}");
    assert!(changed(json!({}), |it| made.remove_reference(it)).is_err());
    assert_eq!(OwnerFacts::of(&json!([])), Err(Misfit::NoObject("a list")));
}

#[test]
fn a_reference_is_removed_by_uid_and_an_empty_list_stays() {
    let remove = |object| changed(object, |it| owner().remove_reference(it));
    let with = |references: Value| json!({"metadata": {"ownerReferences": references}});
    assert_eq!(remove(with(json!([reference()]))), Ok(with(json!([]))));
    let other = with(json!([{"uid": "u2", "name": "one"}]));
    assert_eq!(remove(other.clone()), Ok(other));
    assert_eq!(remove(json!({})), Ok(json!({})));
}

#[test]
fn labels_are_added_or_forced_at_nested_paths_too() {
    let labels = owner().labels;
    let template = FieldPath::from("spec.template");
    let nested = [template, FieldPath::from("spec.absent.deep")];
    let object = json!({
        "metadata": {"labels": {"app": "mine"}},
        "spec": {"template": {"spec": {}}, "absent": null},
    });
    let all = json!({"app": "x", "tier": "gold"});
    let added = changed(object.clone(), |it| label(it, &labels, false, &nested)).unwrap();
    assert_eq!(added["metadata"]["labels"], json!({"app": "mine", "tier": "gold"}));
    assert_eq!(added["spec"]["template"]["metadata"]["labels"], all);
    let forced = changed(object.clone(), |it| label(it, &labels, true, &[])).unwrap();
    assert_eq!(forced["metadata"]["labels"], all);
    assert!(forced["spec"]["template"]["metadata"].is_null());
    // `metadata.labels` is created even if there are no labels to add.
    let none = changed(json!({}), |it| label(it, &Map::new(), false, &[]));
    assert_eq!(none, Ok(json!({"metadata": {"labels": {}}})));
}

#[test]
fn a_nested_path_through_anything_but_objects_is_refused() {
    let told = |object: Value, path: &str| {
        let nested = [FieldPath::from(path)];
        changed(object, |it| label(it, &owner().labels, false, &nested)).unwrap_err()
    };
    let object = json!({"kind": "Job", "spec": {"size": 5, "items": [{}]}});
    assert_eq!(
        told(object.clone(), "spec.size.template"),
        "`spec.size` of Job is a number: expected an object"
    );
    assert_eq!(told(object, "spec.items"), "`spec.items` of Job is a list: expected an object");
}

#[test]
fn names_are_given_where_there_is_none_or_where_they_are_forced() {
    let name = |metadata: Value, forced, strict| {
        let object = json!({"metadata": metadata});
        let named = changed(object, |it| harmonize_naming(it, "one", forced, strict)).unwrap();
        named["metadata"].clone()
    };
    let (loose, exact) = (json!({"generateName": "one-"}), json!({"name": "one"}));
    assert_eq!(name(json!({}), false, false), loose);
    assert_eq!(name(json!({}), false, true), exact);
    assert_eq!(name(json!({"name": ""}), false, false), loose);
    for kept in [json!({"name": "a"}), json!({"generateName": "a-"})] {
        assert_eq!(name(kept.clone(), false, true), kept);
        assert_eq!(name(kept.clone(), true, true), exact);
        assert_eq!(name(kept, true, false), loose);
    }
}

#[test]
fn namespaces_are_given_where_there_is_none_or_where_they_are_forced() {
    let put = |metadata: Value, namespace, forced| {
        let object = json!({"metadata": metadata});
        let put = changed(object, |it| adjust_namespace(it, namespace, forced)).unwrap();
        put["metadata"]["namespace"].clone()
    };
    assert_eq!(put(json!({}), Some("prod"), false), "prod");
    assert_eq!(put(json!({"namespace": null}), Some("prod"), false), "prod");
    assert_eq!(put(json!({"namespace": "a"}), Some("prod"), false), "a");
    assert_eq!(put(json!({"namespace": "a"}), Some("prod"), true), "prod");
    assert_eq!(put(json!({"namespace": "a"}), None, false), "a");
    assert!(put(json!({"namespace": "a"}), None, true).is_null());
}

#[test]
fn collections_are_walked_however_deep() {
    let mut objects = json!([{"a": 1}, null, [[{"a": 2}], []]]);
    let mut change = |object: &mut Value| {
        object["seen"] = json!(true);
        Ok(())
    };
    each(&mut objects, &mut change).unwrap();
    let seen = json!([{"a": 1, "seen": true}, null, [[{"a": 2, "seen": true}], []]]);
    assert_eq!(objects, seen);
    let refused = each(&mut json!([5]), &mut change).unwrap_err();
    assert_eq!(refused, Misfit::NoObject("a number"));
}

#[test]
fn fields_that_a_type_loses_are_found() {
    let before = json!([{"metadata": {"name": "a"}, "time": 1}]);
    let after = json!([{"metadata": {"name": "a", "labels": {"x": "y"}, "ownerReferences": []}, "time": 1}]);
    let kept = json!([{"metadata": {"name": "a", "labels": {"x": "y"}}, "time": 2}]);
    assert_eq!(lost(&before, &after, &kept), None);
    let dropped = json!([{"metadata": {"name": "a"}, "time": 1}]);
    assert_eq!(lost(&before, &after, &dropped), Some("metadata.labels".to_owned()));
}
