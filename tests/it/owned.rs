//! Children that handlers own: their watches wake the owners, foreign changes are reverted, and without a change there are no requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs::prelude::Again;
use kopf_rs::{Callback, Client, Context, HandlerResult, Registry, handler};
use kopf_rs_apiserver::{Entry, Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, definition, is_handled};

scenarios! {
    // In memory only: what needs faults of the server, or counts for minutes all that is asked of it.
    foreign_changes_are_corrected;
    values_that_others_apply_under_the_operators_name_are_corrected;
    marks_and_references_come_back;
    a_deleted_child_is_made_again;
    a_child_that_goes_during_a_gap_is_made_again [memory];
    changes_that_concern_no_owner_trigger_no_call;
    no_request_is_sent_without_a_change;
    no_request_is_sent_at_rest [memory];
    children_of_a_recreated_owner_are_adopted;
    a_kind_of_children_may_come_later;
    a_kind_that_may_not_be_watched_holds_up_no_other [memory];
    a_child_that_differs_in_each_call_is_reported_and_applied_rarely [memory];
    a_child_that_goes_before_its_kind_is_watched_is_made_again [memory];
    a_kind_of_children_may_go_and_come_back;
    taken_fields_are_reported_with_their_manager;
    change_handlers_reconcile_their_children;
    the_effect_of_an_unanswered_apply_is_corrected [memory];
    objects_read_before_the_first_listing_are_read_again [memory];
}

/// Applies the children in `spec.children` of the object.
async fn keep(context: Context) -> HandlerResult<Value> {
    let children = context.children()?;
    let wanted: Vec<Value> = context.read("spec.children")?;
    for child in wanted {
        children.apply(&child).await?;
    }
    Ok(Value::Null)
}

pub(crate) fn keeping(test: &TestOperator) -> Callback {
    test.handler("keep", keep).owns("configmaps")
}

pub(crate) fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// Returns an object whose only child exists.
pub(crate) async fn settled(test: &TestOperator) -> Value {
    let wanted = map("child", &json!({"a": "1"}));
    test.create("one", json!({"children": [wanted]})).await;
    until(test, "it is made", |it| it["data"]["a"] == "1").await
}

pub(crate) async fn until(test: &TestOperator, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let there = |object: Option<&Value>| object.is_some_and(&condition);
    let found = test.cluster.until(what, "configmaps", "child", there);
    found.await
}

/// Applies a child with other data and the operator's field manager.
pub(crate) async fn apply_as_operator(
    client: &Client,
    path: &str,
    found: &Value,
    data: &Value,
) -> Option<Value> {
    let metadata = &found["metadata"];
    let mut body = json!({
        "apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": {"name": metadata["name"]}, "data": data,
    });
    for stanza in ["labels", "annotations", "ownerReferences"] {
        if !metadata[stanza].is_null() {
            body["metadata"][stanza] = metadata[stanza].clone();
        }
    }
    let path = format!("{path}?fieldManager=tester.kopf.rs&force=true");
    let apply = http::Request::patch(&path)
        .header("content-type", "application/apply-patch+yaml")
        .header("user-agent", TestCluster::USER_AGENT)
        .body(body.to_string().into_bytes())
        .expect("a valid request");
    client.request::<Value>(apply).await.ok()
}

pub(crate) fn is_ours(child: &Value) -> bool {
    let entries = child["metadata"]["managedFields"].as_array();
    let mut entries = entries.into_iter().flatten();
    entries.any(|entry| entry["manager"] == "tester.kopf.rs" && entry["operation"] == "Apply")
}

async fn foreign_changes_are_corrected(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    let made = settled(&test).await;
    let edit = json!({"metadata": {"labels": {"theirs": "x"}}, "data": {"a": "2", "b": "theirs"}});
    test.cluster.patch("configmaps", "child", &edit).await;
    let right = until(&test, "it is put right", |it| it["data"]["a"] == "1").await;
    assert_eq!(right["data"]["b"], "theirs");
    assert_eq!(right["metadata"]["labels"]["theirs"], "x");
    assert_eq!(right["metadata"]["uid"], made["metadata"]["uid"]);
    let removal = json!({"data": {"a": null}});
    test.cluster.patch("configmaps", "child", &removal).await;
    until(&test, "it is put right", |it| it["data"]["a"] == "1").await;
    if test.cluster.journal().is_some() {
        test.cluster.assert_writes_to("configmaps", "child", 3).await;
    }
    working.stop().await;
}

