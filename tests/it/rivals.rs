//! Two operators of one name: told, with what was expected and found. One operator that is restarted or replaced: hardly a word.

use kopf_rs::{Callback, Registry, TemporaryError};
use kopf_rs_tests::{Bed, scenarios};
use serde_json::{Value, json};

use crate::operating::{Field, Working, is_handled};

scenarios! {
    two_operators_of_one_name_are_told;
    who_strips_the_finalizer_of_another_is_told [memory];
    an_instance_that_replaces_another_is_no_alarm;
    two_instances_that_stay_are_told [memory];
    what_was_left_by_former_handlers_is_no_alarm [memory tcp];
    what_others_do_to_objects_is_no_alarm [memory tcp];
}

const ALARM: &str = "Another operator keeps its state under this one's name";
const LASTING: &str = "Another instance of this operator has been at work";
const GENTLE: &str = "Another instance of this operator may be at work";

/// Fails so many times, a second apart.
fn failing(field: &Field, id: &str, times: u32) -> Callback {
    field.handler(id, move |context| async move {
        if context.retry() < times {
            Err(TemporaryError::new("not yet").delay(1))?;
        }
        Ok(Value::Null)
    })
}

fn said(field: &Field, text: &str) -> usize {
    field.bed.lines().count(|line| line.contains(text))
}

async fn two_operators_of_one_name_are_told(bed: Bed) {
    let field = Field::of(bed).await;
    let one = Registry::new().on_create(field.selector(), failing(&field, "one_fn", 3));
    let other = Registry::new().on_create(field.selector(), failing(&field, "other_fn", 3));
    let (one, other) = (field.start(one), field.start(other));
    for name in ["a", "b", "c"] {
        field.create(name, json!({})).await;
    }
    for (own, strange) in [("one_fn", "other_fn"), ("other_fn", "one_fn")] {
        let expected = format!(
            "{ALARM}, tester.kopf.rs, on kopfexamples.v1.{}: expected were records of {own} only, found is tester.kopf.rs/{strange} of",
            field.group
        );
        let line = field.line(&expected).await;
        assert!(
            line.contains("a name of its own (`--name`, or `Operator::name`"),
            "{line}"
        );
    }
    for name in ["a", "b", "c"] {
        field.until("it is handled", name, is_handled).await;
    }
    one.stop().await;
    other.stop().await;
    assert_eq!(said(&field, ALARM), 2, "each says it once");
}

async fn who_strips_the_finalizer_of_another_is_told(bed: Bed) {
    let field = Field::of(bed).await;
    let holds = Registry::new().on_delete(field.selector(), field.noting("delete_fn"));
    let strips = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let clock = field.handler("clock_fn", |context| async move {
        match context.retry() {
            0 => Err(TemporaryError::new("ten minutes").delay(600).into()),
            _ => Ok(Value::Null),
        }
    });
    let clock = Registry::new().on_create(field.selector(), clock);
    let clock = field.operator(clock).name("clock");
    let (holds, strips) = (field.start(holds), field.start(strips));
    field.create("a", json!({})).await;
    field
        .line("the finalizer tester.kopf.rs/finalizer of")
        .await;
    field.line(ALARM).await;
    // The fight is over before long.
    let clock = Working::start(&field.bed, clock);
    let ticks = |calls: &[String]| calls.iter().filter(|call| *call == "clock_fn a").count();
    let mut count = 1;
    while ticks(&field.calls.until(count).await) < 2 {
        count += 1;
    }
    let writes = field.writes("a").await;
    assert!(writes < 20, "{writes} writes in ten minutes");
    for operator in [holds, strips, clock] {
        operator.stop().await;
    }
}

async fn an_instance_that_replaces_another_is_no_alarm(bed: Bed) {
    let field = Field::of(bed).await;
    let registry = || {
        Registry::new()
            .on_create(field.selector(), failing(&field, "create_fn", 3))
            .on_update(field.selector(), failing(&field, "update_fn", 2))
    };
    let first = field.start(registry());
    for name in ["a", "b"] {
        field.create(name, json!({})).await;
        field.until("it is handled", name, is_handled).await;
    }
    // One after the other, in the middle of retries: not a word.
    field.patch("a", json!({"spec": {"size": 1}})).await;
    field.calls.until(9).await;
    first.stop().await;
    let second = field.start(registry());
    let sized = |object: &Value| {
        crate::operating::last_handled(object).is_some_and(|it| it["spec"]["size"] == 1)
    };
    field.until("the update is handled", "a", sized).await;
    assert_eq!(said(&field, "Another "), 0);
    // Both at once, for a while: a word at most.
    let third = field.start(registry());
    field.create("c", json!({})).await;
    field.patch("b", json!({"spec": {"size": 1}})).await;
    field
        .until("the creation is handled", "c", is_handled)
        .await;
    field.until("the update is handled", "b", sized).await;
    second.stop().await;
    third.stop().await;
    assert_eq!((said(&field, ALARM), said(&field, LASTING)), (0, 0));
    assert!(said(&field, GENTLE) <= 2);
}

