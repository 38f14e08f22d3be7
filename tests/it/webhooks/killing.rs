//! An operator as a process that is killed before and after each of its requests about webhooks, policies and conversions, at its start and at its
//! end: what it leaves, the next instance puts right.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use kopf_rs::{Registry, ValidationRule, conversion};
use kopf_rs_tests::{Program, TestCluster, say, scenarios};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::converting::{self, DEFINITIONS};
use super::managing::{is_mended, of_both_kinds};
use super::releases::{BINDINGS, POLICIES};
use super::rolling::{Replica, Service, registry};
use super::{MUTATING, VALIDATING, managed, object, operator, refusal, stored};
use crate::cli::{self, PATIENCE};
use crate::operating::{KIND, TestOperator, definition_of_versions};

scenarios! {
    the_next_instance_removes_the_leftovers_of_a_killed_process [tcp real];
    the_next_instance_in_a_cluster_continues_after_a_kill [real];
}

/// AD28
async fn the_next_instance_removes_the_leftovers_of_a_killed_process(cluster: TestCluster) {
    let test = serve(cluster).await;
    let taken_away = async |death: &str| {
        let registry = with_rule_and_conversions(&test, of_both_kinds(&test));
        let next = operator(&test, registry).name(test.cluster.namespace());
        is_mended(&test, death, next, are_in_effect(&test, death)).await;
        forget_rule_and_conversions(&test).await;
    };
    kill_around_each_request(&test, "local", taken_away).await;
}

/// AD28: with a certificate in a Secret, and configurations that stay.
async fn the_next_instance_in_a_cluster_continues_after_a_kill(cluster: TestCluster) {
    let test = serve(cluster).await;
    let service = Service::start(&test).await;
    let server = format!("service:{}/hooks:{}", test.cluster.namespace(), service.port);
    let goes_on = async |death: &str| {
        let registry = with_rule_and_conversions(&test, registry(&test, 1));
        let next = Replica::start(&test, &service, registry, |_| ()).await;
        let refused = refusal(&test, &json!({"size": 101})).await;
        assert_eq!(refused["code"], 422, "{death}: {refused}");
        let is_blue = |it: &Value| it["spec"]["colour"] == "blue";
        stored(&test, &json!({"size": 1}), is_blue).await;
        are_in_effect(&test, death).await;
        next.stop(&service).await;
        forget_rule_and_conversions(&test).await;
        let name = managed(&test);
        let secret = format!("{}-webhook", test.cluster.namespace());
        for (kind, name) in [(VALIDATING, &*name), (MUTATING, &*name), ("secrets", &*secret)] {
            test.cluster.delete(kind, name).await;
        }
    };
    kill_around_each_request(&test, &server, goes_on).await;
}

/// A cluster that serves the kind in two versions, the first of which is stored.
async fn serve(cluster: TestCluster) -> TestOperator {
    let test = TestOperator::bare(cluster);
    let versions = [("v1", true, true), ("v1alpha1", true, false)];
    let definition = definition_of_versions(&test.group, &versions);
    test.cluster.apply(&definition.to_string()).await;
    test
}

/// As the killed program has them, but for the expression: what was left of the policy is changed, too.
fn with_rule_and_conversions(test: &TestOperator, registry: Registry) -> Registry {
    // A rule about `self` alone belongs into the definition; one that asks for the user becomes a policy.
    let expression = "request.userInfo.username == 'nobody' || !has(self.spec.size) || self.spec.size != 7";
    let rule = ValidationRule::new("rule", expression);
    let [new, old] = ["v1", "v1alpha1"].map(|version| (test.group.as_str(), version, KIND));
    let same = |name| conversion(name, |spec: Value| Ok(spec));
    registry
        .validation_rule(test.selector(), rule.message("it is never 7"))
        .on_convert(old, new, same("up"))
        .on_convert(new, old, same("down"))
}

/// Awaits that the rule counts and that objects are converted: both take effect with a short delay.
async fn are_in_effect(test: &TestOperator, death: &str) {
    let (path, seven) = object(test, "seven", &json!({"size": 7}));
    let path = format!("{path}?dryRun=All");
    let denied = async {
        loop {
            match test.cluster.request("POST", &path, Some(&seven)).await {
                Err(kube::Error::Api(status)) if status.message.contains("it is never 7") => break,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let denied = timeout(test.cluster.server().patience(), denied).await;
    assert!(denied.is_ok(), "{death}: the rule does not count");
    let old = converting::object(test, "v1alpha1", "old", &json!({"size": 1}));
    let path = format!("{}?dryRun=All", converting::collection(test, "v1alpha1"));
    let made = converting::ask(test, "POST", &path, Some(&old)).await;
    assert_eq!(made["spec"]["size"], 1, "{death}: {made}");
}

/// Policies and conversions outlive all instances: the next death begins without them.
async fn forget_rule_and_conversions(test: &TestOperator) {
    let operator = test.cluster.namespace();
    for kind in [BINDINGS, POLICIES] {
        let name = format!("rule.{operator}.kopf.rs");
        test.cluster.delete(kind, &name).await;
    }
    let list = format!("{operator}.kopf.rs/instances");
    let reset = json!({
        "metadata": {"annotations": {list: null}},
        "spec": {"conversion": {"strategy": "None", "webhook": null}},
    });
    test.cluster.patch(DEFINITIONS, &test.kind(), &reset).await;
}

async fn kill_around_each_request(test: &TestOperator, server: &str, is_followed: impl AsyncFn(&str)) {
    for moment in ["start", "end"] {
        let mut deaths = 0;
        for request in 1.. {
            let before = deaths;
            for side in ["before", "after"] {
                let death = format!("{moment}, {side} request {request}");
                deaths += usize::from(dies(test, server, &death).await);
                is_followed(&death).await;
            }
            if deaths == before {
                break;
            }
        }
        say(&format!("webhooks: {deaths} kills before and after requests of the {moment}, {server}"));
        // Both configurations, the policy with its binding, and the definition are read and written.
        assert!(deaths >= 20, "{moment}: {deaths}");
    }
}

/// Whether there is such a request.
async fn dies(test: &TestOperator, server: &str, death: &str) -> bool {
    let mut command = cli::operator("doomed", &[]);
    command.env("KUBECONFIG", test.cluster.kubeconfig()).envs([
        ("KOPF_RS_ADMISSION_SERVER", server),
        ("KOPF_RS_ADMISSION_MANAGED", &managed(test)),
        ("KOPF_RS_ADMISSION_LISTEN", "127.0.0.1:0"),
        ("KOPF_RS_ADMISSION_PROPAGATION", "500ms"),
        ("KOPF_RS_ADMISSION_SHUTDOWN_GRACE", "100ms"),
        ("DOOM_NAMESPACE", test.cluster.namespace()),
        ("DOOM", death),
    ]);
    let mut program = Program::start(command, PATIENCE);
    let lines = program.lines().clone();
    let all_are_written = async {
        for (line, count) in [
            ("is written: 1 webhooks", 2),
            ("kopf.rs is created", 2),
            ("is written: the operator converts", 1),
        ] {
            while lines.count(|it| it.contains(line)) < count {
                sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::select! {
        () = lines.until_end() => {}
        () = all_are_written => program.signal("TERM").await,
    }
    let ended = program.ended().await;
    let is_killed = ended.signal() == Some(9);
    assert!(is_killed || ended.success(), "{death}: {ended}\n{}", lines.all().join("\n"));
    is_killed
}
