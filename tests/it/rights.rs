//! Operators with missing permissions: the log names the missing rule, all other work continues, and a grant fixes the problem.

use std::time::Duration;

use kopf_rs::{Operator, Registry, Settings, TemporaryError};
use kopf_rs_apiserver::Fault;
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::least_rights::{Rule, named, user_with_only};
use crate::operating::{
    Gate, KIND, NAME, TestOperator, Working, definition, definition_of_versions, is_handled,
};

scenarios! {
    what_the_account_lacks_is_listed_once_at_the_start;
    a_slow_start_compares_the_namespaces_of_patterns_later [memory];
    an_unwatchable_kind_is_reported_and_served_once_permitted;
    a_rule_that_is_missing_in_many_namespaces_is_reported_once;
    a_missing_permission_to_patch_is_reported_once_and_loses_nothing;
    an_object_that_may_not_be_read_by_itself_is_listed;
    a_daemon_whose_object_may_not_be_read_by_itself_ends_well;
    once_ends_without_permission_to_patch;
    a_namespace_that_does_not_exist_is_reported;
    without_namespaces_to_list_the_named_ones_are_served;
    namespaces_that_are_given_by_name_need_not_be_listed;
    a_handler_for_unwatchable_namespaces_is_reported_with_its_rule;
    an_operator_for_built_in_kinds_needs_no_definitions;
    a_missing_permission_for_finalizers_is_reported_with_its_rule [real];
    new_kinds_are_discovered_by_polling_without_definitions_to_list;
    disabled_scanning_sends_no_discovery_requests;
}

/// A user with a separate role.
struct User<'a> {
    cluster: &'a TestCluster,
    name: String,
}

impl<'a> User<'a> {
    /// Creates a user with these rules in all namespaces.
    async fn with(cluster: &'a TestCluster, rules: Value) -> Self {
        let user = Self { cluster, name: cluster.restricted_user() };
        let role = user.role();
        let metadata = json!({"name": role});
        let api = "rbac.authorization.k8s.io";
        let version = format!("{api}/v1");
        cluster
            .create(
                &json!({"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
            )
            .await;
        cluster
            .create(&json!({
                "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": api, "kind": "User", "name": user.name}],
            }))
            .await;
        user
    }

    fn role(&self) -> String {
        format!("{}-{}", self.cluster.namespace(), self.name)
    }

    /// Replaces the user's rules.
    async fn may(&self, rules: Value) {
        self.cluster.patch("clusterroles", &self.role(), &json!({"rules": rules})).await;
    }

