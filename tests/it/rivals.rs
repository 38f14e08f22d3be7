//! Two operators with one name: the log reports the expected and the found state. A restart or replacement of one operator causes almost no
//! reports.

use kopf_rs::{Callback, Registry, TemporaryError};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, Working, is_handled};

scenarios! {
    two_operators_of_one_name_are_told;
    who_strips_the_finalizer_of_another_is_told [memory];
    an_instance_that_replaces_another_is_no_alarm;
    two_instances_that_stay_are_told [memory];
    what_was_left_by_former_handlers_is_no_alarm [memory];
    what_others_do_to_objects_is_no_alarm [memory];
}

const ALARM: &str = "Another operator keeps its state under this one's name";
const LASTING: &str = "Another instance of this operator has been working";
const GENTLE: &str = "Another instance of this operator may be working";

/// A handler that fails this many times, a second apart.
fn failing(test: &TestOperator, id: &str, times: u32) -> Callback {
    test.handler(id, move |context| async move {
        if context.retry() < times {
            Err(TemporaryError::new("not yet").delay(1))?;
        }
        Ok(Value::Null)
    })
}

fn said(test: &TestOperator, wanted: &str) -> usize {
    test.cluster.lines().count(|line| line.contains(wanted))
}

async fn two_operators_of_one_name_are_told(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let one = Registry::new().on_create(test.selector(), failing(&test, "one_fn", 3));
    let other = Registry::new().on_create(test.selector(), failing(&test, "other_fn", 3));
    let (one, other) = (test.start(one), test.start(other));
    for name in ["a", "b", "c"] {
        test.create(name, json!({})).await;
    }
    for (own, strange) in [("one_fn", "other_fn"), ("other_fn", "one_fn")] {
        let expected = format!(
            "{ALARM}, tester.kopf.rs, on kopfexamples.v1.{}: this operator has not written tester.kopf.rs/{strange} of",
            test.group
        );
        let line = test.line(&expected).await;
        for told in [
            &*format!("and keeps only records of {own}."),
            "a name of its own (`--name`, or `Operator::name`",
        ] {
            assert!(line.contains(told), "{line}");
        }
    }
    for name in ["a", "b", "c"] {
        test.until("it is handled", name, is_handled).await;
    }
    one.stop().await;
    other.stop().await;
    assert_eq!(said(&test, ALARM), 2, "each says it once");
}

async fn who_strips_the_finalizer_of_another_is_told(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let holds = Registry::new().on_delete(test.selector(), test.noting("delete_fn"));
    let strips = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let clock = test.handler("clock_fn", |context| async move {
        match context.retry() {
            0 => Err(TemporaryError::new("ten minutes").delay(600).into()),
            _ => Ok(Value::Null),
        }
    });
    let clock = Registry::new().on_create(test.selector(), clock);
    let clock = test.operator(clock).name("clock");
    let (holds, strips) = (test.start(holds), test.start(strips));
    test.create("a", json!({})).await;
    test.line("the finalizer tester.kopf.rs/finalizer of").await;
    test.line(ALARM).await;
    // The conflict ends soon.
    let clock = Working::start(&test.cluster, clock);
    let ticks = |calls: &[String]| calls.iter().filter(|call| *call == "clock_fn a").count();
    let mut count = 1;
    while ticks(&test.calls.until(count).await) < 2 {
        count += 1;
    }
    let writes = test.writes("a").await;
    assert!(writes < 20, "{writes} writes in ten minutes");
    for operator in [holds, strips, clock] {
        operator.stop().await;
    }
}

async fn an_instance_that_replaces_another_is_no_alarm(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || {
        Registry::new()
            .on_create(test.selector(), failing(&test, "create_fn", 3))
            .on_update(test.selector(), failing(&test, "update_fn", 2))
    };
    let first = test.start(registry());
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
        test.until("it is handled", name, is_handled).await;
    }
    // One after the other, in the middle of retries: no report.
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(9).await;
    first.stop().await;
    let second = test.start(registry());
    let sized = |object: &Value| {
        crate::operating::last_handled(object).is_some_and(|it| it["spec"]["size"] == 1)
    };
    test.until("the update is handled", "a", sized).await;
    assert_eq!(said(&test, "Another "), 0);
    // Both at once, for a short time: at most mild reports.
    let third = test.start(registry());
    test.create("c", json!({})).await;
    test.patch("b", json!({"spec": {"size": 1}})).await;
    test.until("the creation is handled", "c", is_handled).await;
    test.until("the update is handled", "b", sized).await;
    second.stop().await;
    third.stop().await;
    assert_eq!((said(&test, ALARM), said(&test, LASTING)), (0, 0));
    assert!(said(&test, GENTLE) <= 2);
}

async fn two_instances_that_stay_are_told(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    // In virtual time both run at the same moment, so only the message makes their records differ.
    let registry = |who: &'static str| {
        let create = test.handler("create_fn", move |context| async move {
            let delay = 50.0 + f64::from(context.retry());
            Err(TemporaryError::new(format!("never by {who}"))
                .delay(delay)
                .into())
        });
        Registry::new().on_create(test.selector(), create)
    };
    let (one, other) = (test.start(registry("one")), test.start(registry("other")));
    test.create("a", json!({})).await;
    test.line(GENTLE).await;
    assert_eq!(said(&test, LASTING), 0);
    let line = test.line(LASTING).await;
    assert!(line.contains("run only one"), "{line}");
    one.stop().await;
    other.stop().await;
    assert_eq!(said(&test, ALARM), 0);
}

async fn what_was_left_by_former_handlers_is_no_alarm(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let record = r#"{"started":"2026-01-01T00:00:00.000000+00:00","purpose":"create","retries":1,"success":false,"failure":false}"#;
    let object = json!({
        "apiVersion": format!("{}/v1", test.group), "kind": "KopfExample",
        "metadata": {"name": "a", "annotations": {"tester.kopf.rs/renamed_fn": record}}, "spec": {},
    });
    test.cluster.create(&object).await;
    let registry = Registry::new()
        .on_create(test.selector(), failing(&test, "create_fn", 1))
        .on_update(test.selector(), test.noting("update_fn"));
    let working = test.start(registry);
    test.until("it is handled", "a", is_handled).await;
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(3).await;
    working.stop().await;
    let left = test.get("a").await;
    assert_eq!(
        left["metadata"]["annotations"]["tester.kopf.rs/renamed_fn"],
        record
    );
    assert_eq!(said(&test, "Another "), 0);
}

async fn what_others_do_to_objects_is_no_alarm(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_delete(test.selector(), test.noting("delete_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
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
        test.patch("a", change.clone()).await;
        test.calls.until(calls).await;
        // Otherwise the next change could overwrite this one before the operator sees it.
        let whole = |object: &Value| {
            let handled = crate::operating::last_handled(object).unwrap_or_default();
            let is_in = |path| handled.pointer(path) == object.pointer(path);
            let label_and_note = ["/metadata/labels", "/metadata/annotations/example.com~1x"];
            handled.is_object()
                && label_and_note.into_iter().all(is_in)
                && object["metadata"]["finalizers"][0].is_string()
        };
        test.until("it is handled again", "a", whole).await;
    }
    working.stop().await;
    assert_eq!(said(&test, "Another "), 0);
}
