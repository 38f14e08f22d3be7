//! Children: what handlers want to be there for their object, applied, kept apart from what is others', and deleted where the server would not.

use kopf_rs::{Context, HandlerError, HandlerResult, Registry};
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, Working, is_handled};

scenarios! {
    a_child_is_made_once_and_is_just_as_it_is_wanted;
    a_strangers_object_stays_as_it_is;
    an_object_that_another_one_controls_stays_as_it_is;
    two_handlers_do_not_apply_halves_of_a_child [memory];
    handlers_of_a_child_may_follow_each_other [memory];
    children_that_cannot_be_owned_are_refused_before_a_request [memory];
    an_unowned_child_is_deleted_by_its_operator;
    a_child_that_was_deleted_is_not_made_again_by_an_apply_under_way [memory];
    the_name_of_a_child_that_its_owner_has_deleted_is_free [memory];
    an_apply_whose_answer_is_lost_makes_one_child [memory];
    a_restarted_operator_knows_its_children [memory];
    no_child_is_applied_while_the_owner_is_being_deleted [memory];
    a_refused_child_is_tried_again_or_not_as_the_refusal_says [memory];
    a_kind_that_is_served_later_is_waited_for [memory];
    a_type_is_applied_and_read_back;
}

/// Applies what the object lists in `spec.children`, all of it, and fails with the first error. Returns the names.
async fn keep(context: Context) -> HandlerResult<Value> {
    let children = context.children()?;
    let wanted: Vec<Value> = context.read::<Option<_>>("spec.children")?.unwrap_or_default();
    let (mut names, mut failed) = (Vec::new(), None);
    for child in wanted {
        match children.apply(&child).await {
            Ok(applied) => names.push(applied.name().to_owned()),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(json!(names)),
    }
}

/// An operator that keeps the children of its objects.
fn start(test: &TestOperator) -> Working {
    let keeping = || test.handler("keep", keep);
    let registry = Registry::new()
        .on_create(test.selector(), keeping())
        .on_update(test.selector(), keeping())
        .on_resume(test.selector(), keeping());
    test.start(registry)
}

/// A config map as a child.
fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// What the object is to have.
fn children(all: &[Value]) -> Value {
    json!({"children": all})
}

async fn is_kept(test: &TestOperator, name: &str) -> Value {
    test.until("its children are there", name, is_handled).await
}

async fn child(test: &TestOperator, name: &str) -> Value {
    let found = test.cluster.get("configmaps", name).await;
    found.unwrap_or_else(|| panic!("{name} is not there"))
}

async fn until_child(test: &TestOperator, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let there = |object: Option<&Value>| object.is_some_and(&condition);
    let what = "the child is as it is wanted";
    test.cluster.until(what, "configmaps", name, there).await
}

/// The codes of the answers to all writes to a config map.
async fn codes(test: &TestOperator, name: &str) -> Vec<u16> {
    let writes = test.cluster.writes_to("configmaps", name).await;
    writes.iter().map(|asked| asked.code).collect()
}

/// The entries of managed fields: manager and operation.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    let words = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    entries.map(|entry| format!("{} {}", words(entry, "manager"), words(entry, "operation"))).collect()
}

/// A line about an object.
async fn line_about(test: &TestOperator, name: &str, words: &str) -> String {
    let about = format!("name=\"{name}\"");
    let says = |line: &str| line.contains(words) && line.contains(&about);
    test.cluster.lines().until(words, says).await
}

const OURS: &str = "tester.kopf.rs Apply";

