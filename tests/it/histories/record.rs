//! The record of a history from the view of a user: states of objects, calls, essences stored as handled.
//!
//! All entries have one total order. This module must not depend on the checks.

use std::time::Duration;

use kopf_rs::Context;
use serde_json::Value;
use tokio::time::Instant;

use super::keeping::Keeping;
use super::roles::{Role, essence};
use crate::random::story::Story;

/// A position in that order.
pub(super) type Place = usize;

/// One life of an object, from its creation to its end.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) name: String,
    pub(super) uid: String,
    /// The states with distinct essences, in order.
    pub(super) versions: Vec<Version>,
    /// The essences stored as handled, each different from the previous one.
    pub(super) handled: Vec<(Place, Value)>,
    pub(super) runs: Vec<Run>,
    /// Handlers whose last call was lost in a crash, each with a state that the object still stores. If the scope returns to that state,
    /// the operator cannot detect that it ever differed.
    pub(super) forgotten: Vec<(String, Value)>,
    /// True if an operator restarted before it finished its work, with a storage format that does not keep what handlers have seen.
    pub(super) blurred: bool,
    /// Our finalizer was on the object when it was marked for deletion; `None` if it was not marked.
    pub(super) deleted: Option<bool>,
    pub(super) held: bool,
    /// True if progress is stored on the object.
    recorded: bool,
    newest: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) at: Place,
    pub(super) number: u64,
    pub(super) essence: Value,
}

/// One call of a handler.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) at: Place,
    pub(super) role: Role,
    pub(super) reason: &'static str,
    pub(super) retry: u32,
    /// The `new` value that it received, within its scope.
    pub(super) told: Value,
    /// The state of the object within its scope.
    pub(super) seen: Value,
    /// The resource version of the object that it received.
    pub(super) number: u64,
    /// True if the object stored only a digest of the essence handled last.
    pub(super) knew_digest_only: bool,
    /// The number of the operator start that made the call.
    pub(super) start: usize,
    began: Instant,
    /// The total duration of the attempts before it.
    runtime: Duration,
    /// True if the timeout may pass before the next attempt is due, so that none follows.
    given_up: bool,
    /// `None` if it was cut off.
    pub(super) end: Option<End>,
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
    /// Its sub-handlers have not finished.
    Waiting,
}

/// The whole record, and a story of it as text.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) keeping: Keeping,
    pub(super) lives: Vec<Life>,
    /// The number of operator starts.
    pub(super) start: usize,
    /// The number of the operator's successful writes.
    pub(super) writes: usize,
    pub(super) calls: usize,
    place: Place,
    pub(super) story: Story,
}

// === impl Record ===

impl Record {
    pub(super) fn new(keeping: Keeping) -> Self {
        Self { keeping, lives: Vec::new(), start: 0, writes: 0, calls: 0, place: 0, story: Story::new(None) }
    }

    fn next(&mut self) -> Place {
        self.place += 1;
        self.place
    }

    /// Records a state of an object.
    pub(super) fn saw(&mut self, object: &Value) {
        let at = self.next();
        let metadata = &object["metadata"];
        let (uid, number) = (&metadata["uid"], number(&metadata["resourceVersion"]));
        let keeping = self.keeping;
        let place = self.lives.iter().position(|life| life.uid == *uid);
        let place = place.unwrap_or_else(|| {
            self.lives.push(Life::of(metadata));
            self.lives.len() - 1
        });
        let life = &mut self.lives[place];
        if number <= life.newest {
            return;
        }
        life.newest = number;
        let essence = essence(object);
        if life.versions.last().is_none_or(|it| it.essence != essence) {
            let version = Version { at, number, essence };
            life.versions.push(version);
        }
        life.recorded = !keeping.records(object).is_empty();
        let handled = keeping.handled(object);
        let last = life.handled.last().map(|(_, essence)| essence);
        if let Some(handled) = handled.filter(|it| Some(it) != last) {
            life.handled.push((at, handled));
        }
        let finalizers = metadata["finalizers"].as_array();
        life.held = finalizers.is_some_and(|all| all.iter().any(|it| *it == keeping.finalizer()));
        if life.deleted.is_none() && !metadata["deletionTimestamp"].is_null() {
            life.deleted = Some(life.held);
        }
    }

    /// Records a successful write of the operator; `whole` is false for a write to the status subresource.
    pub(super) fn wrote(&mut self, object: &Value, whole: bool) {
        self.saw(object);
        self.writes += 1;
        if !whole && !self.keeping.is_in_status() {
            return;
        }
        let (uid, start) = (&object["metadata"]["uid"], self.start);
        let life = self.lives.iter_mut().find(|life| life.uid == *uid);
        let runs = life.into_iter().flat_map(|life| &mut life.runs);
        for run in runs.filter(|run| run.start == start && run.end.is_some()) {
            run.written = true;
        }
    }

    /// Records the start of a call, and returns the place for its end.
    pub(super) fn called(&mut self, role: &Role, context: &Context) -> (usize, usize) {
        let at = self.next();
        self.calls += 1;
        let (body, new) = (context.body(), context.new());
        let reason = context.reason().map_or("event", kopf_rs::Reason::as_str);
        let seen = role.scope(&essence(body));
        let told = match role.field {
            Some(_) => new.cloned().unwrap_or_default(),
            None => new.map(essence).unwrap_or_default(),
        };
        let (id, retry) = (&role.id, context.retry());
        self.story.tell(format!(
            "{}: {id} is called: {reason} #{retry}, told {told}{}",
            context.name(),
            if seen == told { String::new() } else { format!(", sees {seen}") }
        ));
        let run = Run {
            at,
            role: role.clone(),
            reason,
            retry,
            told,
            seen,
            number: context.body().resource_version().parse().unwrap_or(0),
            knew_digest_only: self.keeping.has_digest_only(body),
            start: self.start,
            began: Instant::now(),
            runtime: context.runtime(),
            given_up: false,
            end: None,
            written: false,
        };
        let life = self.lives.iter().position(|it| it.uid == context.uid());
        let life = life.unwrap_or_else(|| {
            self.lives.push(Life::of(context.meta()));
            self.lives.len() - 1
        });
        self.lives[life].runs.push(run);
        (life, self.lives[life].runs.len() - 1)
    }

