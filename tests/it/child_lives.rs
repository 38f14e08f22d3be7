//! What children cost in requests, what handlers see of them, and what becomes of them when their owner, their namespace or a late watch comes in between.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs::{Context, HandlerResult, Registry, Settings};
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Gate, KIND, TestOperator, Working, definition};
use crate::owned::{deployment, is_ours, keeping, map, settled, until};

scenarios! {
    // In memory only: what needs faults of the server, or a namespace of one name.
    children_are_made_with_one_apply_each;
    a_restart_costs_one_request_for_each_child [memory];
    a_skipped_apply_reads_its_object_on_demand;
    read_children_are_kept_in_memory [memory];
    late_events_of_a_former_owner_are_ignored [memory];
    a_child_with_a_generated_name_is_made_once;
    a_deleted_child_is_never_seen_alive [memory];
    an_owner_that_is_deleted_meanwhile_leaves_no_children;
    a_refused_child_shows_in_the_conditions [memory];
    a_namespace_that_ends_takes_no_children_and_is_left_alone [memory];
    a_thousand_children_of_one_owner [memory];
    a_cluster_scoped_owner_has_children_in_namespaces;
}

/// Wants what the object lists.
async fn keep_all(context: Context) -> HandlerResult<Value> {
    let wanted: Vec<Value> = context.read("spec.children")?;
    context.children()?.set(&wanted).await?;
    context.patch(|patch| patch["status"]["kept"] = json!(wanted.len()));
    Ok(Value::Null)
}

async fn children_are_made_with_one_apply_each(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let keeping = test.handler("keep", keep_all).owns("deployments").owns("services");
    let working = test.start(Registry::new().reconcile(test.selector(), keeping));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}});
    test.create("one", json!({"children": [deployment("web", 1), service]})).await;
    test.until("it is said", "one", |it| it["status"]["kept"] == 2).await;
    working.stop().await;
    for kind in ["deployments", "services"] {
        let made = test.cluster.get(kind, "web").await.expect("it is there");
        assert_eq!(made["metadata"]["annotations"]["tester.kopf.rs/set"], "keep");
        assert_eq!(made["metadata"]["ownerReferences"][0]["controller"], true);
        assert!(is_ours(&made));
        if test.cluster.journal().is_some() {
            test.cluster.assert_writes_to(kind, "web", 1).await;
            let asked = test.cluster.writes_to(kind, "web").await;
            let codes: Vec<u16> = asked.iter().map(|it| it.code).collect();
            assert_eq!(codes, [201], "{asked:?}");
        }
    }
    test.assert_writes("one", 1).await;
}

async fn a_restart_costs_one_request_for_each_child(cluster: TestCluster) {
    const OWNERS: usize = 200;
    let test = TestOperator::of(cluster).await;
    let registry = || Registry::new().reconcile(test.selector(), keeping(&test));
    for number in 0..OWNERS {
        let child = map(&format!("of-{number}"), &json!({"a": "1"}));
        test.create(&format!("w-{number}"), json!({"children": [child]})).await;
    }
    let working = test.start(registry());
    test.calls.until(OWNERS).await;
    test.nothing_more(Duration::from_secs(30)).await;
    working.stop().await;
    let before = test.cluster.list("configmaps").await;
    let asked = async || {
        test.logged().await;
        let child = format!("/namespaces/{}/configmaps/of-", test.cluster.namespace());
        test.cluster.asked_about(&child)
    };
    let asked_before = asked().await.len();
    let working = test.start(registry());
    test.calls.until(2 * OWNERS).await;
    test.nothing_more(Duration::from_secs(30)).await;
    working.stop().await;
    assert_eq!(test.calls.all().len(), 2 * OWNERS);
    let more = asked().await.split_off(asked_before);
    let (applies, looks): (Vec<_>, Vec<_>) = more.iter().partition(|it| it.verb == "patch");
    assert!(applies.len() <= OWNERS, "{applies:?}");
    // The watch has listed all children by then.
    assert!(looks.is_empty(), "{looks:?}");
    assert_eq!(test.cluster.list("configmaps").await, before);
}

