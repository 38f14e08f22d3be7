//! Kinds that come and go, names that match no kind or several, and namespaces that match or not.

use kopf_rs::{HandlerError, Operator, OperatorError, Registry, handler, register_crd};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{NAME, TestOperator, Working, definition, is_handled};

scenarios! {
    a_kind_that_is_missing_at_the_start_is_served_when_it_comes;
    a_kind_that_is_deleted_and_created_again_is_served_again;
    once_reports_a_missing_kind_and_does_not_wait_for_it;
    an_ambiguous_name_is_reported_until_it_is_unambiguous;
    namespaces_are_served_as_the_patterns_say;
    operators_that_cannot_work_say_why;
    a_kind_registered_in_code_is_served_or_refused;
}

async fn a_kind_that_is_missing_at_the_start_is_served_when_it_comes(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    let line = test.line("Unresolved resources cannot be served (try creating their CRDs): ").await;
    assert!(line.ends_with(&format!("kopfexamples.v1.{}", test.group)), "{line}");
    test.serve().await;
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a"]);
}

async fn a_kind_that_is_deleted_and_created_again_is_served_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    for count in [2, 3] {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        test.cluster.delete(definitions, &test.kind()).await;
        let gone = |crd: Option<&Value>| crd.is_none();
        test.cluster.until("the kind is gone", definitions, &test.kind(), gone).await;
        test.serve().await;
        test.create("a", json!({})).await;
        test.until("it is handled", "a", is_handled).await;
        assert_eq!(test.calls.all().len(), count);
    }
    working.stop().await;
}

async fn once_reports_a_missing_kind_and_does_not_wait_for_it(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("a", json!({})).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_create((&*test.group, "v1", "absents"), test.noting("absent_fn"));
    let before = test.cluster.asked().len();
    let operator = test.operator(registry).once();
    let ended = Working::start(&test.cluster, operator).end().await;
    let report = ended.expect("it ends");
    let missing =
        format!("Unresolved resources cannot be served (try creating their CRDs): absents.v1.{}", test.group);
    assert_eq!(report.unserved, [missing]);
    assert_eq!(test.calls.all(), ["create_fn a"]);
    if test.cluster.in_process().is_some() {
        let asked = test.cluster.asked().split_off(before);
        let discoveries = asked.iter().filter(|asked| asked.path == "/apis").count();
        assert!(discoveries <= 2, "{asked:#?}");
    }
}

async fn an_ambiguous_name_is_reported_until_it_is_unambiguous(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let other = format!("other-{}", test.group);
    let mut crd = crate::operating::definition(&other);
    let (plural, kind) = (format!("kopf{}", test.cluster.namespace().replace('-', "")), "KopfTwin");
    for (group, crd) in [(&test.group, &mut crd.clone()), (&other, &mut crd)] {
        crd["metadata"]["name"] = json!(format!("{plural}.{group}"));
        crd["spec"]["group"] = json!(group);
        crd["spec"]["names"] = json!({"plural": plural, "singular": format!("{plural}x"), "kind": kind});
        test.cluster.apply(&crd.to_string()).await;
    }
    let registry = Registry::new().on_create(plural.as_str(), test.noting("create_fn"));
    let working = test.start(registry);
    test.line("Ambiguous resources will not be served (try specifying API groups): ").await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    test.cluster.delete(definitions, &format!("{plural}.{other}")).await;
    let twin = json!({"apiVersion": format!("{}/v1", test.group), "kind": kind, "metadata": {"name": "a"}});
    test.cluster.create(&twin).await;
    test.calls.until(1).await;
    working.stop().await;
}

async fn namespaces_are_served_as_the_patterns_say(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let base = test.cluster.namespace().to_owned();
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let operator = Operator::new(registry).name(NAME);
    let operator = operator.namespaces([format!("{base}-*"), format!("!{base}-x")]);
    let working = Working::start(&test.cluster, operator);
    let api_version = format!("{}/v1", test.group);
    for namespace in ["x", "a", "b"].map(|end| format!("{base}-{end}")) {
        test.cluster
            .create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .await;
        let name = namespace.trim_start_matches(&base);
        let metadata = json!({"name": format!("in{name}"), "namespace": namespace});
        test.cluster
            .create(&json!({"apiVersion": api_version, "kind": "KopfExample", "metadata": metadata}))
            .await;
    }
    test.create("outside", json!({})).await;
    test.calls.until(2).await;
    working.stop().await;
    let mut calls = test.calls.all();
    calls.sort();
    assert_eq!(calls, ["create_fn in-a", "create_fn in-b"]);
}

async fn operators_that_cannot_work_say_why(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let some = || Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let twice = Registry::new()
        .on_create(test.selector(), handler("create_fn", |_| async { Ok(()) }))
        .on_create(test.selector(), handler("create_fn", |_| async { Ok(()) }));
    let operators = [
        (Operator::new(Registry::new()), "there are no handlers"),
        (Operator::new(some()).namespaces(["Prod"]), "namespace pattern `Prod`: `P` in `Prod` cannot be"),
        (Operator::new(some()).name("my operator"), "the operator's name `my operator` cannot be used"),
        (Operator::new(some()).name("my..operator"), "the operator's name `my..operator` cannot be used"),
        (Operator::new(some()).name("my.-operator"), "expected at most 63 letters, digits, dashes and dots"),
        (Operator::new(some()).name("n".repeat(64)), "expected at most 63 letters"),
        (Operator::new(twice), "create_fn"),
    ];
    for (operator, words) in operators {
        let ended = Working::start(&test.cluster, operator).end().await;
        let error: OperatorError = ended.expect_err("it cannot work");
        assert!(error.to_string().contains(words), "{error}");
    }
}

async fn a_kind_registered_in_code_is_served_or_refused(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    assert_eq!(registered(&test, &definition(&test.group)).await, None);
    test.create("a", json!({})).await;

    // Another definition already has this kind.
    let mut other = definition(&test.group);
    other["metadata"]["name"] = json!(format!("others.{}", test.group));
    other["spec"]["names"] = json!({"plural": "others", "singular": "other", "kind": "KopfExample"});
    let refused = registered(&test, &other).await.unwrap_or_default();
    assert!(refused.starts_with(&format!("others.{} is not accepted: ", test.group)), "{refused}");
    let mut broken = definition(&test.group);
    broken["spec"]["scope"] = json!("Nowhere");
    let refused = registered(&test, &broken).await.unwrap_or_default();
    assert!(refused.contains("is not accepted") && refused.contains("Nowhere"), "{refused}");
}

/// Registers a definition, and returns the permanent error; `None` once it is established.
async fn registered(test: &TestOperator, definition: &Value) -> Option<String> {
    let mut pulse = tokio::time::interval(std::time::Duration::from_millis(20));
    loop {
        pulse.tick().await;
        match register_crd(&test.cluster.client(), definition).await {
            Ok(()) => return None,
            Err(HandlerError::Temporary(_)) => {}
            Err(error) => return Some(error.to_string()),
        }
    }
}
