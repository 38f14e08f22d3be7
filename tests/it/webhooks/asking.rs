//! The webhooks that the API server calls for a request, the number of calls, and the effects for the client.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kopf_rs::{AdmissionError, Callback, Context, PRESENT, Registry, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use super::converting::{converted_by_webhook, registry, serve};
use super::{
    MUTATING, VALIDATING, changing, configured, denying, managed, object, operator, refusal, start, stored,
};
use crate::operating::{TestOperator, Working, definition};

scenarios! {
    excluded_objects_cause_no_reviews [tcp real];
    an_id_with_capitals_has_a_webhook [tcp real];
    mutating_handlers_see_the_changes_of_later_ones [tcp real];
    requests_about_all_subresources_are_asked_about [tcp real];
    many_long_warnings_are_cut [tcp real];
    webhooks_that_hang_and_are_ignored_let_the_request_pass [real];
    policies_judge_configurations_and_no_policies [memory real];
    an_operator_continues_if_a_policy_denies_its_own_writes [tcp real];
    a_handler_that_waits_for_itself_is_reported [tcp real];
}

/// A counter of calls.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Repeats a request until its answer satisfies `condition`, because webhooks take effect with a short delay.
async fn until(
    test: &TestOperator,
    (path, body): (&str, &Value),
    condition: impl Fn(&Result<Value, kube::Error>) -> bool,
) -> Result<Value, kube::Error> {
    let mut last = String::new();
    let answered = async {
        loop {
            let answer = test.cluster.request("POST", path, Some(body)).await;
            if condition(&answer) {
                return answer;
            }
            last = format!("{answer:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let answered = tokio::time::timeout(test.cluster.server().patience(), answered).await;
    answered.unwrap_or_else(|_| panic!("POST {path}: {last}"))
}

async fn excluded_objects_cause_no_reviews(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_mutate(test.selector(), changing().label("app", PRESENT));
    let working = start(&test, registry, MUTATING, 1).await;
    let (path, bare) = object(&test, "bare", &json!({}));
    let path = format!("{path}?dryRun=All");
    let mut labelled = bare.clone();
    labelled["metadata"]["labels"] = json!({"app": "any"});
    let is_blue =
        |answer: &Result<Value, kube::Error>| answer.as_ref().is_ok_and(|it| it["spec"]["colour"] == "blue");
    let _ = until(&test, (&path, &labelled), is_blue).await;
    // No webhook runs any more, so a request fails exactly if the API server calls one.
    let mut broken = configured(&test, MUTATING, 1).await;
    working.kill().await;
    broken[0]["failurePolicy"] = json!("Fail");
    broken[0]["timeoutSeconds"] = json!(1);
    let (name, broken) = (managed(&test), json!({"webhooks": broken}));
    test.cluster.patch(MUTATING, &name, &broken).await;
    let failed = until(&test, (&path, &labelled), Result::is_err).await;
    let why = failed.expect_err("it fails").to_string();
    assert!(why.contains("failed calling webhook"), "{why}");
    let created = test.cluster.request("POST", &path, Some(&bare)).await;
    assert!(created.expect("nobody is asked")["spec"]["colour"].is_null());
    test.cluster.delete(MUTATING, &name).await;
}

async fn an_id_with_capitals_has_a_webhook(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let denying =
        handler("NotTooLarge", |_| async { Err::<(), _>(AdmissionError::new("it is").code(422).into()) });
    let registry = Registry::new().on_validate(test.selector(), denying);
    let working = start(&test, registry, VALIDATING, 1).await;
    let refused = refusal(&test, &json!({})).await;
    let hook = &configured(&test, VALIDATING, 1).await[0];
    let name = hook["name"].as_str().expect("a name");
    assert!(name.starts_with("nottoolarge-"), "{name}");
    assert_eq!(refused["message"], format!("admission webhook \"{name}\" denied the request: it is"));
    working.stop().await;
}

/// A handler that derives a field from the one that `changing` sets.
fn copying(calls: &Count) -> Callback {
    let calls = calls.clone();
    handler("copying", move |context: Context| {
        let calls = calls.clone();
        async move {
            calls.up();
            let spec: Value = context.spec()?;
            let colour = spec["colour"].clone();
            if colour.is_string() {
                context.patch(move |patch| patch["spec"]["copy"] = colour);
            }
            Ok(())
        }
    })
}

async fn mutating_handlers_see_the_changes_of_later_ones(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = Count::default();
    let registry =
        Registry::new().on_mutate(test.selector(), copying(&calls)).on_mutate(test.selector(), changing());
    let working = start(&test, registry, MUTATING, 2).await;
    stored(&test, &json!({}), |it| it["spec"]["copy"] == "blue").await;
    for (spec, expected) in [(json!({}), 2), (json!({"colour": "blue"}), 1)] {
        let before = calls.get();
        let made = stored(&test, &spec, |_| true).await;
        assert_eq!(made["spec"], json!({"colour": "blue", "copy": "blue"}));
        assert_eq!(calls.get() - before, expected, "{spec}");
    }
    working.stop().await;
}

async fn requests_about_all_subresources_are_asked_about(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let mut crd = definition(&test.group);
    crd["spec"]["versions"][0]["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"});
    test.cluster.apply(&crd.to_string()).await;
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = seen.clone();
    let noting = handler("noting", move |context: Context| {
        let noted = noted.clone();
        async move {
            let subresource = context.subresource().unwrap_or("itself").to_owned();
            let mut noted = noted.lock().expect("nobody panics with it");
            let operation = context.operation().map_or("", |it| it.as_str());
            noted.push(format!("{operation} {subresource}"));
            Ok(())
        }
    });
    let registry = Registry::new().on_validate(test.selector(), noting.subresource("*"));
    let working = start(&test, registry, VALIDATING, 1).await;
    let taken = || std::mem::take(&mut *seen.lock().expect("nobody panics with it"));
    let (path, probe) = object(&test, "probe", &json!({"size": 1}));
    let _ = until(&test, (&format!("{path}?dryRun=All"), &probe), |_| !taken().is_empty()).await;
    // API servers apply a patch to their cached state first. If that is not current, they ask once more.
    let cached = async |written: Value| {
        let version = &written["metadata"]["resourceVersion"];
        let is_current = |object: &Value| object["metadata"]["resourceVersion"] == *version;
        test.until("the API server has cached it", "one", is_current).await;
    };
    cached(test.create("one", json!({"size": 1})).await).await;
    for (name, merge) in [
        ("one", json!({"spec": {"size": 2}})),
        ("one/status", json!({"status": {"size": 2}})),
        ("one/scale", json!({"spec": {"replicas": 3}})),
    ] {
        cached(test.patch(name, merge).await).await;
    }
    assert_eq!(taken(), ["CREATE itself", "UPDATE itself", "UPDATE status", "UPDATE scale"]);
    working.stop().await;
}

/// Returns the warnings in the response headers of a creation.
async fn warnings_of(test: &TestOperator, path: &str, body: &Value) -> Vec<String> {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(kube::client::Body::from(body.to_string().into_bytes()))
        .expect("a valid request");
    let answer = test.cluster.client().send(request).await;
    let answer = answer.expect("it is answered");
    assert_eq!(answer.status(), 201);
    let warnings = answer.headers().get_all("warning").iter();
    let warnings = warnings.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
    warnings.collect()
}

async fn many_long_warnings_are_cut(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let warning = handler("warning", |context: Context| async move {
        for number in 0..20 {
            let long = format!("{number:02} {}", "x".repeat(297));
            context.warnings().push(long);
        }
        Ok(())
    });
    let registry = Registry::new().on_validate(test.selector(), warning);
    let working = start(&test, registry, VALIDATING, 1).await;
    let (path, small) = object(&test, "small", &json!({}));
    let path = format!("{path}?dryRun=All");
    let mut warnings = Vec::new();
    while warnings.is_empty() {
        warnings = warnings_of(&test, &path, &small).await;
    }
    // 256 characters each, plus `299 - ""`, up to a total of 4,096.
    let lengths: Vec<_> = warnings.iter().map(|it| it.chars().count()).collect();
    assert_eq!(lengths, [264; 16]);
    assert!(warnings[15].starts_with("299 - \"15 xxx"), "{}", warnings[15]);
    working.stop().await;
}

/// Returns handlers that never answer and whose failures are ignored.
fn hanging(test: &TestOperator, calls: &Count, timeout: u32) -> Registry {
    let mut registry = Registry::new();
    for id in ["one", "two", "three", "four"] {
        let calls = calls.clone();
        let hanging = handler(id, move |_| {
            let calls = calls.clone();
            async move {
                calls.up();
                std::future::pending::<()>().await;
                Ok(())
            }
        });
        let hanging = hanging.ignore_failures(true).timeout(timeout);
        registry = registry.on_mutate(test.selector(), hanging);
    }
    registry
}

/// The operator cuts each handler off one second before its webhook timeout, and earlier if the request has less time left; the handlers
/// run one after the other.
async fn webhooks_that_hang_and_are_ignored_let_the_request_pass(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (path, small) = object(&test, "small", &json!({}));
    let path = format!("{path}?dryRun=All&timeout=10s");
    for timeout in [2, 1] {
        let calls = Count::default();
        let working = start(&test, hanging(&test, &calls, timeout), MUTATING, 4).await;
        // A real server may know the first of them before the others.
        let before = Cell::new(0);
        let are_called = |_: &Result<Value, kube::Error>| calls.get() - before.replace(calls.get()) == 4;
        let answer = until(&test, (&path, &small), are_called).await;
        answer.expect("the failures are ignored");
        working.stop().await;
    }
}

const POLICIES: [&str; 2] = ["validatingadmissionpolicybindings", "validatingadmissionpolicies"];

/// Creates a policy that denies all writes to objects of these names, so that it does not affect other tests.
async fn deny_all(cluster: &TestCluster, name: &str, names: &[&str]) {
    let rule = |group: &str, resources: &str| json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["*"], "resources": [resources], "resourceNames": names});
    let version = "admissionregistration.k8s.io/v1";
    cluster
        .create(&json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [
                    rule("admissionregistration.k8s.io", "*"), rule("apiextensions.k8s.io", "customresourcedefinitions"), rule("", "configmaps"),
                ]},
                "validations": [{"expression": "false", "message": "nothing is allowed"}],
            },
        }))
        .await;
    cluster
        .create(&json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }))
        .await;
}

