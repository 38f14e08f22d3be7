//! The annotation that carries the data that a version cannot express: any user with write access to an object can forge this annotation.

use std::fmt::Write as _;

use std::time::Duration;

use kopf_rs::{Registry, conversion};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use super::converting::{ask, collection, create, get, object, registry, serve, start};
use crate::operating::{KIND, TestOperator};

scenarios! {
    a_forged_annotation_changes_no_status [tcp real];
    a_forged_annotation_passes_no_schema [tcp real];
    an_object_with_too_much_to_carry_fails_no_listing [tcp real];
}

/// A PUT of the main resource by a user without the right to write `status`.
async fn a_forged_annotation_changes_no_status(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let working = start(&test, registry(&test)).await;
    let forged =
        |version: &str, entries: Value| json!({format!("conversion.kopf.rs/{version}"): entries.to_string()});
    let approved = json!([{"at": ["status"], "is": {"approved": true}}]);
    let made = create(&test, "v1", "one", json!({"host": "h", "port": 1})).await;
    assert!(made.get("status").is_none(), "{made}");

    let mut old = get(&test, "v1alpha1", "one").await;
    old["metadata"]["annotations"] = forged("v1", approved.clone());
    let path = format!("{}/one", collection(&test, "v1alpha1"));
    ask(&test, "PUT", &path, Some(&old)).await;
    let seen = get(&test, "v1", "one").await;
    assert_eq!(seen["status"]["approved"], Value::Null, "{seen}");

    // The protection applies in either version, the stored one and the other one.
    let mut new = get(&test, "v1", "one").await;
    new["metadata"]["annotations"] = forged("v1alpha1", approved);
    let path = format!("{}/one", collection(&test, "v1"));
    ask(&test, "PUT", &path, Some(&new)).await;
    let seen = get(&test, "v1alpha1", "one").await;
    assert_eq!(seen["status"]["approved"], Value::Null, "{seen}");
    working.stop().await;
}

/// The API server checks a write only against the schema of the written version, so the operator has to check the data that it adds to the
/// other version.
async fn a_forged_annotation_passes_no_schema(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    // These functions do not convert `note`, so its value comes only from the annotation.
    let of = |version| (test.group.as_str(), version, KIND);
    let address = |spec: &Value| format!("{}:{}", spec["host"].as_str().unwrap_or(""), spec["port"]);
    let up = conversion("up", |spec: Value| {
        let (host, port) = spec["address"].as_str().unwrap_or(":").split_once(':').unwrap_or_default();
        Ok(json!({"host": host, "port": port.parse::<u16>()?}))
    });
    let down = conversion("down", move |spec: Value| Ok(json!({"address": address(&spec)})));
    let registry =
        Registry::new().on_convert(of("v1alpha1"), of("v1"), up).on_convert(of("v1"), of("v1alpha1"), down);
    let working = start(&test, registry).await;
    for (number, (entry, expected)) in [
        (json!({"at": ["spec", "note"], "is": "fine"}), json!({"host": "h", "port": 80, "note": "fine"})),
        (json!({"at": ["spec", "note"], "is": 7}), json!({"host": "h", "port": 80})),
        (json!({"at": ["spec", "note"], "is": {"a": "b"}}), json!({"host": "h", "port": 80})),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("n{number}");
        let mut old = object(&test, "v1alpha1", &name, &json!({"address": "h:80"}));
        let carried = json!([entry]).to_string();
        old["metadata"]["annotations"] = json!({"conversion.kopf.rs/v1": carried});
        ask(&test, "POST", &collection(&test, "v1alpha1"), Some(&old)).await;
        let seen = get(&test, "v1", &name).await;
        assert_eq!(seen["spec"], expected, "{entry}");
    }
    working.stop().await;
}

async fn an_object_with_too_much_to_carry_fails_no_listing(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let working = start(&test, registry(&test)).await;
    create(&test, "v1", "good", json!({"host": "h", "port": 80})).await;
    let large = json!({"host": "h", "port": 81, "note": noise(100_000)});
    create(&test, "v1", "large", large.clone()).await;

    let listed = ask(&test, "GET", &collection(&test, "v1alpha1"), None).await;
    let listed = listed["items"].as_array().expect("items");
    let specs: Vec<_> = listed.iter().map(|it| it["spec"].clone()).collect();
    assert_eq!(specs, [json!({"address": "h:80"}), json!({"address": "h:81"})]);
    let told = test.line("spec.note").await;
    assert!(told.contains("name=\"large\""), "{told}");
    explained_by_an_event(&test).await;

    // The shown object is incomplete, so the operator refuses a write of this object, but not of others.
    for (name, is_taken) in [("large", false), ("good", true)] {
        let path = format!("{}/{name}", collection(&test, "v1alpha1"));
        let mut old = get(&test, "v1alpha1", name).await;
        old["spec"]["size"] = json!(7);
        let written = test.cluster.request("PUT", &path, Some(&old)).await;
        assert_eq!(written.is_ok(), is_taken, "{name}: {written:?}");
        if let Err(error) = written {
            let error = error.to_string();
            assert!(error.contains("v1 has in spec.note"), "{error}");
        }
    }
    assert_eq!(get(&test, "v1", "large").await["spec"], large);
    // A real server also converts the objects that it deletes, which fails for this one, so delete it in the stored version.
    let path = format!("{}/large", collection(&test, "v1"));
    ask(&test, "DELETE", &path, None).await;
    working.stop().await;
}

async fn explained_by_an_event(test: &TestOperator) {
    let is_it = |event: &Value| {
        event["regarding"]["name"] == "large"
            && event["type"] == "Warning"
            && event["note"].as_str().is_some_and(|it| it.contains("spec.note"))
    };
    let posted = async {
        while !test.cluster.list("events.events.k8s.io").await.iter().any(is_it) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let posted = tokio::time::timeout(test.cluster.server().patience(), posted).await;
    posted.expect("an Event explains what is left out");
}

/// Returns a text that does not compress well.
fn noise(length: usize) -> String {
    let mut seed = 1_u64;
    let mut noise = String::new();
    while noise.len() < length {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let _ = write!(noise, "{seed:x}");
    }
    noise
}
