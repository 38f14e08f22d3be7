//! The actions of a handler on our side, and their record.
//!
//! This module does not know how the handler is registered.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kopf_rs::{
    Callback, ConnectionInfo, Context, EventKind, EventType, HandlerResult, Labels, Owner, PermanentError,
    TemporaryError,
};
use serde_json::{Value, json};

use super::scenario::{Action, Credentials, Handler, Made, Posted};
use super::side::contains;
use crate::operating::Calls;

/// The state that all handlers of an operator share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) calls: Calls,
    pub(super) gates: PathBuf,
    /// The connection data of the API server, for login handlers.
    pub(super) server: Value,
}

pub(super) struct Script {
    handler: Handler,
    shared: Shared,
    /// The number of attempts per object uid.
    attempts: Mutex<BTreeMap<String, usize>>,
    subs: Vec<Callback>,
}

/// The counter in a memo.
#[derive(Clone, Default)]
struct Counted(u64);

/// Records the cancellation of a handler when it is dropped.
struct CutOff<'a> {
    script: &'a Script,
    context: &'a Context,
}

impl Script {
    pub(super) fn new(handler: &Handler, shared: &Shared, subs: Vec<Callback>) -> Self {
        Self { handler: handler.clone(), shared: shared.clone(), attempts: Mutex::default(), subs }
    }