async fn a_child_is_made_once_and_is_just_as_it_is_wanted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = start(&test);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"generateName": "web-"},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "nodePort": null}]}, "status": {},
    });
    let wanted = map("first", &json!({"a": "1", "b": "2"}));
    let owner = test.create("one", children(&[wanted, service])).await;
    let handled = is_kept(&test, "one").await;
    let made = child(&test, "first").await;
    assert_eq!(made["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(made["metadata"]["labels"], json!({"tester.kopf.rs/owned": "true"}));
    let reference = json!([{
        "apiVersion": format!("{}/v1", test.group), "kind": "KopfExample", "name": "one", "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(made["metadata"]["ownerReferences"], reference);
    assert_eq!(managers(&made), [OURS]);
    let names = &handled["status"]["keep"];
    assert!(names[1].as_str().is_some_and(|name| name.starts_with("web-") && name.len() == 12), "{names}");
    let labelled = json!({"metadata": {"labels": {"theirs": "stays"}}});
    test.cluster.patch("configmaps", "first", &labelled).await;
    let fewer = children(&[map("first", &json!({"a": "3"}))]);
    test.patch("one", json!({"spec": fewer})).await;
    let changed = until_child(&test, "first", |it| it["data"] == json!({"a": "3"})).await;
    assert_eq!(changed["metadata"]["labels"]["theirs"], "stays");
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
    test.line("ConfigMap `first` is changed.").await;
    if test.cluster.journal().is_some() {
        assert_eq!(codes(&test, "first").await, [201, 200]);
    }
    working.stop().await;
}

async fn a_strangers_object_stays_as_it_is(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let mut others = Vec::new();
    // One that has what is wanted as another value, and one that has other things.
    for name in ["same-key", "other-key"] {
        let mut theirs = map(name, &json!({"theirs": "1"}));
        theirs["metadata"]["labels"] = json!({"app": "theirs"});
        others.push(test.cluster.create(&theirs).await);
    }
    let working = start(&test);
    let wanted = [
        map("same-key", &json!({"theirs": "2"})),
        map("other-key", &json!({"ours": "2"})),
        map("free", &json!({"ours": "2"})),
    ];
    test.create("one", children(&wanted)).await;
    let told = test.line("Handler 'keep' failed temporarily").await;
    assert!(told.contains("ConfigMap `same-key` exists already") && told.contains("managed by \""), "{told}");
    assert_eq!(child(&test, "free").await["data"]["ours"], "2");
    for other in &others {
        let name = other["metadata"]["name"].as_str().unwrap_or_default();
        let mut now = child(&test, name).await;
        assert!(!managers(&now).contains(&OURS.to_owned()), "{now}");
        now["metadata"]["managedFields"] = other["metadata"]["managedFields"].clone();
        now["metadata"]["resourceVersion"] = other["metadata"]["resourceVersion"].clone();
        assert_eq!(now, *other);
    }
    // Nobody owns them, so the owner's end is none of theirs.
    test.delete("one").await;
    test.until_gone("one").await;
    child(&test, "same-key").await;
    child(&test, "other-key").await;
    working.stop().await;
}

async fn an_object_that_another_one_controls_stays_as_it_is(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = start(&test);
    let wanted = |value: &str| children(&[map("shared", &json!({"by": value}))]);
    test.create("one", wanted("same")).await;
    is_kept(&test, "one").await;
    let before = child(&test, "shared").await;
    test.create("two", wanted("same")).await;
    let told = line_about(&test, "two", "Handler 'keep' failed temporarily").await;
    assert!(told.contains("ConfigMap `shared` exists already"), "{told}");
    assert!(told.contains("it is a child of KopfExample `one`"), "{told}");
    working.stop().await;
    // Of what was made before it, an operator knows what the server tells.
    let create = test.handler("keep", keep);
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("three", wanted("same")).await;
    let told = line_about(&test, "three", "Handler 'keep' failed temporarily").await;
    assert!(told.contains("it is controlled by KopfExample `one`"), "{told}");
    let after = child(&test, "shared").await;
    assert_eq!(after["metadata"]["ownerReferences"], before["metadata"]["ownerReferences"]);
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    working.stop().await;
}

/// Applies a config map with one key.
async fn half(context: Context, key: &'static str) -> HandlerResult<Value> {
    let size: u32 = context.read("spec.size")?;
    let half = map("both", &json!({key: size.to_string()}));
    context.children()?.apply(&half).await?;
    Ok(Value::Null)
}

async fn two_handlers_do_not_apply_halves_of_a_child(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let left = test.handler("left", |context| half(context, "left"));
    let right = test.handler("right", |context| half(context, "right"));
    let registry = Registry::new().on_create(test.selector(), left).on_create(test.selector(), right);
    let working = test.start(registry);
    test.create("one", json!({"size": 1})).await;
    is_kept(&test, "one").await;
    let told = test.line("failed permanently").await;
    assert!(
        told.contains("two handlers, 'left' and 'right', apply different content to ConfigMap `both`"),
        "{told}"
    );
    assert_eq!(child(&test, "both").await["data"], json!({"left": "1"}));
    working.stop().await;
}

async fn handlers_of_a_child_may_follow_each_other(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| half(context, "left"));
    let update = test.handler("update_fn", |context| half(context, "right"));
    let registry = Registry::new().on_create(test.selector(), create).on_update(test.selector(), update);
    let working = test.start(registry);
    test.create("one", json!({"size": 1})).await;
    is_kept(&test, "one").await;
    test.patch("one", json!({"spec": {"size": 2}})).await;
    until_child(&test, "both", |it| it["data"] == json!({"right": "2"})).await;
    working.stop().await;
}

async fn children_that_cannot_be_owned_are_refused_before_a_request(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = start(&test);
    let mut elsewhere = map("elsewhere", &json!({}));
    elsewhere["metadata"]["namespace"] = json!("default");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "wide"}});
    for (name, wanted, words) in [
        ("one", elsewhere, "ConfigMap `elsewhere` is in the namespace `default`"),
        ("two", role, "ClusterRole `wide` is cluster-scoped"),
    ] {
        test.create(name, children(&[wanted])).await;
        let line = line_about(&test, name, "Handler 'keep' failed permanently").await;
        assert!(line.contains(words) && line.contains("`children.unowned()`"), "{line}");
    }
    let asked = test.cluster.asked();
    let is_child = |path: &str| path.ends_with("/elsewhere") || path.ends_with("/wide");
    assert!(!asked.iter().any(|asked| is_child(&asked.path)), "{asked:?}");
    working.stop().await;
}

