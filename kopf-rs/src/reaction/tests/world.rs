//! A world of one object, one operator, and a clock: behaves like the engine, without tasks and without a server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kopf_rs_schedule::HandlerKind;
use serde_json::{Value, json};
use tracing::Level;

use crate::handler::cause::CauseContext;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::options::Callback;
use crate::handler::outcome::Outcome;
use crate::handler::registry::callback;
use crate::handler::timing::{IntoPause, Pause};
use crate::happening::Happening;
use crate::happening::handling::Handling;
use crate::object::body::Body;
use crate::object::event::EventType;
use crate::object::patch::{Patch, apply};
use crate::object::path::FieldPath;
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::reaction::background::BackgroundMemory;
use crate::reaction::fast_path::is_already_handled;
use crate::reaction::input::{Input, Policy, Suspension};
use crate::reaction::memory::ObjectMemory;
use crate::reaction::plan::{Plan, plan};
use crate::reaction::settle::{Attempted, Effects, settle};
use crate::reaction::subhandlers::{Progress, SubhandlerPlan};
use crate::state::Persistence;

pub(super) const FINALIZER: &str = "op.kopf.rs/finalizer";
pub(super) const LAST: &str = "op.kopf.rs/last-handled-configuration";

/// An action during a handler's run.
pub(super) type During = Box<dyn Fn(&mut Value)>;

pub(super) struct World {
    pub(super) handlers: Vec<Arc<Handler>>,
    /// Deletion handlers that are not served.
    pub(super) withheld: Vec<Arc<Handler>>,
    pub(super) policy: Policy,
    pub(super) object: Option<Value>,
    pub(super) now: Timestamp,
    pub(super) wall_ahead: SignedDuration,
    /// The future outcomes per handler: `ok`, `t5` (temporary, 5 s), `e` (arbitrary), `p` (permanent), `late` (permanent, after its
    /// sub-handlers), `x` (timed out), JSON (a result).
    pub(super) script: BTreeMap<String, VecDeque<String>>,
    /// Calls as `id reason#retry`.
    pub(super) calls: Vec<String>,
    /// Calls with their changes: `old -> new`.
    pub(super) told: Vec<String>,
    pub(super) journal: Vec<Value>,
    pub(super) lines: Vec<String>,
    pub(super) during: BTreeMap<String, During>,
    /// The changes that handlers put into their patch.
    pub(super) wants: BTreeMap<String, Value>,
    /// Sub-handlers in the syntax of `sub_handler`, by the ids of their parents.
    pub(super) subs: BTreeMap<String, Vec<&'static str>>,
    /// The number of writes to refuse.
    pub(super) refuse: usize,
    pub(super) seen: Option<ObjectMemory>,
    pub(super) wake_at: Option<Timestamp>,
    pub(super) failed: Vec<String>,
    /// Passes that the fast path could have avoided.
    pub(super) quiet: usize,
    pub(super) persistence: Persistence,
    pub(super) suspended: Vec<Suspension>,
    pub(super) background: BackgroundMemory,
    /// True if daemons and timers are no longer called.
    pub(super) ends_background: bool,
    /// Running calls of daemons and timers.
    pub(super) running: Vec<HandlerCall>,
    revision: u64,
}

pub(super) fn handler(kind: HandlerKind, id: &str) -> Handler {
    declared(kind, id, |_| {})
}

/// Returns a handler with these options, and exactly this id.
pub(super) fn declared(kind: HandlerKind, id: &str, options: impl FnOnce(&mut Callback)) -> Handler {
    let mut callback = callback::handler(id, |_| async { Ok(()) });
    options(&mut callback);
    Handler { id: id.into(), ..callback.register(kind, Some("kopfexamples")).unwrap() }
}

/// Returns a reconciler with these options.
pub(super) fn reconciler(id: &str, options: impl FnOnce(&mut Callback)) -> Handler {
    declared(HandlerKind::Reconcile, id, options)
}

pub(super) fn pause<M>(span: impl IntoPause<M>) -> Pause {
    span.into_pause()
}

