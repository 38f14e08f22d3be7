//! One request's way past the webhooks: whom it has asked, what they said, whom to ask next. Those that convert objects
//! leave their questions and answers here, too.
//!
//! Promise: mutating webhooks come one after another by the names of their configurations; each sees what those before it
//! made. What one of them changes brings those back that want to know, once. Must not know how objects are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::chance::Chance;
use super::client::Query;
use super::hook::{Hook, Target};
use super::question::{self, Reply};
use super::{condition, policy, refresh};
use crate::call::Call;
use crate::convert;
use crate::patch;
use crate::status::Refusal;
use crate::store::Store;

/// How many answers of webhooks a request may give up before it fails: each change by others in between gives up what was asked so far.
const MOST_GIVEN_UP: usize = 1000;

/// What a request has asked so far. A verb runs again for every answer.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(super) call: Arc<Call>,
    /// Questions without times, and their answers.
    answers: Vec<Answered>,
    /// How many of them this run has used.
    at: usize,
    /// What converting webhooks made of objects.
    converted: BTreeMap<String, Conversion>,
    /// How many answers were given up, since what is asked about had changed by the next run.
    given_up: usize,
    /// What is to be answered before the next run.
    pending: Vec<(Query, Asked)>,
    pub(super) warnings: Vec<String>,
    /// What a new object got, so that it gets the same when the verb runs again.
    pub(super) born: Option<(String, String)>,
    /// What is chosen by chance, from the beginning in each run.
    pub(super) chance: Chance,
}

/// Whom a question is for.
#[derive(Clone, Debug)]
enum Asked {
    Hook(Answered),
    /// The key, and the uid of the question.
    Converter(String, String),
}

/// The answer to a question for a conversion.
#[derive(Clone, Debug)]
pub(crate) struct Conversion {
    pub(crate) uid: String,
    pub(crate) answer: Result<Value, String>,
}

#[derive(Clone, Debug)]
struct Answered {
    hook: String,
    essence: Value,
    uid: String,
    answer: Result<Value, String>,
}

/// A write that webhooks are to see.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// Of rules: the kind's group, plural, version and so on.
    pub(super) operation: &'static str,
    pub(super) group: String,
    pub(super) plural: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
    /// Versions of the kind that can be shown; the request's own first.
    pub(super) versions: Vec<String>,
    /// The labels of the namespace, for what has one.
    pub(super) surroundings: Option<BTreeMap<String, String>>,
    pub(super) labels: Vec<BTreeMap<String, String>>,
    /// All but the uid, in the request's version.
    pub(super) request: Value,
}

// === impl Round ===

impl Round {
    pub(crate) fn new(call: Arc<Call>) -> Self {
        Self {
            call,
            answers: Vec::new(),
            at: 0,
            given_up: 0,
            converted: BTreeMap::new(),
            pending: Vec::new(),
            warnings: Vec::new(),
            born: None,
            chance: Chance::new(),
        }
    }

    /// Run a verb with what is known so far; nothing if an answer is to be awaited first.
    pub(crate) fn play<T>(
        &mut self,
        store: &mut Store,
        run: impl FnOnce(&mut Store) -> T,
    ) -> Option<T> {
        self.at = 0;
        self.warnings.clear();
        let converted = std::mem::take(&mut self.converted);
        let mut round = self.clone();
        round.converted = converted;
        store.admission.round = Some(round);
        let result = run(store);
        if let Some(round) = store.admission.round.take() {
            *self = round;
        }
        self.pending.is_empty().then_some(result)
    }

    /// The questions to ask before the next run.
    pub(crate) fn questions(&self) -> Vec<Query> {
        let queries = self.pending.iter().map(|(query, _)| query.clone());
        queries.collect()
    }

    /// Note the answers to them.
    pub(crate) fn note(&mut self, answers: Vec<Result<Value, String>>) {
        for ((_, asked), answer) in std::mem::take(&mut self.pending).into_iter().zip(answers) {
            match asked {
                Asked::Hook(answered) => self.answers.push(Answered { answer, ..answered }),
                Asked::Converter(key, uid) => {
                    self.converted.insert(key, Conversion { uid, answer });
                }
            }
        }
    }

