//! Writes: optimistic locking, no-ops, generation, status, finalizers, patches.

use serde_json::{Value, json};

use super::{APPS, JSON_PATCH, MAPS, MERGE, app, ask, ask_as, done, get, map, with_crd};
use kopf_rs_apiserver::ApiServer;

#[tokio::test]
async fn a_stale_replace_conflicts() {
    let server = with_crd().await;
    let first = done(&server, "POST", APPS, app("x")).await;
    let uri = format!("{APPS}/x");
    done(&server, "PATCH", &uri, json!({"spec": {"image": "a"}})).await;
    let (code, status) = ask(&server, "PUT", &uri, first).await;
    assert_eq!(code, 409);
    assert_eq!(
        status["message"],
        "Operation cannot be fulfilled on myapps.demo.example \"x\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let patch = json!({"metadata": {"resourceVersion": "1"}, "spec": {"image": "b"}});
    assert_eq!(ask_as(&server, "PATCH", &uri, MERGE, patch).await.0, 409);
}

#[tokio::test]
async fn a_write_without_change_is_none() {
    let server = with_crd().await;
    let first = done(&server, "POST", APPS, app("x")).await;
    let uri = format!("{APPS}/x");
    let second = done(&server, "PATCH", &uri, json!({"spec": {"image": "nginx"}})).await;
    assert_eq!(first, second);
    let third = done(&server, "PUT", &uri, second.clone()).await;
    assert_eq!(second, third);
}

#[tokio::test]
async fn generation_follows_the_spec_alone() {
    let server = with_crd().await;
    done(&server, "POST", APPS, app("x")).await;
    let uri = format!("{APPS}/x");
    for (patch, generation) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), 1),
        (json!({"spec": {"image": "a"}}), 2),
        (json!({"status": {"ignored": true}}), 2),
    ] {
        let answer = done(&server, "PATCH", &uri, patch.clone()).await;
        assert_eq!(answer["metadata"]["generation"], generation, "{patch}");
        assert_eq!(answer.get("status"), None);
    }
    let patch =
        json!({"spec": {"image": "ignored"}, "metadata": {"labels": null}, "status": {"seen": 1}});
    let answer = done(&server, "PATCH", &format!("{uri}/status"), patch).await;
    assert_eq!(answer["spec"]["image"], "a");
    assert_eq!(answer["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(answer["status"], json!({"seen": 1}));
    assert_eq!(answer["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_long_beginning_of_a_name_is_cut() {
    let server = ApiServer::new();
    let beginning = "a".repeat(60);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"generateName": beginning}, "spec": {"ports": [{"port": 80}]}});
    let uri = "/api/v1/namespaces/default/services";
    let made = done(&server, "POST", uri, service).await;
    let name = made["metadata"]["name"].as_str().unwrap();
    assert_eq!((name.len(), &name[..58]), (63, &beginning[..58]));
}

#[tokio::test]
async fn a_generation_that_cannot_grow_stays() {
    let server = ApiServer::new();
    let mut body = map("x");
    body["metadata"]["generation"] = i64::MAX.into();
    done(&server, "POST", MAPS, body).await;
    let uri = format!("{MAPS}/x");
    let answer = done(&server, "PATCH", &uri, json!({"data": {"a": "2"}})).await;
    assert_eq!(answer["data"]["a"], "2");
    assert_eq!(answer["metadata"]["generation"], i64::MAX);
    done(&server, "DELETE", &uri, Value::Null).await;
}

// The conformance scripts cannot cover this, because the Deployment controller of a real server writes concurrently.
#[tokio::test]
async fn annotations_count_for_the_generation_of_deployments_but_not_beside_their_status() {
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    let server = ApiServer::new();
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec});
    done(&server, "POST", DEPLOYMENTS, body).await;
    for (part, generation) in [("/status", 1), ("", 2)] {
        let uri = format!("{DEPLOYMENTS}/d{part}");
        let patch = json!({"metadata": {"annotations": {"example.com/revision": uri}}});
        let answer = done(&server, "PATCH", &uri, patch).await;
        assert_eq!(
            answer["metadata"]["annotations"]["example.com/revision"],
            uri
        );
        assert_eq!(answer["metadata"]["generation"], generation, "{part}");
    }
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let server = with_crd().await;
    let mut body = app("x");
    body["metadata"]["finalizers"] = json!(["demo.example/hold"]);
    done(&server, "POST", APPS, body).await;
    let uri = format!("{APPS}/x");
    let marked = done(&server, "DELETE", &uri, Value::Null).await;
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);
    let again = done(&server, "DELETE", &uri, Value::Null).await;
    assert_eq!(again, marked);
    let patch = json!({"metadata": {"finalizers": ["demo.example/hold", "demo.example/more"]}});
    let (code, status) = ask_as(&server, "PATCH", &uri, MERGE, patch).await;
    assert_eq!(code, 422);
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with(r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"demo.example/more"}"#), "{message}");
    done(
        &server,
        "PATCH",
        &uri,
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert_eq!(get(&server, &uri).await.0, 404);
}

