//! Operators whose user may not do everything: the missing rule is told, the rest goes on, and a grant is enough to heal.

use std::time::Duration;

use kopf_rs::{Operator, Registry, Scanning, Settings};
use kopf_rs_tests::{Bed, scenarios};
use serde_json::{Value, json};

use crate::operating::{Field, KIND, NAME, Working, definition, is_handled};

scenarios! {
    a_kind_that_may_not_be_watched_is_told_and_served_once_granted;
    a_rule_that_is_missing_in_many_namespaces_is_told_once;
    a_missing_right_to_patch_is_told_once_and_loses_nothing;
    once_ends_where_nothing_may_be_patched;
    without_namespaces_to_list_the_named_ones_are_served;
    without_definitions_to_list_new_kinds_are_looked_for;
    what_is_not_to_be_scanned_is_not_asked_for;
}

/// A user with a role of its own.
struct User<'a> {
    bed: &'a Bed,
    name: String,
}

impl<'a> User<'a> {
    /// Who may do what `rules` say, everywhere.
    async fn with(bed: &'a Bed, rules: Value) -> Self {
        let user = Self {
            bed,
            name: bed.restricted_user(),
        };
        let role = user.role();
        let metadata = json!({"name": role});
        let api = "rbac.authorization.k8s.io";
        let version = format!("{api}/v1");
        bed.create(&json!({"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": rules}))
            .await;
        bed.create(&json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": api, "kind": "User", "name": user.name}],
        }))
        .await;
        user
    }

    fn role(&self) -> String {
        format!("{}-{}", self.bed.namespace(), self.name)
    }

    /// From now on it may do what `rules` say.
    async fn may(&self, rules: Value) {
        self.bed
            .patch("clusterroles", &self.role(), &json!({"rules": rules}))
            .await;
    }

    async fn start(&self, operator: Operator) -> Working {
        Working::start_as(self.bed.client_of(&self.name).await, operator)
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// What the framework itself looks at.
fn backbone() -> Value {
    rule(
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        &["list", "watch"],
    )
}

fn look(group: &str) -> Value {
    rule(group, &[KIND], &["list", "watch"])
}

/// All that a kind with handlers of changes takes.
fn all(group: &str) -> Value {
    rule(
        group,
        &[KIND, &format!("{KIND}/status")],
        &["list", "watch", "patch"],
    )
}

/// For all namespaces: what others do in theirs is no business of the handlers' group.
fn everywhere(registry: Registry) -> Operator {
    Operator::new(registry).name(NAME)
}

/// Assert that these lines are logged in this order, the first of them so often. Other tasks may log between them.
async fn assert_told(field: &Field, expected: &[String], times: usize) {
    let lines = field.bed.lines();
    let (Some(first), Some(last)) = (expected.first(), expected.last()) else {
        panic!("a line is expected");
    };
    lines.until(last, |line| line.contains(last)).await;
    let all = lines.all();
    let mut left = all.iter();
    for wanted in expected {
        let found = left.any(|line| line.contains(wanted));
        assert!(found, "{wanted:?} of {expected:#?} in\n{}", all.join("\n"));
    }
    assert_eq!(
        lines.count(|line| line.contains(first)),
        times,
        "{first:?} in\n{}",
        all.join("\n")
    );
}

async fn a_kind_that_may_not_be_watched_is_told_and_served_once_granted(bed: Bed) {
    let field = Field::of(bed).await;
    let maps = rule("", &["configmaps"], &["list", "watch"]);
    let user = User::with(&field.bed, json!([backbone(), maps])).await;
    let registry = Registry::new()
        .on_create(field.selector(), field.noting("create_fn"))
        .on_event("configmaps", field.noting("event_fn"));
    let working = user.start(everywhere(registry)).await;
    field.create("a", json!({})).await;
    field.line("Not enough permissions to watch").await;
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "still-served"}});
    field.bed.create(&map).await;
    let served =
        |line: &str| line.contains("'event_fn' succeeded") && line.contains("still-served");
    field.bed.lines().until("of the other kind", served).await;
    let told = [
        format!(
            "Not enough permissions to watch {KIND}.v1.{} cluster-wide: ",
            field.group
        ),
        "To permit it, add in a ClusterRole bound to this operator:".to_owned(),
        format!("  - apiGroups: [\"{}\"]", field.group),
        format!("    resources: [\"{KIND}\"]"),
        "    verbs: [\"list\", \"watch\"]".to_owned(),
    ];
    assert_told(&field, &told, 1).await;
    user.may(json!([backbone(), maps, all(&field.group)])).await;
    field.until("it is handled", "a", is_handled).await;
    working.stop().await;
}

async fn a_rule_that_is_missing_in_many_namespaces_is_told_once(bed: Bed) {
    let field = Field::of(bed).await;
    let namespaces = rule("", &["namespaces"], &["list", "watch"]);
    let user = User::with(&field.bed, json!([backbone(), namespaces])).await;
    let base = field.bed.namespace();
    for end in ["a", "b", "c"] {
        let metadata = json!({"name": format!("{base}-{end}")});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        field.bed.create(&namespace).await;
    }
    let registry = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let working = user
        .start(everywhere(registry).namespaces([format!("{base}-*")]))
        .await;
    let lines = field.bed.lines();
    let missing = format!("Not enough permissions to watch {KIND}.v1.{}", field.group);
    for end in ["a", "b", "c"] {
        let about = format!("{missing} in '{base}-{end}'");
        lines.until(&about, |line| line.contains(&about)).await;
    }
    let loud = lines.count(|line| line.contains("ERROR ") && line.contains(&missing));
    assert_eq!(loud, 1, "{:#?}", lines.all());
    user.may(json!([backbone(), namespaces, all(&field.group)]))
        .await;
    field.line("Requests succeed again: 3 had to wait").await;
    working.stop().await;
}

