//! The invariants of a history at any time, at rest, and at its end. Each complaint is one line.
//!
//! This module must not depend on the dice rolls; judges only by the record.

use super::cluster::{OBJECTS, Presence};
use super::record::{End, Life, Record, Run};
use super::roles::{Role, Roles};

/// The strictness of the check: coalesced changes may excuse a missing call, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rigour {
    /// Several changes may have been coalesced into one.
    Forgiving,
    /// Every scope has changed since the last trouble.
    Strict,
}

/// Checks a history in which all objects are at rest. With `kept_up`, requests or the operator were delayed, so the timeouts of handlers
/// may have passed before their first call.
pub(super) fn at_rest(
    record: &Record,
    roles: &Roles,
    (rigour, kept_up): (Rigour, bool),
    in_scope: impl Fn(&Life) -> bool,
) -> Vec<String> {
    let mut wrong = on_the_way(record);
    for life in record.living() {
        if !in_scope(life) {
            if let Some(run) = life.runs.first() {
                wrong.push(format!("{:?}: is out of scope: {run}", life.name));
            }
            continue;
        }
        for role in roles.served() {
            let delayed = kept_up || life.name == OBJECTS[0];
            let out_of_time = delayed && role.timeout.is_some();
            wrong.extend(created(life, role).filter(|_| !out_of_time));
            let skipped = out_of_time && rigour == Rigour::Forgiving;
            wrong.extend(followed(life, role, rigour).filter(|_| !skipped));
            wrong.extend(lost_result(record, life, role));
        }
        let served = |run: &&Run| roles.served().any(|role| role.id == run.role.id);
        if let Some(run) = life.runs.iter().find(|run| !served(run)) {
            wrong.push(format!("{:?}: is not served: {run}", life.name));
        }
        let demanded = roles.demand_finalizer();
        if life.is_held() != demanded {
            let (name, held) = (life.name, life.is_held());
            wrong.push(format!("{name:?}: the finalizer is on: {held}, demanded: {demanded}"));
        }
    }
    wrong
}

/// Checks a history in which every object is gone.
pub(super) fn in_the_end(record: &Record, roles: &Roles) -> Vec<String> {
    let mut wrong = on_the_way(record);
    let mandatory = |role: &&Role| role.on == "delete" && !role.optional;
    for role in roles.served().filter(mandatory) {
        for life in record.lives.iter().filter(|life| life.held == Some(true)) {
            if !life.runs(&role.id).any(Run::is_final) {
                let (name, id) = (life.name, &role.id);
                wrong.push(format!("{name:?}: {id} was not called for the deletion"));
            }
        }
    }
    wrong
}

/// Checks that the restart of an operator without work makes no calls.
pub(super) fn restarted(record: &Record) -> Vec<String> {
    let runs = record.lives.iter().flat_map(|life| &life.runs);
    let since = runs.filter(|run| run.start == record.start && run.is_change());
    since.map(|run| format!("called after a restart for nothing: {run}")).collect()
}

/// Checks the invariants that hold at any time.
fn on_the_way(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for life in &record.lives {
        for (place, run) in life.runs.iter().enumerate() {
            let name = life.name;
            if let Some(complaint) = for_a_live_object(run) {
                wrong.push(format!("{name:?}: {complaint}: {run}"));
            }
            if let Some(other) = &run.beside {
                wrong.push(format!("{name:?}: two at once: {run}, while {other} runs"));
            }
            // Raw-event handlers are exempt: those for one state are called together.
            if run.late && run.is_change() {
                wrong.push(format!("{name:?}: begun after the stop: {run}"));
            }
            for former in &life.runs[..place] {
                if let Some(complaint) = repeated(record, former, run) {
                    wrong.push(format!("{name:?}: {complaint}: {former}; then {run}"));
                }
            }
        }
    }
    wrong
}

/// Checks that handlers receive deletions only of objects that are deleted.
fn for_a_live_object(run: &Run) -> Option<&'static str> {
    let there = [Presence::Alive, Presence::Terminating].contains(&run.presence);
    match run.reason {
        "delete" if run.presence == Presence::Alive => Some("called for the deletion of a live object"),
        "DELETED" if there => Some("told that an object is gone which is there"),
        _ => None,
    }
}

/// Reports a handler that is called again for a cause that it has finished.
fn repeated(record: &Record, former: &Run, run: &Run) -> Option<&'static str> {
    if former.role.id != run.role.id || !former.is_change() || !former.is_final() {
        return None;
    }
    let restarted = former.start != run.start;
    // Optional handlers are best effort: without a finalizer the object may vanish together with its progress.
    if run.role.optional && restarted {
        return None;
    }
    if restarted && was_cut_off(record, former) {
        return None;
    }
    let ever = matches!(run.role.on, "create" | "delete");
    // For field handlers, a deletion is a separate reason.
    let deletion = (former.reason == "delete") != (run.reason == "delete");
    let same_state = former.new == run.new && !deletion;
    // The essence handled last may be unknown after a restart.
    let known = run.reason != "update" || !run.old.is_null();
    let same_cycle = former.reason == run.reason
        && former.old == run.old
        && former.handled_last == run.handled_last
        && known;
    let complaint = if former.written { "called again for the same reason" } else { "its outcome is lost" };
    (ever || same_state || same_cycle).then_some(complaint)
}

/// Returns whether the operator was killed, or could not write any more, before it wrote the outcome of the run, so that the run may be
/// repeated.
fn was_cut_off(record: &Record, run: &Run) -> bool {
    !run.written && !record.clean_ends.contains(&run.start)
}

/// Checks that a creation handler has finished one run.
fn created(life: &Life, role: &Role) -> Option<String> {
    let owed = role.on == "create" && !life.runs(&role.id).any(Run::is_final);
    owed.then(|| format!("{:?}: {} has not seen the creation", life.name, role.id))
}

/// Checks that the last run finished and received the present scope as `new`.
fn followed(life: &Life, role: &Role, rigour: Rigour) -> Option<String> {
    if !role.follows() {
        return None;
    }
    let (name, id) = (life.name, &role.id);
    let now = role.scope(&life.object["spec"]);
    let Some(last) = life.runs(id).next_back() else {
        let owed = rigour == Rigour::Strict || role.on == "field";
        return owed.then(|| format!("{name:?}: {id} was never called, and now is {now}"));
    };
    let good = last.is_final() && last.new == now;
    (!good).then(|| format!("{name:?}: the last run was {last}, but now is {now}"))
}

/// Checks that the result of the last successful run is on the object.
fn lost_result(record: &Record, life: &Life, role: &Role) -> Option<String> {
    if !matches!(role.on, "create" | "update" | "field") {
        return None;
    }
    let is_cut_off = |run: &Run| run.start != record.start && was_cut_off(record, run);
    let done = |run: &&Run| run.end == Some(End::Done) && !is_cut_off(run);
    let last = life.runs(&role.id).rfind(done)?;
    let found = &life.object["status"][&role.id]["seen"];
    (*found != last.new).then(|| format!("{:?}: the result of {last} is lost: {found}", life.name))
}