    async fn start(&self, operator: Operator) -> Working {
        Working::start_as(self.cluster.client_of(&self.name).await, operator)
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// Returns the rule for the resources that the framework itself watches.
fn backbone() -> Value {
    rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["list", "watch"])
}

fn look(group: &str) -> Value {
    rule(group, &[KIND], &["list", "watch"])
}

/// Returns the rule for a kind with handlers of changes.
fn all(group: &str) -> Value {
    rule(group, &[KIND, &format!("{KIND}/status")], &["list", "watch", "patch"])
}

/// Returns an operator for all namespaces; the test-specific group excludes the objects of other tests.
fn everywhere(registry: Registry) -> Operator {
    Operator::new(registry).name(NAME)
}

/// Waits until these lines are logged in this order. Other lines may come between them.
async fn until_told(test: &TestOperator, expected: &[String]) {
    let lines = test.cluster.lines();
    let are_told = |_: &str| {
        let all = lines.all();
        let mut left = all.iter();
        expected.iter().all(|wanted| left.any(|line| line.contains(wanted)))
    };
    lines.until(&format!("after {expected:#?}"), are_told).await;
}

/// The same; the first of them is logged this many times.
async fn assert_told(test: &TestOperator, expected: &[String], times: usize) {
    until_told(test, expected).await;
    let lines = test.cluster.lines();
    let first = expected.first().expect("a line is expected");
    assert_eq!(lines.count(|line| line.contains(first)), times, "{first:?} in\n{}", lines.all().join("\n"));
}

/// Asserts that the log has no errors, because missing optional permissions are not errors.
fn assert_no_errors(test: &TestOperator) {
    let errors: Vec<String> = test.cluster.lines().all();
    let errors: Vec<_> = errors.iter().filter(|line| line.contains("ERROR ")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// The operator serves two namespaces. It has a part of the rules in one of them, by name, and none in the other.
async fn what_the_account_lacks_is_listed_once_at_the_start(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let served = [test.cluster.namespace().to_owned(), format!("{}-b", test.cluster.namespace())];
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": served[1]}});
    test.cluster.create(&namespace).await;
    let own = Rule::inside(&served[0], rule("*", &["*/status", KIND], &["*"]));
    let user = user_with_only(&test.cluster, &[Rule::everywhere(backbone()), own]).await;
    let registry =
        Registry::new().on_create(test.selector(), test.noting("create_fn").requires("get secrets"));
    let is_shared = test.cluster.real().is_some();
    let settings = Settings::with(|it| {
        // Other tests install peerings on the shared server. Where the kind does not exist, no permission for it is missing.
        it.peering.standalone = is_shared;
        it.posting.enabled = false;
    });
    let operator = everywhere(registry).namespaces(&served).settings(settings);
    let working = Working::start_as(test.cluster.client_of(&user).await, operator);
    test.line("lacks permissions that this operator needs").await;
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    let lines = test.cluster.lines();
    let all = lines.all().join("\n");
    let begins =
        format!("The user {user} lacks permissions that this operator needs. Add to a Role in namespace ");
    assert!(all.contains(&begins), "{all}");
    let of_kind = |verbs: Value, resource: &str| json!({"apiGroups": [test.group], "resources": [resource], "verbs": verbs});
    let secrets = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]});
    let mut missing = named(lines);
    missing.sort_by_key(Value::to_string);
    let mut expected = vec![
        secrets.clone(),
        secrets,
        of_kind(json!(["get", "list", "watch", "patch"]), KIND),
        of_kind(json!(["patch"]), &format!("{KIND}/status")),
    ];
    expected.sort_by_key(Value::to_string);
    assert_eq!(missing, expected, "{all}");
    assert_eq!(lines.count(|line| line.contains("lacks permissions")), 1);
}

/// Each comparison finds the namespaces that patterns select, also the one during the startup, and the one of a slow start.
async fn a_slow_start_compares_the_namespaces_of_patterns_later(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let namespace = test.cluster.namespace().to_owned();
    let rules = [
        Rule::everywhere(backbone()),
        Rule::everywhere(rule("", &["namespaces"], &["list", "watch"])),
        Rule::inside(&namespace, rule(&test.group, &["*"], &["*"])),
        Rule::inside(&namespace, rule("", &["secrets"], &["get"])),
    ];
    let user = user_with_only(&test.cluster, &rules).await;
    let server = test.cluster.in_process().expect("this server is in the process");
    let _slow = server.fault(Fault::delay(Duration::from_secs(20)).plural("namespaces"));
    let slow = test.handler("startup_fn", |_| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(Value::Null)
    });
    let registry = Registry::new()
        .on_startup(slow.requires("get secrets").requires("list pods"))
        .on_create(test.selector(), test.noting("create_fn").requires("get configmaps"));
    let settings = Settings::with(|it| it.posting.enabled = false);
    let operator = everywhere(registry).namespaces([format!("{namespace}*")]).settings(settings);
    let working = Working::start_as(test.cluster.client_of(&user).await, operator);
    test.line("resources: [\"configmaps\"]").await;
    working.stop().await;
    let lines = test.cluster.lines();
    let at_startup = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]});
    assert_eq!(named(lines), [at_startup], "{}", lines.all().join("\n"));
    assert_eq!(lines.count(|line| line.contains("resources: [\"secrets\"]")), 0);
}

async fn an_unwatchable_kind_is_reported_and_served_once_permitted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let maps = rule("", &["configmaps"], &["list", "watch"]);
    let user = User::with(&test.cluster, json!([backbone(), maps])).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_event("configmaps", test.noting("event_fn"));
    let working = user.start(everywhere(registry)).await;
    test.create("a", json!({})).await;
    test.line("Not enough permissions to watch").await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "still-served"}});
    test.cluster.create(&map).await;
    let served = |line: &str| line.contains("'event_fn' succeeded") && line.contains("still-served");
    test.cluster.lines().until("of the other kind", served).await;
    let told = [
        format!("Not enough permissions to watch {KIND}.v1.{} cluster-wide: ", test.group),
        "To grant them, add to a ClusterRole bound to this operator:".to_owned(),
        format!("  - apiGroups: [\"{}\"]", test.group),
        format!("    resources: [\"{KIND}\"]"),
        "    verbs: [\"list\", \"watch\"]".to_owned(),
    ];
    assert_told(&test, &told, 1).await;
    user.may(json!([backbone(), maps, all(&test.group)])).await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
}