async fn two_instances_that_stay_are_told(bed: Bed) {
    let field = Field::of(bed).await;
    // In virtual time both are at work in the very same moment, so that their records would be the same, were it not for the message.
    let registry = |who: &'static str| {
        let create = field.handler("create_fn", move |context| async move {
            let delay = 50.0 + f64::from(context.retry());
            Err(TemporaryError::new(format!("never by {who}"))
                .delay(delay)
                .into())
        });
        Registry::new().on_create(field.selector(), create)
    };
    let (one, other) = (field.start(registry("one")), field.start(registry("other")));
    field.create("a", json!({})).await;
    field.line(GENTLE).await;
    assert_eq!(said(&field, LASTING), 0);
    let line = field.line(LASTING).await;
    assert!(line.contains("run one only"), "{line}");
    one.stop().await;
    other.stop().await;
    assert_eq!(said(&field, ALARM), 0);
}

async fn what_was_left_by_former_handlers_is_no_alarm(bed: Bed) {
    let field = Field::of(bed).await;
    let record = r#"{"started":"2026-01-01T00:00:00.000000+00:00","purpose":"create","retries":1,"success":false,"failure":false}"#;
    let object = json!({
        "apiVersion": format!("{}/v1", field.group), "kind": "KopfExample",
        "metadata": {"name": "a", "annotations": {"tester.kopf.rs/renamed_fn": record}}, "spec": {},
    });
    field.bed.create(&object).await;
    let registry = Registry::new()
        .on_create(field.selector(), failing(&field, "create_fn", 1))
        .on_update(field.selector(), field.noting("update_fn"));
    let working = field.start(registry);
    field.until("it is handled", "a", is_handled).await;
    field.patch("a", json!({"spec": {"size": 1}})).await;
    field.calls.until(3).await;
    working.stop().await;
    let left = field.get("a").await;
    assert_eq!(
        left["metadata"]["annotations"]["tester.kopf.rs/renamed_fn"],
        record
    );
    assert_eq!(said(&field, "Another "), 0);
}

async fn what_others_do_to_objects_is_no_alarm(bed: Bed) {
    let field = Field::of(bed).await;
    let registry = Registry::new()
        .on_create(field.selector(), field.noting("create_fn"))
        .on_delete(field.selector(), field.noting("delete_fn"));
    let working = field.start(registry);
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    for (change, calls) in [
        (json!({"metadata": {"labels": {"x": "1"}}}), 1),
        (
            json!({"metadata": {"annotations": {"example.com/x": "1", "tester.kopf.rs/note": "mine"}}}),
            1,
        ),
        (
            json!({"metadata": {"annotations": {"tester.kopf.rs/last-handled-configuration": "rubbish"}}}),
            2,
        ),
        (
            json!({"metadata": {"annotations": {"tester.kopf.rs/last-handled-configuration": null}}}),
            3,
        ),
        (json!({"metadata": {"annotations": null}}), 4),
        (json!({"metadata": {"finalizers": null}}), 4),
    ] {
        field.patch("a", change.clone()).await;
        field.calls.until(calls).await;
        // Or the next change comes first, and is overwritten before the operator sees it.
        let whole = |object: &Value| {
            let handled = crate::operating::last_handled(object).unwrap_or_default();
            let is_in = |path| handled.pointer(path) == object.pointer(path);
            let label_and_note = ["/metadata/labels", "/metadata/annotations/example.com~1x"];
            handled.is_object()
                && label_and_note.into_iter().all(is_in)
                && object["metadata"]["finalizers"][0].is_string()
        };
        field.until("it is handled again", "a", whole).await;
    }
    working.stop().await;
    assert_eq!(said(&field, "Another "), 0);
}
