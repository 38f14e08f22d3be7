//! The invariants of a history at rest and at its end. Each complaint is one line.
//!
//! This module must not depend on the dice rolls; judges only by the record.

use serde_json::Value;

use super::record::{End, Life, Place, Record, Run};
use super::roles::{Role, Roles};

/// The strictness of the check: past troubles may excuse missing runs, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rigour {
    /// Operators were killed before they could finish.
    Forgiving,
    /// Every scope has changed since the last trouble, so nothing is excused.
    Strict,
}

/// Checks a history in which all objects are at rest.
pub(super) fn at_rest(record: &Record, roles: &Roles, rigour: Rigour) -> Vec<String> {
    let mut wrong = Vec::new();
    for life in record.living() {
        for role in roles.roles.iter().flat_map(family) {
            let complaints = [owed(life, &role, rigour), last_word(life, &role, rigour)];
            wrong.extend(complaints.into_iter().flatten());
            wrong.extend(created(life, &role));
        }
        let demanded = roles.demands_finalizer(life.newest());
        if life.held != demanded {
            let name = &life.name;
            wrong.push(format!("{name}: the finalizer is on: {}, demanded: {demanded}", life.held));
        }
    }
    wrong.extend(on_the_way(record));
    wrong
}

/// Checks a history in which every object is gone.
pub(super) fn in_the_end(record: &Record, roles: &Roles) -> Vec<String> {
    let mut wrong = on_the_way(record);
    let unguarded = |role: &&Role| role.on == "delete" && role.is_plain() && !role.optional;
    for role in roles.roles.iter().filter(unguarded) {
        let held = record.lives.iter().filter(|it| it.deleted == Some(true));
        for life in held.filter(|life| !runs(life, &role.id).any(Run::is_final)) {
            wrong.push(format!("{}: {} was not called for the deletion", life.name, role.id));
        }
    }
    wrong
}

/// Checks that a restart of an operator without work calls resume handlers only, judging by the calls of the last start.
pub(super) fn resumed(record: &Record, roles: &Roles) -> Vec<String> {
    let mut wrong = Vec::new();
    for life in record.living() {
        let since = life.runs.iter().filter(|run| run.start == record.start);
        let since: Vec<&Run> = since.filter(|run| run.reason != "event").collect();
        for role in roles.roles.iter().filter(|role| role.on == "resume") {
            let count = since.iter().filter(|run| run.role.id == role.id).count();
            if count != 1 {
                let id = &role.id;
                wrong.push(format!("{}: {id} has resumed {count} times", life.name));
            }
        }
        for run in since.iter().filter(|run| run.reason != "resume") {
            let (name, id) = (&life.name, &run.role.id);
            wrong.push(format!("{name}: {id} was called for {} after a restart for nothing", run.reason));
        }
    }
    wrong
}

/// Returns a role and its sub-handlers.
fn family(role: &Role) -> Vec<Role> {
    let children = ["one", "two"].iter().filter(|_| role.children);
    let children = children.map(|name| role.child(name));
    std::iter::once(role.clone()).chain(children).collect()
}

fn runs<'a>(life: &'a Life, id: &str) -> impl DoubleEndedIterator<Item = &'a Run> {
    life.runs.iter().filter(move |run| run.role.id == *id)
}

/// Checks that the handler has a run for the latest change of its scope. The last stored essence with another scope marks that change: a
/// run must have started after the storage before it, and must have seen the present scope.
fn owed(life: &Life, role: &Role, rigour: Rigour) -> Option<String> {
    // Its timeout may pass before its first call.
    let excused = life.blurred || role.timeout.is_some();
    if !role.reacts() || excused && rigour == Rigour::Forgiving {
        return None;
    }
    let scope = role.scope(life.newest());
    let is_other = |(_, essence): &(Place, Value)| role.scope(essence) != scope;
    let (at, begun) = match life.handled.iter().rposition(is_other) {
        Some(0) => (life.handled[0].0, 0),
        Some(other) => (life.handled[other].0, life.handled[other - 1].0),
        // For a field handler, the creation counts as a change of the field.
        None if role.on == "field" && !scope.is_null() => (0, 0),
        None => return None,
    };
    let versions = life.versions_from(at);
    if !role.wants(&scope) || !versions.iter().all(|it| role.accepts(&it.essence)) {
        return None;
    }
    // Handlers may have seen the following change before the essence was stored, within the same cycle. A value that changes and changes
    // back in one cycle counts as unchanged.
    let good = |run: &Run| run.at > begun && run.seen == scope && run.is_final();
    (!runs(life, &role.id).any(good)).then(|| {
        let (name, id) = (&life.name, &role.id);
        format!("{name}: {id} is owed a run for {scope}")
    })
}

/// Checks that the last run finished, saw the present scope and received it as `new`.
fn last_word(life: &Life, role: &Role, rigour: Rigour) -> Option<String> {
    // Its timeout may pass before its first call.
    let excused = life.blurred || role.timeout.is_some();
    if !role.reacts() || role.new_only() || excused && rigour == Rigour::Forgiving {
        return None;
    }
    let last = runs(life, &role.id).next_back()?;
    let versions = life.versions_since(last.number);
    if !versions.iter().all(|it| role.accepts(&it.essence)) {
        return None;
    }
    let scope = role.scope(life.newest());
    let good = last.is_final() && last.seen == scope && last.told == scope;
    let mut forgotten = life.forgotten.iter();
    // If a run was cut off before its write, and its field was never stored, a new operator cannot know of the run.
    let mut handled = life.handled.iter();
    let is_unknown =
        !last.written && scope.is_null() && handled.all(|(_, essence)| role.scope(essence).is_null());
    let excused = rigour == Rigour::Forgiving
        && (is_unknown || forgotten.any(|(id, state)| *id == role.id && *state == scope));
    (!good && !excused).then(|| {
        let (name, id) = (&life.name, &role.id);
        format!("{name}: the last run of {id} was {last}, but now is {scope}")
    })
}