async fn an_unowned_child_is_deleted_by_its_operator(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    // The real server is shared.
    let role = format!("role-of-{}", test.cluster.namespace());
    let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}");
    let wanted = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": []});
    let deleted = wanted.clone();
    let creating = test.handler("make", move |context| {
        let wanted = wanted.clone();
        async move {
            context.children()?.unowned().apply(&wanted).await?;
            Ok(Value::Null)
        }
    });
    let clean = test.handler("clean", move |context| {
        let role = deleted.clone();
        async move {
            let mine = context.children()?.unowned().delete(&role).await?;
            let again = context.children()?.unowned().delete(&role).await?;
            let other = context.children()?.delete(&map("theirs", &json!({}))).await?;
            assert_eq!((mine, again, other), (true, false, false));
            Ok(Value::Null)
        }
    });
    test.cluster.create(&map("theirs", &json!({"a": "1"}))).await;
    let registry = Registry::new().on_create(test.selector(), creating).on_delete(test.selector(), clean);
    let working = test.start(registry);
    let owner = test.create("one", json!({})).await;
    is_kept(&test, "one").await;
    let made = test.cluster.request("GET", &path, None).await.expect("it is there");
    assert_eq!(made["metadata"]["labels"]["tester.kopf.rs/owner-uid"], owner["metadata"]["uid"]);
    assert!(made["metadata"]["ownerReferences"].is_null());
    test.delete("one").await;
    test.until_gone("one").await;
    assert!(test.cluster.request("GET", &path, None).await.is_err());
    child(&test, "theirs").await;
    test.line("ConfigMap `theirs` is not deleted, because it is no child of this object").await;
    working.stop().await;
}

/// Another owner may have it then, while the first one lives.
async fn the_name_of_a_child_that_its_owner_has_deleted_is_free(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let delete = |id: &str| {
        test.handler(id, |context| async move {
            let children = context.children()?;
            let gone: Option<Value> = context.read("spec.gone")?;
            if let Some(gone) = gone {
                children.delete(&gone).await?;
            }
            Ok(Value::Null)
        })
    };
    let registry = Registry::new()
        .on_create(test.selector(), test.handler("keep", keep))
        .on_update(test.selector(), delete("delete"));
    let working = test.start(registry);
    let shared = map("shared", &json!({}));
    test.create("one", children(std::slice::from_ref(&shared))).await;
    is_kept(&test, "one").await;
    test.patch("one", json!({"spec": {"children": null, "gone": shared.clone()}})).await;
    test.line("ConfigMap `shared` is deleted.").await;
    let other = test.create("two", children(&[shared])).await;
    is_kept(&test, "two").await;
    let owner = &child(&test, "shared").await["metadata"]["ownerReferences"][0]["uid"];
    assert_eq!(*owner, other["metadata"]["uid"]);
    working.stop().await;
}

async fn a_child_that_was_deleted_is_not_made_again_by_an_apply_under_way(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = start(&test);
    test.create("one", children(&[map("first", &json!({"a": "1"}))])).await;
    is_kept(&test, "one").await;
    let first = child(&test, "first").await;
    test.cluster.delete("configmaps", "first").await;
    let other = children(&[map("first", &json!({"a": "2"}))]);
    test.patch("one", json!({"spec": other})).await;
    test.line("another client has deleted ConfigMap `first` meanwhile").await;
    let again = until_child(&test, "first", |it| it["data"]["a"] == "2").await;
    assert_ne!(again["metadata"]["uid"], first["metadata"]["uid"]);
    if test.cluster.journal().is_some() {
        test.cluster.assert_writes_to("configmaps", "first", 3).await;
        assert_eq!(codes(&test, "first").await, [201, 409, 201]);
    }
    working.stop().await;
}

