//! The objects that an uninstalled operator leaves on the API server, and `kopf-rs webhooks clean`.

use std::process::Command;

use kopf_rs::{Registry, ValidationRule};
use kopf_rs_tests::{TestCluster, built_program, scenarios};
use serde_json::{Value, json};

use super::converting::{DEFINITIONS, converted_by_webhook, registry, serve};
use super::releases::{in_cluster, named};
use super::{MUTATING, VALIDATING, configured, managed, settings};
use crate::cli::{Ended, ended};
use crate::operating::{TestOperator, Working};

scenarios! {
    the_leftovers_of_an_operator_are_removed [tcp real];
    live_instances_are_named_when_their_webhooks_are_removed [tcp];
    conversions_end_for_no_instance_that_may_run_and_for_no_other_operator [tcp real];
}

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// Runs `kopf-rs webhooks clean` for the operator of this test.
async fn clean(test: &TestOperator, name: &str, words: &[&str]) -> Ended {
    let mut command = Command::new(built_program("pause"));
    command.args(["webhooks", "clean", "--name", name]);
    command.args(words).arg("--kubeconfig");
    command.arg(test.cluster.kubeconfig());
    ended(command).await
}

/// Starts an operator with a unique name, with webhooks of both kinds and a policy.
fn start(test: &TestOperator) -> Working {
    let rule = ValidationRule::new("rule", "request.userInfo.username != 'nobody'");
    let registry = Registry::new()
        .on_validate(test.selector(), named("check"))
        .on_mutate(test.selector(), named("fill"))
        .validation_rule(test.selector(), rule);
    let operator = kopf_rs::Operator::new(registry).name(test.cluster.namespace());
    let operator = operator.namespaces([test.cluster.namespace()]);
    Working::start(&test.cluster, operator.settings(in_cluster(test)))
}

/// Returns all objects that the operator writes, as kinds and names.
fn all(test: &TestOperator) -> [(&'static str, String); 4] {
    let policy = format!("rule.{}.kopf.rs", test.cluster.namespace());
    [(MUTATING, managed(test)), (VALIDATING, managed(test)), (BINDINGS, policy.clone()), (POLICIES, policy)]
}

async fn left(test: &TestOperator) -> usize {
    let mut left = 0;
    for (kind, name) in all(test) {
        left += usize::from(test.cluster.get(kind, &name).await.is_some());
    }
    left
}

async fn all_is_there(test: &TestOperator) {
    for (kind, name) in all(test) {
        let is_there = |found: Option<&Value>| found.is_some();
        let until = test.cluster.until("it is there", kind, &name, is_there);
        until.await;
    }
}

async fn the_leftovers_of_an_operator_are_removed(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let name = test.cluster.namespace().to_owned();
    let working = start(&test);
    configured(&test, VALIDATING, 1).await;
    configured(&test, MUTATING, 1).await;
    all_is_there(&test).await;
    working.stop().await;
    assert_eq!(left(&test).await, 4);
    // Objects with another operator name belong to another operator.
    let nothing = "has no leftovers in this cluster";
    clean(&test, &format!("{name}-x"), &[]).await.with(0, &[nothing]);
    let policy = format!("rule.{name}.kopf.rs");
    let words = |end: &str| {
        [
            format!("ValidatingWebhookConfiguration {} {end}", managed(&test)),
            format!("MutatingWebhookConfiguration {} {end}", managed(&test)),
            format!("ValidatingAdmissionPolicy {policy} {end}"),
            format!("ValidatingAdmissionPolicyBinding {policy} {end}"),
        ]
    };
    let would = words("would be removed.");
    let told = clean(&test, &name, &["--dry-run"]).await;
    told.with(0, &would.each_ref().map(String::as_str));
    assert_eq!(left(&test).await, 4);
    let is = words("is removed.");
    let told = clean(&test, &name, &[]).await;
    assert!(!told.said.contains("have not deregistered"), "{}", told.said);
    told.with(0, &is.each_ref().map(String::as_str));
    assert_eq!(left(&test).await, 0);
    clean(&test, &name, &[]).await.with(0, &[nothing]);
    clean(&test, "Not a name", &[]).await.with(2, &["`Not a name` cannot be used"]);
}

async fn live_instances_are_named_when_their_webhooks_are_removed(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let name = test.cluster.namespace().to_owned();
    let working = start(&test);
    configured(&test, VALIDATING, 1).await;
    all_is_there(&test).await;
    let told = clean(&test, &name, &[]).await;
    told.with(0, &["is removed.", "have not deregistered: ", "end them first"]);
    // The operator still runs and needs the objects.
    all_is_there(&test).await;
    working.stop().await;
    clean(&test, &name, &[]).await.with(0, &["is removed."]);
    assert_eq!(left(&test).await, 0);
}

async fn conversions_end_for_no_instance_that_may_run_and_for_no_other_operator(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let (name, kind) = (test.cluster.namespace().to_owned(), test.kind());
    let operator = kopf_rs::Operator::new(registry(&test)).name(&name);
    let operator = operator.namespaces([&name]).settings(settings(&test));
    let working = Working::start(&test.cluster, operator);
    let written = converted_by_webhook(&test).await;
    let conversion = async || {
        let found = test.cluster.get(DEFINITIONS, &kind).await;
        found.expect("it is there")["spec"]["conversion"].clone()
    };
    let what = format!("What the CustomResourceDefinition {kind} says of who converts its objects");
    let would = format!("{what} would be kept, since instances are registered: ");
    clean(&test, &name, &["--dry-run"]).await.with(0, &[&would]);
    let refused = format!("{what} is not removed, since instances of the operator are registered");
    clean(&test, &name, &[]).await.with(1, &[&refused, "kubectl annotate"]);
    assert_eq!(conversion().await, written);
    working.stop().await;
    // Another operator is registered, too, and may be the one that converts.
    let other = format!("{name}-other");
    let mark = json!({format!("{other}.kopf.rs/instances"): "{}"});
    let marked = json!({"metadata": {"annotations": mark}});
    test.cluster.patch(DEFINITIONS, &kind, &marked).await;
    let moved = format!("The mark on the CustomResourceDefinition {kind} is removed");
    let by = format!("it has the mark of others: {other}.kopf.rs");
    clean(&test, &name, &[]).await.with(0, &[&moved, &by]);
    assert_eq!(conversion().await, written);
    clean(&test, &name, &[]).await.with(0, &["has no leftovers in this cluster"]);
    // The other operator does not convert any more, either.
    let ended = format!("{what} is removed.");
    clean(&test, &other, &[]).await.with(0, &[&ended]);
    assert_eq!(conversion().await["strategy"], "None");
}
