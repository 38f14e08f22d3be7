//! Several instances of one operator: the holder of the Lease is active, the others stand by.

mod journal;
mod partitions;
mod processes;
mod rollout;
mod terms;
mod turns;

use std::time::Duration;

use kopf_rs::{Client, HandlerError, Index, LeaseSettings, Operator, Registry, Settings, handler, indexer};
use kopf_rs_apiserver::User;
use kopf_rs_tests::{TestCluster, documents, scenarios};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cli;
use crate::operating::{Gate, TestOperator, Working};

scenarios! {
    of_three_one_is_at_work [memory real];
    a_graceful_end_hands_over_immediately [memory real];
    waiting_handlers_are_not_called_after_the_lease_is_lost [memory];
    a_killed_holder_is_followed_once_its_time_is_over [memory];
    a_standby_has_its_indices_and_lists_nothing_again [memory];
    daemons_and_timers_move_with_the_lease [memory];
    an_edited_holder_stops_the_former_one_immediately [memory];
    a_deleted_lease_is_recreated_after_its_duration [memory];
    a_lease_of_another_operator_is_left_alone [memory];
    without_permissions_no_handler_is_called_and_the_rule_is_reported [tcp];
    the_rights_that_are_printed_are_enough [tcp real];
}

pub(crate) const LEASES: &str = "leases.coordination.k8s.io";
pub(crate) const NAME: &str = "tester";

/// Enables the Lease in the cluster's namespace.
fn shared(test: &TestOperator, operator: Operator) -> Operator {
    shared_as(test, operator, |_| {})
}

fn shared_as(test: &TestOperator, operator: Operator, change: impl FnOnce(&mut LeaseSettings)) -> Operator {
    operator.settings(Settings::with(|settings| {
        settings.lease.enabled = true;
        settings.lease.namespace = Some(test.cluster.namespace().to_owned());
        change(&mut settings.lease);
    }))
}

/// Starts an instance that records creations and resumptions with its name.
fn replica(test: &TestOperator, id: &str) -> Working {
    let registry = Registry::new()
        .on_create(test.selector(), test.noting(id))
        .on_resume(test.selector(), test.noting(&format!("{id} resumes")));
    Working::start(&test.cluster, shared(test, test.operator(registry)))
}

/// Returns a client with that user name, so that faults can apply to one instance only.
fn client_of(test: &TestOperator, name: &str) -> Client {
    let server = test.cluster.in_process().expect("a server in the process");
    let user = User::new(name).group("system:masters");
    Client::new(server.service().as_user(user), test.cluster.namespace())
}

async fn lease_until(test: &TestOperator, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let there = |lease: Option<&Value>| lease.is_some_and(&is);
    test.cluster.until(what, LEASES, NAME, there).await
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

fn count(test: &TestOperator, part: &str) -> usize {
    let calls = test.calls.all();
    calls.iter().filter(|it| it.contains(part)).count()
}

/// LE1
async fn of_three_one_is_at_work(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let replicas = ["a", "b", "c"].map(|id| replica(&test, id));
    let lease = lease_until(&test, "a holder", |it| !holder(it).is_empty()).await;
    assert_eq!(lease["metadata"]["labels"]["kopf.rs/operator"], "tester");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
    for name in ["one", "two"] {
        test.create(name, json!({})).await;
    }
    test.calls.until(2).await;
    for name in ["one", "two"] {
        test.until("handled", name, crate::operating::is_handled).await;
    }
    for replica in replicas {
        replica.stop().await;
    }
    let calls = test.calls.all();
    for name in ["one", "two"] {
        let of = |it: &&String| it.ends_with(name) && !it.contains("resumes");
        assert_eq!(calls.iter().filter(of).count(), 1, "{calls:?}");
        test.assert_writes(name, 1).await;
    }
    let lease = lease_until(&test, "nobody", |it| holder(it).is_empty()).await;
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 1);
}