async fn an_apply_whose_answer_is_lost_makes_one_child(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let _lost = server.fault(Fault::drop_after().on(Verb::Patch).plural("deployments").times(1));
    let working = start(&test);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    test.create("one", children(&[deployment])).await;
    is_kept(&test, "one").await;
    let made = test.cluster.get("deployments", "web").await.expect("it is there");
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(managers(&made), [OURS]);
    working.stop().await;
}

async fn a_restarted_operator_knows_its_children(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = start(&test);
    let wanted = ["edited", "gone", "same"].map(|name| map(name, &json!({"a": "1"})));
    test.create("one", children(&wanted)).await;
    is_kept(&test, "one").await;
    working.stop().await;
    let same = child(&test, "same").await;
    let edit = json!({"data": {"a": "2", "b": "theirs"}});
    test.cluster.patch("configmaps", "edited", &edit).await;
    test.cluster.delete("configmaps", "gone").await;
    let working = start(&test);
    let edited = until_child(&test, "edited", |it| it["data"]["a"] == "1").await;
    assert_eq!(edited["data"]["b"], "theirs");
    until_child(&test, "gone", |it| it["data"]["a"] == "1").await;
    test.line("Handler 'keep' succeeded").await;
    let after = child(&test, "same").await;
    assert_eq!(after["metadata"]["resourceVersion"], same["metadata"]["resourceVersion"]);
    working.stop().await;
}

async fn no_child_is_applied_while_the_owner_is_being_deleted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let clean = test.handler("clean", keep);
    let working = test.start(Registry::new().on_delete(test.selector(), clean));
    test.create("one", children(&[map("late", &json!({}))])).await;
    let held = |object: &Value| object["metadata"]["finalizers"].is_array();
    test.until("it is held", "one", held).await;
    test.delete("one").await;
    let told = test.line("Handler 'clean' failed permanently").await;
    assert!(told.contains("the owner is being deleted"), "{told}");
    test.until_gone("one").await;
    assert_eq!(test.cluster.get("configmaps", "late").await, None);
    working.stop().await;
}

async fn a_refused_child_is_tried_again_or_not_as_the_refusal_says(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let refusing = server.fault(Fault::answer(403).on(Verb::Patch).plural("configmaps"));
    let working = start(&test);
    let unknown =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"colour": "red"}});
    test.create("wrong", children(&[unknown])).await;
    let told = line_about(&test, "wrong", "Handler 'keep' failed permanently").await;
    assert!(told.contains("colour"), "{told}");
    test.create("later", children(&[map("first", &json!({"a": "1"}))])).await;
    let told = line_about(&test, "later", "Handler 'keep' failed temporarily").await;
    assert!(told.contains("ConfigMap `first` cannot be applied now"), "{told}");
    drop(refusing);
    is_kept(&test, "later").await;
    assert_eq!(child(&test, "first").await["data"]["a"], "1");
    working.stop().await;
}

async fn a_kind_that_is_served_later_is_waited_for(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = start(&test);
    let group = format!("later.{}", test.group);
    let wanted = json!({"apiVersion": format!("{group}/v1"), "kind": "KopfExample", "metadata": {"name": "inner"}, "spec": {}});
    test.create("one", children(&[wanted])).await;
    let told = line_about(&test, "one", "Handler 'keep' failed temporarily").await;
    assert!(told.contains(&format!("no kind KopfExample of {group}/v1 is served")), "{told}");
    let definition = crate::operating::definition(&group);
    test.cluster.apply(&definition.to_string()).await;
    is_kept(&test, "one").await;
    let made = test.cluster.get(&format!("kopfexamples.{group}"), "inner").await;
    assert!(made.is_some());
    working.stop().await;
}

async fn a_type_is_applied_and_read_back(cluster: TestCluster) {
    use k8s_openapi::api::core::v1::ConfigMap;
    let test = TestOperator::of(cluster).await;
    let creating = test.handler("make", |context| async move {
        let map = ConfigMap { data: Some([("a".to_owned(), "1".to_owned())].into()), ..ConfigMap::default() };
        let applied = context.children()?.apply(&map).await?;
        assert!(applied.is_created() && applied.name() == "one");
        let uid = applied.uid().to_owned();
        let stored: ConfigMap = applied.object().await?;
        assert_eq!(stored.metadata.uid, Some(uid));
        Ok::<_, HandlerError>(json!(stored.data))
    });
    let working = test.start(Registry::new().on_create(test.selector(), creating));
    test.create("one", json!({})).await;
    let owner = is_kept(&test, "one").await;
    assert_eq!(owner["status"]["make"], json!({"a": "1"}));
    working.stop().await;
}
