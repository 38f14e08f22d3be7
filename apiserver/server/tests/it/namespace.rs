//! Cascading deletion: the content of namespaces and the dependents of owners.

use serde_json::{Value, json};

use super::{MAPS, ask, done, get, map};
use kopf_rs_apiserver::ApiServer;

#[tokio::test]
async fn a_namespace_goes_with_its_content() {
    let server = ApiServer::new();
    done(
        &server,
        "POST",
        "/api/v1/namespaces",
        json!({"metadata": {"name": "a"}}),
    )
    .await;
    let maps = "/api/v1/namespaces/a/configmaps";
    done(&server, "POST", maps, map("free")).await;
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["demo.example/hold"]);
    done(&server, "POST", maps, held).await;
    let answer = done(&server, "DELETE", "/api/v1/namespaces/a", Value::Null).await;
    assert_eq!(answer["status"]["phase"], "Terminating");
    assert_eq!(get(&server, &format!("{maps}/free")).await.0, 404);
    let (code, status) = ask(&server, "POST", maps, map("new")).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "configmaps \"new\" is forbidden: unable to create new content in namespace a because it is being terminated"
    );
    done(
        &server,
        "PATCH",
        &format!("{maps}/held"),
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert_eq!(get(&server, "/api/v1/namespaces/a").await.0, 404);
    assert_eq!(
        ask(&server, "DELETE", "/api/v1/namespaces/default", Value::Null)
            .await
            .0,
        403
    );
}

async fn owned(server: &ApiServer, blocking: bool) -> Value {
    let owner = done(server, "POST", MAPS, map("owner")).await;
    let mut child = map("child");
    child["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocking,
    }]);
    done(server, "POST", MAPS, child).await
}

#[tokio::test]
async fn dependants_go_with_their_owner_or_stay_as_orphans() {
    for policy in ["Background", "Foreground", "Orphan"] {
        let server = ApiServer::new();
        owned(&server, true).await;
        done(
            &server,
            "DELETE",
            &format!("{MAPS}/owner?propagationPolicy={policy}"),
            Value::Null,
        )
        .await;
        assert_eq!(
            get(&server, &format!("{MAPS}/owner")).await.0,
            404,
            "{policy}"
        );
        let (code, child) = get(&server, &format!("{MAPS}/child")).await;
        assert_eq!(code, if policy == "Orphan" { 200 } else { 404 }, "{policy}");
        assert_eq!(child["metadata"].get("ownerReferences"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn dependants_of_owners_that_never_were_go_after_a_while() {
    let server = ApiServer::new();
    let mut lost = map("lost");
    lost["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "0b2f9b54-1a52-4c2e-9d9e-0a3c2f1b7a11"},
    ]);
    let mut foreign = map("foreign");
    foreign["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "nowhere.example/v1", "kind": "Thing", "name": "nobody", "uid": "0b2f9b54-1a52-4c2e-9d9e-0a3c2f1b7a12"},
    ]);
    done(&server, "POST", MAPS, lost).await;
    done(&server, "POST", MAPS, foreign).await;
    assert_eq!(get(&server, &format!("{MAPS}/lost")).await.0, 200);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(get(&server, &format!("{MAPS}/lost")).await.0, 404);
    assert_eq!(get(&server, &format!("{MAPS}/foreign")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_events_expire_though_nobody_asks() {
    let server = ApiServer::new();
    let events = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    done(&server, "POST", events, event).await;
    let begin = tokio::time::Instant::now();
    let mut watch =
        super::Lines::open(&server, &format!("{events}?watch=1&timeoutSeconds=7200")).await;
    assert_eq!(watch.brief().await, "ADDED e");
    assert_eq!(watch.brief().await, "DELETED e");
    let passed = begin.elapsed().as_secs();
    assert!((3600..3660).contains(&passed), "{passed} seconds");
}

#[tokio::test]
async fn an_owner_deleted_in_the_foreground_is_marked_first() {
    let server = ApiServer::new();
    owned(&server, true).await;
    let uri = format!("{MAPS}/owner?propagationPolicy=Foreground");
    let answer = done(&server, "DELETE", &uri, Value::Null).await;
    assert_eq!(
        answer["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    assert_eq!(get(&server, &format!("{MAPS}/owner")).await.0, 404);
}

#[tokio::test]
async fn a_namespace_says_what_it_waits_for() {
    let server = ApiServer::new();
    let namespace = json!({"metadata": {"name": "b"}});
    done(&server, "POST", "/api/v1/namespaces", namespace).await;
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["demo.example/hold"]);
    done(&server, "POST", "/api/v1/namespaces/b/configmaps", held).await;
    done(&server, "DELETE", "/api/v1/namespaces/b", Value::Null).await;
    let (code, left) = get(&server, "/api/v1/namespaces/b").await;
    assert_eq!(code, 200);
    let told: Vec<&str> = left["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|condition| condition["status"] == "True")
        .filter_map(|condition| condition["message"].as_str())
        .collect();
    assert_eq!(
        told,
        [
            "Some resources are remaining: configmaps. has 1 resource instances",
            "Some content in the namespace has finalizers remaining: demo.example/hold in 1 resource instances",
        ]
    );
}

/// Returns an owner reference to a `ConfigMap` that blocks the owner's foreground deletion.
fn by(owner: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": true,
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    })
}

async fn own(server: &ApiServer, name: &str, owners: Value) {
    let patch = json!({"metadata": {"ownerReferences": owners}});
    done(server, "PATCH", &format!("{MAPS}/{name}"), patch).await;
}

#[tokio::test]
async fn owners_in_a_circle_are_deleted_in_the_foreground() {
    let server = ApiServer::new();
    let a = done(&server, "POST", MAPS, map("a")).await;
    let mut b = map("b");
    b["metadata"]["ownerReferences"] = json!([by(&a)]);
    let b = done(&server, "POST", MAPS, b).await;
    own(&server, "a", json!([by(&b)])).await;
    let itself = done(&server, "POST", MAPS, map("itself")).await;
    own(&server, "itself", json!([by(&itself)])).await;
    for name in ["a", "itself"] {
        let uri = format!("{MAPS}/{name}?propagationPolicy=Foreground");
        done(&server, "DELETE", &uri, Value::Null).await;
    }
    for name in ["a", "b", "itself"] {
        assert_eq!(
            get(&server, &format!("{MAPS}/{name}")).await.0,
            404,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_long_chain_of_owners_is_deleted() {
    const LENGTH: usize = 3000;
    for how in ["Background", "Foreground"] {
        let server = ApiServer::new();
        let mut last = done(&server, "POST", MAPS, map("0")).await;
        for n in 1..LENGTH {
            let mut next = map(&n.to_string());
            next["metadata"]["ownerReferences"] = json!([by(&last)]);
            last = done(&server, "POST", MAPS, next).await;
        }
        let uri = format!("{MAPS}/0?propagationPolicy={how}");
        done(&server, "DELETE", &uri, Value::Null).await;
        let left = get(&server, MAPS).await.1["items"]
            .as_array()
            .unwrap()
            .len();
        assert_eq!(left, 0, "{how}");
    }
}
