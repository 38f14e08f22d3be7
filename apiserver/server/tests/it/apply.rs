//! Managed fields, server-side apply, strategic merge patches.

use serde_json::{Value, json};

use super::{APPS, CRDS, MAPS, MERGE, ask_as, crd, done, get};
use kopf_rs_apiserver::ApiServer;

const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn apply(server: &ApiServer, uri: &str, options: &str, body: Value) -> (u16, Value) {
    ask_as(server, "PATCH", &format!("{uri}?{options}"), APPLY, body).await
}

fn map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})
}

/// Returns the managers of an object with their fields.
fn managers(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array();
    entries
        .into_iter()
        .flatten()
        .map(|entry| {
            let words = [
                &entry["manager"],
                &entry["operation"],
                &entry["subresource"],
            ];
            let words = words.iter().filter_map(|word| word.as_str());
            let name: Vec<&str> = words.collect();
            (name.join(" "), entry["fieldsV1"].clone())
        })
        .collect()
}

fn entry(name: &str, fields: Value) -> (String, Value) {
    (name.to_owned(), fields)
}

#[tokio::test]
async fn whoever_writes_a_field_manages_it() {
    let server = ApiServer::new();
    let made = done(
        &server,
        "POST",
        &format!("{MAPS}?fieldManager=a"),
        map(&json!({"x": "1", "y": "1"})),
    )
    .await;
    let fields = json!({"f:data": {".": {}, "f:x": {}, "f:y": {}}});
    assert_eq!(managers(&made), [entry("a Update", fields)]);
    let uri = format!("{MAPS}/m?fieldManager=b");
    let changed = done(
        &server,
        "PATCH",
        &uri,
        json!({"data": {"y": "2", "z": "3"}}),
    )
    .await;
    let expected = [
        entry("a Update", json!({"f:data": {".": {}, "f:x": {}}})),
        entry("b Update", json!({"f:data": {"f:y": {}, "f:z": {}}})),
    ];
    assert_eq!(managers(&changed), expected);
    let again = done(&server, "PATCH", &uri, json!({"data": {"y": "2"}})).await;
    assert_eq!(again, changed, "nothing changed, so nobody is noted");
    let forgotten = json!({"metadata": {"managedFields": []}});
    let cleared = done(&server, "PATCH", &format!("{MAPS}/m"), forgotten).await;
    assert_eq!(managers(&cleared), []);
}

#[tokio::test]
async fn apply_creates_merges_and_takes_back() {
    let server = ApiServer::new();
    let uri = format!("{MAPS}/m");
    let (code, status) = apply(&server, &uri, "", map(&json!({}))).await;
    assert_eq!(code, 422);
    let told = status["message"].as_str().unwrap();
    assert!(
        told.ends_with("fieldManager: Required value: is required for apply patch"),
        "{told}"
    );

    let both = map(&json!({"x": "1", "y": "1"}));
    let (code, made) = apply(&server, &uri, "fieldManager=a", both.clone()).await;
    assert_eq!(code, 201);
    assert_eq!(
        managers(&made),
        [entry("a Apply", json!({"f:data": {"f:x": {}, "f:y": {}}}))]
    );
    let (_, same) = apply(&server, &uri, "fieldManager=a", both).await;
    assert_eq!(same, made, "applying the same again changes nothing");

    apply(
        &server,
        &uri,
        "fieldManager=b",
        map(&json!({"x": "1", "z": "1"})),
    )
    .await;
    let (_, less) = apply(&server, &uri, "fieldManager=a", map(&json!({}))).await;
    assert_eq!(
        less["data"],
        json!({"x": "1", "z": "1"}),
        "x is held by the other applier"
    );
}

