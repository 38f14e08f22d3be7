//! Webhook configurations and certificates while something refuses, falls silent or disagrees.

use std::time::Duration;

use kopf_rs::{AdmissionServer, Operator, Registry, Settings};
use kopf_rs_apiserver::{ApiServer, Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{MUTATING, VALIDATING, changing, configured, denying, managed, operator, settings, start};
use crate::operating::{TestOperator, Working};

scenarios! {
    forbidden_changes_block_no_other_writes [memory];
    the_end_waits_for_no_server_that_does_not_answer [memory];
    two_who_disagree_about_webhooks_are_slowed_down [memory];
    a_namespace_that_is_not_there_is_awaited [memory];
    a_refused_secret_is_reported_once [memory];
    an_operator_that_awaits_its_certificate_can_be_stopped [memory];
    the_next_certificate_is_repaired_before_it_is_served [memory];
    a_certificate_that_ends_during_an_outage_is_replaced_after_it [memory];
    the_next_instance_removes_the_leftovers_of_a_kill_at_any_request [memory];
}

fn server(test: &TestOperator) -> &ApiServer {
    test.cluster.in_process().expect("this server is in the process")
}

fn count(test: &TestOperator, words: &str) -> usize {
    test.cluster.lines().count(|line| line.contains(words))
}

async fn forbidden_changes_block_no_other_writes(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry =
        || Registry::new().on_validate(test.selector(), denying()).on_mutate(test.selector(), changing());
    // One after the other is forbidden, since one of them is written first.
    for (forbidden, other) in [(MUTATING, VALIDATING), (VALIDATING, MUTATING)] {
        let before = count(&test, "cannot be written; will retry in");
        let refusal = server(&test).fault(Fault::answer(403).on(Verb::Create).plural(forbidden));
        let working = start(&test, registry(), other, 1).await;
        test.line("WebhookConfiguration ").await;
        while refusal.hits() < 3 {
            sleep(Duration::from_millis(50)).await;
        }
        let told = count(&test, "cannot be written; will retry in");
        assert_eq!(told, before + 1, "{forbidden}");
        working.stop().await;
        configured(&test, other, 0).await;
        assert_eq!(test.cluster.get(forbidden, &managed(&test)).await, None);
        // It is tried for until it is permitted.
        let working = start(&test, registry(), other, 1).await;
        refusal.clear();
        configured(&test, forbidden, 1).await;
        working.stop().await;
        configured(&test, forbidden, 0).await;
        for kind in [forbidden, other] {
            test.cluster.delete(kind, &managed(&test)).await;
        }
    }
}

async fn the_end_waits_for_no_server_that_does_not_answer(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry =
        Registry::new().on_validate(test.selector(), denying()).on_mutate(test.selector(), changing());
    let working = start(&test, registry, VALIDATING, 1).await;
    configured(&test, MUTATING, 1).await;
    let silence = Fault::delay(Duration::from_secs(3600)).method("PATCH");
    let _silent = server(&test).fault(silence.plural(MUTATING));
    let stopped = Instant::now();
    working.stop().await;
    let took = stopped.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
    test.line("may still have webhooks that no operator answers").await;
    configured(&test, VALIDATING, 0).await;
}

async fn two_who_disagree_about_webhooks_are_slowed_down(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let one = Registry::new().on_validate(test.selector(), denying());
    let other = kopf_rs::handler("other", |_| async { Ok(()) });
    let other = Registry::new().on_validate(test.selector(), other);
    // Instances of one operator agree; two operators that keep the same configuration do not.
    let other = operator(&test, other).name("other");
    let [one, other] = [operator(&test, one), other].map(|it| Working::start(&test.cluster, it));
    let told = test.line("was corrected 20 times in a row").await;
    assert!(told.contains(&managed(&test)), "{told}");
    let by = ["last by `tester`", "last by `other`"];
    assert!(by.iter().any(|it| told.contains(it)), "{told}");
    let writes = async || {
        let name = managed(&test);
        test.cluster.writes_to(VALIDATING, &name).await.len()
    };
    let before = writes().await;
    sleep(Duration::from_secs(600)).await;
    let more = writes().await - before;
    // Two of them, each once in half a minute or more, but for the first few.
    assert!((2..=80).contains(&more), "{more}");
    other.stop().await;
    one.kill().await;
}

/// Settings for a Service of this namespace.
fn behind(test: &TestOperator, namespace: &str) -> Settings {
    let mut settings = settings(test);
    settings.admission.server = Some(AdmissionServer::service(namespace, "hooks"));
    settings.admission.listen = Some("127.0.0.1:0".to_owned());
    settings
}

fn start_behind(test: &TestOperator, namespace: &str) -> Working {
    let registry = Registry::new().on_validate(test.selector(), denying());
    let operator = test.operator(registry);
    Working::start(&test.cluster, operator.settings(behind(test, namespace)))
}

fn asked_for_secrets(test: &TestOperator) -> usize {
    let asked = test.cluster.asked();
    asked.iter().filter(|it| it.path.contains("/secrets")).count()
}

async fn a_namespace_that_is_not_there_is_awaited(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let namespace = format!("{}-later", test.cluster.namespace());
    let working = start_behind(&test, &namespace);
    let line = format!("the Secret {namespace}/tester-webhook cannot be written: not found");
    test.line(&line).await;
    sleep(Duration::from_secs(300)).await;
    assert_eq!(count(&test, &line), 1);
    let asked = asked_for_secrets(&test);
    assert!((6..60).contains(&asked), "{asked}");
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    test.cluster.create(&object).await;
    configured(&test, VALIDATING, 1).await;
    working.stop().await;
}

async fn a_refused_secret_is_reported_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for (verb, done) in [(Verb::Create, "written"), (Verb::Get, "read")] {
        let refusal = server(&test).fault(Fault::answer(503).on(verb).plural("secrets"));
        let namespace = test.cluster.namespace();
        let working = start_behind(&test, namespace);
        let line = format!("the Secret {namespace}/tester-webhook cannot be {done}: ");
        test.line(&line).await;
        sleep(Duration::from_secs(300)).await;
        assert_eq!(count(&test, &line), 1);
        assert!((6..60).contains(&refusal.hits()), "{}", refusal.hits());
        refusal.clear();
        configured(&test, VALIDATING, 1).await;
        working.stop().await;
        test.cluster.delete(VALIDATING, &managed(&test)).await;
        test.cluster.delete("secrets", "tester-webhook").await;
    }
}