/// Adds a kind of children.
pub(super) fn own(callback: &mut Callback, kind: &str) {
    *callback = callback.clone().owns(kind);
}

pub(super) fn with(mut handler: Handler, change: impl FnOnce(&mut Handler)) -> Handler {
    change(&mut handler);
    handler
}

pub(super) fn on_field(id: &str, field: &str) -> Handler {
    declared(HandlerKind::OnField, id, |it| {
        it.handler.field = Some(FieldPath::parse(field));
    })
}

/// Returns a handler for each word: `create:c update:u delete:d finalize:z resume:r event:e optional:o field:f` (of `spec.f`).
pub(super) fn handlers(words: &str) -> Vec<Handler> {
    let one = |word: &str| {
        let (kind, id) = word.split_once(':').unwrap();
        match kind {
            "create" => handler(HandlerKind::OnCreate, id),
            "update" => handler(HandlerKind::OnUpdate, id),
            "delete" => handler(HandlerKind::OnDelete, id),
            "optional" => with(handler(HandlerKind::OnDelete, id), |it| it.optional = true),
            "finalize" => handler(HandlerKind::Finalize, id),
            "resume" => handler(HandlerKind::OnResume, id),
            "event" => handler(HandlerKind::OnEvent, id),
            "daemon" => declared(HandlerKind::Daemon, id, |_| {}),
            "timer" => declared(HandlerKind::Timer, id, |it| {
                it.handler.timing.interval = Some(pause(10));
            }),
            "reconcile" => reconciler(id, |_| {}),
            "field" => on_field(id, &format!("spec.{}", id.split('/').next_back().unwrap())),
            kind => panic!("{kind}"),
        }
    };
    words.split_whitespace().map(one).collect()
}

impl World {
    pub(super) fn new(handlers: Vec<Handler>) -> Self {
        Self {
            handlers: handlers.into_iter().map(Arc::new).collect(),
            withheld: Vec::new(),
            policy: Policy::default(),
            object: None,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            wall_ahead: SignedDuration::ZERO,
            script: BTreeMap::new(),
            calls: Vec::new(),
            told: Vec::new(),
            journal: Vec::new(),
            lines: Vec::new(),
            during: BTreeMap::new(),
            wants: BTreeMap::new(),
            subs: BTreeMap::new(),
            refuse: 0,
            seen: None,
            wake_at: None,
            failed: Vec::new(),
            quiet: 0,
            persistence: Persistence::named("op"),
            suspended: Vec::new(),
            background: BackgroundMemory::default(),
            ends_background: false,
            running: Vec::new(),
            revision: 0,
        }
    }
    pub(super) fn of(words: &str) -> Self {
        Self::new(handlers(words))
    }

    // === users and servers ===

    pub(super) fn script(mut self, id: &str, outcomes: &str) -> Self {
        let outcomes = outcomes.split_whitespace().map(str::to_owned).collect();
        self.script.insert(id.to_owned(), outcomes);
        self
    }
    /// Creates the object without handling it.
    #[expect(clippy::needless_pass_by_value, reason = "cases read better with `json!` in place")]
    pub(super) fn put(&mut self, spec: Value) {
        let metadata = json!({"name": "n", "namespace": "s", "uid": "u", "resourceVersion": "0"});
        self.object = Some(json!({"apiVersion": "g/v1", "kind": "K", "metadata": metadata, "spec": spec}));
        self.bump();
    }
    pub(super) fn create(&mut self, spec: Value) -> &mut Self {
        self.put(spec);
        self.see(EventType::Added)
    }
    /// Changes the object with a merge patch without handling it.
    #[expect(clippy::needless_pass_by_value, reason = "cases read better with `json!` in place")]
    pub(super) fn edit(&mut self, patch: Value) {
        apply(self.object.as_mut().unwrap(), &patch);
        self.bump();
    }
    pub(super) fn update(&mut self, patch: Value) -> &mut Self {
        self.edit(patch);
        self.see(EventType::Modified)
    }
    pub(super) fn delete(&mut self) -> &mut Self {
        self.edit(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        self.see(EventType::Modified)
    }
    /// Ends the process; another one lists the object.
    pub(super) fn restart(&mut self) -> &mut Self {
        self.seen = None;
        self.wake_at = None;
        self.background = BackgroundMemory::default();
        self.running.clear();
        self.see(EventType::Listed)
    }
    fn bump(&mut self) {
        self.revision += 1;
        let Some(object) = &mut self.object else {
            return;
        };
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|it| !it.is_empty());
        if !object["metadata"]["deletionTimestamp"].is_null() && !held {
            let last = self.object.take();
            let body = Arc::new(Body::new(last.unwrap()));
            // The engine would see this after its current work; this order is close enough here.
            self.pass(Some(EventType::Deleted), &body);
        }
    }

