//! Children that others change, too: other operators, autoscalers, people and former releases; and children that cannot be changed.

use std::time::Duration;

use kopf_rs::prelude::Again;
use kopf_rs::{Callback, Context, HandlerResult, Operator, Registry, Settings};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::operating::{KIND, TestOperator, Working, definition_of_versions};
use crate::owned::{deployment, keeping, map, until};

scenarios! {
    // In memory only: what slows down for minutes.
    conditions_name_the_problem_with_a_child [memory];
    an_apply_without_changes_triggers_no_call;
    fields_of_a_former_manager_are_taken_over;
    the_key_of_an_item_that_others_have_too_is_refused_once;
    an_immutable_child_is_an_error_and_is_not_deleted;
    an_immutable_child_is_recreated_where_the_handler_says_so [memory];
    the_version_of_the_kind_of_a_child_changes;
    two_operators_that_want_one_field_slow_down [memory];
    an_autoscaler_is_reported_and_may_keep_its_field;
}

fn condition(object: &Value, kind: &str) -> Value {
    let all = object["status"]["conditions"].as_array();
    let mut all = all.into_iter().flatten();
    all.find(|it| it["type"] == kind).cloned().unwrap_or_default()
}

/// CH14, CH56 and CH39, as far as conditions go.
async fn conditions_name_the_problem_with_a_child(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.cluster.create(&map("theirs", &json!({"a": "theirs"}))).await;
    let settings = Settings::with(|it| it.status.conditions = true);
    let operator = test.operator(Registry::new().reconcile(test.selector(), keeping(&test)));
    let working = Working::start(&test.cluster, operator.settings(settings));
    let mut wrong = map("wrong", &json!({}));
    wrong["colour"] = json!("red");
    let missing = json!({"apiVersion": "nowhere.kopf.dev/v1", "kind": "Missing", "metadata": {"name": "m"}});
    for (name, child, reason, is_stalled) in [
        ("strange", map("theirs", &json!({"a": "ours"})), "ChildNotOurs", false),
        ("refused", wrong, "ChildRefused", true),
        ("missing", missing, "ChildKindMissing", false),
    ] {
        test.create(name, json!({"children": [child]})).await;
        let is_told = |it: &Value| condition(it, "Ready")["status"] == "False";
        let told = test.until("it is told", name, is_told).await;
        let ready = condition(&told, "Ready");
        assert_eq!(ready["reason"], reason, "{ready}");
        let stalled = condition(&told, "Stalled");
        assert_eq!(stalled["status"] == "True", is_stalled, "{told}");
        test.patch(name, json!({"spec": {"children": []}})).await;
        let is_well = |it: &Value| condition(it, "Ready")["status"] == "True";
        test.until("it heals", name, is_well).await;
    }
    working.stop().await;
    let theirs = test.cluster.get("configmaps", "theirs").await;
    assert_eq!(theirs.expect("it stays")["data"]["a"], "theirs");
}

/// CH5: an explicit empty list is one that some servers count as a change in each apply.
async fn an_apply_without_changes_triggers_no_call(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let role = "rbac.authorization.k8s.io";
    let child = json!({
        "apiVersion": format!("{role}/v1"), "kind": "RoleBinding", "metadata": {"name": "child"}, "subjects": [],
        "roleRef": {"apiGroup": role, "kind": "Role", "name": "none"},
    });
    let function = |test: &TestOperator| {
        let child = child.clone();
        let function = test.handler("keep", move |context| {
            let child = child.clone();
            async move {
                context.children()?.apply(&child).await?;
                context.again(Again::after(2));
                Ok(Value::Null)
            }
        });
        function.owns("rolebindings")
    };
    let registry = || Registry::new().reconcile(test.selector(), function(&test));
    let working = test.start(registry());
    test.create("one", json!({})).await;
    let begun = tokio::time::Instant::now();
    test.calls.until(3).await;
    assert!(begun.elapsed() >= Duration::from_secs(4), "nobody else calls");
    working.stop().await;
    assert_eq!(test.calls.all().len(), 3);
    let working = test.start(registry());
    test.calls.until(5).await;
    working.stop().await;
    if test.cluster.journal().is_some() {
        test.cluster.assert_writes_to("rolebindings", "child", 2).await;
    }
}

