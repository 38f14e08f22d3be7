//! The record of a history from the view of a user: lives of objects, calls of handlers, writes.
//!
//! This module must not depend on the checks.

use std::collections::BTreeSet;

use kopf_rs::Context;
use kopf_rs_tests::Lines;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster::{Name, Presence};
use super::roles::Role;
use crate::random::story::Story;

const FINALIZER: &str = "tester.kopf.rs/finalizer";

/// One life of an object, from its creation to its end.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) name: Name,
    pub(super) uid: String,
    /// The uid of the definition at its creation.
    pub(super) definition: String,
    pub(super) presence: Presence,
    pub(super) object: Value,
    version: u64,
    /// Our finalizer was on the object when it was marked for deletion; `None` if it was not marked.
    pub(super) held: Option<bool>,
    pub(super) runs: Vec<Run>,
}

/// One call of a handler.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) role: Role,
    /// `create`, `update`, `delete`, or the type of the watch event.
    pub(super) reason: &'static str,
    pub(super) retry: u32,
    /// The `old` value that it received, within its scope.
    pub(super) old: Value,
    /// The `new` value that it received, within its scope.
    pub(super) new: Value,
    /// The essence handled last, as stored on the object that it received; another essence means another cycle.
    pub(super) handled_last: Option<Value>,
    /// The presence of the object at the call.
    pub(super) presence: Presence,
    /// The number of the operator start that made the call.
    pub(super) start: usize,
    /// Another handler that was running for the same object at the call.
    pub(super) beside: Option<String>,
    /// True if it started after the stop of the operator was requested.
    pub(super) late: bool,
    /// `None` while it runs, and if it was cut off.
    pub(super) end: Option<End>,
    /// True if it has ended.
    over: bool,
    /// True if its outcome was written to the object.
    pub(super) written: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// With a permanent error.
    Failed,
    /// With a temporary error.
    Again,
}

/// The whole record, and a story of it as text.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) lives: Vec<Life>,
    /// The number of operator starts.
    pub(super) start: usize,
    /// The starts that ended with all writes done.
    pub(super) clean_ends: BTreeSet<usize>,
    /// The time at which the stop of the operator was requested.
    pub(super) stopped: Option<Instant>,
    pub(super) calls: usize,
    pub(super) writes: usize,
    pub(super) story: Story,
}

/// The position of a call: the index of its life and its index there.
pub(super) type Place = (usize, usize);

// === impl Record ===

impl Record {
    pub(super) fn new(lines: Option<&Lines>) -> Self {
        Self {
            lives: Vec::new(),
            start: 0,
            clean_ends: BTreeSet::new(),
            stopped: None,
            calls: 0,
            writes: 0,
            story: Story::new(lines),
        }
    }

    pub(super) fn life(&mut self, uid: &str) -> Option<&mut Life> {
        self.lives.iter_mut().find(|life| life.uid == *uid)
    }

    /// Records the creation of an object by a user.
    pub(super) fn made(&mut self, name: Name, object: &Value, definition: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let uid = text(&object["metadata"]["uid"]);
        if self.life(&uid).is_some() {
            return;
        }
        self.lives.push(Life {
            name,
            uid,
            definition: text(&definition["metadata"]["uid"]),
            presence: Presence::Alive,
            object: Value::Null,
            version: 0,
            held: None,
            runs: Vec::new(),
        });
        self.saw(object);
    }

    /// Records a state of an object.
    pub(super) fn saw(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let version = metadata["resourceVersion"].as_str().unwrap_or_default();
        let version = version.parse().unwrap_or(0);
        let Some(life) = self.life(metadata["uid"].as_str().unwrap_or_default()) else {
            return;
        };
        if version <= life.version {
            return;
        }
        life.version = version;
        life.object = object.clone();
        if !metadata["deletionTimestamp"].is_null() {
            let held = life.is_held();
            life.held.get_or_insert(held);
            life.presence = Presence::Terminating;
        }
    }

    /// Records a successful write of the operator; `whole` is false for a write to the status subresource.
    pub(super) fn wrote(&mut self, object: &Value, whole: bool) {
        self.writes += 1;
        let start = self.start;
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let kept = |object: &Value| {
            let metadata = &object["metadata"];
            (metadata["annotations"].clone(), metadata["finalizers"].clone())
        };
        let before = self.life(uid).map(|life| kept(&life.object));
        self.saw(object);
        // Raw-event handlers write only the status, even if it is not a subresource.
        let kept = whole && before.is_some_and(|before| before != kept(object));
        if let Some(life) = self.life(uid).filter(|_| kept) {
            let ended = |run: &&mut Run| run.start == start && run.end.is_some();
            life.runs.iter_mut().filter(ended).for_each(|run| run.written = true);
        }
    }

