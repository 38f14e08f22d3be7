//! What handlers see of one kind in two ways: by an index, and by the watch of children that calls them.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs::{Callback, Cause, Context, HandlerError, HandlerResult, Index, Registry, indexer};
use kopf_rs_apiserver::{Entry, Fault, FaultHandle, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::TestOperator;
use crate::owned::map;

scenarios! {
    a_late_index_calls_its_readers_again [memory];
    a_late_index_repeats_the_calls_that_a_change_concerns [memory];
    the_children_of_one_owner_are_listed [memory];
}

/// What the index has of the child.
fn indexed(context: &Context) -> Option<String> {
    let maps: Index<String, String> = context.index("maps").expect("it is declared");
    maps.get("child").iter().next().cloned()
}

fn indexing() -> Callback {
    indexer("maps", |cause| {
        let data: BTreeMap<String, String> = cause.read("data")?;
        let values: Vec<String> = data.into_values().collect();
        Ok::<_, HandlerError>((cause.name().to_owned(), values.join(" ")))
    })
}

fn selects_by_labels(entry: &Entry) -> bool {
    entry.query.iter().any(|(key, _)| key == "labelSelector")
}

/// The watch that feeds the index is late.
fn late_index(is_of_index: fn(&Entry) -> bool) -> Fault {
    let late = Fault::late(Duration::from_secs(60));
    late.on(Verb::Watch).plural("configmaps").when(is_of_index)
}

async fn look(context: Context) -> HandlerResult<Value> {
    let children = context.children()?;
    children.apply(&map("child", &json!({"a": "1"}))).await?;
    let read = children.get::<ConfigMap>("child").await?;
    let read = read.and_then(|it| it.data).unwrap_or_default();
    let indexed = indexed(&context);
    context.patch(|patch| {
        patch["status"]["read"] = json!(read.get("b"));
        patch["status"]["indexed"] = json!(indexed);
    });
    Ok(Value::Null)
}

/// The test's cluster with a late index.
async fn with_late_index(
    cluster: TestCluster,
    is_of_index: fn(&Entry) -> bool,
) -> (TestOperator, FaultHandle) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let late = server.fault(late_index(is_of_index));
    (test, late)
}

async fn a_late_index_calls_its_readers_again(cluster: TestCluster) {
    // The watch of children has a selector.
    let (test, _late) = with_late_index(cluster, |it| !selects_by_labels(it)).await;
    let looking = test.handler("look", look).reads("configmaps");
    let registry = Registry::new().index("configmaps", indexing()).reconcile(test.selector(), looking);
    let working = test.start(registry);
    test.create("one", json!({})).await;
    let shows = |indexed: Value, read: Value| {
        move |it: &Value| it["status"]["indexed"] == indexed && it["status"]["read"] == read
    };
    test.until("its apply is indexed", "one", shows(json!("1"), Value::Null)).await;
    let theirs = json!({"data": {"b": "theirs"}});
    test.cluster.patch("configmaps", "child", &theirs).await;
    let what = "the call comes before the index";
    test.until(what, "one", shows(json!("1"), json!("theirs"))).await;
    let what = "another one follows the index";
    test.until(what, "one", shows(json!("1 theirs"), json!("theirs"))).await;
    let calls = test.calls.all().len();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(test.calls.all().len(), calls, "nothing else follows");
    working.stop().await;
}

/// The index and the watch of referenced objects are fed separately, too.
async fn a_late_index_repeats_the_calls_that_a_change_concerns(cluster: TestCluster) {
    // Only the index has a selector.
    let (test, _late) = with_late_index(cluster, selects_by_labels).await;
    let looking = test.handler("look", |context| async move {
        let indexed = indexed(&context);
        context.patch(|patch| patch["status"]["indexed"] = json!(indexed));
        Ok(Value::Null)
    });
    let concerned = |_: &Cause| Some("one".to_owned());
    let registry = Registry::new()
        .index("configmaps", indexing().label("indexed", "yes"))
        .reconcile(test.selector(), looking.watches("configmaps", concerned));
    let working = test.start(registry);
    test.create("one", json!({})).await;
    test.calls.until(1).await;
    let mut child = map("child", &json!({"a": "1"}));
    child["metadata"]["labels"] = json!({"indexed": "yes"});
    test.cluster.create(&child).await;
    let shows = |indexed: &'static str| move |it: &Value| it["status"]["indexed"] == indexed;
    test.until("it is indexed", "one", shows("1")).await;
    assert_eq!(test.calls.all().len(), 3, "one call came before the index");
    let theirs = json!({"data": {"b": "theirs"}});
    test.cluster.patch("configmaps", "child", &theirs).await;
    test.calls.until(4).await;
    assert_eq!(test.get("one").await["status"]["indexed"], "1");
    let what = "another call follows the index";
    test.until(what, "one", shows("1 theirs")).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(test.calls.all().len(), 5, "nothing else follows");
    working.stop().await;
}

/// Makes two config maps and a Secret, and stores the names of all children that it lists.
async fn list(context: Context) -> HandlerResult<Value> {
    let children = context.children()?;
    for (kind, name) in [("ConfigMap", "b"), ("ConfigMap", "a"), ("Secret", "s")] {
        let name = format!("{}-{name}", context.name());
        children.apply(&json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})).await?;
    }
    let maps = children.list::<ConfigMap>().await?.into_iter().filter_map(|it| it.metadata.name);
    let secrets = children.list_kind("v1", "Secret").await?;
    let secrets = secrets.iter().filter_map(|it| it["metadata"]["name"].as_str());
    let listed: Vec<String> = maps.chain(secrets.map(str::to_owned)).collect();
    context.patch(|patch| patch["status"]["listed"] = json!(listed));
    Ok(Value::Null)
}

/// Kinds in `reads` are listed from memory, others by a request.
async fn the_children_of_one_owner_are_listed(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.cluster.create(&map("foreign", &json!({}))).await;
    let listing = test.handler("list", list).reads("configmaps").owns("secrets");
    let working = test.start(Registry::new().reconcile(test.selector(), listing));
    for owner in ["one", "two"] {
        test.create(owner, json!({})).await;
        let expected = json!(["a", "b", "s"].map(|name| format!("{owner}-{name}")));
        test.until("its own children are listed", owner, |it| it["status"]["listed"] == expected).await;
    }
    let lists = |plural: &str| {
        let asked = test.cluster.asked();
        asked.iter().filter(|it| it.verb == "list" && it.path.ends_with(plural)).count()
    };
    assert_eq!(
        lists("/secrets") - lists("/configmaps"),
        test.calls.all().len(),
        "{:?}",
        test.cluster.asked()
    );
    working.stop().await;
}