/// CH12.
async fn fields_of_a_former_manager_are_taken_over(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let function = test.handler("keep", |context: Context| async move {
        let children = context.children()?.formerly_managed_by(["old-op"]);
        if let Some(value) = context.read::<Option<String>>("spec.value")? {
            children.apply(&map("child", &json!({"a": value}))).await?;
        }
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().reconcile(test.selector(), function.owns("configmaps")));
    let owner = test.create("one", json!({})).await;
    let mut made = map("child", &json!({"a": "1", "x": "old"}));
    made["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "one", "uid": owner["metadata"]["uid"], "controller": true,
    }]);
    let path = format!("/api/v1/namespaces/{}/configmaps?fieldManager=old-op", test.cluster.namespace());
    let created = test.cluster.request("POST", &path, Some(&made)).await;
    created.expect("it is made");
    let theirs = json!({"data": {"t": "theirs"}});
    test.cluster.patch("configmaps", "child", &theirs).await;
    test.patch("one", json!({"spec": {"value": "2"}})).await;
    let now = until(&test, "it is applied", |it| it["data"]["a"] == "2").await;
    assert_eq!(now["data"], json!({"a": "2", "t": "theirs"}));
    let entries = now["metadata"]["managedFields"].as_array();
    let entries = entries.expect("entries");
    let has = |manager: &str| entries.iter().any(|it| it["manager"] == manager);
    assert!(!has("old-op") && entries.len() == 2, "{now}");
    working.stop().await;
}

/// CH13: a port is renamed in number while somebody else has an item of its old number.
async fn the_key_of_an_item_that_others_have_too_is_refused_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let service = |port: u16| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "child"},
            "spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "port": port, "targetPort": 8080}]},
        })
    };
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test).owns("services")));
    let spec = |port: u16| json!({"children": [service(port)]});
    test.create("one", spec(80)).await;
    test.line("Service `child` is created.").await;
    // The same values, under another name.
    let mut theirs = service(80);
    theirs["metadata"]["namespace"] = json!(test.cluster.namespace());
    let path = format!(
        "/api/v1/namespaces/{}/services/child?fieldManager=stranger&force=true",
        test.cluster.namespace()
    );
    let apply = http::Request::patch(&path).header("content-type", "application/apply-patch+yaml");
    let apply = apply.body(theirs.to_string().into_bytes());
    let apply = apply.expect("a valid request");
    let applied = test.cluster.client().request::<Value>(apply).await;
    applied.expect("it is applied");
    test.patch("one", json!({"spec": spec(81)})).await;
    let told = test.line("Reconciler 'keep' failed permanently").await;
    assert!(told.contains("spec.ports[") && told.contains("Duplicate value"), "{told}");
    assert!(told.contains("\"stranger\""), "{told}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    working.stop().await;
    assert!(test.calls.all().len() <= 3, "{:?}", test.calls.all());
}

/// A Job, whose template is immutable.
fn job(image: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "child"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}}},
    })
}

/// Keeps all that the object lists, and recreates what cannot be changed.
async fn recreate(context: Context) -> HandlerResult<Value> {
    let wanted: Vec<Value> = context.read("spec.children")?;
    for child in &wanted {
        context.children()?.recreating().apply(child).await?;
    }
    Ok(Value::Null)
}

/// CH64.
async fn an_immutable_child_is_recreated_where_the_handler_says_so(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let recreating = test.handler("keep", recreate).owns("jobs");
    let working = test.start(Registry::new().reconcile(test.selector(), recreating));
    test.create("one", json!({"children": [job("a")]})).await;
    let until_made = async |image: &str| {
        let is_it = |it: Option<&Value>| {
            let template = it.map(|it| &it["spec"]["template"]["spec"]);
            template.is_some_and(|it| it["containers"][0]["image"] == image)
        };
        let made = test.cluster.until("it has the image", "jobs", "child", is_it).await;
        made["metadata"]["uid"].clone()
    };
    let first = until_made("a").await;
    test.patch("one", json!({"spec": {"children": [job("b")]}})).await;
    test.line("Job `child` cannot be changed, so it is deleted and created again").await;
    let second = until_made("b").await;
    assert_ne!(first, second);
    let recreated = Instant::now();
    test.patch("one", json!({"spec": {"children": [job("c")]}})).await;
    test.line("Job `child` was recreated before").await;
    let third = until_made("c").await;
    assert_ne!(second, third);
    assert!(recreated.elapsed() > Duration::from_secs(55), "{:?}", recreated.elapsed());
    let mut invalid = job("d");
    invalid["spec"]["template"]["spec"]["restartPolicy"] = json!("Never again");
    test.patch("one", json!({"spec": {"children": [invalid]}})).await;
    let told = test.line("Reconciler 'keep' failed permanently").await;
    assert!(told.contains("the server would refuse the new object, too"), "{told}");
    assert_eq!(until_made("c").await, third);
    working.stop().await;
}