    pub(super) async fn act(&self, context: &Context) -> HandlerResult<Value> {
        self.shared.calls.note(self.call(context).to_string());
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
                Action::Count => {
                    let counted = context.memo().update(|it: &mut Counted| it.0 += 1);
                    result = json!(counted.0);
                }
                Action::Login(credentials) => result = self.connection(&credentials)?,
                Action::Post(posted) => post(context, &posted)?,
                Action::Make(made) => result = make(made)?,
                Action::Note(word) => self.note(context, &word),
                Action::Read(index) => self.note(context, &read(context, &index)?),
                waiting => self.wait(context, waiting).await,
            }
        }
        Ok(result)
    }

    async fn wait(&self, context: &Context, action: Action) {
        match action {
            Action::Sleep(seconds) => tokio::time::sleep(Duration::from_secs_f64(seconds)).await,
            Action::Hold(gate) => {
                let gate = self.shared.gates.join(gate);
                until(|| gate.exists()).await;
            }
            Action::See(part) => {
                let live = context.live().expect("it sees what becomes of its object");
                until(|| contains(&live.body(), &part)).await;
            }
            Action::Told(word) => {
                let stopped = context.stopped().expect("it has a flag");
                stopped.wait().await;
                let reasons = || stopped.reason().map(|it| it.to_string()).unwrap_or_default();
                until(|| reasons().split('|').any(|reason| word.is_empty() || reason == word)).await;
                self.note(context, &reasons());
            }
            Action::Linger => {
                let _cut_off = CutOff { script: self, context };
                std::future::pending::<()>().await;
            }
            _ => unreachable!("this action does not wait"),
        }
    }

    /// Returns the number of earlier attempts for the object, and counts this one.
    fn count(&self, uid: &str) -> usize {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = attempts.entry(uid.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    /// Records a word as a call.
    fn note(&self, context: &Context, word: &str) {
        let mut call = named(context);
        call["type"] = json!(word);
        self.shared.calls.note(call.to_string());
    }

    fn call(&self, context: &Context) -> Value {
        let mut call = named(context);
        if self.handler.on == "event" {
            let kind = context.event_type().and_then(EventType::as_str);
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

    /// Returns credentials with the administrator's token, or with one that the server refuses.
    fn connection(&self, given: &Credentials) -> HandlerResult<Value> {
        let of_server = |key: &str| self.shared.server[key].as_str().unwrap_or_default();
        let token = match given.token.as_str() {
            "good" => of_server("token"),
            _ => "wrong",
        };
        let info = ConnectionInfo::new(of_server("server"))
            .ca_path(of_server("ca_path"))
            .token(token)
            .priority(given.priority.unwrap_or_default());
        Ok(serde_json::to_value(info)?)
    }
}

impl Drop for CutOff<'_> {
    fn drop(&mut self) {
        self.script.note(self.context, "cut off");
    }
}

fn named(context: &Context) -> Value {
    let name = context.resource().map(|_| context.name());
    json!({"id": context.handler_id(), "name": name, "retry": context.retry()})
}

/// Returns the contents of an index: each key with its values, sorted.
fn read(context: &Context, index: &str) -> HandlerResult<String> {
    let keyed = context.index::<String, Value>(index);
    let shown = if let Ok(index) = &keyed {
        shown(index.iter().map(|(key, values)| (key, values.to_vec())))
    } else {
        // An index without keys, which Kopf keeps under `None`.
        let index = context.index::<(), Value>(index)?;
        shown(index.iter().map(|((), values)| ("None".to_owned(), values.to_vec())))
    };
    Ok(format!("{index}[{shown}]"))
}

async fn until(condition: impl Fn() -> bool) {
    let mut pulse = tokio::time::interval(Duration::from_millis(20));
    while !condition() {
        pulse.tick().await;
    }
}

fn shown(index: impl Iterator<Item = (String, Vec<Value>)>) -> String {
    let line = |(key, values): (String, Vec<Value>)| {
        let mut values: Vec<String> = values.iter().map(Value::to_string).collect();
        values.sort();
        format!("{key}={}", values.join(","))
    };
    let mut lines: Vec<String> = index.map(line).collect();
    lines.sort();
    lines.join(" ")
}

fn post(context: &Context, posted: &Posted) -> HandlerResult {
    let events = context.events()?;
    let (reason, message) = (&posted.reason, posted.message.as_deref().unwrap_or_default());
    match posted.how.as_str() {
        "info" => events.normal(reason, message),
        "warn" => events.warning(reason, message),
        "exception" => {
            let error = PermanentError::new(posted.error.clone().unwrap_or_default());
            events.exception(reason, &error);
        }
        "event" => {
            let kind = match posted.kind.as_deref() {
                Some("Warning") => EventKind::Warning,
                _ => EventKind::Normal,
            };
            events.event(kind, reason, message);
        }
        other => panic!("no Event is posted by `{other}`"),
    }
    Ok(())
}

/// Applies a hierarchy function to new objects, with the handled object as their owner.
fn make(made: Made) -> HandlerResult<Value> {
    let mut owner = Owner::current()?;
    if made.forced == Some(true) {
        owner = owner.forced();
    }
    if made.strict == Some(true) {
        owner = owner.strict();
    }
    for path in &made.nested {
        owner = owner.nested(path.as_str());
    }
    if !made.labels.is_empty() {
        owner = owner.labels(made.labels.into_iter().collect::<Labels>());
    }
    if let Some(name) = made.name {
        owner = owner.name(name);
    }
    if let Some(namespace) = &made.namespace {
        owner = owner.namespace(Some(namespace));
    }
    if let Some(controller) = made.controller {
        owner = owner.controller(controller);
    }
    if let Some(block) = made.block_owner_deletion {
        owner = owner.block_owner_deletion(block);
    }
    let mut of = made.of;
    let objects = of.as_mut_slice();
    match made.how.as_str() {
        "adopt" => owner.adopt(objects)?,
        "label" => owner.label(objects)?,
        "harmonize_naming" => owner.harmonize_naming(objects)?,
        "adjust_namespace" => owner.adjust_namespace(objects)?,
        "append_owner_reference" => owner.append_owner_reference(objects)?,
        "remove_owner_reference" => owner.remove_owner_reference(objects)?,
        other => panic!("no function of hierarchies is called {other}"),
    }
    Ok(json!({"made": of}))
}

/// Appends to the list at a dotted path, and creates the list if it is missing.
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
