//! Children that the cluster refuses: by a quota and by webhooks, as servers have them. The owner's condition says so, and what was refused is done
//! once it is allowed.

use kopf_rs::{Context, HandlerResult, Registry, Settings};
use kopf_rs_tests::{TestCluster, Webhook, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, Working};
use crate::owned::{map, until};

scenarios! {
    a_quota_refuses_a_child_until_it_is_lifted [real];
    a_webhook_refuses_a_child_until_it_is_gone [tcp real];
    a_webhook_refuses_a_deletion_until_it_is_gone [tcp real];
}

const QUOTAS: &str = "resourcequotas";
const WEBHOOKS: &str = "validatingwebhookconfigurations";

/// Lets all be there that the object lists, and nothing else.
async fn keep(context: Context) -> HandlerResult<Value> {
    let wanted: Vec<Value> = context.read("spec.children")?;
    context.children()?.set(&wanted).await?;
    Ok(Value::Null)
}

fn start(test: &TestOperator) -> Working {
    let keeping = test.handler("keep", keep).owns("configmaps");
    let operator = test.operator(Registry::new().reconcile(test.selector(), keeping));
    let settings = Settings::with(|it| it.status.conditions = true);
    Working::start(&test.cluster, operator.settings(settings))
}

fn ready(object: &Value) -> Value {
    let all = object["status"]["conditions"].as_array();
    let mut all = all.into_iter().flatten();
    all.find(|it| it["type"] == "Ready").cloned().unwrap_or_default()
}

/// Await that the owner's condition says why it is not ready.
async fn told(test: &TestOperator, reason: &str, why: &str) {
    let says = |it: &Value| {
        let ready = ready(it);
        let message = ready["message"].as_str().unwrap_or_default();
        ready["status"] == "False" && ready["reason"] == reason && message.contains(why)
    };
    let told = test.until("its condition says why", "one", says).await;
    let message = ready(&told)["message"].to_string();
    let rule = "To grant it";
    assert!(!message.contains(rule), "no permission is missing: {message}");
}

async fn healed(test: &TestOperator) {
    test.until("it is ready", "one", |it| ready(it)["status"] == "True").await;
    let lines = test.cluster.lines();
    let for_good = lines.count(|line| line.contains("failed permanently"));
    assert_eq!(for_good, 0, "{}", lines.all().join("\n"));
}

/// Ask until the server refuses it: it hears of quotas and webhooks a moment after they are written.
async fn refused(test: &TestOperator, method: &str, path: &str, body: Option<&Value>) {
    let path = format!("{path}?dryRun=All");
    let asking = async {
        while test.cluster.request(method, &path, body).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    let asked = tokio::time::timeout(test.cluster.server().patience(), asking).await;
    asked.expect("it is refused soon");
}

fn config_maps(test: &TestOperator) -> String {
    format!("/api/v1/namespaces/{}/configmaps", test.cluster.namespace())
}

async fn a_quota_refuses_a_child_until_it_is_lifted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let none = json!({"count/configmaps": "0"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": none}});
    test.cluster.create(&quota).await;
    let namespace = test.cluster.namespace();
    let status = format!("/api/v1/namespaces/{namespace}/{QUOTAS}/few/status");
    let counted = json!({"status": {"hard": none, "used": {"count/configmaps": "0"}}});
    let counted = test.cluster.request("PATCH", &status, Some(&counted)).await;
    counted.expect("it is counted");
    let probe = map("probe", &json!({}));
    refused(&test, "POST", &config_maps(&test), Some(&probe)).await;
    let working = start(&test);
    let child = map("child", &json!({"a": "1"}));
    test.create("one", json!({"children": [child]})).await;
    told(&test, "ChildRefused", "exceeded quota: few").await;
    assert_eq!(test.cluster.get("configmaps", "child").await, None);
    test.cluster.delete(QUOTAS, "few").await;
    until(&test, "it is made", |it| it["data"]["a"] == "1").await;
    healed(&test).await;
    working.stop().await;
}

/// A webhook that denies this operation on config maps of this test that are labelled so.
async fn deny(test: &TestOperator, operation: &str) {
    let webhook = Webhook::shared();
    let namespace = test.cluster.namespace();
    let hook = json!({
        "name": "hook.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["configmaps"]}],
        "clientConfig": {"url": format!("{}/deny", webhook.url()), "caBundle": webhook.authority()},
    });
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace}, "webhooks": [hook],
    });
    test.cluster.create(&configuration).await;
}

async fn a_webhook_refuses_a_child_until_it_is_gone(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    deny(&test, "CREATE").await;
    let probe = map("probe", &json!({}));
    refused(&test, "POST", &config_maps(&test), Some(&probe)).await;
    let working = start(&test);
    let child = map("child", &json!({"a": "1"}));
    test.create("one", json!({"children": [child]})).await;
    told(&test, "ChildRefused", "no such thing").await;
    assert_eq!(test.cluster.get("configmaps", "child").await, None);
    test.cluster.delete(WEBHOOKS, test.cluster.namespace()).await;
    until(&test, "it is made", |it| it["data"]["a"] == "1").await;
    healed(&test).await;
    working.stop().await;
}

/// CH36, by a webhook.
async fn a_webhook_refuses_a_deletion_until_it_is_gone(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = start(&test);
    let child = map("child", &json!({"a": "1"}));
    test.create("one", json!({"children": [child]})).await;
    until(&test, "it is made", |_| true).await;
    healed(&test).await;
    deny(&test, "DELETE").await;
    let path = format!("{}/child", config_maps(&test));
    refused(&test, "DELETE", &path, None).await;
    test.patch("one", json!({"spec": {"children": []}})).await;
    told(&test, "ChildRefused", "no such thing").await;
    working.stop().await;
    // What is left over is not remembered: the next run of the operator sees it.
    let working = start(&test);
    test.calls.until(4).await;
    assert!(test.cluster.get("configmaps", "child").await.is_some());
    test.cluster.delete(WEBHOOKS, test.cluster.namespace()).await;
    let gone = |object: Option<&Value>| object.is_none();
    test.cluster.until("it is deleted", "configmaps", "child", gone).await;
    healed(&test).await;
    working.stop().await;
}