    // === the engine ===

    /// Handles an event, and everything that follows from it without waiting.
    pub(super) fn see(&mut self, event: EventType) -> &mut Self {
        self.go_on(Some(event))
    }
    /// Plans again, as after a pause.
    pub(super) fn again(&mut self) -> &mut Self {
        self.go_on(None)
    }
    fn go_on(&mut self, mut event: Option<EventType>) -> &mut Self {
        for _ in 0..100 {
            if self.object.is_none() {
                return self;
            }
            let changed = self.pass(event.take(), &self.body());
            if !changed && self.wake_at.is_none_or(|at| at > self.now) {
                return self;
            }
        }
        panic!("no end: {:?}", self.journal)
    }
    /// Returns the current object.
    pub(super) fn body(&self) -> Arc<Body> {
        Arc::new(Body::new(self.object.clone().unwrap()))
    }
    /// Advances the time until nothing more is due.
    pub(super) fn wait(&mut self) -> &mut Self {
        for _ in 0..100 {
            let (Some(at), true) = (self.wake_at, self.object.is_some()) else {
                return self;
            };
            self.now = self.now.max(at);
            self.again();
        }
        panic!("no end: {:?}", self.journal)
    }
    /// Advances the time to the next plan, and returns false if there is none.
    pub(super) fn advance(&mut self) -> bool {
        self.now = self.wake_at.unwrap_or(self.now).max(self.now);
        self.wake_at.is_some()
    }
    pub(super) fn sleep(&mut self, seconds: u64) -> &mut Self {
        self.now = self.now.checked_add(Duration::from_secs(seconds)).unwrap();
        self
    }

    /// Performs one pass over the current object.
    pub(super) fn pass_once(&mut self, event: EventType) {
        self.pass(Some(event), &self.body());
    }

    /// Performs one pass, and returns true if it has changed the object.
    fn pass(&mut self, event: Option<EventType>, body: &Arc<Body>) -> bool {
        let plan = self.plan(event, body);
        let quiet = event != Some(EventType::Deleted) && self.is_already_handled(body);
        let (calls, watched) = (plan.changing.len(), !plan.watching.is_empty());
        self.hear(&plan.told);
        let mut plan = plan;
        self.run_in_background(std::mem::take(&mut plan.background), body);
        let seen = self.seen.as_ref().unwrap();
        plan.background_went_on(seen, self.background.holds(!body.is_deleting()));
        let effects = self.act(plan);
        self.hear(&effects.told);
        self.failed.extend(effects.failed.iter().map(ToString::to_string));
        if quiet {
            self.quiet += 1;
            let nothing = effects.wake_at.is_none() && effects.seen.in_progress.is_none();
            let left = effects.patch.clone().effective(&effects.body);
            let unwritten = left.is_empty() || watched;
            assert!(calls == 0 && nothing && unwritten, "overlooked: {effects:?}");
        }
        self.write(effects)
    }

    pub(super) fn hear(&mut self, told: &[Handling]) {
        let told = told.iter().filter(|it| it.level() <= Level::INFO);
        self.lines.extend(told.map(ToString::to_string));
    }