fn configuration(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}})
}

fn is_denied(answer: &Result<Value, kube::Error>) -> bool {
    let why = answer.as_ref().err().map(ToString::to_string);
    why.is_some_and(|why| why.contains("nothing is allowed"))
}

/// Asserts that every write to the configuration with this name is denied.
async fn assert_every_write_is_denied(cluster: &TestCluster, kind: &str, name: &str) {
    let all = format!("/apis/admissionregistration.k8s.io/v1/{}s", kind.to_lowercase());
    let (one, dry) = (format!("{all}/{name}"), format!("{all}?dryRun=All"));
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    for (method, path, body) in [
        ("POST", &dry, Some(&configuration(kind, name))),
        ("PATCH", &one, Some(&label)),
        ("DELETE", &one, None),
    ] {
        let answer = cluster.request(method, path, body).await;
        assert!(is_denied(&answer), "{method} {path}: {answer:?}");
    }
    let other = configuration(kind, &format!("other.{name}"));
    let answer = cluster.request("POST", &dry, Some(&other)).await;
    answer.expect("a name of somebody else");
}

/// Policies apply to webhook configurations, which webhooks do not. But policies never apply to policies and bindings, so that a bad policy
/// can be fixed.
async fn policies_judge_configurations_and_no_policies(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (cluster, name) = (&test.cluster, format!("all.{}", test.cluster.namespace()));
    let configurations = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    for kind in configurations {
        cluster.create(&configuration(kind, &name)).await;
    }
    deny_all(cluster, &name, &[&name]).await;
    let path = format!("/api/v1/namespaces/{}/configmaps?dryRun=All", cluster.namespace());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    until(&test, (&path, &map), is_denied).await.expect_err("it counts");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    for kind in configurations {
        assert_every_write_is_denied(cluster, kind, &name).await;
    }
    for plural in POLICIES {
        cluster.patch(plural, &name, &label).await;
    }
    for plural in POLICIES {
        cluster.delete(plural, &name).await;
    }
    until(&test, (&path, &map), Result::is_ok).await.expect("it counts no more");
    for kind in configurations {
        cluster.delete(&format!("{}s", kind.to_lowercase()), &name).await;
    }
}

