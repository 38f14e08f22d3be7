//! A handling cycle in progress: its handlers with their records, and which of them are due.
//!
//! Merges what the object carries, what memory holds, and what the cause selects. Must not know outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tracing::Level;

use crate::handler::cause::{Attempt, Reason};
use crate::handler::decl::Handler;
use crate::handler::lifecycle::{DueHandler, Lifecycle};
use crate::object::essence::Essence;
use crate::object::path::FieldPath;
use crate::reaction::children::Offspring;
use crate::reaction::detect::Sides;
use crate::reaction::plan::{Input, Ongoing};
use crate::reaction::settle::Line;
use crate::state::diffbase::KnownEssence;
use crate::state::progress::Record;

/// The record of one handler id, as it is known before the pass.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: Arc<str>,
    /// What counts: memory's, else the object's.
    pub(super) record: Option<Record>,
    /// What the object carries.
    pub(super) stored: Option<Record>,
    /// Whether the object carries anything, readable or not.
    pub(super) is_there: bool,
    /// It cannot be read.
    pub(super) is_damaged: bool,
    /// Its sub-handlers.
    pub(super) below: Vec<Offspring>,
}

/// One handler of the cycle.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) handler: Arc<Handler>,
    pub(super) record: Record,
    pub(super) stored: Option<Record>,
    /// It is also for later changes, so it matters what its last attempt has seen.
    pub(super) recurs: bool,
    /// The object must not vanish before it is done.
    pub(super) holds: bool,
    /// Its limits are reached: it fails without being called.
    pub(super) exhausted: Option<Exhausted>,
}

/// What the selected declarations of one id are for, all together.
#[derive(Clone, Copy, Debug)]
struct Declared {
    /// Nothing but resuming.
    only_resumes: bool,
    /// The object must not vanish before the handler has seen its deletion.
    holds: bool,
    /// Deletions, holding the object or not.
    sees_deletions: bool,
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exhausted {
    Timeout(Duration),
    Retries(u32),
}

/// What may be written for this cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Everything.
    Persisted,
    /// Best effort for an object that is marked for deletion and not held by us: no record is written.
    Leaving,
    /// Best effort for an object that is no more: nothing can be written, and there is no later.
    Gone,
}

/// All that `settle` has to know of the cycle.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    pub(super) reason: Reason,
    pub(super) mode: Mode,
    pub(super) sides: Sides,
    pub(super) members: Vec<Member>,
    /// Marks of handlers that are no members any more, and have not seen the target.
    pub(super) left_behind: Vec<(Arc<str>, Record)>,
    /// Handlers that this process has called in this cycle and need not call again, with records that are not written yet.
    pub(super) unwritten: Vec<(Arc<str>, Record)>,
    /// Records to take off now: of a cycle that was superseded.
    pub(super) superseded: Vec<Arc<str>>,
    /// This process has begun the cycle.
    pub(super) ongoing: bool,
    /// Sub-handlers, as far as they are known in this pass.
    pub(super) children: BTreeMap<Arc<str>, Offspring>,
    /// Ids with anything on the object: to be taken off at the end.
    pub(super) on_object: Vec<Arc<str>>,
    /// Sub-handlers' ids that go with them.
    pub(super) subrefs: Vec<String>,
    /// What the object carries cannot be relied on: memory has to hold the records.
    pub(super) is_damaged: bool,
}

/// Read the records of all changing handlers.
pub(super) fn entries(
    input: &Input<'_>,
    changing: &[&Arc<Handler>],
    lines: &mut Vec<Line>,
) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(changing.len());
    let held = input.seen.records();
    for handler in changing {
        if entries.iter().any(|entry| entry.id == handler.id) {
            continue;
        }
        let found = input.persistence.progress.fetch(&handler.id, input.body);
        let known = held.and_then(|held| held.get(&handler.id)).cloned();
        let (is_there, is_damaged) = (!matches!(found, Ok(None)), found.is_err());
        let stored = found.unwrap_or_else(|damage| {
            let id = &handler.id;
            let fate = match known {
                Some(_) => "is taken from memory",
                None => "is lost, it starts anew",
            };
            let text = format!("{damage}: the progress of handler '{id}' {fate}.");
            lines.push(Line::recurring(Level::WARN, text));
            None
        });
        let record = known.or_else(|| stored.clone());
        let below = record.iter().flat_map(|record| &record.subrefs);
        let below = below.filter_map(|id| offspring(input, id.as_str().into()));
        entries.push(Entry {
            id: handler.id.clone(),
            below: below.collect(),
            record,
            stored,
            is_there,
            is_damaged,
        });
    }
    entries
}

