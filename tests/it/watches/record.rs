//! What has happened in a history, as a user could have seen it: lives of objects, calls of handlers, writes.
//!
//! Must not know what should have happened.

use std::collections::BTreeSet;

use kopf_rs::Context;
use kopf_rs_tests::Lines;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster::{Name, Presence};
use super::roles::Role;

const FINALIZER: &str = "tester.kopf.rs/finalizer";

/// One life of one object, from its creation to its end.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) name: Name,
    pub(super) uid: String,
    /// The uid of the definition it was made under.
    pub(super) definition: String,
    pub(super) presence: Presence,
    pub(super) object: Value,
    version: u64,
    /// Whether our finalizer was on the object when it was marked for deletion.
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
    /// What it was told was there before, of its scope.
    pub(super) old: Value,
    /// What it was told is there, of its scope.
    pub(super) new: Value,
    /// What the object it was called with said was handled last: another cycle begins where that is something else.
    pub(super) handled_last: Option<Value>,
    /// Whether the object was there when it was called.
    pub(super) presence: Presence,
    /// Which start of the operator made it.
    pub(super) start: usize,
    /// The call of another handler for the same object that was under way.
    pub(super) beside: Option<String>,
    /// It has begun after the operator was told to stop.
    pub(super) late: bool,
    /// Nothing while it is under way, and where it was cut off.
    pub(super) end: Option<End>,
    /// It is not under way any more.
    over: bool,
    /// What it came to was written to the object.
    pub(super) written: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// For good.
    Failed,
    /// To be tried again.
    Again,
}

/// Everything, and the story of it in words.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) lives: Vec<Life>,
    /// How often the operator was started.
    pub(super) start: usize,
    /// Starts that ended while the operator could write all it wanted.
    pub(super) clean_ends: BTreeSet<usize>,
    /// The operator was told to stop.
    pub(super) stopped: Option<Instant>,
    pub(super) calls: usize,
    pub(super) writes: usize,
    began: Instant,
    story: Vec<String>,
    /// What the operator logs, and how much of it is told.
    lines: Option<(Lines, usize)>,
}

/// Where a call is entered: its life and its number there.
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
            began: Instant::now(),
            story: Vec::new(),
            lines: lines.map(|lines| (lines.clone(), 0)),
        }
    }

    pub(super) fn tell(&mut self, line: impl AsRef<str>) {
        if let Some((lines, told)) = &mut self.lines {
            let lines = lines.all();
            let new = lines[*told..]
                .iter()
                .map(|line| format!("           | {line}"));
            self.story.extend(new);
            *told = lines.len();
        }
        let now = self.began.elapsed().as_secs_f64();
        self.story.push(format!("{now:>10.3} {}", line.as_ref()));
    }

    pub(super) fn story(&self) -> &[String] {
        &self.story
    }

    pub(super) fn life(&mut self, uid: &str) -> Option<&mut Life> {
        self.lives.iter_mut().find(|life| life.uid == *uid)
    }

    /// A user has made the object.
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

    /// The object was seen to be so.
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

    /// A write of the operator to the object has landed; `whole`: it was no write to the status alone.
    pub(super) fn wrote(&mut self, object: &Value, whole: bool) {
        self.writes += 1;
        let start = self.start;
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let kept = |object: &Value| {
            let metadata = &object["metadata"];
            (
                metadata["annotations"].clone(),
                metadata["finalizers"].clone(),
            )
        };
        let before = self.life(uid).map(|life| kept(&life.object));
        self.saw(object);
        // Raw-event handlers write to the status alone, even where that has no subresource.
        let kept = whole && before.is_some_and(|before| before != kept(object));
        if let Some(life) = self.life(uid).filter(|_| kept) {
            let ended = |run: &&mut Run| run.start == start && run.end.is_some();
            life.runs
                .iter_mut()
                .filter(ended)
                .for_each(|run| run.written = true);
        }
    }

    /// A handler is called while the object is so `presence`; where to enter its end.
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
        self.tell(format!("{name:?}: called at version {version}: {called}"));
        (place, run)
    }

    /// The life of that uid. Objects that users did not make are unknown.
    fn place(&self, uid: &str) -> usize {
        let place = self.lives.iter().position(|life| life.uid == *uid);
        place.unwrap_or_else(|| panic!("a handler is called for {uid:?}, which nobody has made"))
    }

    /// A call has come to its end; nothing where it was cut off.
    pub(super) fn ended(&mut self, (life, run): Place, end: Option<End>) {
        let life = &mut self.lives[life];
        let run = &mut life.runs[run];
        run.over = true;
        run.end = end;
        let (name, id) = (life.name, run.role.id.clone());
        match end {
            Some(end) => self.tell(format!("{name:?}: {id} ends: {end:?}")),
            None => self.tell(format!("{name:?}: {id} is cut off")),
        }
    }

    /// All lives of objects that are not being deleted.
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

    /// Whether handlers have something left to do with it, as the object says or as is seen of their calls.
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
    /// Whether nothing is owed after it: it has succeeded, or failed for good.
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
        write!(
            f,
            "{id}: {reason} #{retry} of start {start}, {old} -> {new}, the object is {presence:?}"
        )?;
        match self.end {
            Some(end) => write!(
                f,
                ", {end:?}, {}",
                if self.written {
                    "written"
                } else {
                    "not written"
                }
            ),
            None if self.over => f.write_str(", cut off"),
            None => Ok(()),
        }
    }
}
