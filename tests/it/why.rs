//! Explanations of an object's state by `--why`: from its annotations, its managed fields and the handlers of the program, while no
//! operator runs.

mod running;

use kopf_rs::{
    Explanation, Operator, PRESENT, Persistence, Registry, Settings, TemporaryError, WhyQuestion, handler,
};
use kopf_rs_apiserver::Fault;
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{KIND, TestOperator, is_handled};

scenarios! {
    an_object_that_a_label_excludes_is_explained;
    an_object_that_waits_for_a_retry_is_explained [memory];
    a_change_of_the_status_by_another_is_no_cause;
    a_pause_for_another_operator_is_named [memory];
    a_deletion_that_a_stranger_holds_up_is_not_ours [memory];
    a_change_calls_the_predicted_handlers [memory];
    an_object_that_kopf_has_handled_is_explained [memory];
    unhandled_and_missing_objects_are_explained [memory];
    a_kind_that_must_not_be_read_is_reported [memory];
    a_handler_for_a_version_that_is_not_the_preferred_one_is_found [memory];
    values_of_secrets_are_not_reported [memory];
    an_object_in_a_namespace_that_is_not_served_is_out_of_scope [memory];
}

async fn a_handler_for_a_version_that_is_not_the_preferred_one_is_found(cluster: TestCluster) {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true
        }}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "twins.why.test"},
        "spec": {
            "scope": "Namespaced", "group": "why.test",
            "names": {"kind": "Twin", "plural": "twins", "singular": "twin"},
            "versions": [version("v1", true), version("v2", false)]
        }
    });
    cluster.apply(&definition.to_string()).await;
    let object = json!({"apiVersion": "why.test/v1", "kind": "Twin", "metadata": {"name": "one"}});
    cluster.create(&object).await;
    let called = handler("create_fn", async |_: kopf_rs::Context| Ok(()));
    let registry = Registry::new().on_create(("why.test", "v1", "twins"), called);
    let question = WhyQuestion::parse("twins/one").expect("an object");
    let question = question.namespace(cluster.namespace());
    let explained = Operator::new(registry).name("why").why(cluster.client(), question);
    let explained = explained.await.expect("the operator can be asked");
    assert_eq!(explained.verdict(), "due", "{explained}");
}

async fn values_of_secrets_are_not_reported(cluster: TestCluster) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "stringData": {"password": "hunter2"}});
    cluster.create(&secret).await;
    let called = handler("create_fn", async |_: kopf_rs::Context| Ok(()));
    let called = called.field("data.password").value("eA==");
    let registry = Registry::new().on_create("secrets", called);
    let question = WhyQuestion::parse("secrets/one").expect("an object");
    let question = question.namespace(cluster.namespace());
    let explained = Operator::new(registry).name("why").why(cluster.client(), question);
    let explained = explained.await.expect("the operator can be asked");
    let told = format!("{explained}{}", explained.to_json());
    assert!(told.contains("field data.password"), "{told}");
    // `hunter2` in base64.
    assert!(!told.contains("aHVudGVyMg=="), "{told}");
}

async fn an_object_in_a_namespace_that_is_not_served_is_out_of_scope(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("one", json!({})).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    for (served, verdict) in [("elsewhere", "out-of-scope"), ("*", "due")] {
        let operator = test.operator(registry.clone()).namespaces([served]);
        let explained = why(&test, operator, about(&test, "one")).await;
        assert_eq!(explained.verdict(), verdict, "{explained}");
    }
}

async fn why(test: &TestOperator, operator: Operator, question: WhyQuestion) -> Explanation {
    let question = question.namespace(test.cluster.namespace());
    let explained = operator.why(test.cluster.client(), question).await;
    explained.expect("the operator can be asked")
}

fn about(test: &TestOperator, name: &str) -> WhyQuestion {
    WhyQuestion::parse(&format!("{}/{name}", test.kind())).expect("an object")
}

/// Returns the line about a handler.
fn line<'a>(explained: &'a Value, id: &str) -> &'a Value {
    let mut lines = explained["handlers"].as_array().expect("handlers").iter();
    let line = lines.find(|it| it["handler"] == id);
    line.unwrap_or_else(|| panic!("no line about {id}: {explained:#}"))
}

fn evidence(explained: &Value) -> String {
    explained["evidence"].to_string()
}