    pub(super) fn plan(&mut self, event: Option<EventType>, body: &Arc<Body>) -> Plan {
        let first = ObjectMemory::first(event.unwrap_or(EventType::Modified));
        let seen = self.seen.get_or_insert(first);
        plan(&Input {
            handlers: &self.handlers,
            persistence: &self.persistence,
            policy: &self.policy,
            resource: &Arc::new(Resource::default()),
            body,
            event,
            seen,
            background: Some(&self.background),
            background_is_over: self.ends_background,
            surroundings: &CauseContext::default(),
            finalizer_is_contested: false,
            withheld: &self.withheld,
            suspended: &self.suspended,
            ask_pause: |pause, cause| Ok(pause.length(cause)),
            now: self.now,
            wall_ahead: self.wall_ahead,
            random: 0.5,
        })
    }

    /// Evaluates the engine's fast path.
    fn is_already_handled(&self, body: &Body) -> bool {
        let raw = Raw::parse(&body.to_string()).unwrap();
        let seen = self.seen.as_ref().unwrap();
        is_already_handled(&raw, &Resource::default(), &self.handlers, seen, &self.persistence)
    }

    pub(super) fn act(&mut self, plan: Plan) -> Effects {
        let mut patch = Patch::new();
        for cause in &plan.watching {
            let event = cause.event_type().unwrap();
            self.calls.push(format!("{} {}", cause.handler.id, event.as_str().unwrap_or("None")));
            if let Some(wanted) = self.wants.get(&*cause.handler.id) {
                patch.merge(wanted.clone());
            }
        }
        let changing: Vec<HandlerCall> = plan.changing.clone();
        let attempted = changing.iter().map(|cause| self.call(&plan, cause, &mut patch)).collect();
        settle(plan, attempted, patch, self.now)
    }

    fn call(&mut self, plan: &Plan, cause: &HandlerCall, patch: &mut Patch) -> Attempted {
        let id = cause.handler.id.clone();
        let mut subs = plan.subhandler_plan(&cause.handler);
        let outcome = match &mut subs {
            Some(subs) => self.call_within(subs, cause, patch),
            None => self.attempt(cause, patch),
        };
        Attempted { id, outcome, subhandlers: subs.map(SubhandlerPlan::into_records).unwrap_or_default() }
    }

    /// Makes one attempt, with its picked sub-handlers of all levels.
    fn call_within(&mut self, subs: &mut SubhandlerPlan, cause: &HandlerCall, patch: &mut Patch) -> Outcome {
        let id = &*cause.handler.id;
        let next = self.script.get(id).and_then(|it| it.front());
        let fails_late = next.is_some_and(|it| it == "late");
        let outcome = self.attempt(cause, patch);
        let names = self.subs.get(id).cloned();
        let (Some(names), Outcome::Succeeded(_)) = (names, &outcome) else {
            return outcome;
        };
        let (now, mut told) = (self.now, vec![]);
        let callbacks = names.into_iter().map(sub_handler).collect();
        let group = subs.register(cause, callbacks, now, &mut told).unwrap();
        let picked = subs.pick(&group, cause, None, now, &mut told);
        self.hear(&told);
        for (place, sub) in picked {
            let outcome = self.call_within(subs, &sub, patch);
            subs.attempted(place, outcome, now);
        }
        match subs.progress(&group) {
            _ if fails_late => outcome_of("p"),
            Progress::Done => outcome,
            Progress::Left => Outcome::Waiting,
            Progress::Failed(message) => Outcome::permanent(message),
        }
    }

    fn attempt(&mut self, cause: &HandlerCall, patch: &mut Patch) -> Outcome {
        let id = cause.handler.id.clone();
        let change = cause.change().unwrap();
        let reason = change.reason.unwrap().as_str();
        self.calls.push(format!("{id} {reason}#{}", cause.attempt.retry));
        let side = |side: &Option<Arc<Value>>| side.as_ref().map_or("None".into(), ToString::to_string);
        self.told.push(format!("{id}: {} -> {} by {}", side(&change.old), side(&change.new), change.diff));
        if let Some(wanted) = self.wants.get(&*id) {
            patch.merge(wanted.clone());
        }
        let next = self.script.get_mut(&*id).and_then(VecDeque::pop_front);
        if let (Some(during), Some(object)) = (self.during.remove(&*id), &mut self.object) {
            during(object);
            self.bump();
        }
        outcome_of(next.as_deref().unwrap_or("ok"))
    }