    /// Records the end of a call, and the delay until the next attempt if it is known.
    pub(super) fn ended(&mut self, (life, run): (usize, usize), end: End, delay: Option<Duration>) {
        let life = &mut self.lives[life];
        life.runs[run].ended(end, delay);
        let told = format!("{}: {} ends: {end:?}", life.name, life.runs[run].role.id);
        self.story.tell(told);
    }

    /// Records the end of the operator: results that it had not written are lost.
    pub(super) fn crashed(&mut self) {
        let start = self.start;
        let clear = self.keeping.remembers_sights();
        for life in &mut self.lives {
            let unwritten = |run: &&Run| run.start == start && !run.written;
            let lost: Vec<String> =
                life.runs.iter().filter(unwritten).map(|run| run.role.id.clone()).collect();
            let handled = life.handled.last().map(|(_, essence)| essence);
            let newest = life.versions.last().map(|version| &version.essence);
            let busy = life.recorded || !lost.is_empty() || handled != newest;
            life.blurred |= !clear && busy;
            for id in lost {
                let of_it = || life.runs.iter().rev().filter(|run| run.role.id == id);
                let Some(role) = of_it().map(|run| run.role.clone()).next() else {
                    continue;
                };
                let recorded = of_it().find(|run| run.written).map(|run| run.seen.clone());
                let handled = handled.map(|handled| role.scope(handled));
                let states = recorded.into_iter().chain(handled);
                life.forgotten.extend(states.map(|state| (id.clone(), state)));
            }
        }
    }

    /// Returns a run of the current start that is still running, or whose outcome is not written yet.
    pub(super) fn unfinished(&self) -> Option<&Run> {
        self.living().find_map(|life| {
            let mut runs = life.runs.iter().filter(|run| run.start == self.start);
            runs.find(|run| run.is_unfinished() && !self.is_memory_only(life, run))
        })
    }

    /// Returns whether the run needs no write: the format does not keep what a handler saw, and the state that the run saw is already
    /// stored as handled.
    fn is_memory_only(&self, life: &Life, run: &Run) -> bool {
        let handled = life.handled.last();
        let is_stored = handled.is_some_and(|(_, essence)| run.role.scope(essence) == run.seen);
        !self.keeping.remembers_sights() && run.is_final() && is_stored
    }

    /// Returns the lives of objects that are not being deleted.
    pub(super) fn living(&self) -> impl Iterator<Item = &Life> {
        self.lives.iter().filter(|life| life.deleted.is_none())
    }
}

// === impl Life ===

impl Life {
    fn of(metadata: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            versions: Vec::new(),
            handled: Vec::new(),
            runs: Vec::new(),
            forgotten: Vec::new(),
            blurred: false,
            deleted: None,
            held: false,
            recorded: false,
            newest: 0,
        }
    }

    pub(super) fn newest(&self) -> &Value {
        let newest = self.versions.last();
        newest.map_or(&Value::Null, |version| &version.essence)
    }

    /// Returns the version at a position, and all later ones.
    pub(super) fn versions_from(&self, at: Place) -> &[Version] {
        let later = self.versions.partition_point(|version| version.at <= at);
        &self.versions[later.saturating_sub(1)..]
    }

    /// Returns the version that a run received, and all later ones.
    pub(super) fn versions_since(&self, number: u64) -> &[Version] {
        let later = self.versions.partition_point(|it| it.number <= number);
        &self.versions[later.saturating_sub(1)..]
    }
}

// === impl Run ===

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (id, reason, retry, told, seen) =
            (&self.role.id, self.reason, self.retry, &self.told, &self.seen);
        let (start, end) = (self.start, self.end);
        let written = if self.written { "written" } else { "not written" };
        write!(f, "{id}: {reason} #{retry} of start {start}, told {told}, saw {seen}, {end:?}, {written}")
    }
}

impl Run {
    fn is_unfinished(&self) -> bool {
        match self.end {
            None => !self.is_final(),
            // Calls for other reasons may leave nothing to write.
            Some(_) => !self.written && ["create", "update"].contains(&self.reason),
        }
    }

    fn ended(&mut self, end: End, delay: Option<Duration>) {
        self.end = Some(end);
        let spent = self.runtime + self.began.elapsed();
        let over = |limit| delay.is_none_or(|delay| spent + delay >= limit);
        self.given_up = end == End::Again && self.limit().is_some_and(over);
    }

    fn limit(&self) -> Option<Duration> {
        let seconds = self.role.timeout?;
        Some(Duration::from_secs(seconds.into()))
    }

    /// Returns whether the handler is done: the run succeeded, failed permanently, or exceeded its timeout.
    pub(super) fn is_final(&self) -> bool {
        let limit = self.limit();
        let cut_off = limit.is_some_and(|limit| self.began.elapsed() >= limit);
        matches!(self.end, Some(End::Done | End::Failed)) || self.given_up || cut_off
    }
}

fn number(version: &Value) -> u64 {
    let text = version.as_str().unwrap_or_default();
    text.parse().unwrap_or(0)
}
