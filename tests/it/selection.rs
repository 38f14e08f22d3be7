//! Watches on a subset of objects: by selectors in the settings, and by filters that all handlers share. An object that leaves the subset
//! does not count as deleted.

mod absences;

use kopf_rs::{Callback, Context, EventType, OperatorError, PRESENT, Registry, Settings, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, Working, is_handled};

scenarios! {
    only_selected_objects_are_handled;
    an_object_that_leaves_its_selector_is_released_and_not_deleted [memory];
    a_daemon_stops_when_its_object_leaves_the_selector [memory];
    filters_of_raw_event_handlers_are_sent_to_the_server [memory];
    filters_of_other_handlers_are_not_sent [memory];
    a_function_selects_resources [memory];
    a_function_of_the_settings_that_panics_lets_no_object_be_handled [memory];
    an_invalid_selector_is_reported_at_the_start [memory];
}

/// Starts an operator that watches only objects with `app=web`.
fn start(test: &TestOperator, registry: Registry) -> Working {
    let settings = Settings::with(|settings| {
        let selectors = &mut settings.watching.label_selectors;
        selectors.insert(test.selector(), "app=web");
    });
    Working::start(&test.cluster, test.operator(registry).settings(settings))
}

async fn create(test: &TestOperator, name: &str, app: &str) {
    let object = json!({
        "apiVersion": format!("{}/v1", test.group), "kind": "KopfExample",
        "metadata": {"name": name, "labels": {"app": app}},
    });
    test.cluster.create(&object).await;
}

fn label(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}})
}

/// A raw-event handler that records its events.
fn watching(test: &TestOperator) -> Callback {
    let calls = test.calls.clone();
    handler("watch", move |context: Context| {
        let event = context.event_type().and_then(EventType::as_str);
        calls.note(format!("{} {}", context.name(), event.unwrap_or("LISTED")));
        async { Ok(()) }
    })
}

async fn only_selected_objects_are_handled(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    create(&test, "before-web", "web").await;
    create(&test, "before-db", "db").await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create"));
    let working = start(&test, registry);
    test.until("it is handled", "before-web", is_handled).await;
    create(&test, "after-db", "db").await;
    create(&test, "after-web", "web").await;
    test.until("it is handled", "after-web", is_handled).await;
    // An object that gets the label later becomes visible then.
    test.patch("after-db", label("web")).await;
    test.until("it is handled", "after-db", is_handled).await;
    working.stop().await;
    let calls = test.calls.all();
    assert_eq!(calls, ["create before-web", "create after-web", "create after-db"]);
    assert!(!is_handled(&test.get("before-db").await));
}

async fn an_object_that_leaves_its_selector_is_released_and_not_deleted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create"))
        .on_update(test.selector(), test.noting("update"))
        .on_delete(test.selector(), test.noting("delete"))
        .on_event(test.selector(), watching(&test));
    let working = start(&test, registry);
    let is_held = |object: &Value| {
        let finalizers = &object["metadata"]["finalizers"];
        finalizers.as_array().is_some_and(|all| !all.is_empty())
    };
    for name in ["leaves", "stays"] {
        create(&test, name, "web").await;
        test.until("it is handled", name, |it| is_handled(it) && is_held(it)).await;
    }
    test.patch("leaves", label("db")).await;
    test.until("it is released", "leaves", |it| !is_held(it)).await;
    test.delete("leaves").await;
    test.until_gone("leaves").await;
    test.delete("stays").await;
    test.until_gone("stays").await;
    test.calls_until("stays DELETED").await;
    working.stop().await;
    let calls = test.calls.all();
    let deleted: Vec<_> = calls.iter().filter(|it| it.to_lowercase().contains("delete")).collect();
    assert_eq!(deleted, ["delete stays", "stays DELETED"], "{calls:?}");
    assert!(!calls.contains(&"update leaves".to_owned()), "{calls:?}");
}

async fn a_daemon_stops_when_its_object_leaves_the_selector(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let daemon = handler("daemon", move |context: Context| {
        let calls = calls.clone();
        async move {
            calls.note(format!("{} begins", context.name()));
            let reason = context.stopped().expect("a daemon has one").wait().await;
            calls.note(format!("{} ends: {reason}", context.name()));
            Ok(())
        }
    });
    let working = start(&test, Registry::new().daemon(test.selector(), daemon));
    create(&test, "a", "web").await;
    test.calls_until("a begins").await;
    test.patch("a", label("db")).await;
    test.calls_until("a ends: FILTERS_MISMATCH").await;
    let released = |it: &Value| it["metadata"]["finalizers"].is_null();
    test.until("it is released", "a", released).await;
    // The object returns, and so does its daemon.
    test.patch("a", label("web")).await;
    test.calls.until(3).await;
    working.stop().await;
}