    /// Records the start of a call for an object with this `presence`, and returns the place for its end.
    pub(super) fn called(&mut self, role: &Role, context: &Context, presence: Presence) -> Place {
        self.calls += 1;
        let body = context.body();
        let reason = match role.on {
            "event" => context.event_type().and_then(kopf_rs::EventType::as_str),
            _ => context.reason().map(kopf_rs::Reason::as_str),
        };
        let reason = reason.unwrap_or("listed");
        let told = |change: Option<&Value>| match (change, role.on) {
            (change, "field") => change.cloned().unwrap_or_default(),
            (Some(essence), _) => role.scope(&essence["spec"]),
            (None, _) => Value::Null,
        };
        let old = told(context.old());
        let new = match role.on {
            "event" => role.scope(body.spec()),
            _ => told(context.new()),
        };
        let place = self.place(context.uid());
        let (life, start) = (&mut self.lives[place], self.start);
        let beside = life.runs.iter().find(|run| !run.over);
        let beside = beside.map(|run| run.role.id.clone());
        let version = body.resource_version();
        life.runs.push(Run {
            role: role.clone(),
            reason,
            retry: context.retry(),
            old,
            new,
            handled_last: crate::operating::last_handled(body),
            presence,
            start,
            beside,
            late: self.stopped.is_some_and(|at| Instant::now() > at),
            end: None,
            over: false,
            written: false,
        });
        let run = life.runs.len() - 1;
        let (name, called) = (life.name, life.runs[run].clone());
        self.story.tell(format!("{name:?}: called at version {version}: {called}"));
        (place, run)
    }

    /// Returns the life with that uid. Panics if no user created the object.
    fn place(&self, uid: &str) -> usize {
        let place = self.lives.iter().position(|life| life.uid == *uid);
        place.unwrap_or_else(|| panic!("a handler is called for {uid:?}, which nobody has made"))
    }

    /// Records the end of a call; `None` if it was cut off.
    pub(super) fn ended(&mut self, (life, run): Place, end: Option<End>) {
        let life = &mut self.lives[life];
        let run = &mut life.runs[run];
        run.over = true;
        run.end = end;
        let (name, id) = (life.name, run.role.id.clone());
        match end {
            Some(end) => self.story.tell(format!("{name:?}: {id} ends: {end:?}")),
            None => self.story.tell(format!("{name:?}: {id} is cut off")),
        }
    }

    /// Returns the lives of objects that are not being deleted.
    pub(super) fn living(&self) -> impl Iterator<Item = &Life> {
        let alive = |life: &&Life| life.presence == Presence::Alive;
        self.lives.iter().filter(alive)
    }
}

// === impl Life ===

impl Life {
    pub(super) fn is_held(&self) -> bool {
        let finalizers = self.object["metadata"]["finalizers"].as_array();
        finalizers.is_some_and(|all| all.iter().any(|it| it == FINALIZER))
    }

    pub(super) fn runs<'a>(&'a self, id: &'a str) -> impl DoubleEndedIterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.role.id == *id)
    }

    /// Returns whether handlers have no work left on the object, judging by its annotations and by the recorded calls.
    pub(super) fn is_at_rest(&self, start: usize, handled: bool) -> bool {
        let annotations = self.object["metadata"]["annotations"].as_object();
        let names = annotations.into_iter().flatten().map(|(name, _)| name);
        let ours = names.filter_map(|name| name.strip_prefix("tester.kopf.rs/"));
        let kept = ["last-handled-configuration", "kopf-managed"];
        let recorded = ours.into_iter().any(|name| !kept.contains(&name));
        let last = crate::operating::last_handled(&self.object);
        let wanted = json!(last.map(|essence| essence["spec"].clone()));
        let current = self.runs.iter().filter(|run| run.start == start);
        let unfinished = |run: &Run| !run.over || run.end == Some(End::Again) && run.is_change();
        let mut last_of_each = std::collections::BTreeMap::new();
        for run in current {
            last_of_each.insert(&run.role.id, run);
        }
        !recorded
            && (!handled || wanted == self.object["spec"])
            && !last_of_each.values().any(|run| unfinished(run))
    }
}

// === impl Run ===

impl Run {
    /// Returns whether the handler is done: it succeeded or failed permanently.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.end, Some(End::Done | End::Failed))
    }

    pub(super) fn is_change(&self) -> bool {
        self.role.on != "event"
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (id, reason, retry) = (&self.role.id, self.reason, self.retry);
        let (old, new, start, presence) = (&self.old, &self.new, self.start, self.presence);
        write!(f, "{id}: {reason} #{retry} of start {start}, {old} -> {new}, the object is {presence:?}")?;
        match self.end {
            Some(end) => write!(f, ", {end:?}, {}", if self.written { "written" } else { "not written" }),
            None if self.over => f.write_str(", cut off"),
            None => Ok(()),
        }
    }
}