/// LE2
async fn a_graceful_end_hands_over_immediately(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let first = replica(&test, "a");
    test.line("This instance is the leader").await;
    test.create("one", json!({})).await;
    test.calls_until("a one").await;
    let second = replica(&test, "b");
    let standby = test.line("Standing by: the Lease").await;
    assert!(standby.contains("/tester is held by "), "{standby}");
    let signalled = Instant::now();
    first.stop().await;
    test.create("two", json!({})).await;
    test.calls_until("b two").await;
    let took = signalled.elapsed();
    // Measures the time from the signal only in memory, because elsewhere the machine may be busy.
    if matches!(test.cluster.server(), kopf_rs_tests::Server::Memory) {
        assert!(took < Duration::from_millis(500), "{took:?}");
    }
    // The next instance resumes existing objects, as at the start of an operator, and does not call creation handlers.
    test.calls_until("b resumes one").await;
    second.stop().await;
    assert_eq!(count(&test, "b one"), 0, "{:?}", test.calls.all());
    assert_eq!(count(&test, "a two"), 0, "{:?}", test.calls.all());
}

/// Of many objects that wait for the only worker permit, none starts once another instance may be active.
async fn waiting_handlers_are_not_called_after_the_lease_is_lost(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    for number in 0..10 {
        test.create(&format!("object-{number}"), json!({})).await;
    }
    let registry = Registry::new().on_create(test.selector(), test.waiting("a", &gate));
    let operator = test.operator(registry).settings(Settings::with(|settings| {
        settings.lease.enabled = true;
        settings.lease.namespace = Some(test.cluster.namespace().to_owned());
        settings.queueing.worker_limit = Some(1);
    }));
    let only = Working::start(&test.cluster, operator);
    test.calls.until(1).await;
    let edit = json!({"spec": {"holderIdentity": "somebody"}});
    test.cluster.patch(LEASES, NAME, &edit).await;
    test.line("This instance has lost the Lease").await;
    gate.open(100);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(test.calls.all().len(), 1, "{:?}", test.calls.all());
    only.kill().await;
}

/// LE5
async fn a_killed_holder_is_followed_once_its_time_is_over(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let first = replica(&test, "a");
    test.line("This instance is the leader").await;
    test.create("one", json!({})).await;
    test.until("handled", "one", crate::operating::is_handled).await;
    let second = replica(&test, "b");
    test.line("Standing by: the Lease").await;
    first.kill().await;
    let killed = Instant::now();
    test.create("two", json!({})).await;
    test.calls_until("b two").await;
    let took = killed.elapsed();
    let bounds = Duration::from_secs(12)..=Duration::from_secs(17);
    assert!(bounds.contains(&took), "{took:?}");
    second.stop().await;
    assert_eq!(count(&test, "b one"), 0, "{:?}", test.calls.all());
}

/// LE20, with few objects.
async fn a_standby_has_its_indices_and_lists_nothing_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let first = replica(&test, "a");
    test.line("This instance is the leader").await;
    for name in ["one", "two"] {
        test.create(name, json!({"size": 1})).await;
        test.until("handled", name, crate::operating::is_handled).await;
    }
    let counted = test.calls.clone();
    let registry = Registry::new()
        .index(
            test.selector(),
            indexer("sizes", |cause| Ok::<_, HandlerError>((cause.name().to_owned(), 1_u32))),
        )
        .on_update(
            test.selector(),
            handler("u", move |context| {
                let counted = counted.clone();
                async move {
                    let sizes: Index<String, u32> = context.index("sizes").expect("it is declared");
                    let count = sizes.iter().count();
                    counted.note(format!("b {} of {count}", context.name()));
                    Ok(Value::Null)
                }
            }),
        );
    let second = Working::start(&test.cluster, shared(&test, test.operator(registry)));
    test.line("Standing by: the Lease").await;
    let lists = |test: &TestOperator| {
        let asked = test.cluster.asked();
        let own = asked.iter().filter(|it| it.path.ends_with(crate::operating::KIND));
        own.filter(|it| it.verb == "list" || it.verb == "watch").count()
    };
    // Both instances watch by then.
    while lists(&test) < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    test.create("three", json!({"size": 1})).await;
    test.calls_until("a three").await;
    test.until("handled", "three", crate::operating::is_handled).await;
    let before = lists(&test);
    first.stop().await;
    test.patch("two", json!({"spec": {"size": 2}})).await;
    test.calls_until("b two of 3").await;
    assert_eq!(lists(&test), before);
    second.stop().await;
}