async fn values_that_others_apply_under_the_operators_name_are_corrected(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    let made = settled(&test).await;
    let namespace = test.cluster.namespace();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/child");
    let client = test.cluster.client();
    for value in ["2", "3"] {
        let applied = apply_as_operator(&client, &path, &made, &json!({"a": value})).await;
        assert_eq!(applied.expect("it is applied")["data"]["a"], value);
        until(&test, "it is put right", |it| it["data"]["a"] == "1").await;
    }
    working.stop().await;
}

async fn marks_and_references_come_back(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    let made = settled(&test).await;
    let (references, labels) = (&made["metadata"]["ownerReferences"], &made["metadata"]["labels"]);
    for (change, what) in [
        (json!({"ownerReferences": []}), "its reference is back"),
        (json!({"labels": null}), "its label is back"),
        (json!({"managedFields": [{}]}), "what was applied is noted again"),
    ] {
        let lost = test.cluster.patch("configmaps", "child", &json!({"metadata": change})).await;
        let is_back = |it: &Value| {
            let metadata = &it["metadata"];
            metadata["ownerReferences"] == *references && metadata["labels"] == *labels && is_ours(it)
        };
        assert!(!is_back(&lost), "{lost}");
        let back = until(&test, what, is_back).await;
        assert_eq!(back["metadata"]["uid"], made["metadata"]["uid"]);
    }
    working.stop().await;
}

async fn a_deleted_child_is_made_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    let made = settled(&test).await;
    test.cluster.delete("configmaps", "child").await;
    let is_another = |it: &Value| it["metadata"]["uid"] != made["metadata"]["uid"];
    let again = until(&test, "it is made again", is_another).await;
    assert_eq!(again["data"], json!({"a": "1"}));
    if test.cluster.journal().is_some() {
        test.cluster.assert_writes_to("configmaps", "child", 2).await;
    }
    working.stop().await;
}

async fn a_child_that_goes_during_a_gap_is_made_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    let made = settled(&test).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let watches = server.fault(Fault::answer(503).on(Verb::Watch).plural("configmaps"));
    let lists = server.fault(Fault::answer(503).on(Verb::List).plural("configmaps"));
    drop(server.fault(Fault::cut().on(Verb::Watch).plural("configmaps")));
    test.cluster.delete("configmaps", "child").await;
    server.compact();
    drop((watches, lists));
    let is_another = |it: &Value| it["metadata"]["uid"] != made["metadata"]["uid"];
    until(&test, "it is made again", is_another).await;
    working.stop().await;
}

async fn changes_that_concern_no_owner_trigger_no_call(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    settled(&test).await;
    let theirs = json!({"metadata": {"annotations": {"theirs": "x"}}, "data": {"b": "theirs"}});
    test.cluster.patch("configmaps", "child", &theirs).await;
    // The watch delivers changes of a child in order, so the operator has seen the first one when it reverts the second.
    test.cluster.patch("configmaps", "child", &json!({"data": {"a": "2"}})).await;
    until(&test, "it is put right", |it| it["data"]["a"] == "1").await;
    assert_eq!(test.calls.all(), ["keep one", "keep one"]);
    working.stop().await;
}

async fn no_request_is_sent_without_a_change(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test).owns("deployments")));
    let container = json!({
        "name": "c", "image": "i", "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
        "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]},
            },
        },
    });
    let wanted = map("child", &json!({"a": "1"}));
    test.create("one", json!({"children": [wanted, deployment], "turn": 0})).await;
    let made = until(&test, "it is made", |it| it["data"]["a"] == "1").await;
    for turn in 1..=10 {
        test.patch("one", json!({"spec": {"turn": turn}})).await;
        test.calls.until(turn + 1).await;
    }
    working.stop().await;
    let after = until(&test, "it is there", |_| true).await;
    assert_eq!(after["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    if test.cluster.journal().is_some() {
        test.cluster.assert_writes_to("configmaps", "child", 1).await;
        test.cluster.assert_writes_to("deployments", "web", 1).await;
    }
}

