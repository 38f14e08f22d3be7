//! Kubernetes Events: those that handlers post about their objects, and log lines that become Events if the settings demand it.

use kopf_rs::{
    Context, EventKind, Events, HandlerResult, Operator, Owner, PermanentError, PostingLevel, Registry,
    Settings, TemporaryError, adopt, info, warn,
};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{KIND, NAME, TestOperator, Working, is_handled};

scenarios! {
    handlers_post_events_about_their_objects;
    an_event_may_be_about_another_object_but_not_about_an_event;
    long_messages_are_cut_in_the_middle;
    the_same_event_is_counted_and_too_many_different_ones_are_left_out [memory];
    no_event_is_posted_unless_requested [memory];
    log_lines_are_posted_where_that_is_asked_for [memory];
    a_level_omits_less_important_events [memory];
    retries_are_one_event_that_counts;
    repeated_events_of_a_timer_are_one_series [memory];
    a_missing_permission_to_post_is_reported_once_and_fails_no_handler;
}

const EVENTS: &str = "events.events.k8s.io";

fn start_with(test: &TestOperator, registry: Registry, set: impl FnOnce(&mut Settings)) -> Working {
    let mut settings = Settings::default();
    set(&mut settings);
    Working::start(&test.cluster, test.operator(registry).settings(settings))
}

/// Handles one object and stops the operator, so that all its Events are posted.
async fn handle_one(test: &TestOperator, working: Working) -> Value {
    let object = test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    object
}

/// Returns all Events in the cluster's namespace: type, reason and note.
async fn posted(test: &TestOperator) -> Vec<[String; 3]> {
    let owned = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let said = |event: &Value| [&event["type"], &event["reason"], &event["note"]].map(owned);
    let mut all: Vec<_> = test.cluster.list(EVENTS).await.iter().map(said).collect();
    all.sort();
    all
}

fn said(all: &[[&str; 3]]) -> Vec<[String; 3]> {
    let mut all: Vec<_> = all.iter().map(|it| it.map(str::to_owned)).collect();
    all.sort();
    all
}

/// An annotated function gets the poster of Events as an argument.
#[kopf_rs::subhandler]
async fn say(events: Events, handler: Owner) -> HandlerResult {
    let mut child = json!({});
    handler.strict().harmonize_naming(&mut child)?;
    events.normal("Said", format!("for {}", child["metadata"]["name"]));
    std::future::ready(Ok(())).await
}

async fn say_all(context: Context) -> HandlerResult<Value> {
    let events = context.events()?;
    events.normal("Made", "all is there");
    events.warning("Odd", "something is odd");
    events.exception("Broken", &PermanentError::new("it is broken"));
    events.event(EventKind::Normal, "Told", "whatever the level is");
    Ok(Value::Null)
}

async fn handlers_post_events_about_their_objects(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        context.subhandlers()?.add(say::id("say"));
        say_all(context).await
    });
    let registry = Registry::new().on_create(test.selector(), create);
    let object = handle_one(&test, test.start(registry)).await;
    let expected = [
        ["Normal", "Made", "all is there"],
        ["Warning", "Odd", "something is odd"],
        ["Warning", "Broken", "it is broken"],
        ["Normal", "Told", "whatever the level is"],
        ["Normal", "Said", "for \"a\""],
    ];
    assert_eq!(posted(&test).await, said(&expected));
    let events = test.cluster.list(EVENTS).await;
    let event = events.iter().find(|it| it["reason"] == "Made");
    let event = event.expect("it is posted");
    let metadata = &object["metadata"];
    assert_eq!(event["reportingController"], "tester");
    assert_eq!(event["action"], "create_fn");
    let name = event["metadata"]["name"].as_str().unwrap_or_default();
    assert!(name.starts_with("kopf-event-"), "{name}");
    let regarding = &event["regarding"];
    assert_eq!(regarding["uid"], metadata["uid"]);
    assert_eq!(regarding["name"], "a");
    assert_eq!(regarding["namespace"], test.cluster.namespace());
    assert_eq!(regarding["resourceVersion"], metadata["resourceVersion"]);
    // The core group, which `kubectl get events` uses, shows the same Events.
    let older = test.cluster.list("events").await;
    let older = older.iter().find(|it| it["metadata"]["name"] == name);
    let older = older.expect("it is in the core group, too");
    assert_eq!(older["message"], "all is there");
    assert_eq!(older["involvedObject"]["uid"], metadata["uid"]);
}