/// CH38.
async fn an_immutable_child_is_an_error_and_is_not_deleted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test).owns("jobs")));
    test.create("one", json!({"children": [job("a")]})).await;
    test.line("Job `child` is created.").await;
    let made = test.cluster.get("jobs", "child").await.expect("it is there");
    test.patch("one", json!({"spec": {"children": [job("b")]}})).await;
    let told = test.line("Reconciler 'keep' failed permanently").await;
    assert!(told.contains("spec.template") && told.contains("field is immutable"), "{told}");
    let now = test.cluster.get("jobs", "child").await.expect("it stays");
    assert_eq!(now["metadata"]["uid"], made["metadata"]["uid"]);
    assert!(now["metadata"]["deletionTimestamp"].is_null());
    working.stop().await;
}

/// Keeps all that the object lists as one set.
async fn keep_set(context: Context) -> HandlerResult<Value> {
    let wanted: Vec<Value> = context.read("spec.children")?;
    context.children()?.set(&wanted).await?;
    Ok(Value::Null)
}

/// CH40: one version is stored and then served no more, and another one takes its place.
async fn the_version_of_the_kind_of_a_child_changes(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let group = format!("inner.{}", test.group);
    let kind = format!("{KIND}.{group}");
    let child = |name: &str, version: &str| {
        let api_version = format!("{group}/{version}");
        json!({"apiVersion": api_version, "kind": "KopfExample", "metadata": {"name": name}, "spec": {"size": 1}})
    };
    let both = |version: &str| json!({"children": [child("kept", version), child("left", version)]});
    let apply = async |versions: &[(&str, bool, bool)]| {
        let crd = definition_of_versions(&group, versions);
        test.cluster.apply(&crd.to_string()).await;
    };
    apply(&[("v1", true, true)]).await;
    let function = test.handler("keep", keep_set).owns(kind.as_str());
    let working = test.start(Registry::new().reconcile(test.selector(), function));
    test.create("one", both("v1")).await;
    test.line("Reconciler 'keep' succeeded.").await;
    apply(&[("v1", true, false), ("v2", true, true)]).await;
    test.patch("one", json!({"spec": both("v2")})).await;
    test.calls.until(2).await;
    apply(&[("v1", false, false), ("v2", true, true)]).await;
    // Drift is seen, and put right.
    let inner = Inner { test: &test, group: group.clone() };
    let edit = json!({"spec": {"size": 5}});
    inner.until("kept", Some(&edit), Result::is_ok).await;
    let is_right = |it: &Result<Value, _>| it.as_ref().is_ok_and(|it| it["spec"]["size"] == 1);
    inner.until("kept", None, is_right).await;
    let fewer = json!({"children": [child("kept", "v2")]});
    test.patch("one", json!({"spec": fewer})).await;
    inner.until("left", None, is_not_found).await;
    assert!(inner.ask("kept", None).await.is_ok());
    working.stop().await;
}

/// Objects of the second version.
struct Inner<'a> {
    test: &'a TestOperator,
    group: String,
}

type Answer = Result<Value, kube::Error>;

impl Inner<'_> {
    /// Read one of them, or change it.
    async fn ask(&self, name: &str, edit: Option<&Value>) -> Answer {
        let cluster = &self.test.cluster;
        let path = format!("/apis/{}/v2/namespaces/{}/{KIND}/{name}", self.group, cluster.namespace());
        let method = if edit.is_some() { "PATCH" } else { "GET" };
        cluster.request(method, &path, edit).await
    }

    /// Ask until the answer is as it is expected: a server may take a while to serve a version.
    async fn until(&self, name: &str, edit: Option<&Value>, condition: impl Fn(&Answer) -> bool) {
        let mut pulse = tokio::time::interval(Duration::from_millis(100));
        for _ in 0..300 {
            pulse.tick().await;
            if condition(&self.ask(name, edit).await) {
                return;
            }
        }
        panic!("{name}:\n{}", self.test.cluster.lines().all().join("\n"));
    }
}