/// Applies a child, and says how often it was read.
async fn read_back(context: Context) -> HandlerResult<Value> {
    let child = map("child", &json!({"a": "1"}));
    let applied = context.children()?.apply(&child).await?;
    assert_eq!(applied.name(), "child");
    if context.read::<u32>("spec.turn")? % 2 == 0 {
        assert_eq!(applied.object().await?["data"]["a"], "1");
    }
    Ok(Value::Null)
}

async fn a_skipped_apply_reads_its_object_on_demand(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let reading = test.handler("keep", read_back).owns("configmaps");
    let working = test.start(Registry::new().reconcile(test.selector(), reading));
    test.create("one", json!({"turn": 1})).await;
    until(&test, "it is made", |_| true).await;
    let path = format!("/api/v1/namespaces/{}/configmaps/child", test.cluster.namespace());
    let reads = || test.cluster.asked().iter().filter(|it| it.path == path && it.verb == "get").count();
    for turn in 2..=5 {
        test.patch("one", json!({"spec": {"turn": turn}})).await;
        test.calls.until(turn).await;
        test.line("Reconciler 'keep' succeeded").await;
    }
    working.stop().await;
    if test.cluster.journal().is_some() {
        test.cluster.assert_writes_to("configmaps", "child", 1).await;
        // One look before the first apply, and two reads that were asked for.
        assert_eq!(reads(), 3);
    }
}

async fn read_children_are_kept_in_memory(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let reading = test.handler("keep", |context| async move {
        let children = context.children()?;
        children.apply(&map("child", &json!({"a": "1"}))).await?;
        let read = children.get::<ConfigMap>("child").await?;
        context.patch(|patch| patch["status"]["read"] = json!(read.and_then(|it| it.data)));
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().reconcile(test.selector(), reading.reads("configmaps")));
    test.create("one", json!({})).await;
    test.until("it is read", "one", |it| it["status"]["read"] == json!({"a": "1"})).await;
    test.cluster.patch("configmaps", "child", &json!({"data": {"b": "theirs"}})).await;
    let both = json!({"a": "1", "b": "theirs"});
    test.until("it is read again", "one", |it| it["status"]["read"] == both).await;
    working.stop().await;
    let path = format!("/api/v1/namespaces/{}/configmaps/child", test.cluster.namespace());
    test.logged().await;
    let asked = test.cluster.asked_about(&path);
    let verbs: Vec<&str> = asked.iter().map(|it| it.verb.as_str()).collect();
    assert_eq!(verbs, ["get", "patch"], "{asked:?}");
}

async fn late_events_of_a_former_owner_are_ignored(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let late = Fault::late(Duration::from_secs(5)).on(Verb::Watch).plural("configmaps");
    let _late = server.fault(late);
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    let first = settled(&test).await;
    test.delete("one").await;
    test.until_gone("one").await;
    let gone = |object: Option<&Value>| object.is_none();
    test.cluster.until("it is gone", "configmaps", "child", gone).await;
    let again = settled(&test).await;
    assert_ne!(again["metadata"]["uid"], first["metadata"]["uid"]);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(test.calls.all(), ["keep one", "keep one"]);
    working.stop().await;
}

async fn a_child_with_a_generated_name_is_made_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let late = Fault::late(Duration::from_secs(2)).on(Verb::Watch).plural("configmaps");
    let server = test.cluster.in_process();
    let _late = server.map(|server| server.fault(late));
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    let mut child = map("", &json!({"a": "1"}));
    child["metadata"] = json!({"generateName": "job-"});
    test.create("one", json!({"children": [child], "turn": 0})).await;
    test.calls.until(1).await;
    test.patch("one", json!({"spec": {"turn": 1}})).await;
    test.calls.until(2).await;
    test.nothing_more(Duration::from_secs(10)).await;
    working.stop().await;
    let all = test.cluster.list("configmaps").await;
    let made = all.iter().filter(|it| is_ours(it)).count();
    assert_eq!(made, 1, "{all:?}");
}