async fn an_event_may_be_about_another_object_but_not_about_an_event(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        let namespace = context.namespace();
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}});
        let event =
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": namespace}});
        let events = context.events()?.action("Look");
        events.about(&pod)?.normal("Seen", "there is a pod");
        events.about(&event)?.normal("Seen", "there is an Event");
        Ok(Value::Null)
    });
    let registry = Registry::new().on_create(test.selector(), create);
    handle_one(&test, test.start(registry)).await;
    let events = test.cluster.list(EVENTS).await;
    let [event] = events.as_slice() else {
        panic!("{events:#?}");
    };
    assert_eq!(event["regarding"]["kind"], "Pod");
    assert_eq!(event["regarding"]["name"], "p");
    assert_eq!(event["action"], "Look");
}

async fn long_messages_are_cut_in_the_middle(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        context.events()?.normal("Long", "x".repeat(2000));
        context.events()?.normal("Wide", "🚀".repeat(500));
        Ok(Value::Null)
    });
    let registry = Registry::new().on_create(test.selector(), create);
    handle_one(&test, test.start(registry)).await;
    let (x, rocket) = ("x", "🚀");
    let long = format!("{}...{}", x.repeat(511), x.repeat(510));
    let wide = format!("{}...{}", rocket.repeat(127), rocket.repeat(127));
    let expected = [["Normal", "Long", &long], ["Normal", "Wide", &wide]];
    assert_eq!(posted(&test).await, said(&expected));
}

async fn the_same_event_is_counted_and_too_many_different_ones_are_left_out(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        let events = context.events()?;
        for number in 0..100 {
            events.normal("Same", "again");
            if number < 30 {
                events.normal("Other", format!("number {number}"));
            }
        }
        Ok(Value::Null)
    });
    let registry = Registry::new().on_create(test.selector(), create);
    handle_one(&test, test.start(registry)).await;
    let events = test.cluster.list(EVENTS).await;
    assert_eq!(events.len(), 25);
    let same = events.iter().find(|it| it["reason"] == "Same");
    let same = same.expect("it is posted");
    assert_eq!(same["series"]["count"], 100);
    let told = test.line("6 Events were not posted").await;
    assert!(told.contains("about one object, 25 different ones"), "{told}");
}

async fn no_event_is_posted_unless_requested(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        info!("a line");
        warn!(context.logger(), "another line");
        Ok(Value::Null)
    });
    let registry = Registry::new().on_create(test.selector(), create);
    handle_one(&test, test.start(registry)).await;
    assert_eq!(posted(&test).await, said(&[]));
    test.delete("a").await;
    test.until_gone("a").await;
    // With posting disabled, the handlers' own Events are omitted, too, even warnings.
    let registry = Registry::new().on_create(test.selector(), test.handler("create_fn", say_all));
    let off = |settings: &mut Settings| {
        settings.posting.enabled = false;
        settings.posting.loggers = true;
    };
    handle_one(&test, start_with(&test, registry, off)).await;
    assert_eq!(posted(&test).await, said(&[]));
}

async fn log_lines_are_posted_where_that_is_asked_for(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        let name = context.name();
        info!("{name} is made");
        warn!(context.logger(), "{} is odd", name);
        kopf_rs::debug!("nobody reads this");
        Ok(Value::Null)
    });
    let event = test.handler("event_fn", |context| async move {
        info!(context.logger(), "seen");
        info!("seen");
        Ok(Value::Null)
    });
    let registry = Registry::new().on_create(test.selector(), create).on_event(test.selector(), event);
    let lines = |settings: &mut Settings| settings.posting.loggers = true;
    handle_one(&test, start_with(&test, registry, lines)).await;
    let expected = [
        ["Normal", "Logging", "a is made"],
        ["Warning", "Logging", "a is odd"],
        ["Normal", "HandlerSucceeded", "Handler 'create_fn' succeeded."],
        ["Normal", "Processed", "Creation is processed: 1 succeeded; 0 failed."],
    ];
    assert_eq!(posted(&test).await, said(&expected));
}