async fn no_request_is_sent_at_rest(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    settled(&test).await;
    test.line("Reconciler 'keep' succeeded").await;
    let asked = || {
        let all = test.cluster.asked().into_iter();
        all.filter(|asked| asked.verb != "watch").count()
    };
    let before = asked();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(asked(), before, "{:?}", test.cluster.asked());
    assert_eq!(test.calls.all(), ["keep one"]);
    working.stop().await;
}

async fn children_of_a_recreated_owner_are_adopted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    settled(&test).await;
    working.stop().await;
    test.delete("one").await;
    test.until_gone("one").await;
    let wanted = map("child", &json!({"a": "2"}));
    let owner = test.create("one", json!({"children": [wanted]})).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    let taken = until(&test, "it is taken over", |it| it["data"]["a"] == "2").await;
    let references = taken["metadata"]["ownerReferences"].as_array();
    let owners: Vec<&Value> = references.into_iter().flatten().map(|it| &it["uid"]).collect();
    assert_eq!(owners, [&owner["metadata"]["uid"]]);
    working.stop().await;
}

async fn a_kind_of_children_may_come_later(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let group = format!("child.{}", test.group);
    let inner = format!("kopfexamples.{group}");
    let crd = definition(&group).to_string();
    let owned = (group.clone(), "v1", "kopfexamples");
    let keeping = keeping(&test).owns((owned.0.as_str(), owned.1, owned.2));
    let working = test.start(Registry::new().reconcile(test.selector(), keeping));
    let wanted = json!({"apiVersion": format!("{group}/v1"), "kind": "KopfExample", "metadata": {"name": "inner"}, "spec": {}});
    test.create("one", json!({"children": [map("child", &json!({"a": "1"})), wanted]})).await;
    // The operator creates and keeps the other children meanwhile.
    until(&test, "it is made", |it| it["data"]["a"] == "1").await;
    test.cluster.apply(&crd).await;
    let is_there = |object: Option<&Value>| object.is_some();
    test.cluster.until("it is made", &inner, "inner", is_there).await;
    working.stop().await;
}

async fn a_kind_that_may_not_be_watched_holds_up_no_other(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let _watches = server.fault(Fault::answer(403).on(Verb::Watch).plural("services"));
    let _lists = server.fault(Fault::answer(403).on(Verb::List).plural("services"));
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test).owns("services")));
    settled(&test).await;
    test.cluster.delete("configmaps", "child").await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let wanted = map("child", &json!({"a": "3"}));
    test.patch("one", json!({"spec": {"children": [service, wanted]}})).await;
    until(&test, "it is made again", |it| it["data"]["a"] == "3").await;
    assert!(test.cluster.get("services", "s").await.is_some());
    working.stop().await;
}

/// CH43.
async fn a_child_that_differs_in_each_call_is_reported_and_applied_rarely(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (count, is_mended) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let mended = is_mended.clone();
    let function = test.handler("keep", move |context| {
        let count =
            if mended.load(Ordering::Relaxed) { 0 } else { count.fetch_add(1, Ordering::Relaxed) + 1 };
        async move {
            context.again(Again::after(1));
            let wanted = map("child", &json!({"a": "1", "count": count.to_string()}));
            context.children()?.apply(&wanted).await?;
            Ok(Value::Null)
        }
    });
    let function = function.owns("configmaps");
    let working = test.start(Registry::new().reconcile(test.selector(), function));
    test.create("one", json!({})).await;
    test.calls.until(5).await;
    test.line("has other content in each of 5 calls in a row, though this object has not changed: the last two differ at `.data.count`")
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let writes = test.cluster.writes_to("configmaps", "child");
    let before = writes.await.len();
    assert!((10..=16).contains(&before), "{before} writes");
    is_mended.store(true, Ordering::Relaxed);
    until(&test, "it is as it should be", |it| it["data"]["count"] == "0").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let writes = test.cluster.writes_to("configmaps", "child");
    assert_eq!(writes.await.len(), before + 1);
    working.stop().await;
}