async fn a_deleted_child_is_never_seen_alive(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let late = Fault::late(Duration::from_secs(2)).on(Verb::Watch).plural("configmaps");
    let _late = server.fault(late);
    let deleting = test.handler("create_fn", |context| async move {
        let children = context.children()?;
        let mut held = map("held", &json!({}));
        held["metadata"]["finalizers"] = json!(["kopf.dev/held"]);
        let free = map("free", &json!({}));
        children.apply(&held).await?;
        children.apply(&free).await?;
        children.delete(&held).await?;
        children.delete(&free).await?;
        let held = children.read(&held).await?.unwrap_or_default();
        let gone = children.read(&free).await?.is_none();
        Ok(json!([held["metadata"]["deletionTimestamp"].is_string(), gone]))
    });
    let registry = Registry::new()
        .on_create(test.selector(), deleting)
        .reconcile(test.selector(), test.noting("read").reads("configmaps"));
    let working = test.start(registry);
    test.create("one", json!({})).await;
    let seen = test.until("it is said", "one", |it| it["status"]["create_fn"].is_array()).await;
    assert_eq!(seen["status"]["create_fn"], json!([true, true]));
    working.stop().await;
}

async fn an_owner_that_is_deleted_meanwhile_leaves_no_children(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let making = test.handler("make", move |context| {
        let gate = held.clone();
        async move {
            let children = context.children()?;
            children.apply(&map("child", &json!({}))).await?;
            gate.pass().await;
            children.apply(&map("second", &json!({}))).await?;
            Ok(Value::Null)
        }
    });
    test.cluster.start_controllers().await;
    let working = test.start(Registry::new().on_create(test.selector(), making));
    test.create("one", json!({})).await;
    until(&test, "it is made", |_| true).await;
    test.delete("one").await;
    test.until_gone("one").await;
    gate.open(1);
    test.nothing_more(Duration::from_secs(60)).await;
    working.stop().await;
    for name in ["child", "second"] {
        let gone = |object: Option<&Value>| object.is_none();
        test.cluster.until("it is gone", "configmaps", name, gone).await;
    }
}

async fn a_refused_child_shows_in_the_conditions(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let refusing = server.fault(Fault::answer(403).on(Verb::Patch).plural("configmaps"));
    let settings = Settings::with(|it| it.status.conditions = true);
    let creating = test.handler("make", |context| async move {
        context.children()?.apply(&map("child", &json!({"a": "1"}))).await?;
        Ok(Value::Null)
    });
    let operator = test.operator(Registry::new().on_create(test.selector(), creating));
    let working = Working::start(&test.cluster, operator.settings(settings));
    test.create("one", json!({})).await;
    let condition = |it: &Value| {
        let all = it["status"]["conditions"].as_array();
        all.into_iter().flatten().find(|it| it["type"] == "Ready").cloned().unwrap_or_default()
    };
    let told = test.until("it is told", "one", |it| condition(it)["status"] == "False").await;
    let condition_told = condition(&told);
    assert_eq!(condition_told["reason"], "ChildRefused");
    let message = condition_told["message"].as_str().unwrap_or_default();
    assert!(message.contains("ConfigMap `child` cannot be applied now"), "{message}");
    drop(refusing);
    test.until("it heals", "one", |it| condition(it)["status"] == "True").await;
    working.stop().await;
}

async fn a_namespace_that_ends_takes_no_children_and_is_left_alone(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let ending = "ending-of-children";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ending}});
    test.cluster.create(&namespace).await;
    let path = format!("/api/v1/namespaces/{ending}/configmaps");
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["kopf.dev/held"]}});
    test.cluster.request("POST", &path, Some(&held)).await.expect("it is made");
    test.cluster.delete("namespaces", ending).await;
    let making = test.handler("make", move |context| async move {
        let mut child = map("child", &json!({}));
        child["metadata"]["namespace"] = json!("ending-of-children");
        context.children()?.unowned().apply(&child).await?;
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().on_create(test.selector(), making));
    test.create("one", json!({})).await;
    let told = test.line("Handler 'make' failed permanently").await;
    assert!(told.contains("is being terminated"), "{told}");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let child = format!("{path}/child");
    let asked = test.cluster.asked().iter().filter(|it| it.path == child).count();
    assert!(asked <= 3, "{asked} requests");
    working.stop().await;
}

