//! What has happened in a history, as a user could have seen it: states of objects, calls, what was stored as handled.
//!
//! Promises one order of everything. Must not know what should have happened.

use std::time::Duration;

use kopf_rs::Context;
use kopf_rs_tests::Lines;
use serde_json::Value;
use tokio::time::Instant;

use super::keeping::Keeping;
use super::roles::{Role, essence};

/// A place in the order of everything.
pub(super) type Place = usize;

/// One life of one object, from its creation to its end.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) name: String,
    pub(super) uid: String,
    /// Every state that differs from the one before in what counts.
    pub(super) versions: Vec<Version>,
    /// What was stored as handled, each time another essence.
    pub(super) handled: Vec<(Place, Value)>,
    pub(super) runs: Vec<Run>,
    /// Handlers whose last call nobody remembers, and what the object tells of instead: where it goes back to that, nothing tells that it
    /// was ever different.
    pub(super) forgotten: Vec<(String, Value)>,
    /// An operator whose formats have no place for what handlers have seen was restarted in this life, when not all was done.
    pub(super) blurred: bool,
    /// Whether our finalizer was on the object when it was marked for deletion.
    pub(super) deleted: Option<bool>,
    pub(super) held: bool,
    /// Whether progress is on the object.
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
    /// What it was told is new, of its scope.
    pub(super) told: Value,
    /// What the object was, in its scope.
    pub(super) seen: Value,
    /// The version of the object it was given.
    pub(super) number: u64,
    /// The object told only that something had changed, and not what: it had a digest of what was handled last.
    pub(super) knew_digest_only: bool,
    /// Which start of the operator made it.
    pub(super) start: usize,
    began: Instant,
    /// How long the attempts before it had taken.
    runtime: Duration,
    /// The next attempt might be due only when the time of all of them is over: then there is none.
    given_up: bool,
    /// Nothing where it was cut off.
    pub(super) end: Option<End>,
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
    /// Its sub-handlers are not done.
    Waiting,
}

/// Everything, and the story of it in words.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) keeping: Keeping,
    pub(super) lives: Vec<Life>,
    /// How often the operator was started.
    pub(super) start: usize,
    /// Writes of the operator that have landed.
    pub(super) writes: usize,
    pub(super) calls: usize,
    began: Instant,
    place: Place,
    story: Vec<String>,
    /// What the operator logs, and how much of it is told.
    lines: Option<(Lines, usize)>,
}

// === impl Record ===

impl Record {
    pub(super) fn new(keeping: Keeping) -> Self {
        Self {
            keeping,
            lives: Vec::new(),
            start: 0,
            writes: 0,
            calls: 0,
            began: Instant::now(),
            place: 0,
            story: Vec::new(),
            lines: None,
        }
    }

    /// Tell what is logged, too.
    pub(super) fn listen(&mut self, lines: Option<&Lines>) {
        self.lines = lines.map(|lines| (lines.clone(), 0));
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

    fn next(&mut self) -> Place {
        self.place += 1;
        self.place
    }

    /// The object was seen to be so.
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
            let version = Version {
                at,
                number,
                essence,
            };
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

    /// A write of the operator to the object has landed; `whole`: it was no write to the status alone.
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

    /// A handler is called; where to enter its end.
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
        self.tell(format!(
            "{}: {id} is called: {reason} #{retry}, told {told}{}",
            context.name(),
            if seen == told {
                String::new()
            } else {
                format!(", sees {seen}")
            }
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

    /// A call has come to its end; how long after it the next one is to be, where that is known.
    pub(super) fn ended(&mut self, (life, run): (usize, usize), end: End, delay: Option<Duration>) {
        let life = &mut self.lives[life];
        life.runs[run].ended(end, delay);
        let told = format!("{}: {} ends: {end:?}", life.name, life.runs[run].role.id);
        self.tell(told);
    }

    /// The operator is no more: what it had not written is forgotten.
    pub(super) fn crashed(&mut self) {
        let start = self.start;
        let clear = self.keeping.remembers_sights();
        for life in &mut self.lives {
            let unwritten = |run: &&Run| run.start == start && !run.written;
            let lost: Vec<String> = life
                .runs
                .iter()
                .filter(unwritten)
                .map(|run| run.role.id.clone())
                .collect();
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
                life.forgotten
                    .extend(states.map(|state| (id.clone(), state)));
            }
        }
    }

    /// A run of this start that is under way, or has come to something that is not written yet.
    pub(super) fn unfinished(&self) -> Option<&Run> {
        self.living().find_map(|life| {
            let mut runs = life.runs.iter().filter(|run| run.start == self.start);
            runs.find(|run| run.is_unfinished() && !self.is_memory_only(life, run))
        })
    }

    /// Where the formats have no place for what a handler has seen, its last call for a state that is stored already leaves nothing to write.
    fn is_memory_only(&self, life: &Life, run: &Run) -> bool {
        let handled = life.handled.last();
        let is_stored = handled.is_some_and(|(_, essence)| run.role.scope(essence) == run.seen);
        !self.keeping.remembers_sights() && run.is_final() && is_stored
    }

    /// All lives of objects that are not being deleted.
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

    /// The version that was current at a place, and all later ones.
    pub(super) fn versions_from(&self, at: Place) -> &[Version] {
        let later = self.versions.partition_point(|version| version.at <= at);
        &self.versions[later.saturating_sub(1)..]
    }

    /// The version a run was given, and all later ones.
    pub(super) fn versions_since(&self, number: u64) -> &[Version] {
        let later = self.versions.partition_point(|it| it.number <= number);
        &self.versions[later.saturating_sub(1)..]
    }
}

// === impl Run ===

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (id, reason, retry, told, seen) = (
            &self.role.id,
            self.reason,
            self.retry,
            &self.told,
            &self.seen,
        );
        let (start, end) = (self.start, self.end);
        let written = if self.written {
            "written"
        } else {
            "not written"
        };
        write!(
            f,
            "{id}: {reason} #{retry} of start {start}, told {told}, saw {seen}, {end:?}, {written}"
        )
    }
}

impl Run {
    fn is_unfinished(&self) -> bool {
        match self.end {
            None => !self.is_final(),
            // Other calls may leave nothing to write.
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

    /// Whether nothing is owed after it: it has succeeded, or failed for good.
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
