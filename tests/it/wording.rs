//! Kopf's wording: log lines, handler ids, settings and options have the same names as in Kopf, so that alerts, dashboards and habits
//! continue to work.

use kopf_rs::{
    Callback, Context, ErrorsMode, HandlerResult, PermanentError, Registry, Settings, TemporaryError, handler,
};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Gate, TestOperator, is_handled};

scenarios! {
    log_lines_have_kopfs_words_and_levels [memory];
    ids_are_kopfs [memory];
}

/// Levels and texts, in the order of Kopf's list. Parts in braces there are cut off or filled in here.
const LINES: [(&str, &str); 40] = [
    ("DEBUG", "Starting the watch-stream for kopfexamples.v1."),
    ("DEBUG", "Adding the finalizer, thus preventing the actual deletion."),
    ("DEBUG", "Removing the finalizer, as there are no handlers requiring it."),
    ("DEBUG", "Removing the finalizer, thus allowing the actual deletion."),
    ("DEBUG", "Creation is in progress: {'apiVersion': "),
    ("DEBUG", "Updating is in progress: {'apiVersion': "),
    ("DEBUG", "Deletion is in progress: {'apiVersion': "),
    ("DEBUG", "Resuming is in progress: {'apiVersion': "),
    ("DEBUG", "Updating diff: (('change', ('spec', 'size'), 1, 2),)"),
    ("DEBUG", "Handler 'fine_fn' is invoked."),
    ("INFO", "Handler 'fine_fn' succeeded."),
    ("ERROR", "Handler 'temporary_fn' failed temporarily: not yet"),
    ("ERROR", "Handler 'short_fn' failed temporarily but will time out after 5 seconds: not yet"),
    ("ERROR", "Handler 'few_fn' failed temporarily but will exceed 1 retries: not yet"),
    ("ERROR", "Handler 'hanging_fn' has timed out after 0:00:0"),
    ("ERROR", "Handler 'permanent_fn' failed permanently: never"),
    ("ERROR", "Handler 'arbitrary_fn' failed with an exception and will try again in 0.5 seconds: odd"),
    ("ERROR", "Handler 'strict_fn' failed with an exception and will stop now: odd"),
    (
        "ERROR",
        "Handler 'late_fn' failed with an exception and will stop now (it would time out in 5 seconds on the next attempt): odd",
    ),
    (
        "ERROR",
        "Handler 'arbitrary_fn' failed with an exception and will stop now (it would exceed 2 retries on the next attempt): odd",
    ),
    ("ERROR", "Handler 'ignored_fn' failed with an exception and will ignore it: odd"),
    ("DEBUG", "Handler 'parent_fn' has unfinished sub-handlers. Will retry soon."),
    ("INFO", "Handler 'parent_fn/child' succeeded."),
    (
        "WARN",
        "Handler 'forever_fn' is cancelled because the operator stops. It will be called again at the next start.",
    ),
    ("INFO", "Creation is processed: 5 succeeded; 7 failed."),
    ("INFO", "Resuming is processed: 1 succeeded; 0 failed."),
    ("INFO", "Updating is superseded by deletion: 0 succeeded; 0 failed; 1 left to the moment."),
    ("DEBUG", "Merge-patching the resource with: {"),
    ("DEBUG", "Merge-patching the status with: {\"status\":"),
    ("DEBUG", "JSON-patching the resource with: {"),
    ("DEBUG", "Sleeping for "),
    ("DEBUG", " seconds for the delayed handlers."),
    ("DEBUG", "Sleeping was interrupted by new changes, "),
    ("DEBUG", "Handling cycle is finished, waiting for new changes."),
    ("DEBUG", "Something has changed, but we are not interested (the essence is the same)."),
    ("DEBUG", "Deletion, but we are done with it, and we do not care."),
    ("DEBUG", "Deleted, really deleted, and we are notified."),
    ("ERROR", "Throttling for "),
    ("WARN", "Unresolved resources cannot be served (try creating their CRDs): "),
    ("DEBUG", "Patching was skipped: the object does not exist anymore."),
];

type Answer = HandlerResult<Value>;

