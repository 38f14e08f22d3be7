//! Listers: all objects of a kind, read from memory.

use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs::{Context, HandlerResult, Registry};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::TestOperator;

scenarios! {
    a_lister_has_all_objects_before_the_first_call [memory];
}

/// Stores the names and values of all config maps with the label.
async fn list(context: Context) -> HandlerResult<Value> {
    let maps = context.lister::<ConfigMap>()?;
    let listed: Vec<String> = maps
        .select("app=web")?
        .iter()
        .map(|map| {
            let size = map.data.as_ref().and_then(|data| data.get("size")).map_or("", String::as_str);
            format!("{}={size}", map.metadata.name.as_deref().unwrap_or_default())
        })
        .collect();
    context.patch(|patch| patch["status"]["listed"] = json!(listed));
    Ok(Value::Null)
}

fn map(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": app}}, "data": {"size": "1"},
    })
}

async fn a_lister_has_all_objects_before_the_first_call(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for (name, app) in [("b", "web"), ("a", "web"), ("c", "db")] {
        test.cluster.create(&map(name, app)).await;
    }
    test.create("one", json!({})).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.handler("list", list).listing::<ConfigMap>())
        .on_event("configmaps", test.noting("see").label("app", "seen"));
    let working = test.start(registry);
    let lists = |name: &'static str, expected: Value| {
        let test = &test;
        async move { test.until("it lists them", name, |it| it["status"]["listed"] == expected).await }
    };
    lists("one", json!(["a=1", "b=1"])).await;
    test.cluster.patch("configmaps", "b", &json!({"data": {"size": "2"}})).await;
    test.cluster.delete("configmaps", "a").await;
    test.cluster.create(&map("seen", "seen")).await;
    test.calls_until("see seen").await;
    test.create("two", json!({})).await;
    lists("two", json!(["b=2"])).await;
    let asked = test.cluster.asked();
    let watches = asked.iter().filter(|it| it.verb == "watch" && it.path.ends_with("/configmaps"));
    assert_eq!(watches.count(), 1, "{asked:?}");
    working.stop().await;
}
