//! What handlers see of one kind in two ways: by an index, and by the watch of children that calls them.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs::{Context, HandlerError, HandlerResult, Index, Registry, indexer};
use kopf_rs_apiserver::{Entry, Fault, FaultHandle, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::TestOperator;
use crate::owned::map;

scenarios! {
    a_late_index_calls_its_readers_again [memory];
}

/// What the index has of the child.
fn indexed(context: &Context) -> Option<String> {
    let maps: Index<String, String> = context.index("maps").expect("it is declared");
    maps.get("child").iter().next().cloned()
}

fn indexing(registry: Registry) -> Registry {
    let maps = indexer("maps", |cause| {
        let data: BTreeMap<String, String> = cause.read("data")?;
        let values: Vec<String> = data.into_values().collect();
        Ok::<_, HandlerError>((cause.name().to_owned(), values.join(" ")))
    });
    registry.index("configmaps", maps)
}

/// The watch that feeds the index is late.
fn late_index() -> Fault {
    let is_of_index = |entry: &Entry| entry.query.iter().all(|(key, _)| key != "labelSelector");
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
async fn with_late_index(cluster: TestCluster) -> (TestOperator, FaultHandle) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let late = server.fault(late_index());
    (test, late)
}

async fn a_late_index_calls_its_readers_again(cluster: TestCluster) {
    let (test, _late) = with_late_index(cluster).await;
    let looking = test.handler("look", look).reads("configmaps");
    let registry = indexing(Registry::new()).reconcile(test.selector(), looking);
    let working = test.start(registry);
    test.create("one", json!({})).await;
    let shows = |indexed: Value, read: Value| {
        move |it: &Value| it["status"]["indexed"] == indexed && it["status"]["read"] == read
    };
    test.until(
        "its apply is indexed",
        "one",
        shows(json!("1"), Value::Null),
    )
    .await;
    let theirs = json!({"data": {"b": "theirs"}});
    test.cluster.patch("configmaps", "child", &theirs).await;
    let what = "the call comes before the index";
    test.until(what, "one", shows(json!("1"), json!("theirs")))
        .await;
    let what = "another one follows the index";
    test.until(what, "one", shows(json!("1 theirs"), json!("theirs")))
        .await;
    let calls = test.calls.all().len();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(test.calls.all().len(), calls, "nothing else follows");
    working.stop().await;
}