/// LE24
async fn daemons_and_timers_move_with_the_lease(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let with_daemon = |id: &'static str| {
        let calls = test.calls.clone();
        let daemon = handler("d", move |context| {
            let calls = calls.clone();
            async move {
                calls.note(format!("{id} begins"));
                let stopped = context.stopped().cloned().expect("daemons have one");
                stopped.wait().await;
                let reason = stopped.reason().expect("it has one");
                calls.note(format!("{id} ends: {reason}"));
                Ok(Value::Null)
            }
        });
        let registry = Registry::new().daemon(test.selector(), daemon);
        Working::start(&test.cluster, shared(&test, test.operator(registry)))
    };
    test.create("one", json!({})).await;
    let first = with_daemon("a");
    test.calls_until("a begins").await;
    let second = with_daemon("b");
    test.line("Standing by: the Lease").await;
    // An edit by a user who does not know its effect.
    let edit = json!({"spec": {"holderIdentity": "somebody"}});
    test.cluster.patch(LEASES, NAME, &edit).await;
    test.calls_until("a ends: OPERATOR_PAUSING").await;
    assert_eq!(count(&test, "begins"), 1, "{:?}", test.calls.all());
    // One of the two instances takes the Lease.
    test.calls.until(3).await;
    assert_eq!(count(&test, "begins"), 2, "{:?}", test.calls.all());
    first.stop().await;
    second.stop().await;
}

/// LE17
async fn an_edited_holder_stops_the_former_one_immediately(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let only = replica(&test, "a");
    test.line("This instance is the leader").await;
    let edited = Instant::now();
    let edit = json!({"spec": {"holderIdentity": "somebody"}});
    test.cluster.patch(LEASES, NAME, &edit).await;
    let told = test.line("This instance has lost the Lease").await;
    assert!(told.ends_with("it is held by somebody."), "{told}");
    assert!(edited.elapsed() < Duration::from_secs(1), "{:?}", edited.elapsed());
    test.create("one", json!({})).await;
    test.calls_until("a one").await;
    assert!(edited.elapsed() >= Duration::from_secs(15), "{:?}", edited.elapsed());
    only.stop().await;
}

/// LE16
async fn a_deleted_lease_is_recreated_after_its_duration(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let only = replica(&test, "a");
    test.line("This instance is the leader").await;
    let deleted = Instant::now();
    test.cluster.delete(LEASES, NAME).await;
    test.line("so no instance is the leader: this one creates it again in 15 seconds").await;
    test.create("one", json!({})).await;
    test.calls_until("a one").await;
    assert!(deleted.elapsed() >= Duration::from_secs(15), "{:?}", deleted.elapsed());
    only.stop().await;
}

/// LE18
async fn a_lease_of_another_operator_is_left_alone(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let first = replica(&test, "a");
    test.line("This instance is the leader").await;
    let registry = Registry::new().on_create(test.selector(), test.noting("b"));
    let other = test.operator(registry).name("other");
    let name = |it: &mut LeaseSettings| it.name = Some(NAME.to_owned());
    let second = Working::start(&test.cluster, shared_as(&test, other, name));
    let told = test.line("belongs to the operator 'tester'").await;
    assert!(told.contains("--lease=NAME"), "{told}");
    first.stop().await;
    test.create("one", json!({})).await;
    let lease = lease_until(&test, "nobody", |it| holder(it).is_empty()).await;
    assert_eq!(lease["metadata"]["labels"]["kopf.rs/operator"], "tester");
    second.stop().await;
    assert_eq!(count(&test, "b "), 0, "{:?}", test.calls.all());
}

