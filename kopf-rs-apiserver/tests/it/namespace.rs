//! What goes when something goes: namespaces and owners.

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
