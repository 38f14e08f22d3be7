//! Custom storages that fail: the operator logs it and keeps the state in memory instead.

use kopf_rs::prelude::*;
use kopf_rs::storage::{
    AnnotationsDiffBaseStorage, AnnotationsProgressStorage, DiffBaseStorage, MultiProgressStorage,
    ProgressRecord, ProgressStorage, StorageError,
};
use kopf_rs::{Body, OperatorError, Persistence, Registry, Settings, StartupSettings};
use kopf_rs_tests::{TestCluster, scenarios};

use crate::operating::in_status::InStatus;
use crate::operating::{TestOperator, Working};

scenarios! {
    a_failing_storage_is_reported_and_memory_replaces_it [memory];
    a_panicking_storage_is_reported_and_memory_replaces_it [memory];
    a_storage_that_cannot_purge_is_reported_and_no_handler_is_called_again [memory];
    names_that_no_server_takes_are_refused_at_start [memory];
}

/// Keeps state in the status, and fails as `fails` decides.
#[derive(Clone, Copy)]
struct Storage {
    fails: fn(&str) -> Result<(), StorageError>,
}

impl ProgressStorage for Storage {
    fn fetch(&self, id: &str, body: &Body) -> Result<Option<ProgressRecord>, StorageError> {
        (self.fails)("fetch")?;
        ProgressStorage::fetch(&InStatus, id, body)
    }

    fn store(
        &self,
        id: &str,
        record: &ProgressRecord,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        ProgressStorage::store(&InStatus, id, record, body, patch)?;
        (self.fails)("store")
    }

    fn purge(&self, id: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        (self.fails)("purge")?;
        InStatus.purge(id, body, patch)
    }
}

impl DiffBaseStorage for Storage {
    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError> {
        (self.fails)("fetch")?;
        DiffBaseStorage::fetch(&InStatus, body)
    }

    fn store(&self, essence: &Value, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        DiffBaseStorage::store(&InStatus, essence, body, patch)?;
        (self.fails)("store")
    }
}

/// Plays a creation with two failures, an update, and an event without a change.
async fn live(cluster: TestCluster, fails: fn(&str) -> Result<(), StorageError>) -> TestOperator {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let create = kopf_rs::handler("create_fn", move |context: kopf_rs::Context| {
        calls.note(format!("create {}", context.retry()));
        async move {
            if context.retry() < 2 {
                Err(TemporaryError::new("not yet").delay(1))?;
            }
            Ok(json!({"made": true}))
        }
    });
    let calls = test.calls.clone();
    let update = kopf_rs::handler("update_fn", move |context: kopf_rs::Context| {
        let old = context.old().map(|old| old["spec"]["size"].clone());
        calls.note(format!("update from {}", old.unwrap_or_default()));
        async { Ok(()) }
    });
    let registry = Registry::new().on_create(test.selector(), create).on_update(test.selector(), update);
    let storage = Storage { fails };
    let persistence = Persistence::named("tester").progress(storage).diff_base(storage);
    let settings = Settings::with(|it| it.persistence = Some(persistence));
    let working = Working::start(&test.cluster, test.operator(registry).settings(settings));
    test.create("a", json!({"size": 1})).await;
    test.calls.until(3).await;
    let made = |object: &Value| object["status"]["create_fn"]["made"] == true;
    test.until("the result", "a", made).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.calls.until(4).await;
    test.line("Updating is processed: 1 succeeded; 0 failed.").await;
    test.patch("a", json!({"status": {"by": "others"}})).await;
    test.patch("a", json!({"spec": {"size": 3}})).await;
    test.calls.until(5).await;
    working.stop().await;
    let expected = ["create 0", "create 1", "create 2", "update from 1", "update from 2"];
    assert_eq!(test.calls.all(), expected);
    assert!(test.writes("a").await <= 10, "{}", test.writes("a").await);
    test
}

async fn a_failing_storage_is_reported_and_memory_replaces_it(cluster: TestCluster) {
    let test = live(cluster, |_| Err("no connection".into())).await;
    for line in [
        "the stored progress of 'create_fn' cannot be read (no connection)",
        "the progress of 'create_fn' could not be stored (no connection): it is kept in memory only.",
        "the last-handled configuration cannot be read (no connection): the object is handled as if it were new.",
        "the last-handled configuration could not be stored (no connection): it is kept in memory only.",
    ] {
        test.line(line).await;
        let told = test.cluster.lines().count(|it| it.contains(line) && it.contains("WARN"));
        assert!(told <= 4, "told {told} times in 5 calls of handlers: {line}");
    }
}

async fn a_panicking_storage_is_reported_and_memory_replaces_it(cluster: TestCluster) {
    let test = live(cluster, |what| panic!("no way to {what}")).await;
    test.line("the progress of 'create_fn' could not be stored (the storage panicked: no way to store").await;
    test.line("the stored progress of 'create_fn' cannot be read (the storage panicked: no way to fetch")
        .await;
}

async fn a_storage_that_cannot_purge_is_reported_and_no_handler_is_called_again(cluster: TestCluster) {
    let fails = |what: &str| match what {
        "purge" => Err("stuck".into()),
        _ => Ok(()),
    };
    let test = live(cluster, fails).await;
    test.line("the removal of the progress of 'create_fn' could not be stored (stuck).").await;
    let object = test.get("a").await;
    assert!(object["status"]["progress"]["create_fn"].is_object(), "{object}");
}

async fn names_that_no_server_takes_are_refused_at_start(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let several = MultiProgressStorage::default().and(InStatus).and(AnnotationsProgressStorage::new("My_Op"));
    let kopf = Persistence::kopf;
    for (persistence, bad) in [
        (kopf().finalizer("no slash and spaces"), "finalizer `no slash and spaces`"),
        (kopf().finalizer("UP/finalizer"), "finalizer `UP/finalizer`"),
        (kopf().progress(AnnotationsProgressStorage::new("")), "prefix `` of annotations"),
        (kopf().diff_base(AnnotationsDiffBaseStorage::new("a/b")), "prefix `a/b` of annotations"),
        (kopf().progress(several), "prefix `My_Op` of annotations"),
    ] {
        let settings = Settings::with(|it| it.persistence = Some(persistence.clone()));
        let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
        let given = test.operator(registry.clone()).settings(settings);
        let set = kopf_rs::handler("set", move |context: kopf_rs::Context| {
            let persistence = persistence.clone();
            async move {
                let settings = context.state::<StartupSettings>()?;
                settings.change(|settings| settings.persistence = Some(persistence));
                Ok(())
            }
        });
        let set = test.operator(registry.on_startup(set));
        let expected = format!(
            "the operator cannot keep its state on objects: the {bad} cannot be used: expected a DNS name in lower case"
        );
        for operator in [given, set] {
            let ended = Working::start(&test.cluster, operator).end().await;
            let error = ended.expect_err("it cannot work");
            assert!(matches!(error, OperatorError::Persistence(_)), "{error:?}");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }
}