    pub(super) fn write(&mut self, effects: Effects) -> bool {
        self.wake_at = effects.wake_at;
        let newest = self.object.as_ref().unwrap_or(&effects.body);
        let patch = effects.patch.effective(newest);
        let Some(object) = self.object.as_ref().filter(|_| !patch.is_empty()) else {
            self.seen = Some(effects.seen);
            return false;
        };
        let found: Vec<String> = Body::new(object.clone()).finalizers().map(str::to_owned).collect();
        let conflict = effects
            .expected_finalizers
            .filter(|_| patch.get(&["metadata", "finalizers"]).is_some())
            .is_some_and(|expected| expected != found);
        if conflict || self.refuse > 0 {
            self.refuse = self.refuse.saturating_sub(1);
            self.seen = Some(effects.seen_if_refused);
            return true;
        }
        self.journal.push(patch.as_value().clone());
        let before = self.object.clone();
        apply(self.object.as_mut().unwrap(), patch.as_value());
        assert_ne!(before, self.object, "a write that changes nothing: {}", patch.as_value());
        self.seen = Some(effects.seen);
        self.bump();
        true
    }

    // === observations ===

    pub(super) fn calls(&mut self) -> String {
        std::mem::take(&mut self.calls).join(" ")
    }
    pub(super) fn writes(&mut self) -> usize {
        std::mem::take(&mut self.journal).len()
    }
    pub(super) fn lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
    /// Returns the names of our annotations on the object without the prefix, except for the marker and the essence.
    pub(super) fn records(&self) -> String {
        let annotations = self.object.as_ref().map(|it| it["metadata"]["annotations"].clone());
        let names = annotations.iter().filter_map(Value::as_object).flatten();
        let names = names.filter_map(|(name, _)| name.strip_prefix("op.kopf.rs/"));
        names
            .filter(|name| !["kopf-managed", "last-handled-configuration"].contains(name))
            .collect::<Vec<_>>()
            .join(" ")
    }
    pub(super) fn record(&self, id: &str) -> Value {
        let annotation = self.annotation_of(id);
        let text = self.object.as_ref().unwrap()["metadata"]["annotations"][annotation].as_str();
        text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
    }
    pub(super) fn annotation_of(&self, id: &str) -> String {
        format!("{}/{id}", self.persistence.prefix().unwrap())
    }
    pub(super) fn last_handled(&self) -> Value {
        let text = self.object.as_ref().unwrap()["metadata"]["annotations"][LAST].as_str();
        text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| text.into()))
    }
}

/// Returns a sub-handler by its name, or by its name and its field: `name@field`.
pub(super) fn sub_handler(words: &str) -> Callback {
    let (name, field) = words.split_once('@').unzip();
    let callback = callback::handler(name.unwrap_or(words), |_| async { Ok(()) });
    match field {
        Some(field) => callback.field(field),
        None => callback,
    }
}

pub(super) fn outcome_of(text: &str) -> Outcome {
    let message = "not yet".to_owned();
    if let Some(delay) = text.strip_prefix('t').and_then(|it| it.parse().ok()) {
        return Outcome::Temporary { message, delay: Duration::from_secs_f64(delay), child: None };
    }
    match text {
        "ok" | "late" => Outcome::Succeeded(None),
        "e" => Outcome::Arbitrary { message },
        "p" => Outcome::permanent(message),
        "x" => Outcome::TimedOut { after: Duration::from_secs(1) },
        json => Outcome::Succeeded(Some(serde_json::from_str(json).unwrap())),
    }
}
