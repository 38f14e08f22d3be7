//! Instances of different releases of one operator that run side by side, start and end: they share configurations, definitions and the endpoint's
//! Service.

use std::time::Duration;

use kopf_rs::{AdmissionServer, Callback, Registry, Settings, ValidationRule, handler};
use kopf_rs_tests::{Server, TestCluster, scenarios};
use serde_json::{Value, json};

use super::converting::{self, DEFINITIONS};
use super::{VALIDATING, configured, denying, hooks, managed, refusal, settings};
use crate::health::{get, port_in};
use crate::operating::{TestOperator, Working};

scenarios! {
    an_old_release_does_not_change_the_writes_of_the_new_one [memory real];
    configurations_in_a_cluster_go_with_the_namespace_of_the_operator [memory real];
    each_replica_answers_reviews [tcp];
    of_two_local_operators_the_last_one_takes_webhooks_away [memory real];
    of_two_local_operators_the_newer_one_converts_as_long_as_it_is_there [tcp];
    policies_of_a_newer_release_stay [memory real];
    policies_list_none_of_two_instances_that_end_together [memory];
    a_release_without_rules_ends_those_of_the_former_one [memory];
    the_former_release_decides_again_once_all_without_rules_have_ended [memory];
    an_endpoint_that_ends_is_not_ready_and_answers_for_a_while [tcp];
}

/// Settings of an instance in the cluster: the API server reaches it through a Service.
pub(super) fn in_cluster(test: &TestOperator) -> Settings {
    let mut settings = settings(test);
    settings.admission.server = Some(AdmissionServer::service(test.cluster.namespace(), "hooks"));
    settings.admission.listen = Some("127.0.0.1:0".to_owned());
    settings.admission.shutdown_grace = Duration::from_millis(200);
    settings
}

fn release(test: &TestOperator, id: &str) -> Working {
    let registry = Registry::new().on_validate(test.selector(), named(id));
    let operator = test.operator(registry);
    Working::start(&test.cluster, operator.settings(in_cluster(test)))
}

pub(super) fn named(id: &str) -> Callback {
    handler(id, |_| async { Ok(()) })
}

/// Await that the only webhook is the one of this handler.
async fn decides(test: &TestOperator, id: &str) -> Value {
    let (name, full) = (managed(test), format!("{id}.{}", managed(test)));
    let is_its = |found: Option<&Value>| {
        found.is_some_and(|it| {
            let hooks = hooks(it);
            hooks.len() == 1 && hooks[0]["name"] == full
        })
    };
    let what = format!("the webhook is {full}");
    test.cluster.until(&what, VALIDATING, &name, is_its).await
}

/// How often the webhooks were written.
fn written(test: &TestOperator) -> usize {
    let line = "WebhookConfiguration";
    test.cluster.lines().count(|it| it.contains(line) && it.contains("is written"))
}

async fn an_old_release_does_not_change_the_writes_of_the_new_one(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let old = release(&test, "old");
    decides(&test, "old").await;
    let new = release(&test, "new");
    decides(&test, "new").await;
    // What others change is put right by the new one alone.
    let emptied = json!({"webhooks": []});
    test.cluster.patch(VALIDATING, &managed(&test), &emptied).await;
    decides(&test, "new").await;
    // The line comes after the answer, and others see the object before.
    let is_told = |_: &str| written(&test) == 3;
    test.cluster.lines().until("the third write is told", is_told).await;
    old.stop().await;
    decides(&test, "new").await;
    new.stop().await;
    // Nobody is there, and nothing passes unchecked.
    decides(&test, "new").await;
    assert_eq!(written(&test), 3);
    // A rollback is newer than what it replaces.
    let rolled_back = release(&test, "old");
    decides(&test, "old").await;
    // The newest release decides as long as it is there, and then the one that is left.
    let new = release(&test, "new");
    decides(&test, "new").await;
    new.stop().await;
    decides(&test, "old").await;
    rolled_back.stop().await;
    test.cluster.delete(VALIDATING, &managed(&test)).await;
}