impl Entry {
    /// Whether a handler that reacts to changes has to be called although nothing may have changed: its last attempt has seen another
    /// state than `newest`, or came to no end.
    pub(super) fn is_mark(&self, newest: &Essence, field: Option<&FieldPath>) -> bool {
        self.record.as_ref().is_some_and(|record| {
            let open = !matches!(record.purpose, Some(Reason::Delete | Reason::Resume));
            let began = record.target.is_some();
            let saw_newest = |record: &Record| record.saw(newest, field);
            open && began && (!record.is_final() || !self.all(saw_newest))
        })
    }

    /// Whether that is so for the handler and all its sub-handlers.
    pub(super) fn all(&self, so: impl Fn(&Record) -> bool) -> bool {
        let below = self.below.iter().map(|child| &child.record);
        self.record.iter().chain(below).all(so)
    }
}

impl Cycle {
    /// `selected` may name an id several times: the first one counts.
    pub(super) fn new(
        input: &Input<'_>,
        (reason, mode): (Reason, Mode),
        sides: Sides,
        selected: &[Arc<Handler>],
        entries: Vec<Entry>,
    ) -> Self {
        let ongoing = input
            .seen
            .ongoing()
            .is_some_and(|ongoing| ongoing.reason == reason);
        let mut cycle = Self {
            reason,
            mode,
            members: Vec::with_capacity(selected.len()),
            left_behind: Vec::new(),
            unwritten: Vec::new(),
            superseded: Vec::new(),
            ongoing,
            children: children(input, &entries),
            on_object: Vec::new(),
            subrefs: Vec::new(),
            is_damaged: entries.iter().any(|entry| entry.is_damaged),
            sides,
        };
        for handler in selected {
            if cycle.members.iter().any(|it| it.handler.id == handler.id) {
                continue;
            }
            let entry = entries.iter().find(|entry| entry.id == handler.id);
            let declared = Declared::of(&handler.id, selected);
            let record = entry
                .and_then(|entry| entry.record.clone())
                .map(|record| cycle.continued(input, handler, record, declared));
            let recurs = input
                .handlers
                .iter()
                .any(|it| it.id == handler.id && it.reacts_to_differences());
            cycle.members.push(Member {
                handler: handler.clone(),
                record: record.unwrap_or_else(|| Record::fresh(reason, input.now)),
                stored: entry.and_then(|entry| entry.stored.clone()),
                recurs,
                holds: declared.holds,
                exhausted: None,
            });
        }
        for entry in entries {
            cycle.account(entry);
        }
        cycle
    }

    /// Whether what was done for the reason of this cycle was done in this cycle, whatever state it has seen.
    pub(super) fn goes_on(&self) -> bool {
        self.ongoing || self.sides.target.is_fixed
    }

    /// The record as it is in this cycle. What was finished before the cycle, and on another state than there is now, counts for
    /// nothing, unless its handler only resumes.
    fn continued(
        &self,
        input: &Input<'_>,
        handler: &Handler,
        record: Record,
        declared: Declared,
    ) -> Record {
        let deletion = record.purpose == Some(Reason::Delete);
        if self.mode != Mode::Persisted && !deletion {
            return Record::fresh(self.reason, input.now);
        }
        if self.reason == Reason::Delete && !deletion {
            return self.deleting(input, handler, &record, declared);
        }
        let of_this = record.purpose == Some(self.reason) && (self.goes_on() || deletion);
        let stands = declared.only_resumes || of_this;
        let field = handler.field();
        if record.is_final() && !stands && !record.saw(&self.sides.newest, field) {
            return record.again(Some(self.reason), input.now);
        }
        Record {
            purpose: Some(self.reason),
            ..record
        }
    }

    /// The record of another cycle at the begin of a deletion. It keeps what the handler has last succeeded on, for that is what it is
    /// told the change from.
    fn deleting(
        &self,
        input: &Input<'_>,
        handler: &Handler,
        record: &Record,
        declared: Declared,
    ) -> Record {
        let newest = &self.sides.newest;
        if !declared.sees_deletions && record.is_final() && record.saw(newest, handler.field()) {
            return Record {
                purpose: Some(self.reason),
                ..record.clone()
            };
        }
        let target = record.target.clone().filter(|_| record.success);
        Record {
            target,
            ..record.again(Some(self.reason), input.now)
        }
    }

    /// Whether all is done.
    pub(super) fn is_over(&self) -> bool {
        self.left().next().is_none()
    }