async fn an_operator_that_awaits_its_certificate_can_be_stopped(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = start_behind(&test, "nowhere");
    test.line("the Secret nowhere/tester-webhook cannot be written").await;
    working.stop().await;
    test.line("The operator is stopped before its admission webhooks are served").await;
}

async fn the_next_certificate_is_repaired_before_it_is_served(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let mut long = behind(&test, test.cluster.namespace());
    long.admission.certificate_life = Duration::from_secs(3600);
    long.admission.propagation = Duration::from_secs(600);
    let working = Working::start(&test.cluster, test.operator(registry).settings(long));
    configured(&test, VALIDATING, 1).await;
    sleep(Duration::from_secs(2300)).await;
    let name = "tester-webhook";
    let has_two = |found: Option<&Value>| found.is_some_and(|it| !it["data"]["2.json"].is_null());
    let (cluster, what) = (&test.cluster, "there are two generations");
    let good = cluster.until(what, "secrets", name, has_two).await["data"].clone();
    assert_eq!(good["serving"], "MQ==");
    // What is served is good, and would be served with an authority that has not signed it.
    let mixed = json!({"2.tls.crt": good["1.tls.crt"], "2.tls.key": good["1.tls.key"]});
    cluster.patch("secrets", name, &json!({"data": mixed})).await;
    let is_good = |found: Option<&Value>| found.is_some_and(|it| it["data"] == good);
    cluster.until("it is mended", "secrets", name, is_good).await;
    test.line("Certificate number 2 is served").await;
    assert_eq!(count(&test, "A certificate for admission webhooks is made"), 2);
    working.stop().await;
}

async fn a_certificate_that_ends_during_an_outage_is_replaced_after_it(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let mut hour = behind(&test, test.cluster.namespace());
    hour.admission.certificate_life = Duration::from_secs(3600);
    let working = Working::start(&test.cluster, test.operator(registry).settings(hour));
    configured(&test, VALIDATING, 1).await;
    sleep(Duration::from_secs(1200)).await;
    let outage = server(&test).fault(Fault::answer(503).plural("secrets"));
    sleep(Duration::from_secs(3600)).await;
    test.line("the Secret ").await;
    assert_eq!(count(&test, "Certificate number 2 is served"), 0);
    outage.clear();
    let over = Instant::now();
    test.line("Certificate number 2 is served").await;
    // As soon as it is tried again.
    let took = over.elapsed();
    assert!(took < Duration::from_secs(90), "{took:?}");
    working.stop().await;
}