async fn a_rule_that_is_missing_in_many_namespaces_is_reported_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let namespaces = rule("", &["namespaces"], &["list", "watch"]);
    let user = User::with(&test.cluster, json!([backbone(), namespaces])).await;
    let base = test.cluster.namespace();
    for end in ["a", "b", "c"] {
        let metadata = json!({"name": format!("{base}-{end}")});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        test.cluster.create(&namespace).await;
    }
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = user.start(everywhere(registry).namespaces([format!("{base}-*")])).await;
    let lines = test.cluster.lines();
    let missing = format!("Not enough permissions to watch {KIND}.v1.{}", test.group);
    for end in ["a", "b", "c"] {
        let about = format!("{missing} in '{base}-{end}'");
        lines.until(&about, |line| line.contains(&about)).await;
    }
    let loud = lines.count(|line| line.contains("ERROR ") && line.contains(&missing));
    assert_eq!(loud, 1, "{:#?}", lines.all());
    user.may(json!([backbone(), namespaces, all(&test.group)])).await;
    test.line("Requests succeed again: 3 objects had to wait").await;
    working.stop().await;
}

async fn a_missing_permission_to_patch_is_reported_once_and_loses_nothing(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let user = User::with(&test.cluster, json!([backbone(), look(&test.group)])).await;
    let create = test.handler("create_fn", |_| async { Ok(json!({"made": true})) });
    let registry = Registry::new().on_create(test.selector(), create);
    let working = user.start(everywhere(registry)).await;
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
        let refused = "Patching failed; will retry in";
        let about = format!("\"{name}\" is forbidden");
        let lines = test.cluster.lines();
        lines.until("of the refusal", |line| line.contains(refused) && line.contains(&about)).await;
    }
    let told = [
        "A permission is missing. To grant it, add to a Role in namespace".to_owned(),
        format!("  - apiGroups: [\"{}\"]", test.group),
        format!("    resources: [\"{KIND}/status\"]"),
        "    verbs: [\"patch\"]".to_owned(),
    ];
    assert_told(&test, &told, 1).await;
    user.may(json!([backbone(), all(&test.group)])).await;
    for name in ["a", "b"] {
        let object = test.until("it is handled", name, is_handled).await;
        assert_eq!(object["status"]["create_fn"], json!({"made": true}));
    }
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "create_fn b"]);
}

/// Another version takes over while the object waits for its next attempt. The operator must read the object in that version but may not
/// `get` it.
async fn an_object_that_may_not_be_read_by_itself_is_listed(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let versions = |versions: &[(&str, bool, bool)]| definition_of_versions(&test.group, versions);
    let crd = versions(&[("v1", true, true)]);
    test.cluster.apply(&crd.to_string()).await;
    let rules = json!([backbone(), all(&test.group)]);
    let user = User::with(&test.cluster, rules).await;
    let create = test.handler("create_fn", |context| async move {
        if context.retry() == 0 {
            return Err(TemporaryError::new("not yet").delay(30).into());
        }
        Ok(json!({"version": context.body()["apiVersion"]}))
    });
    let registry = Registry::new().on_create(test.kind().as_str(), create);
    let working = user.start(everywhere(registry)).await;
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    let crd = versions(&[("v1", true, true), ("v2", true, false)]);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    test.cluster.patch(definitions, &test.kind(), &crd).await;
    let object = test.until("it is handled", "a", is_handled).await;
    let seen = &object["status"]["create_fn"]["version"];
    assert_eq!(*seen, json!(format!("{}/v2", test.group)));
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "create_fn a"]);
    let unreadable = |line: &str| line.contains("cannot read") || line.contains("A permission is missing");
    assert_eq!(test.cluster.lines().count(unreadable), 0);
}