fn temporary(delay: f64) -> Answer {
    Err(TemporaryError::new("not yet").delay(delay).into())
}

/// A handler with the same behaviour at each attempt.
fn doing(id: &str, act: fn(&Context) -> Answer) -> Callback {
    handler(id, move |context: Context| {
        let answer = act(&context);
        async { answer }
    })
}

fn creations() -> Vec<Callback> {
    let odd = |_: &Context| Err("odd".into());
    let child = |id| doing(id, |_| Ok(Value::Null));
    vec![
        doing("fine_fn", |context| {
            context.patch(|patch| patch["status"]["fine"] = json!(true));
            Ok(Value::Null)
        }),
        doing("function_fn", |context| {
            context.patch(|patch| patch.transform(|object| object["status"]["made"] = json!(true)));
            Ok(Value::Null)
        }),
        doing("temporary_fn", |context| match context.retry() {
            0 => temporary(0.5),
            _ => Ok(Value::Null),
        }),
        doing("short_fn", |_| temporary(10.0)).timeout(5),
        doing("few_fn", |_| temporary(0.0)).retries(1),
        handler("hanging_fn", |_| std::future::pending::<HandlerResult>()).timeout(0.5),
        doing("permanent_fn", |_| Err(PermanentError::new("never").into())),
        doing("arbitrary_fn", odd).backoff(0.5).retries(2),
        doing("strict_fn", odd).errors(ErrorsMode::Permanent),
        doing("late_fn", odd).timeout(5).backoff(10),
        doing("ignored_fn", odd).errors(ErrorsMode::Ignored),
        handler("parent_fn", move |context: Context| {
            let children = [child("child"), child("other")];
            async move {
                let subs = context.subhandlers()?;
                for child in children {
                    subs.add(child);
                }
                Ok(())
            }
        }),
    ]
}

fn registry(test: &TestOperator, gate: &Gate) -> Registry {
    let selector = test.selector();
    let for_life = |callback: Callback| callback.label("kind", "life");
    let fine = |id| doing(id, |_| Ok(Value::Null));
    let throttled = fine("throttled_fn").when(|cause| match cause.name() {
        "throttled" => panic!("no idea"),
        _ => false,
    });
    let forever = handler("forever_fn", |_| std::future::pending::<HandlerResult>());
    let gate = gate.clone();
    let gone = handler("gone_fn", move |_| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            Ok(())
        }
    });
    let update = doing("update_fn", |_| temporary(600.0));
    let leaves = fine("leaves_fn").label("kind", "leaves").optional();
    let registry = Registry::new()
        .on_update(selector, for_life(update))
        .on_delete(selector, for_life(fine("delete_fn")))
        .on_resume(selector, for_life(fine("resume_fn")))
        .on_delete(selector, leaves)
        .on_create(selector, throttled)
        .on_create(selector, forever.label("kind", "forever"))
        .on_create(selector, gone.label("kind", "gone"))
        .on_create((&*test.group, "v1", "missing"), fine("missing_fn"));
    let creations = creations().into_iter().map(for_life);
    creations.fold(registry, |registry, it| registry.on_create(selector, it))
}

async fn create(test: &TestOperator, name: &str, kind: &str, finalizers: Value) {
    let metadata = json!({"name": name, "labels": {"kind": kind}, "finalizers": finalizers});
    let object = json!({
        "apiVersion": format!("{}/v1", test.group), "kind": "KopfExample", "spec": {"size": 1}, "metadata": metadata,
    });
    test.cluster.create(&object).await;
}