/// LE19
async fn without_permissions_no_handler_is_called_and_the_rule_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let user = test.cluster.restricted_user();
    let group = &test.group;
    let rights = format!(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {user}}}
rules:
- {{apiGroups: [{group}], resources: [kopfexamples], verbs: ['*']}}
- {{apiGroups: [''], resources: [namespaces], verbs: [get, list, watch]}}
- {{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [list, watch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {user}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {user}}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]
"
    );
    test.cluster.apply(&rights).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("a"));
    let operator = shared_as(&test, test.operator(registry), |it| {
        it.duration = Duration::from_secs(5);
        it.renew_deadline = Duration::from_secs(3);
        it.retry_period = Duration::from_secs(1);
    });
    let client = test.cluster.client_of(&user).await;
    let working = Working::start_as(client, operator);
    test.line("Handlers are not called, since the Lease").await;
    test.line("resources: [\"leases\"]").await;
    test.line("verbs: [\"get\", \"list\", \"watch\", \"create\", \"update\"]").await;
    test.create("one", json!({})).await;
    let granted = format!(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {user}-leases}}
rules:
- {{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, watch, create, update]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {user}-leases}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {user}-leases}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]
"
    );
    test.cluster.apply(&granted).await;
    test.calls_until("a one").await;
    working.stop().await;
}

/// The output of `--manifests` for the `ServiceAccount` of a Deployment, bound to a user of the test.
async fn the_rights_that_are_printed_are_enough(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let user = test.cluster.restricted_user();
    let [role, mut binding, flows] = printed(&test).await;
    let account = json!({"kind": "ServiceAccount", "name": NAME, "namespace": test.cluster.namespace()});
    assert_eq!(binding["subjects"], json!([account]));
    binding["subjects"] = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
    for object in [&role, &binding, &flows] {
        test.cluster.create(object).await;
    }
    let rights = format!(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {group}}}
rules:
- {{apiGroups: [{group}], resources: [kopfexamples], verbs: [get, list, watch, patch]}}
- {{apiGroups: [''], resources: [namespaces], verbs: [list, watch]}}
- {{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [list, watch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {group}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {group}}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]
",
        group = test.group
    );
    test.cluster.apply(&rights).await;
    let start = async |id: &str| {
        let registry = Registry::new().on_create(test.selector(), test.noting(id));
        let operator = shared(&test, test.operator(registry));
        Working::start_as(test.cluster.client_of(&user).await, operator)
    };
    let first = start("a").await;
    test.create("one", json!({})).await;
    test.calls_until("a one").await;
    let second = start("b").await;
    test.line("Standing by: the Lease").await;
    first.stop().await;
    test.create("two", json!({})).await;
    test.calls_until("b two").await;
    second.stop().await;
    let refused = test.cluster.lines().count(|it| it.contains("To permit it"));
    assert_eq!(refused, 0);
}

/// Returns the objects that a program prints for the Lease.
async fn printed(test: &TestOperator) -> [Value; 3] {
    let kubeconfig = test.cluster.kubeconfig().display().to_string();
    let namespace = test.cluster.namespace();
    let args = ["--kubeconfig", &kubeconfig, "-n", namespace, "--name", NAME, "--lease"];
    let printing = ["--manifests", "--install-namespace", namespace];
    let mut command = cli::operator("replica", &[&args[..], &printing].concat());
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.expect("it does not panic").expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let objects = documents(&String::from_utf8_lossy(&output.stdout));
    ["Role", "RoleBinding", "FlowSchema"].map(|kind| {
        let found = objects.iter().find(|it| it["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {objects:#?}")).clone()
    })
}