    /// Those for whom there is something more to attempt.
    pub(super) fn left(&self) -> impl Iterator<Item = &Member> {
        let is_persisted_deletion = self.is_persisted_deletion();
        let members = self.members.iter();
        members.filter(move |member| member.is_left(is_persisted_deletion))
    }

    fn is_persisted_deletion(&self) -> bool {
        self.reason == Reason::Delete && self.mode == Mode::Persisted
    }

    /// What becomes of what the object carries.
    fn account(&mut self, entry: Entry) {
        let is_member = self.members.iter().any(|it| it.handler.id == entry.id);
        if let Some(record) = entry.record.filter(|it| Some(it) != entry.stored.as_ref())
            && !is_member
            && record.purpose == Some(self.reason)
        {
            self.unwritten.push((entry.id.clone(), record));
        }
        if !entry.is_there {
            return;
        }
        if let Some(record) = &entry.stored {
            self.subrefs.extend(record.subrefs.iter().cloned());
        }
        let is_foreign = entry
            .stored
            .as_ref()
            .is_none_or(|it| it.purpose.is_some_and(|purpose| purpose != self.reason));
        if is_foreign && !is_member {
            let of_subs = entry.stored.iter().flat_map(|it| &it.subrefs);
            self.superseded.extend(of_subs.map(|id| id.as_str().into()));
            self.superseded.push(entry.id.clone());
        }
        self.on_object.push(entry.id);
    }

    /// Find those whose limits are reached, and pick those to call now.
    pub(super) fn pick(&mut self, input: &Input<'_>) -> Vec<&Member> {
        let (now, gone) = (input.now, self.mode == Mode::Gone);
        let is_deletion = self.is_persisted_deletion();
        let is_due = |it: &Member| it.is_left(is_deletion) && is_due(&it.record, now, gone);
        for member in &mut self.members {
            if is_due(member) {
                member.exhausted = Exhausted::of(&member.handler, &member.record, now);
            }
        }
        let open: Vec<&Member> = self
            .members
            .iter()
            .filter(|it| it.exhausted.is_none() && is_due(it))
            .collect();
        if gone {
            return open;
        }
        let candidates: Vec<DueHandler<'_>> = open.iter().map(|it| due(it)).collect();
        let lifecycle: &Lifecycle = &input.policy.lifecycle;
        let picked = lifecycle.pick(input.body, &candidates, input.chance);
        picked.into_iter().map(|place| open[place]).collect()
    }
}

/// Whether it may be called now. Where the object is `gone` there is no later to wait for.
pub(super) fn is_due(record: &Record, now: Timestamp, gone: bool) -> bool {
    record.is_due(now) || (gone && !record.is_final())
}

/// When the first of those that are left is due.
pub(super) fn next_due<'a>(
    records: impl Iterator<Item = &'a Record>,
    now: Timestamp,
) -> Option<Timestamp> {
    let left = records.filter(|record| !record.is_final());
    left.map(|record| record.delayed.unwrap_or(now)).min()
}

/// A member as lifecycles see it.
pub(super) fn due(member: &Member) -> DueHandler<'_> {
    DueHandler::new(&member.handler.id, member.record.retries)
}