/// A policy may be deleted later, although the server answers that the write is invalid.
async fn an_operator_continues_if_a_policy_denies_its_own_writes(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let (name, kind) = (managed(&test), test.kind());
    deny_all(&test.cluster, &name, &[&name, &kind]).await;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=All";
    let probe = configuration("ValidatingWebhookConfiguration", &name);
    until(&test, (path, &probe), is_denied).await.expect_err("it counts");
    let registry = registry(&test).on_validate(test.selector(), denying());
    let working = Working::start(&test.cluster, operator(&test, registry));
    for line in [
        format!("ValidatingWebhookConfiguration {name} cannot be written"),
        format!("CustomResourceDefinition {kind} cannot be written"),
    ] {
        let told = test.line(&line).await;
        assert!(told.contains("nothing is allowed"), "{told}");
    }
    for plural in POLICIES {
        test.cluster.delete(plural, &name).await;
    }
    configured(&test, VALIDATING, 1).await;
    converted_by_webhook(&test).await;
    working.stop().await;
}

/// A handler that writes a label to the object under review.
fn patching(test: &TestOperator) -> Callback {
    let path = format!("{}/one", object(test, "one", &json!({})).0);
    handler("patching", move |context: Context| {
        let path = path.clone();
        async move {
            let label = json!({"metadata": {"labels": {"checked": "yes"}}});
            let request = http::Request::patch(&path)
                .header("content-type", "application/merge-patch+json")
                .body(label.to_string().into_bytes())
                .expect("a valid request");
            context.client()?.request::<Value>(request).await?;
            Ok(())
        }
    })
}

async fn a_handler_that_waits_for_itself_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("one", json!({})).await;
    let patching = patching(&test).operations([kopf_rs::Operation::Update]);
    let patching = patching.ignore_failures(false).timeout(2);
    let registry = Registry::new().on_validate(test.selector(), patching);
    let working = start(&test, registry, VALIDATING, 1).await;
    let path = format!("{}/one", object(&test, "one", &json!({})).0);
    let change = json!({"spec": {"size": 1}});
    let refused = async {
        loop {
            let answer = test.cluster.request("PATCH", &path, Some(&change)).await;
            if let Err(refused) = answer {
                return refused.to_string();
            }
        }
    };
    let refused = tokio::time::timeout(test.cluster.server().patience(), refused).await;
    let refused = refused.expect("the webhook counts soon");
    let named = format!("it waits for its own request PATCH {path} about the object under review");
    assert!(refused.contains(&named), "{refused}");
    let told = test.line("'patching' has not returned within").await;
    assert!(told.contains(&named), "{told}");
    working.stop().await;
}