/// Returns the group of another kind of children, and one of them.
fn inner(test: &TestOperator) -> (String, Value) {
    let group = format!("child.{}", test.group);
    let wanted = json!({"apiVersion": format!("{group}/v1"), "kind": "KopfExample", "metadata": {"name": "inner"}, "spec": {}});
    (group, wanted)
}

async fn until_inner(test: &TestOperator, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let kind = format!("kopfexamples.{}", inner(test).0);
    let there = |object: Option<&Value>| object.is_some_and(&condition);
    test.cluster.until(what, &kind, "inner", there).await
}

async fn a_child_that_goes_before_its_kind_is_watched_is_made_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let (group, wanted) = inner(&test);
    let owned = (group.as_str(), "v1", "kopfexamples");
    let registry = Registry::new().reconcile(test.selector(), keeping(&test).owns(owned));
    let working = test.start(registry);
    test.create("one", json!({"children": [wanted]})).await;
    test.line("no kind KopfExample").await;
    // The operator discovers the kind when it applies the child again, and watches it only after an event of the definition.
    let late = Fault::late(Duration::from_secs(3600)).on(Verb::Watch);
    let late = server.fault(late.plural("customresourcedefinitions"));
    test.cluster.apply(&definition(&group).to_string()).await;
    let made = until_inner(&test, "it is made", |_| true).await;
    let kind = format!("kopfexamples.{group}");
    test.cluster.delete(&kind, "inner").await;
    drop(late);
    let is_another = |it: &Value| it["metadata"]["uid"] != made["metadata"]["uid"];
    until_inner(&test, "it is made again", is_another).await;
    working.stop().await;
}

async fn a_kind_of_children_may_go_and_come_back(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (group, wanted) = inner(&test);
    let owned = (group.as_str(), "v1", "kopfexamples");
    let registry = Registry::new().reconcile(test.selector(), keeping(&test).owns(owned));
    let working = test.start(registry);
    let all = json!({"children": [map("child", &json!({"a": "1"})), wanted]});
    test.create("one", all).await;
    let crd = definition(&group).to_string();
    test.cluster.apply(&crd).await;
    let made = until_inner(&test, "it is made", |_| true).await;
    let name = format!("kopfexamples.{group}");
    test.cluster.delete("customresourcedefinitions", &name).await;
    let gone = |object: Option<&Value>| object.is_none();
    test.cluster.until("it is gone", "customresourcedefinitions", &name, gone).await;
    test.cluster.delete("configmaps", "child").await;
    until(&test, "the other is made again", |_| true).await;
    test.cluster.apply(&crd).await;
    let is_another = |it: &Value| it["metadata"]["uid"] != made["metadata"]["uid"];
    until_inner(&test, "it is made again", is_another).await;
    working.stop().await;
}

pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

async fn until_deployment(test: &TestOperator, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let there = |object: Option<&Value>| object.is_some_and(&condition);
    test.cluster.until(what, "deployments", "web", there).await
}

async fn taken_fields_are_reported_with_their_manager(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test).owns("deployments")));
    test.create("one", json!({"children": [deployment("web", 2)]})).await;
    let made = until_deployment(&test, "it is made", |_| true).await;
    let container = json!({"name": "c", "image": "theirs"});
    let edit = json!({
        "metadata": {"labels": {"theirs": "stays"}},
        "spec": {"replicas": 5, "template": {"spec": {"containers": [container]}}},
    });
    let edited = test.cluster.patch("deployments", "web", &edit).await;
    let entries = edited["metadata"]["managedFields"].as_array().expect("entries");
    let theirs = entries.iter().find(|it| it["operation"] == "Update").expect("theirs");
    let manager = theirs["manager"].as_str().unwrap_or_default();
    let right = until_deployment(&test, "it is put right", |it| it["spec"]["replicas"] == 2).await;
    assert_eq!(right["metadata"]["labels"]["theirs"], "stays");
    assert_eq!(right["metadata"]["uid"], made["metadata"]["uid"]);
    let told = test.line("Deployment `web` was changed by others").await;
    let image = ".spec.template.spec.containers[name=\"c\"].image";
    assert!(told.contains(&format!(".spec.replicas, {image} (of \"{manager}\") is corrected")), "{told}");
    working.stop().await;
}

