//! Kinds that come and go, names that mean nothing or too much, and namespaces that match or do not.

use kopf_rs::{Operator, OperatorError, Registry, handler};
use kopf_rs_tests::{Bed, scenarios};
use serde_json::{Value, json};

use crate::operating::{Field, NAME, Working, is_handled};

scenarios! {
    a_kind_that_is_missing_at_the_start_is_served_when_it_comes;
    a_kind_that_is_deleted_and_created_again_is_served_again;
    once_tells_a_missing_kind_and_does_not_wait_for_it;
    an_ambiguous_name_is_told_and_heals;
    namespaces_are_served_as_the_patterns_say;
    operators_that_cannot_work_say_why;
}

async fn a_kind_that_is_missing_at_the_start_is_served_when_it_comes(bed: Bed) {
    let field = Field::bare(bed);
    let registry = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let working = field.start(registry);
    let line = field
        .line("Unresolved resources cannot be served (try creating their CRDs): ")
        .await;
    assert!(
        line.ends_with(&format!("kopfexamples.v1.{}", field.group)),
        "{line}"
    );
    field.serve().await;
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["create_fn a"]);
}

async fn a_kind_that_is_deleted_and_created_again_is_served_again(bed: Bed) {
    let field = Field::of(bed).await;
    let registry = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let working = field.start(registry);
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    for count in [2, 3] {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        field.bed.delete(definitions, &field.kind()).await;
        let gone = |crd: Option<&Value>| crd.is_none();
        field
            .bed
            .until("the kind is gone", definitions, &field.kind(), gone)
            .await;
        field.serve().await;
        field.create("a", json!({})).await;
        field.until("it is handled", "a", is_handled).await;
        assert_eq!(field.calls.all().len(), count);
    }
    working.stop().await;
}

async fn once_tells_a_missing_kind_and_does_not_wait_for_it(bed: Bed) {
    let field = Field::of(bed).await;
    field.create("a", json!({})).await;
    let registry = Registry::new()
        .on_create(field.selector(), field.noting("create_fn"))
        .on_create((&*field.group, "v1", "absents"), field.noting("absent_fn"));
    let before = field.bed.asked().len();
    let operator = field.operator(registry).once();
    let ended = Working::start(&field.bed, operator).end().await;
    let report = ended.expect("it ends");
    let missing = format!(
        "Unresolved resources cannot be served (try creating their CRDs): absents.v1.{}",
        field.group
    );
    assert_eq!(report.unserved, [missing]);
    assert_eq!(field.calls.all(), ["create_fn a"]);
    if field.bed.in_process().is_some() {
        let asked = field.bed.asked().split_off(before);
        let discoveries = asked.iter().filter(|asked| asked.path == "/apis").count();
        assert!(discoveries <= 2, "{asked:#?}");
    }
}

async fn an_ambiguous_name_is_told_and_heals(bed: Bed) {
    let field = Field::of(bed).await;
    let other = format!("other-{}", field.group);
    let mut crd = crate::operating::definition(&other);
    let (plural, kind) = (
        format!("kopf{}", field.bed.namespace().replace('-', "")),
        "KopfTwin",
    );
    for (group, crd) in [(&field.group, &mut crd.clone()), (&other, &mut crd)] {
        crd["metadata"]["name"] = json!(format!("{plural}.{group}"));
        crd["spec"]["group"] = json!(group);
        crd["spec"]["names"] =
            json!({"plural": plural, "singular": format!("{plural}x"), "kind": kind});
        field.bed.apply(&crd.to_string()).await;
    }
    let registry = Registry::new().on_create(plural.as_str(), field.noting("create_fn"));
    let working = field.start(registry);
    field
        .line("Ambiguous resources will not be served (try specifying API groups): ")
        .await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    field
        .bed
        .delete(definitions, &format!("{plural}.{other}"))
        .await;
    let twin = json!({"apiVersion": format!("{}/v1", field.group), "kind": kind, "metadata": {"name": "a"}});
    field.bed.create(&twin).await;
    field.calls.until(1).await;
    working.stop().await;
}

async fn namespaces_are_served_as_the_patterns_say(bed: Bed) {
    let field = Field::of(bed).await;
    let base = field.bed.namespace().to_owned();
    let registry = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let operator = Operator::new(registry).name(NAME);
    let operator = operator.namespaces([format!("{base}-*"), format!("!{base}-x")]);
    let working = Working::start(&field.bed, operator);
    let api_version = format!("{}/v1", field.group);
    for namespace in ["x", "a", "b"].map(|end| format!("{base}-{end}")) {
        field
            .bed
            .create(
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            )
            .await;
        let name = namespace.trim_start_matches(&base);
        let metadata = json!({"name": format!("in{name}"), "namespace": namespace});
        field
            .bed
            .create(
                &json!({"apiVersion": api_version, "kind": "KopfExample", "metadata": metadata}),
            )
            .await;
    }
    field.create("outside", json!({})).await;
    field.calls.until(2).await;
    working.stop().await;
    let mut calls = field.calls.all();
    calls.sort();
    assert_eq!(calls, ["create_fn in-a", "create_fn in-b"]);
}

async fn operators_that_cannot_work_say_why(bed: Bed) {
    let field = Field::of(bed).await;
    let some = || Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let twice = Registry::new()
        .on_create(field.selector(), handler("create_fn", |_| async { Ok(()) }))
        .on_create(field.selector(), handler("create_fn", |_| async { Ok(()) }));
    let operators = [
        (Operator::new(Registry::new()), "there are no handlers"),
        (
            Operator::new(some()).namespaces(["Prod"]),
            "namespace pattern `Prod`: `P` in `Prod` cannot be",
        ),
        (
            Operator::new(some()).name("my operator"),
            "the operator's name `my operator` cannot be used",
        ),
        (
            Operator::new(some()).name("my..operator"),
            "the operator's name `my..operator` cannot be used",
        ),
        (
            Operator::new(some()).name("my.-operator"),
            "expected at most 63 letters, digits, dashes and dots",
        ),
        (
            Operator::new(some()).name("n".repeat(64)),
            "expected at most 63 letters",
        ),
        (Operator::new(twice), "create_fn"),
    ];
    for (operator, words) in operators {
        let ended = Working::start(&field.bed, operator).end().await;
        let error: OperatorError = ended.expect_err("it cannot work");
        assert!(error.to_string().contains(words), "{error}");
    }
}