async fn an_object_that_a_label_excludes_is_explained(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("one", json!({})).await;
    test.patch("one", json!({"metadata": {"labels": {"team": "b"}}})).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn").label("team", "a"))
        .on_create(test.selector(), test.noting("other_fn").label("absent", PRESENT));
    let explained = why(&test, test.operator(registry), about(&test, "one")).await;
    assert_eq!(explained.verdict(), "excluded", "{explained}");
    assert!(!explained.is_failure());
    let json = explained.to_json();
    let because = "label team: wanted \"a\", seen \"b\"";
    assert_eq!(line(&json, "create_fn")["because"], because);
    let because = "label absent: wanted any value, seen no value";
    assert_eq!(line(&json, "other_fn")["because"], because);
    assert!(explained.to_string().contains("create_fn: excluded; label team"), "{explained}");
    assert_eq!(test.calls.all(), Vec::<String>::new());
    assert_eq!(test.all_writes("one").await, 0, "nothing is written");
}

async fn an_object_that_waits_for_a_retry_is_explained(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || {
        let failing = test.handler("create_fn", |_| async {
            Err(TemporaryError::new("the bank is closed").delay(40).into())
        });
        Registry::new().on_create(test.selector(), failing)
    };
    let working = test.start(registry());
    test.create("one", json!({})).await;
    let is_noted = |object: &Value| object.to_string().contains("the bank is closed");
    test.until("the attempt is noted", "one", is_noted).await;
    working.stop().await;
    let explained = why(&test, test.operator(registry()), about(&test, "one")).await;
    assert_eq!(explained.verdict(), "waiting", "{explained}");
    let json = explained.to_json();
    let line = line(&json, "create_fn");
    assert_eq!((&line["state"], &line["attempts"]), (&json!("waiting"), &json!(1)));
    assert_eq!(line["error"], "the bank is closed");
    assert!(line["due"].is_string(), "{line}");
    let wakes = json["wakes"].as_str().expect("something wakes it");
    assert!(wakes.starts_with("the time, in ") && wakes.contains(" seconds"), "{wakes}");
    assert!(evidence(&json).contains("unknown: --liveness names the running operator to ask"));
}

async fn a_change_of_the_status_by_another_is_no_cause(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || Registry::new().on_update(test.selector(), test.noting("update_fn"));
    let working = test.start(registry());
    test.create("one", json!({})).await;
    test.until("it is handled", "one", is_handled).await;
    working.stop().await;
    test.patch("one", json!({"status": {"ready": true}})).await;
    let explained = why(&test, test.operator(registry()), about(&test, "one")).await;
    assert_eq!(explained.verdict(), "unchanged", "{explained}");
    let told = explained.to_string();
    assert!(told.contains("no relevant field has changed since it was handled; "), "{told}");
    assert!(told.contains(" has written it"), "who has written last is named: {told}");
}

async fn a_pause_for_another_operator_is_named(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kopfpeerings.kopf.dev"},
        "spec": {
            "scope": "Namespaced", "group": "kopf.dev",
            "names": {"kind": "KopfPeering", "plural": "kopfpeerings", "singular": "kopfpeering"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
            }}}]
        }
    });
    test.cluster.apply(&definition.to_string()).await;
    let peering = json!({"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "default"},
        "status": {"alice@laptop": {"priority": 666, "lifetime": 60, "lastseen": "2099-01-01T00:00:00Z"}}});
    test.cluster.create(&peering).await;
    test.create("one", json!({})).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let explained = why(&test, test.operator(registry), about(&test, "one")).await;
    assert_eq!(explained.verdict(), "paused", "{explained}");
    assert!(explained.to_string().contains("alice@laptop"), "{explained}");
}

async fn a_deletion_that_a_stranger_holds_up_is_not_ours(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("one", json!({})).await;
    test.patch("one", json!({"metadata": {"finalizers": ["others.example.com/hold"]}})).await;
    test.delete("one").await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let explained = why(&test, test.operator(registry), about(&test, "one")).await;
    assert_eq!(explained.verdict(), "deleting", "{explained}");
    let told = explained.to_string();
    assert!(told.contains("waits for other controllers, not for this operator"), "{told}");
    assert!(told.contains("`others.example.com/hold`"), "{told}");
    test.patch("one", json!({"metadata": {"finalizers": null}})).await;
}

