//! Sets of children: what a handler wants no more is deleted, and nothing else is. Children are read, adopted and let go.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs::{Callback, Context, HandlerResult, Registry};
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{Asked, TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::TestOperator;

scenarios! {
    // Not on a real server: what needs faults.
    children_that_left_a_set_are_deleted;
    an_empty_set_deletes_only_direct_children_of_this_handler [memory];
    a_set_of_which_a_part_is_refused_deletes_nothing [memory];
    children_left_over_at_the_end_of_the_operator_are_deleted [memory];
    a_deletion_whose_answer_is_lost_deletes_nothing_else [memory];
    a_refused_deletion_is_tried_again [memory];
    a_kind_that_is_owned_no_more_is_cleaned_up;
    a_kind_that_cannot_be_listed_is_not_pruned_until_it_can [memory];
    a_set_without_a_watch_is_refused [memory];
    a_child_that_is_let_go_stays;
    a_read_child_is_never_older_than_the_last_write [memory];
    a_child_is_read_as_a_type_or_as_json;
    objects_without_a_controller_are_adopted_on_request;
}

/// Wants all that the object lists in `spec.children`, and nothing else.
async fn keep(context: Context) -> HandlerResult<Value> {
    let wanted: Vec<Value> = context.read("spec.children")?;
    context.children()?.set(&wanted).await?;
    Ok(Value::Null)
}

fn keeping(test: &TestOperator) -> Callback {
    test.handler("keep", keep).owns("configmaps")
}

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// What the object is to have.
fn maps(names: &[&str]) -> Value {
    let maps: Vec<Value> = names.iter().map(|name| map(name, &json!({"a": "1"}))).collect();
    json!({"children": maps})
}

async fn until(test: &TestOperator, kind: &str, name: &str, is_there: bool) -> Value {
    let there = |object: Option<&Value>| object.is_some() == is_there;
    let what = format!("{name} is there: {is_there}");
    test.cluster.until(&what, kind, name, there).await
}

/// The names of the config maps that this operator has labelled.
async fn labelled(test: &TestOperator) -> Vec<String> {
    let all = test.cluster.list("configmaps").await;
    let is_ours = |it: &&Value| it["metadata"]["labels"]["tester.kopf.rs/owned"] == "true";
    let names = all.iter().filter(is_ours);
    let mut names: Vec<String> =
        names.map(|it| it["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect();
    names.sort();
    names
}

async fn children_that_left_a_set_are_deleted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    test.create("one", maps(&["a", "b", "c"])).await;
    let made = until(&test, "configmaps", "c", true).await;
    let annotations = &made["metadata"]["annotations"];
    assert_eq!(*annotations, json!({"tester.kopf.rs/set": "keep"}));
    test.patch("one", json!({"spec": maps(&["b", "d"])})).await;
    test.line("ConfigMap `c` is deleted.").await;
    until(&test, "configmaps", "a", false).await;
    assert_eq!(labelled(&test).await, ["b", "d"]);
    test.patch("one", json!({"spec": {"turn": 1}})).await;
    test.calls.until(3).await;
    if test.cluster.journal().is_some() {
        for (name, writes) in [("a", 2), ("b", 1), ("c", 2), ("d", 1)] {
            test.cluster.assert_writes_to("configmaps", name, writes).await;
        }
    }
    working.stop().await;
    assert_eq!(test.calls.all(), ["keep one"; 3]);
}

async fn an_empty_set_deletes_only_direct_children_of_this_handler(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let other = test.handler("other", |context| async move {
        let name = context.name().to_string();
        let named = |kind: &str| map(&format!("{kind}-of-{name}"), &json!({}));
        let children = context.children()?;
        children.apply(&named("applied")).await?;
        children.set((Some(named("first")), [named("second")])).await?;
        Ok(Value::Null)
    });
    let registry = Registry::new()
        .reconcile(test.selector(), keeping(&test))
        .reconcile(test.selector(), other.owns("configmaps"));
    let working = test.start(registry);
    test.create("two", maps(&["of-two"])).await;
    test.create("one", maps(&["a", "b"])).await;
    until(&test, "configmaps", "b", true).await;
    until(&test, "configmaps", "of-two", true).await;
    let made = until(&test, "configmaps", "a", true).await;
    // All marks are copied, as tools do: to a child of the child, and to an object of its own.
    for (name, owner) in [("grandchild", Some(&made)), ("copy", None)] {
        let mut copied = map(name, &json!({}));
        for stanza in ["labels", "annotations"] {
            copied["metadata"][stanza] = made["metadata"][stanza].clone();
        }
        if let Some(owner) = owner {
            copied["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": owner["metadata"]["uid"]}]);
        }
        test.cluster.create(&copied).await;
    }
    test.patch("one", json!({"spec": {"children": []}})).await;
    until(&test, "configmaps", "b", false).await;
    until(&test, "configmaps", "a", false).await;
    let rest: Vec<String> = labelled(&test).await;
    let stays = |name: &str| rest.iter().any(|it| it == name);
    for name in ["applied-of-one", "copy", "first-of-one", "of-two", "second-of-one"] {
        assert!(stays(name), "{name} is not among {rest:?}");
    }
    let asked = test.cluster.writes_to("configmaps", "grandchild").await;
    let is_own = |it: &Asked| it.user_agent.starts_with("kopf-rs/") && it.verb == "delete";
    assert!(!asked.iter().any(is_own), "{asked:?}");
    working.stop().await;
}