async fn configurations_in_a_cluster_go_with_the_namespace_of_the_operator(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = release(&test, "check");
    let written = decides(&test, "check").await;
    let namespace = test.cluster.namespace();
    let found = test.cluster.get("namespaces", namespace).await;
    let uid = found.expect("it is there")["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": uid}]);
    assert_eq!(written["metadata"]["ownerReferences"], owner);
    if test.cluster.server() == Server::Real {
        // The garbage collector of a real server needs minutes where other tests change definitions all the time.
        working.stop().await;
        return;
    }
    // Nobody is left who could take it away.
    working.kill().await;
    test.cluster.delete("namespaces", namespace).await;
    // One after the other: each controller may need a while on a server whose definitions change all the time.
    let name = managed(&test);
    for (resource, name) in [("namespaces", namespace), (VALIDATING, &*name)] {
        let is_gone = |found: Option<&Value>| found.is_none();
        test.cluster.until("it is gone", resource, name, is_gone).await;
    }
}

/// Also those that only stand by.
async fn each_replica_answers_reviews(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let mut replicas = Vec::new();
    for _ in 0..3 {
        let mut settings = in_cluster(&test);
        settings.lease.enabled = true;
        settings.lease.namespace = Some(test.cluster.namespace().to_owned());
        let registry = Registry::new()
            .on_validate(test.selector(), denying())
            .on_create(test.selector(), test.noting("create_fn"));
        let operator = test.operator(registry).settings(settings);
        let line = "Admission webhooks are served at port ";
        let before = test.cluster.lines().count(|it| it.contains(line));
        replicas.push(Working::start(&test.cluster, operator));
        let is_new = |_: &str| test.cluster.lines().count(|it| it.contains(line)) > before;
        test.cluster.lines().until("one more is served", is_new).await;
    }
    decides(&test, "not-too-large").await;
    let lines = test.cluster.lines().all();
    let ports = lines.iter().filter_map(|it| {
        let rest = it.split("Admission webhooks are served at port ").nth(1)?;
        rest.split(',').next()?.parse::<u16>().ok()
    });
    let ports: Vec<_> = ports.collect();
    assert_eq!(ports.len(), 3);
    for port in ports {
        let at = ([127, 0, 0, 1], port).into();
        server.place_service(test.cluster.namespace(), "hooks", at);
        let refused = refusal(&test, &json!({"size": 101})).await;
        let denied = refused["message"].as_str().is_some_and(|it| it.contains("at most 100"));
        assert!(denied, "{refused}");
    }
    for replica in replicas {
        replica.stop().await;
    }
    test.cluster.delete(VALIDATING, &managed(&test)).await;
}

async fn of_two_local_operators_the_last_one_takes_webhooks_away(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let local = |id: &str| {
        let registry = Registry::new().on_validate(test.selector(), named(id));
        Working::start(&test.cluster, super::operator(&test, registry))
    };
    let first = local("first");
    decides(&test, "first").await;
    let second = local("second");
    decides(&test, "second").await;
    second.stop().await;
    decides(&test, "first").await;
    let second = local("second");
    decides(&test, "second").await;
    first.stop().await;
    decides(&test, "second").await;
    second.stop().await;
    configured(&test, VALIDATING, 0).await;
    test.cluster.delete(VALIDATING, &managed(&test)).await;
}

/// Awaits that the definition leads to an address that satisfies `condition`, and returns the address.
async fn converts_at(test: &TestOperator, condition: impl Fn(&str) -> bool) -> String {
    let url = |it: &Value| {
        let client = &it["spec"]["conversion"]["webhook"]["clientConfig"];
        client["url"].as_str().map(str::to_owned)
    };
    let is_there = |found: Option<&Value>| found.and_then(url).is_some_and(|url| condition(&url));
    let what = "it is converted at an address";
    let found = test.cluster.until(what, DEFINITIONS, &test.kind(), is_there).await;
    url(&found).expect("it has an address")
}

