//! Admission webhooks of the in-process server: the test decides where services are.

use kopf_rs_tests::{TestCluster, Webhook, scenarios};
use serde_json::json;

scenarios! {
    a_service_is_called_where_the_test_says_it_is [tcp];
    webhooks_see_the_version_they_ask_for [tcp real];
    a_service_gets_the_address_that_webhooks_were_asked_about [tcp real];
}

const GROUP: &str = "admissionregistration.k8s.io";

/// Configures a webhook for the cluster's namespace only; `with` holds the differing fields.
async fn configure(cluster: &TestCluster, with: &serde_json::Value) {
    let mut hook = json!({
        "name": "hook.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace()}},
    });
    for (field, value) in with.as_object().into_iter().flatten() {
        hook[field] = value.clone();
    }
    cluster
        .create(&json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": cluster.namespace()}, "webhooks": [hook],
        }))
        .await;
}

/// Returns the error for the creation of an object, and repeats the request until the server refuses it.
async fn refusal(cluster: &TestCluster, path: &str, object: &serde_json::Value) -> String {
    let path = format!("{path}?dryRun=All");
    let refused = async {
        loop {
            match cluster.request("POST", &path, Some(object)).await {
                Err(kube::Error::Api(status)) => return status.message.clone(),
                Err(error) => panic!("POST {path}: {error}"),
                Ok(_) => tokio::task::yield_now().await,
            }
        }
    };
    let refused = tokio::time::timeout(cluster.server().patience(), refused).await;
    refused.expect("the webhook counts soon")
}

async fn a_service_is_called_where_the_test_says_it_is(cluster: TestCluster) {
    let webhook = Webhook::shared();
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let service = json!({"namespace": "default", "name": "hook", "path": "/deny"});
    let client = json!({"service": service, "caBundle": webhook.authority()});
    configure(&cluster, &json!({"rules": rules, "clientConfig": client})).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let path = format!("/api/v1/namespaces/{}/configmaps", cluster.namespace());
    assert_eq!(
        refusal(&cluster, &path, &map).await,
        "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: \
         Post \"https://hook.default.svc:443/deny?timeout=10s\": service \"hook\" not found"
    );
    let address = webhook.url().trim_start_matches("https://");
    let address = address.parse().expect("the webhook has an address");
    let server = cluster.in_process().expect("the server is in the process");
    server.place_service("default", "hook", address);
    assert_eq!(
        refusal(&cluster, &path, &map).await,
        "admission webhook \"hook.example.com\" denied the request: no such thing"
    );
}

async fn webhooks_see_the_version_they_ask_for(cluster: TestCluster) {
    let group = format!("{}.example.com", cluster.namespace());
    let version = |name: &str, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [version("v1", true), version("v2", false)],
        },
    });
    cluster.apply(&definition.to_string()).await;
    let webhook = Webhook::shared();
    let rules = json!([{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["gadgets"]}]);
    let client = json!({"url": format!("{}/echo", webhook.url()), "caBundle": webhook.authority()});
    configure(&cluster, &json!({"rules": rules, "clientConfig": client})).await;
    let gadget = json!({"apiVersion": format!("{group}/v2"), "kind": "Gadget", "metadata": {"name": "g"}});
    let path = format!("/apis/{group}/v2/namespaces/{}/gadgets", cluster.namespace());
    let told = refusal(&cluster, &path, &gadget).await;
    let start = "admission webhook \"hook.example.com\" denied the request: ";
    let asked = told.strip_prefix(start).expect("the webhook was asked");
    let asked: serde_json::Value = serde_json::from_str(asked).expect("it tells what it was asked");
    assert_eq!((&asked["kind"]["version"], &asked["requestKind"]["version"]), (&json!("v1"), &json!("v2")));
    assert_eq!(asked["object"]["apiVersion"], format!("{group}/v1"));
    assert_eq!(asked["dryRun"], true);
}

async fn a_service_gets_the_address_that_webhooks_were_asked_about(cluster: TestCluster) {
    let webhook = Webhook::shared();
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}]);
    let path = format!("/api/v1/namespaces/{}/services", cluster.namespace());
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "name": "one"}, {"port": 81, "name": "other"}]},
    });
    let client = json!({"url": format!("{}/echo", webhook.url()), "caBundle": webhook.authority()});
    configure(&cluster, &json!({"rules": rules, "clientConfig": client})).await;
    let told = refusal(&cluster, &path, &service).await;
    let start = "admission webhook \"hook.example.com\" denied the request: ";
    let asked = told.strip_prefix(start).expect("the webhook was asked");
    let asked: serde_json::Value = serde_json::from_str(asked).expect("it tells what it was asked");
    let address = asked["object"]["spec"]["clusterIP"].as_str();
    assert!(address.is_some_and(|it| it.starts_with("10.")), "{asked}");
}