#[tokio::test]
async fn what_another_applier_says_is_a_conflict_unless_forced() {
    let server = ApiServer::new();
    let uri = format!("{MAPS}/m");
    apply(
        &server,
        &uri,
        "fieldManager=b",
        map(&json!({"x": "1", "z": "1"})),
    )
    .await;
    let (code, status) = apply(&server, &uri, "fieldManager=a", map(&json!({"x": "2"}))).await;
    assert_eq!(code, 409);
    assert_eq!(
        status["message"],
        "Apply failed with 1 conflict: conflict with \"b\": .data.x"
    );
    let cause = json!({"reason": "FieldManagerConflict", "message": "conflict with \"b\"", "field": ".data.x"});
    assert_eq!(status["details"]["causes"], json!([cause]));
    let dry = apply(
        &server,
        &uri,
        "fieldManager=a&force=true&dryRun=All",
        map(&json!({"x": "2"})),
    )
    .await;
    assert_eq!(dry.1["data"]["x"], "2");
    assert_eq!(get(&server, &uri).await.1["data"]["x"], "1");
    let (_, forced) = apply(
        &server,
        &uri,
        "fieldManager=a&force=true",
        map(&json!({"x": "2"})),
    )
    .await;
    let mut found = managers(&forced);
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        entry("a Apply", json!({"f:data": {"f:x": {}}})),
        entry("b Apply", json!({"f:data": {"f:z": {}}})),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn lists_of_custom_objects_are_merged_as_their_schema_says() {
    let server = ApiServer::new();
    let list = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}},
    });
    let mut definition = crd();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"parts": list, "words": {"type": "array", "items": {"type": "string"}}}},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }});
    done(&server, "POST", CRDS, definition).await;
    let app = |field: &str, value: Value| {
        let mut app =
            json!({"apiVersion": "demo.example/v1", "kind": "MyApp", "metadata": {"name": "x"}});
        app[field] = value;
        app
    };
    let uri = format!("{APPS}/x");
    let first = json!({"parts": [{"name": "a", "size": 1}], "words": ["a"]});
    apply(&server, &uri, "fieldManager=one", app("spec", first)).await;
    let second = json!({"parts": [{"name": "b", "size": 2}]});
    let (_, both) = apply(&server, &uri, "fieldManager=two", app("spec", second)).await;
    let parts = json!([{"name": "b", "size": 2}, {"name": "a", "size": 1}]);
    assert_eq!(
        both["spec"]["parts"].as_array().unwrap().len(),
        2,
        "{parts}"
    );
    let whole = json!({"words": ["b"]});
    let (code, status) = apply(&server, &uri, "fieldManager=two", app("spec", whole)).await;
    assert_eq!(code, 409);
    assert_eq!(status["details"]["causes"][0]["field"], ".spec.words");
    let status_uri = format!("{uri}/status");
    let phase = app("status", json!({"phase": "ready"}));
    let (_, done) = apply(&server, &status_uri, "fieldManager=three", phase).await;
    let own = entry("three Apply status", json!({"f:status": {"f:phase": {}}}));
    assert!(managers(&done).contains(&own), "{done}");
    let unknown = app("spec", json!({"other": 1}));
    let (code, status) = apply(&server, &uri, "fieldManager=two", unknown).await;
    assert_eq!(code, 500);
    let told = status["message"].as_str().unwrap();
    assert!(
        told.ends_with(".spec.other: field not declared in schema"),
        "{told}"
    );
}

#[tokio::test]
async fn strategic_patches_merge_lists_by_key() {
    let server = ApiServer::new();
    let container = |name: &str| json!({"name": name, "image": "i:1"});
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container("a"), container("b")]}},
        },
    });
    done(&server, "POST", DEPLOYMENTS, deployment).await;
    let uri = format!("{DEPLOYMENTS}/d");
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "a", "image": "i:2"},
        {"name": "b", "$patch": "delete"},
    ]}}}});
    let (code, patched) = ask_as(&server, "PATCH", &uri, STRATEGIC, patch).await;
    assert_eq!(code, 200, "{patched}");
    let containers = &patched["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers.as_array().unwrap().len(), 1);
    assert_eq!(containers[0]["image"], "i:2");
    assert_eq!(containers[0]["terminationMessagePolicy"], "File");
    done(&server, "POST", CRDS, crd()).await;
    let refused = ask_as(&server, "PATCH", &format!("{APPS}/x"), STRATEGIC, json!({})).await;
    assert_eq!(refused.0, 415);
    let forced = format!("{uri}?force=true");
    assert_eq!(
        ask_as(&server, "PATCH", &forced, MERGE, json!({})).await.0,
        422
    );
}