async fn of_two_local_operators_the_newer_one_converts_as_long_as_it_is_there(cluster: TestCluster) {
    let test = converting::serve(cluster, "v1").await;
    let start = || {
        let registry = converting::registry(&test);
        Working::start(&test.cluster, super::operator(&test, registry))
    };
    let lines = test.cluster.lines();
    let line = format!("CustomResourceDefinition {} is written", test.kind());
    let written = |count: usize| {
        let line = &line;
        let is_told = move |_: &str| lines.count(|it| it.contains(line)) == count;
        lines.until("the write is told", is_told)
    };
    let old = start();
    let of_old = converts_at(&test, |_| true).await;
    written(1).await;
    let new = start();
    let of_new = converts_at(&test, |url| url != of_old).await;
    written(2).await;
    // Both look at what others change.
    for touched in ["once", "twice", "again"] {
        let touched = json!({"metadata": {"labels": {"touched": touched}}});
        let kind = test.kind();
        test.cluster.patch(DEFINITIONS, &kind, &touched).await;
        test.nothing_more(Duration::from_millis(500)).await;
    }
    assert_eq!(converts_at(&test, |_| true).await, of_new);
    let spec = json!({"address": "host:80"});
    converting::create(&test, "v1alpha1", "one", spec.clone()).await;
    assert_eq!(lines.count(|it| it.contains(&line)), 2);
    new.stop().await;
    converts_at(&test, |url| url == of_old).await;
    let seen = converting::get(&test, "v1alpha1", "one").await;
    assert_eq!(seen["spec"], spec);
    old.stop().await;
    assert_eq!(lines.count(|it| it.contains(&line)), 3);
}

async fn policies_of_a_newer_release_stay(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let release = |ids: &[&str]| {
        let rules = ids.iter().fold(Registry::new(), |registry, id| {
            let expression = format!("request.userInfo.username != '{id}'");
            let rule = ValidationRule::new(*id, expression).message("no");
            registry.validation_rule(test.selector(), rule)
        });
        let operator = kopf_rs::Operator::new(rules).name(test.cluster.namespace());
        Working::start(&test.cluster, operator)
    };
    let name = |id: &str| format!("{id}.{}.kopf.rs", test.cluster.namespace());
    let there = async |id: &str, is_there: bool| {
        let condition = |found: Option<&Value>| found.is_some() == is_there;
        let what = format!("{id} is there: {is_there}");
        test.cluster.until(&what, policies, &name(id), condition).await
    };
    let old = release(&["both", "old"]);
    there("old", true).await;
    let new = release(&["both", "new"]);
    there("new", true).await;
    there("old", false).await;
    // News of kinds make both releases look at their policies again.
    let mut other = crate::operating::definition(&format!("other.{}", test.group));
    other["spec"]["names"]["shortNames"] = json!([]);
    test.cluster.apply(&other.to_string()).await;
    // What somebody deletes comes back: the newest instance watches.
    test.cluster.delete(policies, &name("new")).await;
    there("new", true).await;
    old.stop().await;
    let deleted = test.cluster.lines().count(|it| it.contains(&name("new")) && it.contains("is deleted"));
    assert_eq!(deleted, 0);
    assert!(test.cluster.get(policies, &name("old")).await.is_none());
    new.stop().await;
    for id in ["both", "new"] {
        test.cluster.delete(policies, &name(id)).await;
        let bindings = format!("{}bindings", policies.trim_end_matches("ies").to_owned() + "y");
        test.cluster.delete(&bindings, &name(id)).await;
    }
}

pub(super) const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
pub(super) const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// An operator with a name of its own.
fn of_name(test: &TestOperator, registry: Registry) -> Working {
    let operator = kopf_rs::Operator::new(registry).name(test.cluster.namespace());
    Working::start(&test.cluster, operator)
}

fn with_rule(test: &TestOperator) -> Registry {
    let rule = ValidationRule::new("rule", "request.userInfo.username != 'nobody'");
    Registry::new().validation_rule(test.selector(), rule)
}

/// Await that the policy or the binding of the rule is as `condition` says.
async fn until_rule(
    test: &TestOperator,
    kind: &str,
    condition: impl Fn(Option<&Value>) -> bool,
) -> Option<Value> {
    let name = format!("rule.{}.kopf.rs", test.cluster.namespace());
    let what = "the policy of the rule is as it should be";
    test.cluster.until(what, kind, &name, condition).await;
    test.cluster.get(kind, &name).await
}

/// How many instances an object lists.
fn listed(test: &TestOperator, object: &Value) -> Option<usize> {
    let annotation = format!("{}.kopf.rs/instances", test.cluster.namespace());
    let json = object["metadata"]["annotations"][annotation].as_str()?;
    let list: Value = serde_json::from_str(json).expect("it is JSON");
    Some(list.as_object().expect("an object").len())
}