async fn a_change_calls_the_predicted_handlers(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || {
        let large = |cause: &kopf_rs::Cause| cause.body()["spec"]["size"].as_i64() > Some(5);
        Registry::new()
            .on_update(test.selector(), test.noting("size_fn").field("spec.size"))
            .on_update(test.selector(), test.noting("color_fn").field("spec.color"))
            .on_update(test.selector(), test.noting("large_fn").when(large))
            .on_create(test.selector(), test.noting("create_fn"))
    };
    let working = test.start(registry());
    test.create("one", json!({"size": 1, "color": "red"})).await;
    test.until("it is handled", "one", is_handled).await;
    working.stop().await;
    let before = test.calls.all();
    let question = about(&test, "one").if_changed("spec.size=3").expect("a change");
    let explained = why(&test, test.operator(registry()), question).await;
    let json = explained.to_json();
    assert_eq!(json["verdict"], "unchanged", "the object itself is as it was");
    assert_eq!(json["ifChanged"]["called"], json!(["size_fn/spec.size"]), "{json:#}");
    let reasons: Vec<_> = json["ifChanged"]["notCalled"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| (it["handler"].as_str(), it["because"].as_str()))
        .collect();
    assert_eq!(
        reasons,
        [
            (Some("color_fn/spec.color"), Some("its field spec.color has not changed")),
            (Some("large_fn"), Some("its function `when`: wanted true, seen false")),
            (Some("create_fn"), Some("it is not for update")),
        ]
    );
    assert_eq!(test.calls.all(), before, "no handler is called");
    let working = test.start(registry());
    test.patch("one", json!({"spec": {"size": 3}})).await;
    test.calls_until("size_fn one").await;
    working.stop().await;
    assert_eq!(test.calls.all()[before.len()..], ["size_fn one".to_owned()]);
}

async fn an_object_that_kopf_has_handled_is_explained(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let record = json!({"started": "2026-01-01T00:00:00.000000+00:00", "delayed": "2099-01-01T00:00:00.000000+00:00",
        "purpose": "create", "retries": 3, "success": false, "failure": false, "message": "the bank is closed"});
    test.create("one", json!({})).await;
    let annotations = json!({"kopf.zalando.org/create_fn": record.to_string()});
    test.patch("one", json!({"metadata": {"annotations": annotations}})).await;
    let registry = Registry::new().on_create(test.selector(), handler("create_fn", |_| async { Ok(()) }));
    let settings = Settings::with(|settings| settings.persistence = Some(Persistence::kopf()));
    let operator = test.operator(registry).settings(settings);
    let explained = why(&test, operator, about(&test, "one")).await;
    let json = explained.to_json();
    assert_eq!(line(&json, "create_fn")["attempts"], 3, "{json:#}");
    assert_eq!(line(&json, "create_fn")["error"], "the bank is closed");
    assert!(evidence(&json).contains("in Kopf's format"), "{json:#}");
}

async fn unhandled_and_missing_objects_are_explained(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let operator = || {
        let create = handler("create_fn", |_| async { Ok(()) });
        test.operator(Registry::new().on_create(test.selector(), create))
    };
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    test.cluster.create(&config).await;
    let question = |object: &str| WhyQuestion::parse(object).expect("an object");
    let unhandled = why(&test, operator(), question("configmaps/one")).await;
    assert_eq!((unhandled.verdict(), unhandled.is_failure()), ("unhandled", false));
    let lost = why(&test, operator(), about(&test, "two")).await;
    assert_eq!((lost.verdict(), lost.is_failure()), ("not-found", true));
    let unknown = why(&test, operator(), question("gizmos/one")).await;
    assert_eq!((unknown.verdict(), unknown.is_failure()), ("unknown-kind", true));
    assert!(unknown.to_string().contains("the cluster serves no kind `gizmos`"), "{unknown}");
}

async fn a_kind_that_must_not_be_read_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("one", json!({})).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let _forbidden = server.fault(Fault::answer(403).plural(KIND));
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let explained = why(&test, test.operator(registry), about(&test, "one")).await;
    assert_eq!((explained.verdict(), explained.is_failure()), ("forbidden", true), "{explained}");
    assert!(explained.to_string().contains("it must not be read"), "{explained}");
}