fn is_not_found(answer: &Answer) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 404)
}

/// Applies one value under the name of the operator.
fn wanting(test: &TestOperator, value: &'static str) -> Callback {
    let function = test.handler(value, move |context: Context| async move {
        let wanted = map("child", &json!({"a": value}));
        context.children()?.apply(&wanted).await?;
        Ok(Value::Null)
    });
    function.owns("configmaps")
}

/// CH44.
async fn two_operators_that_want_one_field_slow_down(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let first = Registry::new().reconcile(test.selector(), wanting(&test, "first"));
    let first = test.start(first);
    test.create("one", json!({})).await;
    until(&test, "it is made", |it| it["data"]["a"] == "first").await;
    let second = Registry::new().reconcile(test.selector(), wanting(&test, "second"));
    let second = Operator::new(second)
        .name("second")
        .namespaces([test.cluster.namespace()])
        .settings(Settings::with(|it| it.status.conditions = true));
    let second = Working::start(&test.cluster, second);
    let told = |manager: &str| format!("because \"{manager}.kopf.rs\" changes .data.a each time");
    for manager in ["tester", "second"] {
        test.line(&told(manager)).await;
    }
    // It is the second one that waits: the first one only answers.
    let is_told = |it: &Value| condition(it, "Ready")["reason"] == "ChildConflict";
    test.until("it is told", "one", is_told).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let writes = test.cluster.writes_to("configmaps", "child").await.len();
    assert!(writes <= 30, "{writes} writes in five minutes");
    first.stop().await;
    until(&test, "it is put right", |it| it["data"]["a"] == "second").await;
    let is_well = |it: &Value| condition(it, "Ready")["status"] == "True";
    test.until("it heals", "one", is_well).await;
    second.stop().await;
    for manager in ["tester", "second"] {
        let told = told(manager);
        assert_eq!(test.cluster.lines().count(|line| line.contains(&told)), 1);
    }
}

/// CH45.
async fn an_autoscaler_is_reported_and_may_keep_its_field(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test).owns("deployments")));
    test.create("one", json!({"children": [deployment("web", 2)]})).await;
    test.line("Deployment `web` is created.").await;
    // Two writes of one manager in one second could not be told from an apply under the operator's name.
    let scale = async |replicas: u32, manager: &str| {
        let path = format!(
            "/apis/apps/v1/namespaces/{}/deployments/web/scale?fieldManager={manager}",
            test.cluster.namespace()
        );
        let scale = json!({"spec": {"replicas": replicas}});
        let scaled = test.cluster.request("PATCH", &path, Some(&scale)).await;
        scaled.expect("it is scaled");
    };
    scale(5, "first").await;
    let told = test.line("Deployment `web` was changed by others: .spec.replicas").await;
    assert!(told.contains("by the subresource `scale`, as autoscalers do"), "{told}");
    let mut without = deployment("web", 2);
    without["spec"]["replicas"] = Value::Null;
    let wanted = json!([without, map("seen", &json!({}))]);
    test.patch("one", json!({"spec": {"children": wanted}})).await;
    // The call that has seen this has applied the Deployment first.
    test.cluster.until("it is seen", "configmaps", "seen", |it| it.is_some()).await;
    let left = test.cluster.get("deployments", "web").await;
    let entries = left.expect("it is there")["metadata"]["managedFields"].clone();
    let mut entries = entries.as_array().into_iter().flatten();
    let ours = entries.find(|it| it["manager"] == "tester.kopf.rs");
    let ours = ours.expect("it is applied");
    assert!(ours["fieldsV1"]["f:spec"]["f:replicas"].is_null(), "{ours}");
    // The server notes no manager of a field that nobody has applied. So the operator cannot tell this write from an apply under its own
    // name, and calls the handler once to make sure.
    let before = test.calls.all().len() + 1;
    scale(7, "second").await;
    test.calls.until(before).await;
    // What comes later is seen, and nothing was between.
    test.patch("one", json!({"metadata": {"labels": {"a": "b"}}})).await;
    test.calls.until(before + 1).await;
    let now = test.cluster.get("deployments", "web").await;
    assert_eq!(now.expect("it is there")["spec"]["replicas"], 7);
    working.stop().await;
    assert_eq!(test.calls.all().len(), before + 1);
}
