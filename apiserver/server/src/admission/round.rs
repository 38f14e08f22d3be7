//! The webhook calls of one request: the questions so far, their answers, and the next question. Conversion webhooks store their
//! questions and answers here, too.
//!
//! Guarantees that mutating webhooks run one after another in the order of their configurations' names, that each sees the changes of
//! its predecessors, and that a change calls earlier webhooks once more if they ask for it. Must not depend on how objects are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::chance::Chance;
use super::client::Query;
use super::hook::{Hook, Target};
use super::question::{self, Reply};
use super::{condition, is_exempt, policy, refresh};
use crate::call::Call;
use crate::convert;
use crate::patch;
use crate::status::Refusal;
use crate::store::Store;

/// The maximum number of answers that a request discards before it fails; each concurrent change of the object discards the answers so far.
const MOST_GIVEN_UP: usize = 1000;

/// The questions and answers of a request, whose verb runs again after each answer.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(super) call: Arc<Call>,
    /// The questions, without timestamps, and their answers.
    answers: Vec<Answered>,
    /// The number of answers that this run has used.
    at: usize,
    /// The results of conversion webhooks.
    converted: BTreeMap<String, Conversion>,
    /// The number of discarded answers; an answer is discarded if its question changed before the next run.
    given_up: usize,
    /// The questions to send before the next run.
    pending: Vec<(Query, Asked)>,
    pub(super) warnings: Vec<String>,
    /// The uid and the name of a new object, which stay the same when the verb runs again.
    pub(super) born: Option<(String, String)>,
    /// The random choices, which each run repeats from the start.
    pub(super) chance: Chance,
}

/// The recipient of a question.
#[derive(Clone, Debug)]
enum Asked {
    Hook(Answered),
    /// The key, and the uid of the question.
    Converter(String, String),
}

/// The answer of a conversion webhook.
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

/// A write that webhooks review.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// These fields are matched against rules.
    pub(super) operation: &'static str,
    pub(super) group: String,
    pub(super) plural: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
    /// The versions in which the object can be shown; that of the request is first.
    pub(super) versions: Vec<String>,
    /// The labels of the namespace, if the object has one.
    pub(super) surroundings: Option<BTreeMap<String, String>>,
    pub(super) labels: Vec<BTreeMap<String, String>>,
    /// The review request without its uid, in the version of the request.
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

    /// Runs a verb with the answers so far; returns `None` if more answers are needed first.
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

    /// Returns the questions to send before the next run.
    pub(crate) fn questions(&self) -> Vec<Query> {
        let queries = self.pending.iter().map(|(query, _)| query.clone());
        queries.collect()
    }

    /// Stores the answers to the pending questions.
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

    /// Returns the result of an object's conversion.
    pub(crate) fn converted(&self, key: &str) -> Option<&Conversion> {
        self.converted.get(key)
    }

    /// Requests the conversion of an object before the next run.
    pub(crate) fn convert(&mut self, key: String, uid: String, query: Query) {
        self.pending.push((query, Asked::Converter(key, uid)));
    }

    /// Returns the webhooks' warnings for the client.
    pub(crate) fn warnings(self) -> Vec<String> {
        self.warnings
    }
}

/// Lets the mutating webhooks change a write.
pub(super) fn mutate(store: &mut Store, event: &mut Event) -> Result<(), Refusal> {
    refresh(store);
    if is_exempt(&event.group) {
        return Ok(());
    }
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

/// Lets policies and validating webhooks refuse a write.
pub(super) fn validate(store: &mut Store, event: &mut Event) -> Result<(), Refusal> {
    refresh(store);
    policy::check(store, event)?;
    if is_exempt(&event.group) {
        return Ok(());
    }
    let hooks = store.admission.validating.clone();
    for hook in hooks.iter() {
        invoke(store, hook, event, false)?;
    }
    Ok(())
}

/// Calls a webhook if it matches; returns whether it changed the object, or `None` if it was not called.
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

/// If the request has no object, only an empty patch is valid.
fn without_object(hook: &Hook, patch: &Value) -> Result<Option<bool>, Refusal> {
    if patch.as_array().is_some_and(Vec::is_empty) {
        return Ok(Some(false));
    }
    let name = &hook.name;
    Err(Refusal::internal_error(&format!(
        "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
    )))
}

/// Returns whether all match conditions of a webhook hold.
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

/// Returns a webhook's answer; `None` if the call failed and failures are ignored.
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
        // The client never sees this refusal, because the verb runs again.
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
    /// Returns the version in which a webhook sees the object, or `None` if it does not match.
    fn version_for(&self, hook: &Hook) -> Option<String> {
        self.version_wanted(hook.exact, |target| hook.wants(target))
    }

    /// Returns the first version that `wants` accepts; with `exact`, only that of the request.
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

    /// Returns the request in the given version.
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

    /// Converts an object from one version to another.
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

    /// Replaces the object with the one that a webhook returned.
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