async fn change_handlers_reconcile_their_children(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let make = |test: &TestOperator| {
        let calls = test.calls.clone();
        let make = kopf_rs::handler("make", move |context: Context| {
            let reason = context.reason().map(|it| it.to_string());
            calls.note(format!("make: {}", reason.unwrap_or_default()));
            keep(context)
        });
        let registry = Registry::new().on_create(test.selector(), make.owns("configmaps"));
        registry.on_update(test.selector(), test.noting("update"))
    };
    let working = test.start(make(&test));
    let child = settled(&test).await;
    test.until("it is handled", "one", is_handled).await;
    let handled = test.get("one").await;
    test.cluster.delete("configmaps", "child").await;
    let is_another = |it: &Value| it["metadata"]["uid"] != child["metadata"]["uid"];
    until(&test, "it is made again", is_another).await;
    let edit = json!({"data": {"a": "2"}});
    test.cluster.patch("configmaps", "child", &edit).await;
    until(&test, "it is put right", |it| it["data"]["a"] == "1").await;
    test.calls.until(3).await;
    working.stop().await;
    test.cluster.delete("configmaps", "child").await;
    let working = test.start(make(&test));
    until(&test, "it is made at the start", |_| true).await;
    test.calls.until(4).await;
    working.stop().await;
    let resumed = "make: resume";
    assert_eq!(test.calls.all(), ["make: create", resumed, resumed, resumed]);
    // This costs no write to the object.
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&test.get("one").await), version(&handled));
}

/// Operators hear of configmaps an hour late.
pub(crate) fn late_for_operators() -> Fault {
    let late = Fault::late(Duration::from_secs(3600)).on(Verb::Watch);
    let is_of_operator = |it: &Entry| it.user_agent.as_deref() != Some(TestCluster::USER_AGENT);
    late.plural("configmaps").when(is_of_operator)
}

/// The watch is late, so that only the operator itself knows that it has sent something.
async fn the_effect_of_an_unanswered_apply_is_corrected(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let _late = server.fault(late_for_operators());
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    settled(&test).await;
    test.line("Reconciler 'keep' succeeded").await;
    let lost = Fault::drop_after().on(Verb::Patch).plural("configmaps");
    let lost = server.fault(lost);
    let begun = tokio::time::Instant::now();
    for value in ["5", "1"] {
        let wanted = map("child", &json!({"a": value}));
        test.patch("one", json!({"spec": {"children": [wanted]}})).await;
        until(&test, "it is applied", |it| it["data"]["a"] == value).await;
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1800), "{took:?}");
    lost.clear();
    working.stop().await;
}

async fn objects_read_before_the_first_listing_are_read_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    settled(&test).await;
    working.stop().await;
    let before = test.calls.all().len();
    let server = test.cluster.in_process().expect("a server in the process");
    let late = Fault::delay(Duration::from_secs(20)).plural("configmaps");
    let _late = server.fault(late.when(|it| it.query.iter().any(|(key, _)| key == "labelSelector")));
    let seen = test.calls.clone();
    let looking = handler("keep", move |context: Context| {
        let seen = seen.clone();
        async move {
            let read = context.children()?.get::<ConfigMap>("child").await?;
            let data = read.and_then(|it| it.data).unwrap_or_default();
            seen.note(format!("reads {:?}", data.get("b")));
            HandlerResult::Ok(())
        }
    });
    let looking = looking.reads("configmaps");
    let working = test.start(Registry::new().reconcile(test.selector(), looking));
    test.calls.until(before + 1).await;
    let theirs = json!({"data": {"b": "theirs"}});
    test.cluster.patch("configmaps", "child", &theirs).await;
    test.calls_until(r#"reads Some("theirs")"#).await;
    let calls = test.calls.all();
    assert_eq!(calls[before], "reads None", "{calls:?}");
    working.stop().await;
}