/// The daemon's object is older than the state that was handled meanwhile.
async fn a_daemon_whose_object_may_not_be_read_by_itself_ends_well(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let user = User::with(&test.cluster, json!([backbone(), all(&test.group)])).await;
    let gate = Gate::closed();
    let daemon = test.waiting("daemon_fn", &gate);
    let registry =
        Registry::new().on_create(test.selector(), test.noting("create_fn")).daemon(test.selector(), daemon);
    let working = user.start(everywhere(registry)).await;
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    test.calls.until(2).await;
    gate.open(1);
    let free = |object: &Value| is_handled(object) && object["metadata"]["finalizers"].is_null();
    test.until("the daemon does not hold it any more", "a", free).await;
    working.stop().await;
    let mut calls = test.calls.all();
    calls.sort_unstable();
    assert_eq!(calls, ["create_fn a", "daemon_fn a"]);
}

async fn once_ends_without_permission_to_patch(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let user = User::with(&test.cluster, json!([backbone(), look(&test.group)])).await;
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
    }
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let ended = user.start(everywhere(registry).once()).await.end().await;
    let report = ended.expect("it ends");
    assert_eq!(report.unserved.len(), 2, "{report:?}");
    for (told, name) in report.unserved.iter().zip(["a", "b"]) {
        let kind = format!("{KIND}.v1.{} cannot be written: ", test.group);
        assert!(told.starts_with(&kind) && told.contains(&format!("\"{name}\" is forbidden")), "{told}");
    }
}

async fn a_namespace_that_does_not_exist_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let absent = format!("{}-absent", test.cluster.namespace());
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let named = everywhere(registry).namespaces([test.cluster.namespace(), &absent, "also-absent-*"]);
    let ended = Working::start_as(test.cluster.client(), named.once()).end().await;
    let told = format!("These namespaces do not exist: {absent} (");
    let [unserved] = &ended.expect("it ends").unserved[..] else { panic!("one line") };
    assert!(unserved.starts_with(&told), "{unserved}");
    assert_told(&test, &[told], 1).await;
}

async fn without_namespaces_to_list_the_named_ones_are_served(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let user = User::with(&test.cluster, json!([backbone(), all(&test.group)])).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let named = everywhere(registry).namespaces([test.cluster.namespace(), "elsewhere-*"]);
    let working = user.start(named).await;
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    let told = [format!(
        "Namespaces cannot be listed: only namespaces given by name are served: {}",
        test.cluster.namespace()
    )];
    assert_told(&test, &told, 1).await;
    let told = [
        "Not enough permissions to watch namespaces.v1 cluster-wide: ".to_owned(),
        "To grant them, add to a ClusterRole bound to this operator:".to_owned(),
    ];
    assert_told(&test, &told, 1).await;
    working.stop().await;
    assert_no_errors(&test);
}

async fn namespaces_that_are_given_by_name_need_not_be_listed(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let user = User::with(&test.cluster, json!([backbone(), all(&test.group)])).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let named = everywhere(registry).namespaces([test.cluster.namespace()]);
    let working = user.start(named).await;
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    test.line("Namespaces cannot be listed, and need not be, since all are given by name: ").await;
    working.stop().await;
    assert_no_errors(&test);
    let lines = test.cluster.lines();
    let warned = lines.count(|line| line.contains("WARN") && line.contains("namespaces"));
    assert_eq!(warned, 0, "{}", lines.all().join("\n"));
}

/// P4: the operator itself can work without namespaces, but handlers of namespaces cannot.
async fn a_handler_for_unwatchable_namespaces_is_reported_with_its_rule(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let user = User::with(&test.cluster, json!([backbone(), all(&test.group)])).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_event(("v1", "namespaces"), test.noting("namespace_fn"));
    let named = everywhere(registry).namespaces([test.cluster.namespace()]);
    let working = user.start(named).await;
    let lines = test.cluster.lines();
    let is_told = |line: &str| {
        let loud = line.contains("ERROR") || line.contains("WARN");
        loud && line.contains("Not enough permissions to watch namespaces.v1 cluster-wide: ")
    };
    lines.until("the missing right", is_told).await;
    for part in ["To grant them, add to a ClusterRole bound to this operator:", "resources: [\"namespaces\"]"]
    {
        lines.until(part, |line| line.contains(part)).await;
    }
    working.stop().await;
    // P6: no object has waited for that permission.
    let waited = lines.count(|line| line.contains("had to wait"));
    assert_eq!(waited, 0, "{}", lines.all().join("\n"));
}