#[tokio::test]
async fn deletion_answers_a_status_and_checks_preconditions() {
    let server = with_crd().await;
    let made = done(&server, "POST", APPS, app("x")).await;
    let uri = format!("{APPS}/x");
    let wrong =
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}});
    assert_eq!(ask(&server, "DELETE", &uri, wrong).await.0, 409);
    let answer = done(
        &server,
        "DELETE",
        &uri,
        json!({"preconditions": {"uid": made["metadata"]["uid"]}}),
    )
    .await;
    assert_eq!(
        answer,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "x", "group": "demo.example", "kind": "myapps", "uid": made["metadata"]["uid"]},
        })
    );
}

#[tokio::test]
async fn a_json_patch_applies_whole_or_not_at_all() {
    let server = with_crd().await;
    done(&server, "POST", APPS, app("x")).await;
    let uri = format!("{APPS}/x");
    let failing = json!([
        {"op": "replace", "path": "/spec/image", "value": "other"},
        {"op": "test", "path": "/spec/size", "value": 1},
    ]);
    let (code, status) = ask_as(&server, "PATCH", &uri, JSON_PATCH, failing).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    assert_eq!(
        status["message"],
        "the server rejected our request due to an error in our request"
    );
    assert_eq!(get(&server, &uri).await.1["spec"]["image"], "nginx");
}

#[tokio::test]
async fn annotations_have_a_limit() {
    let server = with_crd().await;
    done(&server, "POST", APPS, app("x")).await;
    let patch = json!({"metadata": {"annotations": {"a": "x".repeat(256 * 1024)}}});
    let (code, status) = ask_as(&server, "PATCH", &format!("{APPS}/x"), MERGE, patch).await;
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        "MyApp.demo.example \"x\" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes"
    );
}

#[tokio::test]
async fn a_dry_run_leaves_nothing_behind() {
    let server = ApiServer::new();
    done(&server, "POST", &format!("{MAPS}?dryRun=All"), map("m")).await;
    assert_eq!(get(&server, &format!("{MAPS}/m")).await.0, 404);
    assert!(server.journal().writes().iter().all(|entry| !entry.changed));
}

#[tokio::test]
async fn a_replace_names_its_object() {
    let server = ApiServer::new();
    done(&server, "POST", MAPS, map("m")).await;
    let (code, status) = ask(&server, "PUT", &format!("{MAPS}/m"), map("n")).await;
    assert_eq!(code, 400);
    assert_eq!(
        status["message"],
        "the name of the object (n) does not match the name on the URL (m)"
    );
}

#[tokio::test]
async fn a_generation_does_not_overflow() {
    let server = ApiServer::new();
    let mut held = map("held");
    held["metadata"]["generation"] = i64::MAX.into();
    held["metadata"]["finalizers"] = json!(["demo.example/hold"]);
    done(&server, "POST", MAPS, held).await;
    done(&server, "DELETE", &format!("{MAPS}/held"), Value::Null).await;
    let (code, found) = get(&server, &format!("{MAPS}/held")).await;
    assert_eq!(
        (code, &found["metadata"]["generation"]),
        (200, &json!(i64::MAX))
    );
}

#[tokio::test]
async fn parameters_of_a_policy_come_from_one_namespace_only() {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let server = ApiServer::new();
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default-2"}});
    done(&server, "POST", "/api/v1/namespaces", namespace).await;
    let mut other = map("most");
    other["metadata"]["namespace"] = "default-2".into();
    done(
        &server,
        "POST",
        &MAPS.replace("default", "default-2"),
        other,
    )
    .await;
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "true"}],
        },
    });
    done(&server, "POST", POLICIES, policy).await;
    let reference =
        json!({"name": "most", "namespace": "default", "parameterNotFoundAction": "Deny"});
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "p"},
        "spec": {"policyName": "p", "validationActions": ["Deny"], "paramRef": reference},
    });
    done(
        &server,
        "POST",
        &POLICIES.replace("policies", "policybindings"),
        binding,
    )
    .await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let uri = "/api/v1/namespaces/default/services";
    let (code, status) = ask(&server, "POST", uri, service).await;
    assert_eq!(code, 422, "{status}");
}