/// Checks that a creation handler without filters has finished one run.
fn created(life: &Life, role: &Role) -> Option<String> {
    let owed = role.on == "create" && role.is_plain();
    (owed && !runs(life, &role.id).any(Run::is_final))
        .then(|| format!("{}: {} has not seen the creation", life.name, role.id))
}

/// Checks the invariants that hold at any time: attempts are counted correctly, and no finished run is repeated.
fn on_the_way(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for life in &record.lives {
        let runs: Vec<&Run> = life.runs.iter().filter(|it| it.reason != "event").collect();
        for (place, run) in runs.iter().enumerate() {
            let earlier = &runs[..place];
            let Some(former) = earlier.iter().rfind(|it| it.role.id == run.role.id) else {
                if run.retry != 0 {
                    wrong.push(format!("{}: begins in the middle: {run}", life.name));
                }
                continue;
            };
            let pair = Pair { life, record, former, run };
            let written = earlier.iter().rfind(|it| it.role.id == run.role.id && it.written);
            wrong.extend(pair.miscounted(written.copied()));
            wrong.extend(pair.repeated());
        }
    }
    wrong
}

/// A run and the previous run of the same handler.
struct Pair<'a> {
    life: &'a Life,
    record: &'a Record,
    former: &'a Run,
    run: &'a Run,
}

impl Pair<'_> {
    /// Returns whether the operator was allowed to lose its knowledge of the previous run.
    fn is_forgotten(&self) -> bool {
        let (former, run) = (self.former, self.run);
        let restarted = former.start != run.start;
        restarted && (!self.record.keeping.remembers_sights() || run.role.optional)
    }

    /// Returns whether the run has another cause than the previous one.
    fn is_anew(&self) -> bool {
        let (former, run) = (self.former, self.run);
        let versions = self.life.versions_since(former.number);
        let role = &run.role;
        let is_for = |essence| role.accepts(essence) && role.wants(&role.scope(essence));
        let excluded = !versions.iter().all(|it| is_for(&it.essence));
        excluded || (former.reason == "delete") != (run.reason == "delete")
    }

    fn miscounted(&self, written: Option<&Run>) -> Option<String> {
        let (former, run) = (self.former, self.run);
        let restarted = former.start != run.start;
        // A stored attempt is never lost; an attempt that was not stored may be repeated.
        let known = written.filter(|it| it.end == Some(End::Again));
        let known = known.map_or(0, |it| it.retry + 1);
        let most = former.retry + 1;
        let right = match former.end {
            _ if self.is_anew() || self.is_forgotten() => run.retry <= most,
            Some(End::Done | End::Failed) => run.retry == 0 || restarted && run.retry <= most,
            None | Some(End::Waiting) if restarted => (known..most).contains(&run.retry),
            None | Some(End::Waiting) => run.retry == former.retry,
            Some(End::Again) if restarted && !former.written => (known..=most).contains(&run.retry),
            Some(End::Again) => run.retry == most,
        };
        let timed_out = run.role.timeout.is_some() && run.retry == 0;
        (!right && !timed_out).then(|| format!("{}: attempts: {former}, then {run}", self.life.name))
    }

    /// Returns whether the previous run had seen a later state than the one stored as handled afterwards. After a restart, only formats
    /// with digests keep this fact.
    fn has_no_mark(&self) -> bool {
        let (former, run) = (self.former, self.run);
        let mut stored = self.life.handled.iter();
        let stored = stored.find(|(at, _)| *at > former.at);
        let saw_more = stored.is_some_and(|(_, it)| run.role.scope(it) != former.seen);
        former.start != run.start && !self.record.keeping.remembers_sights() && saw_more
    }

    /// Reports a finished run that is repeated although its scope has not changed since.
    fn repeated(&self) -> Option<String> {
        let (former, run) = (self.former, self.run);
        let restarted = former.start != run.start;
        let ended = matches!(former.end, Some(End::Done | End::Failed));
        let known = ended && (former.written || !restarted);
        let versions = self.life.versions_since(former.number);
        let still = versions.iter().all(|version| run.role.scope(&version.essence) == former.seen);
        let same = former.told == run.told && former.seen == run.seen && still;
        let resumes = restarted && run.reason == "resume";
        // If one handler of a family is called again, all of them are.
        let related = run.role.children || run.role.is_child;
        // An optional handler sets no finalizer, so its progress may vanish with the object.
        let is_lost = restarted && run.role.optional;
        // After a restart, only the digest of the target may be left, and then all handlers are called.
        let excused = resumes
            || related
            || self.is_anew()
            || is_lost
            || self.has_no_mark()
            || restarted && run.knew_digest_only;
        (known && same && !excused).then(|| format!("{}: twice: {former}, then {run}", self.life.name))
    }
}