async fn a_missing_right_to_patch_is_told_once_and_loses_nothing(bed: Bed) {
    let field = Field::of(bed).await;
    let user = User::with(&field.bed, json!([backbone(), look(&field.group)])).await;
    let create = field.handler("create_fn", |_| async { Ok(json!({"made": true})) });
    let registry = Registry::new().on_create(field.selector(), create);
    let working = user.start(everywhere(registry)).await;
    for name in ["a", "b"] {
        field.create(name, json!({})).await;
        let refused = "Patching failed; will retry in";
        let about = format!("\"{name}\" is forbidden");
        let lines = field.bed.lines();
        lines
            .until("of the refusal", |line| {
                line.contains(refused) && line.contains(&about)
            })
            .await;
    }
    let told = [
        "The missing permission, as a rule for RBAC: in a Role in namespace".to_owned(),
        format!("  - apiGroups: [\"{}\"]", field.group),
        format!("    resources: [\"{KIND}/status\"]"),
        "    verbs: [\"patch\"]".to_owned(),
    ];
    assert_told(&field, &told, 1).await;
    user.may(json!([backbone(), all(&field.group)])).await;
    for name in ["a", "b"] {
        let object = field.until("it is handled", name, is_handled).await;
        assert_eq!(object["status"]["create_fn"], json!({"made": true}));
    }
    working.stop().await;
    assert_eq!(field.calls.all(), ["create_fn a", "create_fn b"]);
}

async fn once_ends_where_nothing_may_be_patched(bed: Bed) {
    let field = Field::of(bed).await;
    let user = User::with(&field.bed, json!([backbone(), look(&field.group)])).await;
    for name in ["a", "b"] {
        field.create(name, json!({})).await;
    }
    let registry = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let ended = user.start(everywhere(registry).once()).await.end().await;
    let report = ended.expect("it ends");
    assert_eq!(report.unserved.len(), 2, "{report:?}");
    for (told, name) in report.unserved.iter().zip(["a", "b"]) {
        let kind = format!("{KIND}.v1.{} cannot be written: ", field.group);
        assert!(
            told.starts_with(&kind) && told.contains(&format!("\"{name}\" is forbidden")),
            "{told}"
        );
    }
}

async fn without_namespaces_to_list_the_named_ones_are_served(bed: Bed) {
    let field = Field::of(bed).await;
    let user = User::with(&field.bed, json!([backbone(), all(&field.group)])).await;
    let registry = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let named = everywhere(registry).namespaces([field.bed.namespace(), "elsewhere-*"]);
    let working = user.start(named).await;
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    let told = [format!(
        "Namespaces cannot be listed: only those that are named are served: {}",
        field.bed.namespace()
    )];
    assert_told(&field, &told, 1).await;
    let told = [
        "Not enough permissions to watch namespaces.v1 cluster-wide: ".to_owned(),
        "To permit it, add in a ClusterRole bound to this operator:".to_owned(),
    ];
    assert_told(&field, &told, 1).await;
    working.stop().await;
}

async fn without_definitions_to_list_new_kinds_are_looked_for(bed: Bed) {
    let field = Field::bare(bed);
    let user = User::with(&field.bed, json!([all(&field.group)])).await;
    let registry = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let settings = Settings {
        scanning: Scanning {
            interval: Duration::from_secs(1),
            ..Scanning::default()
        },
        ..Settings::default()
    };
    let working = user.start(everywhere(registry).settings(settings)).await;
    field
        .line("Kinds cannot be watched for: new ones will be looked for every 1 seconds.")
        .await;
    field.serve().await;
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    working.stop().await;
}

async fn what_is_not_to_be_scanned_is_not_asked_for(bed: Bed) {
    let field = Field::of(bed).await;
    let settings = Settings {
        scanning: Scanning {
            disabled: true,
            ..Scanning::default()
        },
        ..Settings::default()
    };
    let later = format!("later.{}", field.group);
    let registry = Registry::new()
        .on_create(field.selector(), field.noting("create_fn"))
        .on_create((later.as_str(), "v1", KIND), field.noting("later_fn"));
    let working = Working::start(&field.bed, field.operator(registry).settings(settings));
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    field.bed.apply(&definition(&later).to_string()).await;
    let object = json!({"apiVersion": format!("{later}/v1"), "kind": "KopfExample", "metadata": {"name": "later"}, "spec": {}});
    field.bed.create(&object).await;
    field.create("b", json!({})).await;
    field.until("it is handled", "b", is_handled).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["create_fn a", "create_fn b"]);
    let scans = ["/customresourcedefinitions", "/v1/namespaces"];
    let by_operators = field.bed.asked().into_iter();
    let by_operators = by_operators.filter(|asked| asked.user_agent != Bed::USER_AGENT);
    // The log of the real server is of all tests at once.
    let ours = by_operators.filter(|_| field.bed.in_process().is_some());
    let scanned = ours.filter(|asked| scans.iter().any(|path| asked.path.ends_with(path)));
    assert_eq!(scanned.count(), 0);
}