async fn a_set_of_which_a_part_is_refused_deletes_nothing(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    test.create("one", maps(&["a", "b"])).await;
    until(&test, "configmaps", "b", true).await;
    let mut wrong = map("wrong", &json!({}));
    wrong["metadata"]["labels"] = json!({"not a label": "x"});
    let wanted = json!({"children": [map("c", &json!({})), wrong, map("d", &json!({}))]});
    test.patch("one", json!({"spec": wanted})).await;
    let told = test.line("Reconciler 'keep' failed permanently").await;
    assert!(told.contains("ConfigMap `wrong` is refused"), "{told}");
    assert_eq!(labelled(&test).await, ["a", "b", "c", "d"]);
    test.patch("one", json!({"spec": maps(&["d", "d"])})).await;
    test.line("ConfigMap `d` occurs twice in one set").await;
    assert_eq!(labelled(&test).await, ["a", "b", "c", "d"]);
    test.patch("one", json!({"spec": maps(&["d"])})).await;
    until(&test, "configmaps", "a", false).await;
    working.stop().await;
    assert_eq!(labelled(&test).await, ["d"]);
}

async fn children_left_over_at_the_end_of_the_operator_are_deleted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || Registry::new().reconcile(test.selector(), keeping(&test));
    let working = test.start(registry());
    test.create("one", maps(&["a", "b", "c"])).await;
    until(&test, "configmaps", "c", true).await;
    test.line("Reconciler 'keep' succeeded").await;
    working.stop().await;
    test.patch("one", json!({"spec": maps(&["b"])})).await;
    let working = test.start(registry());
    until(&test, "configmaps", "a", false).await;
    until(&test, "configmaps", "c", false).await;
    working.stop().await;
    assert_eq!(labelled(&test).await, ["b"]);
}

async fn a_deletion_whose_answer_is_lost_deletes_nothing_else(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    test.create("one", maps(&["a", "b", "c"])).await;
    until(&test, "configmaps", "c", true).await;
    let deletions = |fault: Fault| fault.on(Verb::Delete).plural("configmaps").times(1);
    let _before = server.fault(deletions(Fault::drop_before()));
    let _after = server.fault(deletions(Fault::drop_after()));
    test.patch("one", json!({"spec": maps(&["b"])})).await;
    until(&test, "configmaps", "a", false).await;
    until(&test, "configmaps", "c", false).await;
    working.stop().await;
    assert_eq!(labelled(&test).await, ["b"]);
}

async fn a_refused_deletion_is_tried_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let registry = || Registry::new().reconcile(test.selector(), keeping(&test));
    let working = test.start(registry());
    test.create("one", maps(&["a", "b"])).await;
    until(&test, "configmaps", "b", true).await;
    let refusing = server.fault(Fault::answer(403).on(Verb::Delete).plural("configmaps"));
    test.patch("one", json!({"spec": maps(&["b"])})).await;
    let told = test.line("Reconciler 'keep' failed temporarily").await;
    assert!(told.contains("ConfigMap `a` cannot be deleted now"), "{told}");
    working.stop().await;
    let working = test.start(registry());
    test.calls.until(3).await;
    drop(refusing);
    until(&test, "configmaps", "a", false).await;
    working.stop().await;
    assert_eq!(labelled(&test).await, ["b"]);
}