async fn a_thousand_children_of_one_owner(cluster: TestCluster) {
    const CHILDREN: usize = 1000;
    let test = TestOperator::of(cluster).await;
    let making = test.handler("keep", |context| async move {
        let (count, data): (usize, String) = (context.read("spec.count")?, context.read("spec.data")?);
        let wanted = (0..count).map(|it| map(&format!("of-{it}"), &json!({"a": data})));
        context.children()?.set(wanted.collect::<Vec<_>>()).await?;
        context.patch(|patch| patch["status"]["kept"] = json!([count, data]));
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().reconcile(test.selector(), making.owns("configmaps")));
    let writes = async || {
        test.logged().await;
        let child = format!("/namespaces/{}/configmaps/of-", test.cluster.namespace());
        let asked = test.cluster.asked_about(&child);
        let of_children = |verb: &str| asked.iter().filter(|it| it.verb == verb).count();
        (of_children("patch"), of_children("delete"))
    };
    let kept = async |spec: Value| {
        let expected = json!([spec["count"], spec["data"]]);
        test.until("they are kept", "one", |it| it["status"]["kept"] == expected).await
    };
    let spec = |count: usize, data: &str| json!({"count": count, "data": data});
    test.create("one", spec(CHILDREN, "1")).await;
    kept(spec(CHILDREN, "1")).await;
    assert_eq!(writes().await, (CHILDREN, 0));
    // One is edited by hand: that is one apply.
    test.cluster.patch("configmaps", "of-7", &json!({"data": {"a": "2"}})).await;
    let is_right = |object: Option<&Value>| object.is_some_and(|it| it["data"]["a"] == "1");
    test.cluster.until("it is put right", "configmaps", "of-7", is_right).await;
    test.nothing_more(Duration::from_secs(10)).await;
    assert_eq!(writes().await, (CHILDREN + 1, 0));
    test.patch("one", json!({"spec": spec(CHILDREN, "3")})).await;
    kept(spec(CHILDREN, "3")).await;
    assert_eq!(writes().await, (2 * CHILDREN + 1, 0));
    test.patch("one", json!({"spec": spec(CHILDREN / 2, "3")})).await;
    kept(spec(CHILDREN / 2, "3")).await;
    assert_eq!(writes().await, (2 * CHILDREN + 1, CHILDREN / 2));
    test.delete("one").await;
    test.until_gone("one").await;
    test.nothing_more(Duration::from_secs(60)).await;
    working.stop().await;
    let rest = test.cluster.list("configmaps").await;
    assert!(!rest.iter().any(is_ours), "{} are left", rest.len());
}

async fn a_cluster_scoped_owner_has_children_in_namespaces(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let mut wide = definition(&test.group);
    wide["spec"]["scope"] = json!("Cluster");
    test.cluster.apply(&wide.to_string()).await;
    let registry = Registry::new().reconcile(test.selector(), keeping(&test));
    let operator = kopf_rs::Operator::new(registry).name(test.cluster.namespace());
    let operator = operator.all_namespaces();
    let working = Working::start(&test.cluster, operator);
    let second = format!("{}-second", test.cluster.namespace());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": second}});
    test.cluster.create(&namespace).await;
    let children: Vec<Value> = [second.as_str(), test.cluster.namespace()]
        .iter()
        .map(|namespace| {
            let mut child = map("child", &json!({"a": "1"}));
            child["metadata"]["namespace"] = json!(namespace);
            child
        })
        .collect();
    let owner = json!({
        "apiVersion": format!("{}/v1", test.group), "kind": "KopfExample",
        "metadata": {"name": "one"}, "spec": {"children": children},
    });
    let owners = format!("/apis/{}/v1/{KIND}", test.group);
    let made = test.cluster.request("POST", &owners, Some(&owner)).await;
    let owner = made.expect("it is made");
    let child = until(&test, "it is made", |_| true).await;
    let uid = &child["metadata"]["ownerReferences"][0]["uid"];
    assert_eq!(*uid, owner["metadata"]["uid"]);
    let edit = json!({"data": {"a": "2"}});
    test.cluster.patch("configmaps", "child", &edit).await;
    until(&test, "it is put right", |it| it["data"]["a"] == "1").await;
    test.nothing_more(Duration::from_secs(30)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["keep one", "keep one"]);
    let other = format!("/api/v1/namespaces/{second}/configmaps/child");
    assert!(test.cluster.request("GET", &other, None).await.is_ok());
}