async fn log_lines_have_kopfs_words_and_levels(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let working = test.start(registry(&test, &gate));
    create(&test, "a", "life", json!([])).await;
    test.until("it is handled", "a", is_handled).await;
    test.line("Handling cycle is finished").await;
    test.patch("a", json!({"status": {"x": 0}})).await;
    test.line("Something has changed, but").await;
    working.stop().await;
    let working = test.start(registry(&test, &gate));
    test.line("Resuming is processed: ").await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.line("Handler 'update_fn' failed temporarily: not yet").await;
    // In virtual time no time has passed yet.
    let asleep = |line: &str| ["599.", "600 "].iter().any(|it| line.contains(&format!("Sleeping for {it}")));
    test.cluster.lines().until("of the sleep", asleep).await;
    test.patch("a", json!({"status": {"x": 1}})).await;
    test.delete("a").await;
    test.until_gone("a").await;
    create(&test, "stripped", "other", json!(["tester.kopf.rs/finalizer"])).await;
    create(&test, "leaves", "leaves", json!(["example.com/hold"])).await;
    test.delete("leaves").await;
    test.line("Handler 'leaves_fn' succeeded.").await;
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    test.patch("leaves", label).await;
    create(&test, "throttled", "other", json!([])).await;
    test.line("Throttling for ").await;
    test.line("and we do not care.").await;
    test.line("as there are no handlers requiring it.").await;
    create(&test, "gone", "gone", json!([])).await;
    test.line("Handler 'gone_fn' is invoked.").await;
    test.delete("gone").await;
    test.until_gone("gone").await;
    gate.open(1);
    test.line("Handler 'gone_fn' succeeded.").await;
    create(&test, "forever", "forever", json!([])).await;
    test.line("Handler 'forever_fn' is invoked.").await;
    working.stop().await;
    let lines = test.cluster.lines().all();
    let is_there = |(level, words): &(&str, &str)| {
        let fits = |line: &String| line.trim_start().starts_with(level) && line.contains(words);
        lines.iter().any(fits)
    };
    let missing: Vec<_> = LINES.iter().filter(|it| !is_there(it)).collect();
    assert!(missing.is_empty(), "{missing:#?} in\n{}", lines.join("\n"));
}

/// A parent of these sub-handlers, all of which run in its first call.
fn parent_of(id: &str, children: Vec<Callback>) -> Callback {
    handler(id, move |context: Context| {
        let children = children.clone();
        async move {
            let subs = context.subhandlers()?;
            subs.lifecycle(kopf_rs::Lifecycle::AllAtOnce);
            for child in children {
                subs.add(child);
            }
            Ok(())
        }
    })
}

async fn ids_are_kopfs(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let noting = |id: &str| {
        let calls = test.calls.clone();
        handler(id, move |context: Context| {
            calls.note(context.handler_id());
            async { Ok(json!(1)) }
        })
    };
    let middle = parent_of("middle", vec![noting("deep")]);
    let parent = parent_of("parent", vec![noting("child").field("size"), middle]);
    let registry = Registry::new()
        .on_create(test.selector(), noting("plain"))
        .on_create(test.selector(), noting("filtered").field("spec.size"))
        .on_field(test.selector(), noting("of_field").field("metadata.labels.x"))
        .on_field(test.selector(), parent.field("spec"));
    let working = test.start(registry);
    let object = json!({
        "apiVersion": format!("{}/v1", test.group), "kind": "KopfExample",
        "metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"size": 1},
    });
    test.cluster.create(&object).await;
    let object = test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    let mut ids = test.calls.all();
    ids.sort();
    let expected = [
        "filtered/spec.size",
        "of_field/metadata.labels.x",
        "parent/spec/child",
        "parent/spec/middle/deep",
        "plain",
    ];
    assert_eq!(ids, expected);
    let status = object["status"].as_object().expect("results");
    let mut results: Vec<_> = status.keys().collect();
    results.sort();
    assert_eq!(results, expected);
}

/// All of Kopf's settings for objects and their handlers.
const KOPFS: [&str; 27] = [
    "execution.default_backoff",
    "execution.executor",
    "execution.max_workers",
    "queueing.worker_limit",
    "queueing.idle_timeout",
    "queueing.exit_timeout",
    "queueing.error_delays",
    "queueing.batch_window",
    "watching.server_timeout",
    "watching.client_timeout",
    "watching.connect_timeout",
    "watching.reconnect_backoff",
    "watching.inactivity_timeout",
    "watching.chunk_size",
    "watching.initial_streaming",
    "watching.label_selectors",
    "networking.request_timeout",
    "networking.connect_timeout",
    "networking.error_backoffs",
    "networking.enforce_retry_after",
    "networking.trust_env",
    "scanning.disabled",
    "persistence.finalizer",
    "persistence.progress_storage",
    "persistence.diffbase_storage",
    "persistence.consistency_timeout",
    "process.ultimate_exiting_timeout",
];