async fn a_kind_that_is_owned_no_more_is_cleaned_up(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    let keeping = || test.handler("keep", keep).owns("configmaps");
    let both = keeping().owns("secrets");
    let working = test.start(Registry::new().reconcile(test.selector(), both));
    let wanted = json!({"children": [map("a", &json!({})), secret("s"), secret("t")]});
    test.create("one", wanted).await;
    until(&test, "secrets", "t", true).await;
    until(&test, "configmaps", "a", true).await;
    test.line("Reconciler 'keep' succeeded").await;
    working.stop().await;
    test.patch("one", json!({"spec": maps(&["a"])})).await;
    // The operator knows of no secrets any more.
    let working = test.start(Registry::new().reconcile(test.selector(), keeping()));
    test.calls.until(2).await;
    test.line("Reconciler 'keep' succeeded").await;
    working.stop().await;
    until(&test, "secrets", "s", true).await;
    let former = keeping().formerly_owns("secrets");
    let working = test.start(Registry::new().reconcile(test.selector(), former));
    until(&test, "secrets", "s", false).await;
    until(&test, "secrets", "t", false).await;
    working.stop().await;
    assert_eq!(labelled(&test).await, ["a"]);
}

async fn a_kind_that_cannot_be_listed_is_not_pruned_until_it_can(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let keeping = || test.handler("keep", keep).owns("configmaps").owns("secrets");
    let working = test.start(Registry::new().reconcile(test.selector(), keeping()));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    test.create("one", json!({"children": [map("a", &json!({})), map("b", &json!({})), secret]})).await;
    until(&test, "secrets", "s", true).await;
    until(&test, "configmaps", "b", true).await;
    working.stop().await;
    let refused = |verb: Verb| {
        let fault = Fault::answer(403).on(verb).plural("secrets");
        fault.when(|asked| asked.user_agent.as_deref() != Some(TestCluster::USER_AGENT))
    };
    let watches = server.fault(refused(Verb::Watch));
    let lists = server.fault(refused(Verb::List));
    test.patch("one", json!({"spec": maps(&["a"])})).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping()));
    until(&test, "configmaps", "b", false).await;
    until(&test, "secrets", "s", true).await;
    drop((watches, lists));
    until(&test, "secrets", "s", false).await;
    working.stop().await;
}

async fn a_set_without_a_watch_is_refused(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), test.handler("keep", keep)));
    test.create("one", maps(&["a"])).await;
    let told = test.line("Reconciler 'keep' failed permanently").await;
    assert!(told.contains("no handler names its kind in `owns`"), "{told}");
    assert!(labelled(&test).await.is_empty());
    working.stop().await;
}

