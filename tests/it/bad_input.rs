//! Faults in the environment of an operator: each is logged once, no object is lost, and no write is repeated forever.

mod storages;
mod things;

use std::time::Duration;

use kopf_rs::{Persistence, Registry, Settings, TemporaryError};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, Working};

scenarios! {
    damaged_annotations_are_reported_and_repaired;
    damaged_annotations_of_kopf_are_reported_and_repaired [memory];
    times_beyond_the_clock_never_come [memory];
}

/// The storage format of an operator.
#[derive(Clone, Copy)]
enum Mode {
    Ours,
    Kopfs,
}

impl Mode {
    fn key(self, name: &str) -> String {
        let prefix = match self {
            Self::Ours => "tester.kopf.rs",
            Self::Kopfs => "kopf.zalando.org",
        };
        format!("{prefix}/{name}")
    }

    fn settings(self) -> Settings {
        let persistence = match self {
            Self::Ours => None,
            Self::Kopfs => Some(Persistence::kopf()),
        };
        Settings::with(|it| it.persistence = persistence)
    }

    /// Returns whether all of `spec` was handled and no work is left.
    fn has_handled(self, object: &Value) -> bool {
        let annotations = &object["metadata"]["annotations"];
        let text = annotations[self.key("last-handled-configuration")].as_str();
        let last: Value = serde_json::from_str(text.unwrap_or("{}")).unwrap_or_default();
        last["spec"] == object["spec"] && annotations[self.key("create_fn")].is_null()
    }
}

/// Damaged annotation values, as people and programs leave them.
const DAMAGE: [&str; 7] = [
    "",
    "{",
    "null",
    "[]",
    "gz:AAAA",
    r#"{"spec":{"size":1},"met"#,
    r#"{"started":"yesterday","retries":-1}"#,
];

async fn damaged_annotations_are_reported_and_repaired(cluster: TestCluster) {
    repair(cluster, Mode::Ours).await;
}

async fn damaged_annotations_of_kopf_are_reported_and_repaired(cluster: TestCluster) {
    repair(cluster, Mode::Kopfs).await;
}

async fn repair(cluster: TestCluster, mode: Mode) {
    let test = TestOperator::of(cluster).await;
    // Each damaged annotation is an event that makes the operator look at the object again, and the retry is due by then.
    let create = test.handler("create_fn", |context| async move {
        if context.retry() < 1 {
            Err(TemporaryError::new("not yet").delay(3))?;
        }
        Ok(Value::Null)
    });
    let registry = Registry::new()
        .on_create(test.selector(), create)
        .on_update(test.selector(), test.noting("update_fn"));
    let operator = test.operator(registry).settings(mode.settings());
    let working = Working::start(&test.cluster, operator);
    for (number, damage) in DAMAGE.into_iter().enumerate() {
        let name = format!("object-{number}");
        test.create(&name, json!({"size": 1})).await;
        let record = mode.key("create_fn");
        let tried = |object: &Value| object["metadata"]["annotations"][&record].is_string();
        test.until("an attempt is on record", &name, tried).await;
        let last = mode.key("last-handled-configuration");
        let damaged = json!({"metadata": {"annotations": {&record: damage, last: damage}}});
        test.patch(&name, damaged).await;
        let done = |object: &Value| mode.has_handled(object);
        test.until("it is handled", &name, done).await;
        let told = |line: &str| line.contains("cannot be read (") && line.contains(&name);
        let lines = test.cluster.lines();
        lines.until("of the damage", told).await;
        let updates = test.calls.all().iter().filter(|it| it.starts_with("update_fn")).count();
        test.patch(&name, json!({"spec": {"size": 2}})).await;
        test.until("the update is handled", &name, |object| object["spec"]["size"] == 2 && done(object))
            .await;
        let after = test.calls.all().iter().filter(|it| it.starts_with("update_fn")).count();
        assert_eq!(after, updates + 1, "{damage:?}");
        assert!(test.writes(&name).await < 10, "{damage:?}");
    }
    working.stop().await;
}

/// Users write such values to mean "never".
async fn times_beyond_the_clock_never_come(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let settings = Settings::with(|it| {
        it.watching.inactivity_timeout = Duration::MAX;
        it.watching.server_timeout = Duration::MAX;
        it.scanning.interval = Duration::MAX;
        it.networking.request_timeout = Duration::MAX;
        it.queueing.exit_timeout = Duration::MAX;
    });
    let operator = test.operator(registry).settings(settings);
    let working = Working::start(&test.cluster, operator);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    // Long enough for the watch to check its idle time.
    tokio::time::sleep(Duration::from_secs(100)).await;
    test.create("b", json!({})).await;
    test.calls.until(2).await;
    working.stop().await;
}
