//! Our side: the same handlers as closures of an explicit registry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kopf_rs::{
    ABSENT, Callback, Context, Criterion, ErrorsMode, HandlerResult, Lifecycle, PRESENT,
    PermanentError, Registry, Settings, TemporaryError, handler,
};
use serde_json::{Value, json};

use super::scenario::{Action, Handler, Scenario};
use crate::operating::{Calls, TestOperator, Working};

pub(super) fn start(test: &TestOperator, scenario: &Scenario, gates: &Path) -> Working {
    let registry = scenario
        .handlers
        .iter()
        .fold(Registry::new(), |registry, it| {
            let (selector, callback) = (test.selector(), callback(it, &test.calls, gates));
            match it.on.as_str() {
                "create" => registry.on_create(selector, callback),
                "update" => registry.on_update(selector, callback),
                "delete" => registry.on_delete(selector, callback),
                "resume" => registry.on_resume(selector, callback),
                "field" => registry.on_field(selector, callback),
                "event" => registry.on_event(selector, callback),
                other => panic!("no handler is declared by `on: {other}`"),
            }
        });
    let mut settings = Settings::default();
    settings.execution.lifecycle = match scenario.lifecycle.as_str() {
        "asap" => Lifecycle::Asap,
        "one_by_one" => Lifecycle::OneByOne,
        "all_at_once" => Lifecycle::AllAtOnce,
        other => panic!("no lifecycle is called {other}"),
    };
    Working::start(&test.cluster, test.operator(registry).settings(settings))
}

fn callback(it: &Handler, calls: &Calls, gates: &Path) -> Callback {
    let sub = |it| callback(it, calls, gates);
    let script = Script {
        handler: it.clone(),
        calls: calls.clone(),
        gates: gates.to_owned(),
        attempts: Mutex::default(),
        subs: it.subs.iter().map(sub).collect(),
    };
    let script = Arc::new(script);
    let mut made = handler(it.id.as_str(), move |context: Context| {
        let script = Arc::clone(&script);
        async move { script.act(&context).await }
    });
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
    limited(made, it)
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

fn criterion(value: &Value) -> Criterion {
    match value.as_str() {
        Some("PRESENT") => PRESENT,
        Some("ABSENT") => ABSENT,
        _ => value.clone().into(),
    }
}

/// What a handler does, and what it has done.
struct Script {
    handler: Handler,
    calls: Calls,
    gates: PathBuf,
    /// Per object.
    attempts: Mutex<BTreeMap<String, usize>>,
    subs: Vec<Callback>,
}

impl Script {
    async fn act(&self, context: &Context) -> HandlerResult<Value> {
        self.calls.note(self.call(context).to_string());
        let mut result = Value::Null;
        if !self.subs.is_empty() {
            let subs = context.subhandlers()?;
            self.subs.iter().cloned().for_each(|sub| subs.add(sub));
            if self.handler.form.as_deref() == Some("execute") {
                subs.execute().await?;
            }
        }
        for action in self.handler.attempt(self.count(context.uid())) {
            match action {
                Action::Ok => {}
                Action::Permanent => Err(PermanentError::new("never"))?,
                Action::Error => Err("unexpected")?,
                Action::Temporary(delay) => Err(TemporaryError::new("not yet").delay(delay))?,
                Action::Result(value) => result = value,
                Action::Patch(merge) => context.patch(|patch| patch.merge(merge)),
                Action::Append(items) => context.patch(|patch| {
                    patch.transform(move |object| {
                        for (path, item) in &items {
                            append(object, path, item);
                        }
                    });
                }),
                Action::Assign(changes) => {
                    let assign = move |object: &mut Value| merge(object, &changes);
                    context.patch(|patch| patch.transform(assign));
                }
                Action::Sleep(seconds) => {
                    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                }
                Action::Hold(gate) => self.pass(&gate).await,
            }
        }
        Ok(result)
    }

    /// How many attempts have been made for the object before.
    fn count(&self, uid: &str) -> usize {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = attempts.entry(uid.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    /// A gate is a file, as it is for the other side.
    async fn pass(&self, gate: &str) {
        let mut pulse = tokio::time::interval(Duration::from_millis(20));
        while !self.gates.join(gate).exists() {
            pulse.tick().await;
        }
    }

    fn call(&self, context: &Context) -> Value {
        let mut call =
            json!({"id": context.handler_id(), "name": context.name(), "retry": context.retry()});
        if self.handler.on == "event" {
            let kind = context.event_type().and_then(kopf_rs::EventType::as_str);
            call["type"] = json!(kind);
        }
        if let Some(reason) = context.reason() {
            let items = context
                .diff()
                .iter()
                .map(|item| json!([item.op.to_string(), item.field.parts(), item.old, item.new]));
            call["diff"] = items.collect();
            call["reason"] = json!(reason.as_str());
            call["old"] = context.old().cloned().unwrap_or_default();
            call["new"] = context.new().cloned().unwrap_or_default();
        }
        call
    }
}

/// Add to the list at a dotted path, which may not be there yet.
fn append(object: &mut Value, path: &str, item: &Value) {
    let place = path.split('.').fold(object, |at, key| &mut at[key]);
    if place.is_null() {
        *place = json!([]);
    }
    let list = place.as_array_mut().expect("a list");
    list.push(item.clone());
}

fn merge(into: &mut Value, changes: &Value) {
    match changes {
        Value::Object(changes) => {
            for (key, value) in changes {
                merge(&mut into[key.as_str()], value);
            }
        }
        value => *into = value.clone(),
    }
}