    /// What became of an object that was to be converted.
    pub(crate) fn converted(&self, key: &str) -> Option<&Conversion> {
        self.converted.get(key)
    }

    /// Have an object converted before the next run.
    pub(crate) fn convert(&mut self, key: String, uid: String, query: Query) {
        self.pending.push((query, Asked::Converter(key, uid)));
    }

    /// What webhooks want clients to know.
    pub(crate) fn warnings(self) -> Vec<String> {
        self.warnings
    }
}

/// Let the mutating webhooks change what is written.
pub(super) fn mutate(store: &mut Store, event: &mut Event) -> Result<(), Refusal> {
    refresh(store);
    let hooks = store.admission.mutating.clone();
    let (mut earlier, mut again) = (Vec::new(), BTreeSet::new());
    for (index, hook) in hooks.iter().enumerate() {
        let Some(changed) = invoke(store, hook, event, true)? else {
            continue;
        };
        if changed {
            again.extend(earlier.iter().copied());
        }
        if hook.again {
            earlier.push(index);
        }
    }
    for index in again {
        invoke(store, &hooks[index], event, true)?;
    }
    Ok(())
}

/// Let policies and validating webhooks refuse what is written.
pub(super) fn validate(store: &mut Store, event: &mut Event) -> Result<(), Refusal> {
    refresh(store);
    policy::check(store, event)?;
    let hooks = store.admission.validating.clone();
    for hook in hooks.iter() {
        invoke(store, hook, event, false)?;
    }
    Ok(())
}

/// Ask a webhook if it wants to know; whether it changed something.
fn invoke(
    store: &mut Store,
    hook: &Hook,
    event: &mut Event,
    mutating: bool,
) -> Result<Option<bool>, Refusal> {
    let Some(version) = event.version_for(hook) else {
        return Ok(None);
    };
    let selected = event
        .surroundings
        .as_ref()
        .is_none_or(|labels| hook.namespaces.matches(labels));
    if !selected || !hook.wants_labels(&event.labels) {
        return Ok(None);
    }
    let request = event.shown_as(store, &version)?;
    if !wants(hook, event, &request)? {
        return Ok(None);
    }
    let Some(reply) = consult(store, hook, &request)? else {
        return Ok(Some(false));
    };
    if let Some(round) = &mut store.admission.round {
        round.warnings.extend(reply.warnings.iter().cloned());
    }
    if let Some(denial) = &reply.denial {
        let told = denial.told(&hook.name);
        return Err(Refusal::denied(
            denial.code,
            denial.reason.clone(),
            told,
            denial.details.clone(),
        ));
    }
    let Some(patch) = reply.patch.filter(|_| mutating) else {
        return Ok(Some(false));
    };
    let object = &request["object"];
    if object.is_null() {
        return without_object(hook, &patch);
    }
    let patched =
        patch::apply(object, &patch).map_err(|why| Refusal::internal_error(&why.to_string()))?;
    let changed = patched != *object;
    if changed {
        event.take(store, patched)?;
    }
    Ok(Some(changed))
}

/// A patch of nothing may only change nothing.
fn without_object(hook: &Hook, patch: &Value) -> Result<Option<bool>, Refusal> {
    if patch.as_array().is_some_and(Vec::is_empty) {
        return Ok(Some(false));
    }
    let name = &hook.name;
    Err(Refusal::internal_error(&format!(
        "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
    )))
}

/// Whether all conditions of a webhook hold.
fn wants(hook: &Hook, event: &Event, request: &Value) -> Result<bool, Refusal> {
    let mut failed = None;
    for (_, expression) in &hook.conditions {
        match condition::holds(expression, request) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                let told = format!("expression '{expression}' resulted in error: {why}");
                failed = failed.or(Some(told));
            }
        }
    }
    match failed {
        None => Ok(true),
        Some(_) if hook.ignores_failure => Ok(false),
        Some(why) => {
            let subject = crate::status::Subject {
                group: &event.group,
                word: &event.plural,
                name: request["name"].as_str().unwrap_or_default(),
            };
            Err(Refusal::forbidden(subject, &why))
        }
    }
}