async fn filters_of_raw_event_handlers_are_sent_to_the_server(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    create(&test, "db", "db").await;
    let both = watching(&test).label("app", "web");
    let other = test.noting("other").label("app", "web").label("tier", PRESENT);
    let registry = Registry::new().on_event(test.selector(), both).on_event(test.selector(), other);
    let working = test.start(registry);
    create(&test, "web", "web").await;
    // As LISTED or ADDED, because over TCP the watch may start after the creation.
    test.calls.until(1).await;
    test.patch("web", label("db")).await;
    create(&test, "later", "web").await;
    test.calls_until("later ADDED").await;
    test.delete("later").await;
    test.calls_until("later DELETED").await;
    working.stop().await;
    let calls = test.calls.all();
    assert!(calls[0].starts_with("web "), "{calls:?}");
    assert_eq!(calls[1..], ["later ADDED", "later DELETED"]);
    let asked = selectors_asked(&test);
    assert!(!asked.is_empty() && asked.iter().all(|it| it == "app=web"), "{asked:?}");
}

/// Returns the label selectors of all lists and watches of the kind.
fn selectors_asked(test: &TestOperator) -> Vec<String> {
    let journal = test.cluster.journal().expect("a server in the process");
    let entries = journal.entries().into_iter().filter(|entry| {
        let is_own = entry.user_agent.as_deref() == Some(TestCluster::USER_AGENT);
        entry.group == test.group && entry.method == "GET" && entry.name.is_none() && !is_own
    });
    let selector = |query: Vec<(String, String)>| {
        let found = query.into_iter().find(|(name, _)| name == "labelSelector");
        found.map(|(_, selector)| selector).unwrap_or_default()
    };
    entries.map(|entry| selector(entry.query)).collect()
}

async fn filters_of_other_handlers_are_not_sent(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_event(test.selector(), watching(&test).label("app", "web"))
        .on_create(test.selector(), test.noting("create").label("app", "web"));
    let working = test.start(registry);
    create(&test, "web", "web").await;
    test.until("it is handled", "web", is_handled).await;
    working.stop().await;
    assert!(selectors_asked(&test).iter().all(String::is_empty));
}

async fn a_function_selects_resources(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let group = test.group.clone();
    let selector = kopf_rs::Selector::matching(move |resource| resource.group == group);
    let working = test.start(Registry::new().on_create(selector, test.noting("create")));
    create(&test, "a", "web").await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create a"]);
}

/// The selector may exist to leave objects to another operator.
async fn a_function_of_the_settings_that_panics_lets_no_object_be_handled(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let group = test.group.clone();
    let selector = kopf_rs::Selector::matching(move |resource| {
        assert_ne!(resource.group, group, "this is a mistake");
        false
    });
    let settings = Settings::with(|settings| {
        let selectors = &mut settings.watching.label_selectors;
        selectors.insert(selector, "app=web");
    });
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create"))
        .on_event("configmaps", test.noting("event"));
    let operator = test.operator(registry).settings(settings);
    let working = Working::start(&test.cluster, operator);
    test.line("A function in `settings.watching` has failed").await;
    create(&test, "db", "db").await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}});
    test.cluster.create(&map).await;
    test.calls_until("event map").await;
    working.stop().await;
    assert!(!test.calls.all().contains(&"create db".to_owned()));
}

async fn an_invalid_selector_is_reported_at_the_start(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let settings = Settings::with(|settings| {
        settings.watching.label_selectors.insert("pods", "app in web");
    });
    let registry = Registry::new().on_create(test.selector(), test.noting("create"));
    let operator = test.operator(registry).settings(settings);
    let ended = Working::start(&test.cluster, operator).end().await;
    let Err(OperatorError::Settings(error)) = ended else { panic!("{ended:?}") };
    assert_eq!(
        error.to_string(),
        "`watching.label_selectors` for pods: \"app in web\" cannot be understood: `app in web` is not the name of a label, such as `app` or `example.com/app`"
    );
}
