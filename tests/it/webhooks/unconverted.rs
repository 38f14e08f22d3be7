//! Objects of several versions while no operator converts, for a while or forever.

use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use super::converting::{DEFINITIONS, apply, ask, collection, create, get, registry, serve, start};

scenarios! {
    managers_of_two_versions_lose_nothing_without_a_converter [tcp real];
    the_leftovers_of_a_removed_operator_are_freed_as_documented [tcp real];
}

/// The documented procedure; it uses the definition's name of its example.
const DOCUMENTED: &str = include_str!("../../../kopf-rs/docs/on_convert.md");

/// CV6.
async fn managers_of_two_versions_lose_nothing_without_a_converter(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let working = start(&test, registry(&test)).await;
    create(&test, "v1alpha1", "one", json!({"address": "host:80", "size": 7})).await;
    let api_version = format!("{}/v1", test.group);
    let note = json!({
        "apiVersion": api_version, "kind": "KopfExample", "metadata": {"name": "one"}, "spec": {"note": "n"},
    });
    let path = format!("{}/one", collection(&test, "v1"));
    let applying = format!("{path}?fieldManager=c&force=true");
    apply(&test, &applying, &note).await;
    working.stop().await;

    // Objects are stored in this version, but one field manager has used the other version. The server may accept or refuse the write.
    let label = json!({"metadata": {"labels": {"by": "me"}}});
    let labelled = test.cluster.request("PATCH", &path, Some(&label)).await;
    let other = format!("{}/one", collection(&test, "v1alpha1"));
    let read = test.cluster.request("GET", &other, None).await;
    assert!(read.is_err(), "nobody converts: {read:?}");

    let working = start(&test, registry(&test)).await;
    let old = get(&test, "v1alpha1", "one").await;
    assert_eq!(old["spec"], json!({"address": "host:80", "size": 7}));
    let new = get(&test, "v1", "one").await;
    assert_eq!(new["spec"], json!({"host": "host", "port": 80, "note": "n"}));
    let label = new["metadata"]["labels"]["by"].as_str();
    assert_eq!(label.is_some(), labelled.is_ok(), "{new}");
    working.stop().await;
}

/// CV10: the operator's namespace is deleted, so it never starts again.
async fn the_leftovers_of_a_removed_operator_are_freed_as_documented(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let working = start(&test, registry(&test)).await;
    create(&test, "v1alpha1", "one", json!({"address": "host:80"})).await;
    working.kill().await;
    let listing = collection(&test, "v1alpha1");
    // A real server may still list objects that it converted before.
    let one = format!("{listing}/one");
    let read = test.cluster.request("GET", &one, None).await;
    assert!(read.is_err(), "nobody converts: {read:?}");

    let mut lines = DOCUMENTED.lines();
    let command = lines.find_map(|line| line.strip_prefix("kubectl patch crd "));
    let patch = command.and_then(|it| it.split('\'').nth(1));
    let patch = patch.and_then(|it| serde_json::from_str(it).ok());
    let patch: Value = patch.expect("the documentation has the command");
    test.cluster.patch(DEFINITIONS, &test.kind(), &patch).await;

    let listed = ask(&test, "GET", &listing, None).await;
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1));
    test.cluster.delete(DEFINITIONS, &test.kind()).await;
    let is_gone = |found: Option<&Value>| found.is_none();
    test.cluster.until("the definition goes", DEFINITIONS, &test.kind(), is_gone).await;
}