/// What a webhook says; nothing if it fails and that does not matter.
fn consult(store: &mut Store, hook: &Hook, request: &Value) -> Result<Option<Reply>, Refusal> {
    let essence = question::essence(request);
    let Some(round) = &mut store.admission.round else {
        return Ok(None);
    };
    let known = round
        .answers
        .get(round.at)
        .filter(|known| known.hook == hook.id && known.essence == essence);
    let Some(known) = known.cloned() else {
        let uid = Uuid::new_v4().to_string();
        let body = question::review(&hook.version, &uid, request);
        let answered = Answered {
            hook: hook.id.clone(),
            essence,
            uid,
            answer: Err(String::new()),
        };
        round.given_up += round.answers.len() - round.at;
        if round.given_up > MOST_GIVEN_UP {
            let told = "what webhooks are asked about changes each time they are asked";
            return Err(Refusal::internal_error(told));
        }
        let query = hook.client.query(store, hook.timeout, body);
        if let Some(round) = &mut store.admission.round {
            round.answers.truncate(round.at);
            round.pending = vec![(query, Asked::Hook(answered))];
        }
        // Nobody sees this: the verb runs again.
        return Err(Refusal::internal("a webhook is to be asked first"));
    };
    round.at += 1;
    let reply = match known.answer {
        Ok(answer) => question::read(&hook.version, &known.uid, &answer),
        Err(why) => Err(format!("failed to call webhook: {why}")),
    };
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(_) if hook.ignores_failure => Ok(None),
        Err(why) => {
            let name = &hook.name;
            let told = format!("failed calling webhook {name:?}: {why}");
            Err(Refusal::internal_error(&told))
        }
    }
}

// === impl Event ===

impl Event {
    /// The version a webhook is shown, if it wants to know at all.
    fn version_for(&self, hook: &Hook) -> Option<String> {
        self.version_wanted(hook.exact, |target| hook.wants(target))
    }

    /// The first version that somebody wants to know of; with `exact`, that of the request or none.
    pub(super) fn version_wanted(
        &self,
        exact: bool,
        wants: impl Fn(Target<'_>) -> bool,
    ) -> Option<String> {
        let mut versions = self.versions.iter();
        let wanted = |version: &&String| {
            wants(Target {
                operation: self.operation,
                group: &self.group,
                version,
                plural: &self.plural,
                subresource: &self.subresource,
                name: self.request["name"].as_str().unwrap_or_default(),
                namespaced: !self.namespace.is_empty(),
            })
        };
        if exact {
            return versions.next().filter(wanted).cloned();
        }
        versions.find(wanted).cloned()
    }

    /// The request as a webhook of that version is shown it.
    pub(super) fn shown_as(&self, store: &mut Store, version: &str) -> Result<Value, Refusal> {
        let mut request = self.request.clone();
        let own = self.versions.first().map_or("", String::as_str);
        if own == version {
            return Ok(request);
        }
        request["kind"]["version"] = version.into();
        request["resource"]["version"] = version.into();
        for part in ["object", "oldObject"] {
            if request[part].is_object() {
                let object = request[part].take();
                request[part] = self.seen(store, object, (own, version))?;
            }
        }
        Ok(request)
    }

    /// An object of one version in another one.
    fn seen(
        &self,
        store: &mut Store,
        mut object: Value,
        (from, to): (&str, &str),
    ) -> Result<Value, Refusal> {
        let kind = store.kinds.kind(&self.group, from, &self.plural).cloned();
        let conversion = kind.and_then(|kind| kind.conversion.clone());
        match (conversion, object) {
            (Some(conversion), Value::Object(body)) if self.subresource != "scale" => {
                let seen = convert::seen(store, &conversion, &body, to);
                seen.map(Value::Object)
            }
            (_, other) => {
                object = other;
                object["apiVersion"] = crate::kind::api_version(&self.group, to).into();
                Ok(object)
            }
        }
    }

    /// What a webhook made of the object is the object from then on.
    fn take(&mut self, store: &mut Store, mut object: Value) -> Result<(), Refusal> {
        let own = self.versions.first().cloned().unwrap_or_default();
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let version = version.rsplit('/').next().unwrap_or_default().to_owned();
        if object.is_object() && version != own {
            object = self.seen(store, object, (&version, &own))?;
        }
        self.request["object"] = object;
        Ok(())
    }
}