/// The sub-handlers that memory or the object know of.
fn children(input: &Input<'_>, entries: &[Entry]) -> BTreeMap<Arc<str>, Offspring> {
    let is_child = |id: &str| {
        let below = |entry: &Entry| {
            id.strip_prefix(&*entry.id)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        entries.iter().any(below) && entries.iter().all(|entry| *entry.id != *id)
    };
    let held = input.seen.records().into_iter().flatten();
    let in_memory = held.filter(|(id, _)| is_child(id));
    let in_memory = in_memory.filter_map(|(id, _)| offspring(input, id.clone()));
    let on_object = entries.iter().flat_map(|entry| entry.below.iter().cloned());
    let all = on_object.chain(in_memory);
    all.map(|child| (child.id.clone(), child)).collect()
}

/// What is known of a sub-handler.
fn offspring(input: &Input<'_>, id: Arc<str>) -> Option<Offspring> {
    let stored = input.persistence.progress.fetch(&id, input.body);
    let stored = stored.ok().flatten();
    let known = input.seen.records().and_then(|held| held.get(&id)).cloned();
    Some(Offspring {
        record: known.or_else(|| stored.clone())?,
        id,
        stored,
        result: None,
    })
}

impl Declared {
    fn of(id: &str, selected: &[Arc<Handler>]) -> Self {
        let declarations = || selected.iter().filter(|it| *it.id == *id);
        let holds = declarations().any(|it| it.needs_finalizer());
        Self {
            only_resumes: declarations().all(|it| it.is_for_resuming()),
            holds,
            sees_deletions: holds || declarations().any(|it| it.is_optional_deletion()),
        }
    }
}

impl Member {
    /// Whether there is something more to attempt. A deletion waits for deletion handlers only: others are called once, as a last chance.
    fn is_left(&self, is_persisted_deletion: bool) -> bool {
        let record = &self.record;
        let was_called = record.retries > 0 || record.delayed.is_some();
        let had_its_chance = is_persisted_deletion && !self.holds && was_called;
        !record.is_final() && !had_its_chance
    }

    pub(super) fn attempt(&self, now: Timestamp) -> Attempt {
        attempt(&self.record, now)
    }
}

impl Exhausted {
    /// The limit that `handler` has reached, if any.
    pub(crate) fn of(handler: &Handler, record: &Record, now: Timestamp) -> Option<Self> {
        let runtime = since(record.started, now);
        if handler.timeout().is_some_and(|timeout| runtime >= timeout) {
            return Some(Self::Timeout(runtime));
        }
        let limit = handler.retries()?;
        (record.retries >= limit).then_some(Self::Retries(limit))
    }
}

/// What a handler is told of its attempts.
pub(crate) fn attempt(record: &Record, now: Timestamp) -> Attempt {
    Attempt {
        retry: record.retries,
        started: record.started,
        runtime: since(record.started, now),
    }
}

/// The essence a cycle is after.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) essence: KnownEssence,
    /// Some handler or sub-handler is done with the cycle. Until then the newest state is as good a target, and sooner: those that are
    /// left are told of that one anyway.
    pub(super) is_fixed: bool,
}

impl Target {
    /// The target that memory holds, else the one that the object carries, else the object as it is.
    pub(super) fn of(input: &Input<'_>, newest: &Essence, lines: &mut Vec<Line>) -> Self {
        let deleting = input.body.is_deleting();
        let goes_on = |ongoing: &&Ongoing| match ongoing.reason {
            Reason::Delete => deleting,
            // A deletion tells handlers of the change from what they have handled.
            Reason::Create | Reason::Update => true,
            // Nobody has acted on a change yet.
            Reason::Resume => false,
        };
        let held = input.seen.ongoing().filter(|it| it.target.is_fixed);
        if let Some(ongoing) = held.filter(goes_on) {
            let mut target = ongoing.target.clone();
            if target.essence.is(newest) {
                target.essence = KnownEssence::Whole(newest.clone());
            }
            return target;
        }
        let carried = input.persistence.progress.fetch_target(input.body);
        let carried = carried.unwrap_or_else(|damage| {
            let text = format!("{damage}: the cycle goes on with the object as it is.");
            lines.push(Line::recurring(Level::WARN, text));
            None
        });
        let takes_digests = input.persistence.essence.takes_digests();
        let is_fixed = carried.is_some();
        // A digest of another state could not be stored in the end: the cycle goes on, for the object as it is.
        let is_kept = |it: &KnownEssence| takes_digests || matches!(it, KnownEssence::Whole(_));
        let carried = carried.filter(|it| !it.is(newest) && is_kept(it));
        Self {
            essence: carried.unwrap_or_else(|| KnownEssence::Whole(newest.clone())),
            is_fixed,
        }
    }
}

/// The lines on cycles that one for `reason` puts an end to.
pub(super) fn supersession(reason: Reason, entries: &[Entry]) -> Vec<Line> {
    let mut ended: BTreeMap<Reason, [usize; 3]> = BTreeMap::new();
    for record in entries.iter().filter_map(|entry| entry.record.as_ref()) {
        if let Some(purpose) = record.purpose.filter(|it| *it != reason) {
            let counts = ended.entry(purpose).or_default();
            let which = usize::from(!record.success) + usize::from(!record.is_final());
            counts[which] += 1;
        }
    }
    let new = title(reason).to_lowercase();
    let line = |(old, [succeeded, failed, left]): (Reason, [usize; 3])| {
        let old = title(old);
        let text = format!(
            "{old} is superseded by {new}: {succeeded} succeeded; {failed} failed; {left} left to the moment."
        );
        Line::new(Level::INFO, text)
    };
    ended.into_iter().map(line).collect()
}

/// How Kopf calls a cycle in its log lines.
pub(super) fn title(reason: Reason) -> &'static str {
    match reason {
        Reason::Create => "Creation",
        Reason::Update => "Updating",
        Reason::Delete => "Deletion",
        Reason::Resume => "Resuming",
    }
}

/// The time from `then` to `now`; none where the clock was set back.
pub(crate) fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}