/// Kopf's options and arguments of handlers, apart from those of daemons, timers, indices and webhooks.
const WORDS: [&str; 57] = [
    "id",
    "param",
    "errors",
    "timeout",
    "retries",
    "backoff",
    "deleted",
    "optional",
    "labels",
    "annotations",
    "when",
    "field",
    "value",
    "old",
    "new",
    "group",
    "version",
    "kind",
    "plural",
    "singular",
    "shortcut",
    "category",
    "EVERYTHING",
    "PRESENT",
    "ABSENT",
    "all_",
    "any_",
    "none_",
    "not_",
    "body",
    "spec",
    "meta",
    "status",
    "uid",
    "name",
    "namespace",
    "resource",
    "patch",
    "memo",
    "logger",
    "retry",
    "started",
    "runtime",
    "type",
    "event",
    "reason",
    "diff",
    "settings",
    "subhandler",
    "register",
    "execute",
    "lifecycles",
    "TemporaryError",
    "PermanentError",
    "ErrorsMode",
    "HandlerTimeoutError",
    "HandlerRetriesError",
];

#[test]
fn the_guide_names_all_of_kopfs_settings_and_words() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/coming-from-kopf.md"));
    let guide = guide.expect("the guide is there");
    let ours = settings();
    let rows = guide.lines().filter(|line| line.starts_with("| `settings."));
    let rows: Vec<(&str, &str)> = rows.filter_map(|row| row[2..].split_once(" | ")).collect();
    for setting in KOPFS {
        let named = |(kopf, _): &&(&str, &str)| kopf.contains(&format!("`settings.{setting}`"));
        assert!(rows.iter().any(|row| named(&row)), "{setting} has no row");
    }
    for (_, here) in rows {
        let paths = here.split('`').filter_map(|part| part.strip_prefix("settings."));
        for path in paths {
            assert!(ours.iter().any(|it| it == path), "there is no settings.{path}");
        }
    }
    let tables: String = guide.lines().filter(|line| line.starts_with('|')).collect();
    for word in WORDS {
        let whole = |at: usize| {
            let plain = |it: char| it.is_ascii_alphanumeric() || it == '_';
            !tables[..at].ends_with(plain) && !tables[at + word.len()..].starts_with(plain)
        };
        let found = tables.match_indices(word).any(|(at, _)| whole(at));
        assert!(found, "no table of the guide has {word}");
    }
}

/// Returns the names of the settings; a missing setting does not compile.
fn settings() -> Vec<String> {
    let settings = Settings::default();
    macro_rules! named {
        ($($($part:ident).+),+ $(,)?) => {{
            $(let _ = &settings.$($part).+;)+
            [$(stringify!($($part).+)),+]
        }};
    }
    let all = named!(
        execution.lifecycle,
        execution.default_backoff,
        execution.first_backoff,
        execution.longest_backoff,
        execution.max_workers,
        execution.max_reconciles,
        queueing.worker_limit,
        queueing.exit_timeout,
        watching.server_timeout,
        watching.inactivity_timeout,
        watching.reconnect_backoff,
        watching.longest_backoff,
        watching.chunk_size,
        networking.first_backoff,
        networking.longest_backoff,
        networking.concurrent_writes,
        scanning.disabled,
        scanning.interval,
        posting.enabled,
        posting.loggers,
        posting.level,
        posting.reporting_component,
        posting.reporting_instance,
        posting.event_name_prefix,
        peering.standalone,
        peering.name,
        peering.mandatory,
        peering.priority,
        peering.lifetime,
        peering.stealth,
        lease.enabled,
        lease.name,
        lease.namespace,
        lease.duration,
        lease.renew_deadline,
        lease.retry_period,
        admission.server,
        admission.listen,
        admission.managed,
        persistence,
    );
    all.map(|it| it.replace(' ', "")).to_vec()
}