/// P6: the operator handles no custom resources.
async fn an_operator_for_built_in_kinds_needs_no_definitions(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let maps = rule("", &["configmaps"], &["get", "list", "watch", "patch"]);
    let user = User::with(&test.cluster, json!([maps])).await;
    let registry = Registry::new().on_create("configmaps", test.noting("create_fn"));
    let working = user.start(everywhere(registry)).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    test.cluster.create(&map).await;
    test.cluster
        .until("it is handled", "configmaps", "a", |found: Option<&Value>| found.is_some_and(is_handled))
        .await;
    working.stop().await;
    let lines = test.cluster.lines();
    let is_advice = |line: &str| {
        let loud = line.contains("ERROR") || line.contains("WARN") || line.contains("INFO");
        loud && line.to_lowercase().contains("customresourcedefinitions")
    };
    assert_eq!(lines.count(is_advice), 0, "{}", lines.all().join("\n"));
}

/// CH19: on clusters that restrict `blockOwnerDeletion`.
async fn a_missing_permission_for_finalizers_is_reported_with_its_rule(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let maps = rule("", &["configmaps"], &["get", "list", "watch", "create", "patch", "delete"]);
    let finalizers = rule(&test.group, &[&format!("{KIND}/finalizers")], &["update"]);
    let granted = [backbone(), all(&test.group), maps];
    let user = User::with(&test.cluster, json!(granted)).await;
    let keeping = test.handler("keep", |context| async move {
        let child = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child"}});
        let applied = context.children()?.apply(&child).await;
        applied.map_err(|error| TemporaryError::new(error.to_string()).delay(1))?;
        Ok(Value::Null)
    });
    let registry = Registry::new().reconcile(test.selector(), keeping.owns("configmaps"));
    let working = user.start(everywhere(registry)).await;
    test.create("a", json!({})).await;
    let told = [
        "cannot set blockOwnerDeletion".to_owned(),
        "To grant it, add to a Role in namespace ".to_owned(),
        format!("apiGroups: [\"{}\"]", test.group),
        format!("resources: [\"{KIND}/finalizers\"]"),
        "verbs: [\"update\"]".to_owned(),
    ];
    until_told(&test, &told).await;
    let healed = [&granted[..], &[finalizers]].concat();
    user.may(json!(healed)).await;
    let is_there = |object: Option<&Value>| object.is_some();
    test.cluster.until("it is made", "configmaps", "child", is_there).await;
    working.stop().await;
}

async fn new_kinds_are_discovered_by_polling_without_definitions_to_list(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let user = User::with(&test.cluster, json!([all(&test.group)])).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let settings = Settings::with(|it| it.scanning.interval = Duration::from_secs(1));
    let working = user.start(everywhere(registry).settings(settings)).await;
    test.line(
        "CustomResourceDefinitions cannot be watched: the operator looks for new kinds every 1 seconds.",
    )
    .await;
    test.serve().await;
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_no_errors(&test);
}

async fn disabled_scanning_sends_no_discovery_requests(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let settings = Settings::with(|it| it.scanning.disabled = true);
    let later = format!("later.{}", test.group);
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_create((later.as_str(), "v1", KIND), test.noting("later_fn"));
    let working = Working::start(&test.cluster, test.operator(registry).settings(settings));
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    test.cluster.apply(&definition(&later).to_string()).await;
    let object = json!({"apiVersion": format!("{later}/v1"), "kind": "KopfExample", "metadata": {"name": "later"}, "spec": {}});
    test.cluster.create(&object).await;
    test.create("b", json!({})).await;
    test.until("it is handled", "b", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "create_fn b"]);
    let scans = ["/customresourcedefinitions", "/v1/namespaces"];
    let by_operators = test.cluster.asked().into_iter();
    let by_operators = by_operators.filter(|asked| asked.user_agent != TestCluster::USER_AGENT);
    // The log of the real server contains the requests of all tests.
    let ours = by_operators.filter(|_| test.cluster.in_process().is_some());
    let scanned = ours.filter(|asked| scans.iter().any(|path| asked.path.ends_with(path)));
    assert_eq!(scanned.count(), 0);
}