async fn a_level_omits_less_important_events(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        info!(context.logger(), "an info");
        warn!(context.logger(), "a warning");
        say_all(context).await
    });
    let registry = Registry::new().on_create(test.selector(), create);
    let set = |settings: &mut Settings| {
        settings.posting.loggers = true;
        settings.posting.level = PostingLevel::Warning;
        settings.posting.reporting_component = Some("example.com/operator".to_owned());
        settings.posting.reporting_instance = Some("this-one".to_owned());
        "mine-".clone_into(&mut settings.posting.event_name_prefix);
    };
    handle_one(&test, start_with(&test, registry, set)).await;
    let expected = [
        ["Warning", "Logging", "a warning"],
        ["Warning", "Odd", "something is odd"],
        ["Warning", "Broken", "it is broken"],
        ["Normal", "Told", "whatever the level is"],
    ];
    assert_eq!(posted(&test).await, said(&expected));
    for event in test.cluster.list(EVENTS).await {
        assert_eq!(event["reportingController"], "example.com/operator");
        assert_eq!(event["reportingInstance"], "this-one");
        let name = event["metadata"]["name"].as_str().unwrap_or_default();
        assert!(name.starts_with("mine-"), "{name}");
    }
}

async fn retries_are_one_event_that_counts(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        match context.retry() {
            0..4 => Err(TemporaryError::new("not yet").delay(0.1).into()),
            4..7 => Err("it is broken".into()),
            _ => Ok(Value::Null),
        }
    });
    let registry = Registry::new().on_create(test.selector(), create);
    let set = |settings: &mut Settings| {
        settings.posting.loggers = true;
        settings.execution.first_backoff = std::time::Duration::from_millis(50);
    };
    handle_one(&test, start_with(&test, registry, set)).await;
    let retried = [
        "Handler 'create_fn' failed temporarily: not yet",
        "Handler 'create_fn' failed with an exception and will try again: it is broken",
    ];
    let expected = [
        ["Warning", "HandlerRetried", retried[0]],
        ["Warning", "HandlerRetried", retried[1]],
        ["Normal", "HandlerSucceeded", "Handler 'create_fn' succeeded."],
        ["Normal", "Processed", "Creation is processed: 1 succeeded; 0 failed."],
    ];
    assert_eq!(posted(&test).await, said(&expected));
    let events = test.cluster.list(EVENTS).await;
    for (note, count) in retried.into_iter().zip([4, 3]) {
        let event = events.iter().find(|it| it["note"] == note);
        assert_eq!(event.map(|it| &it["series"]["count"]), Some(&json!(count)));
    }
}

async fn repeated_events_of_a_timer_are_one_series(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let timer = test.handler("timer_fn", |context| async move {
        let mut child = json!({});
        adopt(&mut child)?;
        let owner = &child["metadata"]["ownerReferences"][0]["name"];
        Events::current()?.normal("Checked", format!("{owner} is well"));
        Ok(json!(context.name()))
    });
    let working = test.start(Registry::new().timer(test.selector(), timer.interval(10)));
    test.create("a", json!({})).await;
    test.calls.until(31).await;
    working.stop().await;
    let expected = [["Normal", "Checked", "\"a\" is well"]];
    assert_eq!(posted(&test).await, said(&expected));
    let count = &test.cluster.list(EVENTS).await[0]["series"]["count"];
    assert!([30, 31].contains(&count.as_u64().unwrap_or_default()), "{count}");
    let asked = test.cluster.asked();
    let writes = asked.iter().filter(|it| it.writes() && it.path.contains("/events"));
    let writes = writes.count();
    assert!((2..16).contains(&writes), "{writes} writes");
}

async fn a_missing_permission_to_post_is_reported_once_and_fails_no_handler(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let user = test.cluster.restricted_user();
    let kinds = [KIND.to_owned(), format!("{KIND}/status")];
    let rules = json!([
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list", "watch"]},
        {"apiGroups": [test.group], "resources": kinds, "verbs": ["list", "watch", "patch"]},
    ]);
    let (api, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let metadata = json!({"name": format!("{}-posting", test.cluster.namespace())});
    let role = json!({"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": rules});
    test.cluster.create(&role).await;
    let binding = json!({
        "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": metadata["name"]},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    });
    test.cluster.create(&binding).await;
    let create = test.handler("create_fn", |context| async move {
        context.events()?.normal("Made", "all is there");
        Ok(json!("made"))
    });
    let operator = Operator::new(Registry::new().on_create(test.selector(), create)).name(NAME);
    let working = Working::start_as(test.cluster.client_of(&user).await, operator);
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
        test.until("it is handled", name, is_handled).await;
    }
    test.line("apiGroups: [\"events.k8s.io\"]").await;
    working.stop().await;
    let lines = test.cluster.lines();
    assert_eq!(lines.count(|it| it.contains("Events may not be posted")), 1);
    // The message at the start names the rule, too.
    assert_eq!(lines.count(|it| it.contains("apiGroups: [\"events.k8s.io\"]")), 2);
    assert_eq!(test.get("b").await["status"]["create_fn"], "made");
    assert_eq!(posted(&test).await, said(&[]));
}