/// Requests of operators that are about webhooks.
fn asked_for_webhooks(test: &TestOperator) -> usize {
    let asked = test.cluster.asked();
    let words = ["/secrets", "webhookconfigurations"];
    asked
        .iter()
        .filter(|it| it.verb != "watch" && it.user_agent != TestCluster::USER_AGENT)
        .filter(|it| words.iter().any(|word| it.path.contains(word)))
        .count()
}

/// Webhooks of both kinds. While nobody answers, one of them refuses all requests.
pub(super) fn of_both_kinds(test: &TestOperator) -> Registry {
    Registry::new()
        .on_validate(test.selector(), denying())
        .on_mutate(test.selector(), changing().ignore_failures(false))
}

fn with_both_kinds(test: &TestOperator) -> Operator {
    operator(test, of_both_kinds(test))
}

/// Starts an operator with webhooks of both kinds, and waits until it has written both configurations, whatever others have left in them.
async fn started(test: &TestOperator, operator: Operator) -> Working {
    let mut before = Vec::new();
    for kind in [VALIDATING, MUTATING] {
        let found = test.cluster.get(kind, &managed(test)).await;
        before.push((kind, found.as_ref().map(super::hooks).unwrap_or_default()));
    }
    let working = Working::start(&test.cluster, operator);
    for (kind, before) in before {
        let is_new = |found: Option<&Value>| {
            let hooks = found.map(super::hooks).unwrap_or_default();
            hooks.len() == 1 && hooks != before
        };
        let name = managed(test);
        test.cluster.until("it is written", kind, &name, is_new).await;
    }
    working
}

/// The next instance after a kill takes over what is left, and takes it away: nothing is refused any more. `meanwhile` has the time between.
pub(super) async fn is_mended(
    test: &TestOperator,
    killed: &str,
    next: Operator,
    meanwhile: impl Future<Output = ()>,
) {
    let found = test.cluster.get(VALIDATING, &managed(test)).await;
    for hook in found.as_ref().map(super::hooks).unwrap_or_default() {
        assert_eq!(hook["failurePolicy"], "Ignore", "{killed}: {hook}");
    }
    let working = started(test, next).await;
    let found = test.cluster.get(MUTATING, &managed(test)).await;
    let hooks = found.as_ref().map(super::hooks).unwrap_or_default();
    assert_eq!(hooks[0]["failurePolicy"], "Fail", "{killed}");
    meanwhile.await;
    working.stop().await;
    for kind in [VALIDATING, MUTATING] {
        let found = test.cluster.get(kind, &managed(test)).await;
        let hooks = found.as_ref().map(super::hooks);
        assert_eq!(hooks.unwrap_or_default(), [] as [Value; 0], "{killed}");
    }
    let (path, object) = super::object(test, "one", &json!({"size": 101}));
    let path = format!("{path}?dryRun=All");
    let answer = test.cluster.request("POST", &path, Some(&object)).await;
    assert!(answer.is_ok(), "{killed}: {answer:?}");
}

async fn the_next_instance_removes_the_leftovers_of_a_kill_at_any_request(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let reached = async |requests: usize| {
        while asked_for_webhooks(&test) < requests {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let mended = async |killed: String| {
        let next = with_both_kinds(&test);
        is_mended(&test, &killed, next, std::future::ready(())).await;
    };
    let requests = asked_for_webhooks(&test);
    let working = started(&test, with_both_kinds(&test)).await;
    let to_start = asked_for_webhooks(&test) - requests;
    assert!(to_start >= 4, "{to_start}");
    working.stop().await;
    for after in 0..to_start {
        let before = asked_for_webhooks(&test);
        let working = Working::start(&test.cluster, with_both_kinds(&test));
        reached(before + after).await;
        working.kill().await;
        mended(format!("start, {after}")).await;
    }
    for after in 0..4 {
        let working = started(&test, with_both_kinds(&test)).await;
        let before = asked_for_webhooks(&test);
        tokio::select! {
            _ = working.stop() => {}
            () = reached(before + after) => {}
        }
        mended(format!("end, {after}")).await;
    }
}