async fn policies_list_none_of_two_instances_that_end_together(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let lists = |count: usize| {
        let test = &test;
        move |found: Option<&Value>| found.is_some_and(|it| listed(test, it) == Some(count))
    };
    let first = of_name(&test, with_rule(&test));
    until_rule(&test, BINDINGS, lists(1)).await;
    let second = of_name(&test, with_rule(&test));
    until_rule(&test, BINDINGS, lists(2)).await;
    // One of them is outrun by the other.
    futures_util::future::join(first.stop(), second.stop()).await;
    for kind in [POLICIES, BINDINGS] {
        let left = until_rule(&test, kind, |found| found.is_some()).await;
        assert_eq!(left.as_ref().and_then(|it| listed(&test, it)), Some(0), "{left:?}");
        let name = format!("rule.{}.kopf.rs", test.cluster.namespace());
        test.cluster.delete(kind, &name).await;
    }
}

async fn a_release_without_rules_ends_those_of_the_former_one(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let without = || Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let is_gone = |found: Option<&Value>| found.is_none();
    let old = of_name(&test, with_rule(&test));
    until_rule(&test, BINDINGS, |found| found.is_some()).await;
    let new = of_name(&test, without());
    // The old one needs its policy, which has no effect alone.
    until_rule(&test, POLICIES, |found| found.is_some_and(|it| listed(&test, it) == Some(2))).await;
    test.create("one", json!({})).await;
    test.calls_until("create_fn one").await;
    old.stop().await;
    until_rule(&test, POLICIES, is_gone).await;
    until_rule(&test, BINDINGS, is_gone).await;
    new.stop().await;
}

async fn the_former_release_decides_again_once_all_without_rules_have_ended(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let without = || Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let old = of_name(&test, with_rule(&test));
    until_rule(&test, BINDINGS, |found| found.is_some()).await;
    let mut new = Vec::new();
    for count in [2, 3] {
        new.push(of_name(&test, without()));
        until_rule(&test, POLICIES, |found| found.is_some_and(|it| listed(&test, it) == Some(count))).await;
    }
    until_rule(&test, BINDINGS, |found| found.is_none()).await;
    // All at once: whoever is outrun by another one takes itself off the list all the same.
    futures_util::future::join_all(new.into_iter().map(Working::stop)).await;
    until_rule(&test, BINDINGS, |found| found.is_some_and(|it| listed(&test, it) == Some(1))).await;
    old.stop().await;
    for kind in [POLICIES, BINDINGS] {
        let name = format!("rule.{}.kopf.rs", test.cluster.namespace());
        test.cluster.delete(kind, &name).await;
    }
}

async fn an_endpoint_that_ends_is_not_ready_and_answers_for_a_while(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let mut slow = in_cluster(&test);
    slow.admission.shutdown_grace = Duration::from_secs(3);
    let operator = test.operator(registry).settings(slow);
    let operator = operator.liveness("http://127.0.0.1:0/healthz");
    let working = Working::start(&test.cluster, operator);
    let health = port_in(&test.line("Serving health status at ").await);
    let served = test.line("Admission webhooks are served at port ").await;
    let port = served.split("at port ").nth(1).and_then(|it| it.split(',').next());
    let port: u16 = port.expect("a port").parse().expect("a number");
    decides(&test, "not-too-large").await;
    assert_eq!(get(health, "/readyz/webhooks").await.code, 200);
    let begun = tokio::time::Instant::now();
    let stopping = tokio::spawn(working.stop());
    let answer = loop {
        let answer = get(health, "/readyz/webhooks").await;
        if answer.code != 200 {
            break answer;
        }
    };
    assert_eq!(answer.code, 500, "{answer:?}");
    assert!(answer.text.contains("the operator stops"), "{answer:?}");
    // Somebody listens until the grace period is over, and nobody afterwards.
    let dial = async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
    assert!(dial().await.is_ok());
    stopping.await.expect("the operator ends");
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(dial().await.is_err());
    test.cluster.delete(VALIDATING, &managed(&test)).await;
}
