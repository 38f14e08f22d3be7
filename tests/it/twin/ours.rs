//! Our side: the same handlers as closures in an explicit registry.

use std::sync::Arc;

use kopf_rs::{
    ABSENT, Callback, Cause, Context, Criterion, ErrorsMode, HandlerResult, IndexEntries, Lifecycle,
    Operator, OperatorError, PRESENT, PermanentError, Registry, Report, Settings, TemporaryError, handler,
    indexer_async,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::scenario::{Handler, Scenario};
use super::script::{Script, Shared};
use super::side::Place;
use crate::operating::{TestOperator, Working};

/// A running operator, with a given client or with credentials from its login handlers.
pub(super) enum Ours {
    Given(Working),
    LoggedIn { stop: oneshot::Sender<()>, task: JoinHandle<Result<Report, OperatorError>> },
}

impl Ours {
    pub(super) fn start(test: &TestOperator, scenario: &Scenario, place: &Place) -> Self {
        let operator = operator(test, scenario, place);
        if !scenario.logs_in() {
            return Self::Given(Working::start(&test.cluster, operator));
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(operator.run_logged_in(stopped));
        Self::LoggedIn { stop, task }
    }

    pub(super) async fn stop(self) {
        match self {
            Self::Given(working) => drop(working.stop().await),
            Self::LoggedIn { stop, task } => {
                drop(stop);
                let ended = task.await.expect("it does not panic");
                ended.unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    pub(super) async fn kill(self) {
        match self {
            Self::Given(working) => working.kill().await,
            Self::LoggedIn { task, .. } => task.abort(),
        }
    }

    /// Waits until it ends by itself, and returns the exit code that a program would have.
    pub(super) async fn failed(self) -> i32 {
        let (ended, _stop) = match self {
            Self::Given(working) => (working.end().await, None),
            Self::LoggedIn { stop, task } => (task.await.expect("it does not panic"), Some(stop)),
        };
        i32::from(ended.is_err())
    }
}

fn operator(test: &TestOperator, scenario: &Scenario, place: &Place) -> Operator {
    let shared =
        Shared { calls: test.calls.clone(), gates: place.gates.clone(), server: place.server.clone() };
    let handlers = scenario.handlers.iter();
    let registry = handlers.fold(Registry::new(), |registry, it| {
        let selector = test.selector();
        if it.on == "index" {
            return registry.index(selector, index_function(it));
        }
        let callback = callback(it, &shared);
        match it.on.as_str() {
            "create" => registry.on_create(selector, callback),
            "update" => registry.on_update(selector, callback),
            "delete" => registry.on_delete(selector, callback),
            "resume" => registry.on_resume(selector, callback),
            "field" => registry.on_field(selector, callback),
            "event" => registry.on_event(selector, callback),
            "daemon" => registry.daemon(selector, callback),
            "timer" => registry.timer(selector, callback),
            "startup" => registry.on_startup(callback),
            "cleanup" => registry.on_cleanup(callback),
            "login" => registry.on_login(callback),
            "probe" => registry.on_probe(callback),
            other => panic!("no handler is declared by `on: {other}`"),
        }
    });
    let mut settings = Settings::default();
    settings.posting.enabled = scenario.posting;
    settings.execution.lifecycle = match scenario.lifecycle.as_str() {
        "asap" => Lifecycle::Asap,
        "one_by_one" => Lifecycle::OneByOne,
        "all_at_once" => Lifecycle::AllAtOnce,
        other => panic!("no lifecycle is called {other}"),
    };
    let operator = test.operator(registry).settings(settings);
    if scenario.probes() {
        return operator.liveness(place.liveness());
    }
    operator
}

fn callback(it: &Handler, shared: &Shared) -> Callback {
    let subs = it.subs.iter().map(|sub| callback(sub, shared)).collect();
    let script = Arc::new(Script::new(it, shared, subs));
    let made = handler(it.id.as_str(), move |context: Context| {
        let script = Arc::clone(&script);
        async move { script.act(&context).await }
    });
    timed(limited(filtered(made, it), it), it)
}

fn filtered(mut made: Callback, it: &Handler) -> Callback {
    if let Some(test) = &it.field {
        made = made.field(test);
    }
    if let Some(value) = &it.value {
        made = made.value(criterion(value));
    }
    if let Some(old) = &it.old {
        made = made.old(criterion(old));
    }
    if let Some(new) = &it.new {
        made = made.new(criterion(new));
    }
    for (name, value) in &it.labels {
        made = made.label(name, criterion(&json!(value)));
    }
    for (name, value) in &it.annotations {
        made = made.annotation(name, criterion(&json!(value)));
    }
    made
}

fn limited(mut made: Callback, it: &Handler) -> Callback {
    if let Some(errors) = &it.errors {
        made = made.errors(match errors.as_str() {
            "ignored" => ErrorsMode::Ignored,
            "temporary" => ErrorsMode::Temporary,
            "permanent" => ErrorsMode::Permanent,
            other => panic!("no error mode is called {other}"),
        });
    }
    if let Some(retries) = it.retries {
        made = made.retries(retries);
    }
    if let Some(timeout) = it.timeout {
        made = made.timeout(timeout);
    }
    if let Some(backoff) = it.backoff {
        made = made.backoff(backoff);
    }
    if it.deleted == Some(true) {
        made = made.deleted();
    }
    if it.optional == Some(true) {
        made = made.optional();
    }
    made
}

fn timed(mut made: Callback, it: &Handler) -> Callback {
    if let Some(delay) = it.initial_delay {
        made = made.initial_delay(delay);
    }
    if let Some(interval) = it.interval {
        made = made.interval(interval);
    }
    if it.sharp == Some(true) {
        made = made.sharp();
    }
    if let Some(idle) = it.idle {
        made = made.idle(idle);
    }
    if let Some(backoff) = it.cancellation_backoff {
        made = made.cancellation_backoff(backoff);
    }
    if let Some(timeout) = it.cancellation_timeout {
        made = made.cancellation_timeout(timeout);
    }
    made
}

fn criterion(value: &Value) -> Criterion {
    match value.as_str() {
        Some("PRESENT") => PRESENT,
        Some("ABSENT") => ABSENT,
        _ => value.clone().into(),
    }
}

/// Returns an index function that returns the value at a path of the spec, in the form that the value specifies.
fn index_function(it: &Handler) -> Callback {
    let from = it.from.clone().expect("`from` says what is returned");
    let said = move |cause: &Cause| cause.body().spec()[&from].clone();
    let made = if it.plain == Some(true) {
        indexer_async(it.id.as_str(), move |cause| {
            let said = said(&cause);
            async move { returned(&said).await.map(plain) }
        })
    } else {
        indexer_async(it.id.as_str(), move |cause| {
            let said = said(&cause);
            async move { returned(&said).await.map(keyed) }
        })
    };
    limited(filtered(made, it), it)
}

/// Returns the result of an index function, or its error.
async fn returned(said: &Value) -> HandlerResult<Option<Value>> {
    let Some((word, value)) = said.as_object().and_then(|said| said.iter().next()) else {
        return Ok(None);
    };
    match word.as_str() {
        "temporary" => {
            let delay = value.as_f64().expect("a delay");
            Err(TemporaryError::new("not yet").delay(delay))?;
        }
        "permanent" => Err(PermanentError::new("never"))?,
        "error" => Err("unexpected")?,
        "slow" => tokio::time::sleep(std::time::Duration::from_secs(1)).await,
        _ => {}
    }
    Ok(Some(value.clone()))
}

fn plain(value: Option<Value>) -> IndexEntries<(), Value> {
    value.map_or(IndexEntries::Unchanged, |value| [((), value)].into_iter().collect())
}

fn keyed(value: Option<Value>) -> IndexEntries<String, Value> {
    let Some(value) = value else {
        return IndexEntries::Unchanged;
    };
    let pairs = value.as_object().expect("keys with their values").iter();
    let pair = |(key, value): (&String, &Value)| {
        let value = if value == "NONE" { Value::Null } else { value.clone() };
        (key.clone(), value)
    };
    pairs.map(pair).collect()
}