async fn a_child_that_is_let_go_stays(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let letting_go = test.handler("keep", |context| async move {
        let children = context.children()?;
        if context.read::<Option<u32>>("spec.size")?.is_some() {
            let gone = children.orphan(&map("a", &json!({}))).await?;
            let again = children.orphan(&map("a", &json!({}))).await?;
            let other = children.orphan(&map("none", &json!({}))).await?;
            assert_eq!((gone, again, other), (true, false, false));
            children.set(()).await?;
        } else {
            children.set([map("a", &json!({"a": "1"})), map("b", &json!({}))]).await?;
        }
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().reconcile(test.selector(), letting_go.owns("configmaps")));
    test.create("one", json!({})).await;
    until(&test, "configmaps", "a", true).await;
    until(&test, "configmaps", "b", true).await;
    test.patch("one", json!({"spec": {"size": 1}})).await;
    until(&test, "configmaps", "b", false).await;
    test.line("ConfigMap `a` is released: it is no longer a child of this object.").await;
    test.delete("one").await;
    test.until_gone("one").await;
    working.stop().await;
    let left = until(&test, "configmaps", "a", true).await;
    assert_eq!(left["data"], json!({"a": "1"}));
    for stanza in ["labels", "annotations", "ownerReferences"] {
        let rest = &left["metadata"][stanza];
        let is_empty = rest.is_null() || *rest == json!({}) || *rest == json!([]);
        assert!(is_empty, "{left}");
    }
}

/// Writes and reads on: what was read, one after the other.
async fn read_own_writes(context: Context) -> HandlerResult<Value> {
    let children = context.children()?;
    let data = |map: Option<ConfigMap>| map.and_then(|it| it.data);
    let before = children.get::<ConfigMap>("child").await?;
    children.set([map("child", &json!({"a": "1"}))]).await?;
    let made = children.get::<ConfigMap>("child").await?;
    let uid = made.as_ref().and_then(|it| it.metadata.uid.clone());
    children.set([map("child", &json!({"a": "2"}))]).await?;
    let changed = data(children.get::<ConfigMap>("child").await?);
    children.set(()).await?;
    let gone = children.get::<ConfigMap>("child").await?;
    children.set([map("child", &json!({"a": "3"}))]).await?;
    let again = children.get::<ConfigMap>("child").await?;
    let is_another = again.as_ref().and_then(|it| it.metadata.uid.clone()) != uid;
    Ok(json!([data(before), data(made), changed, data(gone), data(again), is_another]))
}

async fn a_read_child_is_never_older_than_the_last_write(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let _late = server.fault(Fault::late(Duration::from_secs(2)).on(Verb::Watch).plural("configmaps"));
    let create = test.handler("create_fn", read_own_writes);
    let reading = test.noting("read").reads("configmaps");
    let registry = Registry::new().on_create(test.selector(), create).reconcile(test.selector(), reading);
    let working = test.start(registry);
    // The children are listed by then.
    tokio::time::sleep(Duration::from_secs(10)).await;
    test.create("one", json!({"size": 1})).await;
    let done = |it: &Value| it["status"]["create_fn"].is_array();
    let read = test.until("it is read", "one", done).await;
    let expected = json!([null, {"a": "1"}, {"a": "2"}, null, {"a": "3"}, true]);
    assert_eq!(read["status"]["create_fn"], expected);
    working.stop().await;
}

async fn a_child_is_read_as_a_type_or_as_json(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.cluster.create(&map("theirs", &json!({"a": "1"}))).await;
    let create = test.handler("create_fn", |context| async move {
        let children = context.children()?;
        children.apply(&map("mine", &json!({"a": "1"}))).await?;
        let mine = children.get::<ConfigMap>("mine").await?;
        let same = children.read(&map("mine", &Value::Null)).await?;
        let theirs = children.get::<ConfigMap>("theirs").await?;
        let none = children.get::<ConfigMap>("none").await?;
        let same = same.unwrap_or_default();
        Ok(json!({
            "mine": mine.and_then(|it| it.data), "same": same["data"], "kind": same["kind"],
            "managers": same["metadata"]["managedFields"], "others": theirs.is_none() && none.is_none(),
        }))
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("one", json!({})).await;
    let done = |it: &Value| it["status"]["create_fn"].is_object();
    let read = test.until("it is read", "one", done).await;
    let data = json!({"a": "1"});
    let mut told = read["status"]["create_fn"].clone();
    assert!(told["managers"].is_null());
    told.as_object_mut().map(|it| it.remove("managers"));
    assert_eq!(told, json!({"mine": data, "same": data, "kind": "ConfigMap", "others": true}));
    working.stop().await;
}

async fn objects_without_a_controller_are_adopted_on_request(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let mut theirs = map("theirs", &json!({"a": "theirs", "b": "theirs"}));
    theirs["metadata"]["labels"] = json!({"app": "theirs"});
    let found = test.cluster.create(&theirs).await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": found["metadata"]["uid"], "controller": true}]);
    let mut controlled = map("controlled", &json!({"a": "theirs"}));
    controlled["metadata"]["ownerReferences"] = owner;
    test.cluster.create(&controlled).await;
    let keeping = test.handler("keep", |context| async move {
        let children = context.children()?;
        let adopted = children.adopting().apply(&map("theirs", &json!({"a": "ours"}))).await?;
        assert!(!adopted.is_created());
        let refused = children.adopting().apply(&map("controlled", &json!({"a": "ours"}))).await;
        let refused = refused.expect_err("another object controls it");
        let plainly = children.apply(&map("plain", &json!({"a": "ours"}))).await;
        Ok(json!([refused.to_string(), plainly.is_ok()]))
    });
    let working = test.start(Registry::new().on_create(test.selector(), keeping));
    test.create("one", json!({})).await;
    let done = |it: &Value| it["status"]["keep"].is_array();
    let told = test.until("it is handled", "one", done).await;
    let refused = told["status"]["keep"][0].as_str().unwrap_or_default();
    assert!(refused.contains("controlled by ConfigMap `theirs`"), "{refused}");
    let adopted = until(&test, "configmaps", "theirs", true).await;
    assert_eq!(adopted["data"], json!({"a": "ours", "b": "theirs"}));
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["name"], "one");
    assert_eq!(adopted["metadata"]["labels"]["app"], "theirs");
    assert_eq!(adopted["metadata"]["uid"], found["metadata"]["uid"]);
    working.stop().await;
}
