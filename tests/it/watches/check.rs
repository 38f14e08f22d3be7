//! What must hold of a history at any time, once all is still, and in its end. One complaint per line.
//!
//! Must not know what the dice have thrown: only what was seen.

use super::cluster::{OBJECTS, Presence};
use super::record::{End, Life, Record, Run};
use super::roles::{Role, Roles};

/// Whether what handlers do follows from their last call alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rigour {
    /// Changes may have been seen together with others.
    Forgiving,
    /// All that counts has changed since the last trouble.
    Strict,
}

/// All objects are at rest. Where requests or the operator were kept up, the time of handlers may have been over before it was their turn.
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
            wrong.push(format!(
                "{name:?}: the finalizer is on: {held}, demanded: {demanded}"
            ));
        }
    }
    wrong
}

/// Every object is gone.
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

/// After a restart of an operator that had nothing to do, nothing is done.
pub(super) fn restarted(record: &Record) -> Vec<String> {
    let runs = record.lives.iter().flat_map(|life| &life.runs);
    let since = runs.filter(|run| run.start == record.start && run.is_change());
    since
        .map(|run| format!("called after a restart for nothing: {run}"))
        .collect()
}

/// What must hold at any time.
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
            // The raw-event handlers of one state are called together.
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

/// Handlers are told that objects go only if they do.
fn for_a_live_object(run: &Run) -> Option<&'static str> {
    let there = [Presence::Alive, Presence::Terminating].contains(&run.presence);
    match run.reason {
        "delete" if run.presence == Presence::Alive => {
            Some("called for the deletion of a live object")
        }
        "DELETED" if there => Some("told that an object is gone which is there"),
        _ => None,
    }
}

/// Whoever has come to an end for something is not called for it again.
fn repeated(record: &Record, former: &Run, run: &Run) -> Option<&'static str> {
    if former.role.id != run.role.id || !former.is_change() || !former.is_final() {
        return None;
    }
    let restarted = former.start != run.start;
    // Best effort: where nothing holds the object, nothing can be kept there.
    if run.role.optional && restarted {
        return None;
    }
    if restarted && was_cut_off(record, former) {
        return None;
    }
    let ever = matches!(run.role.on, "create" | "delete");
    // For handlers of fields, a deletion is another reason.
    let deletion = (former.reason == "delete") != (run.reason == "delete");
    let same_state = former.new == run.new && !deletion;
    // What was handled last may be unknown after a restart.
    let known = run.reason != "update" || !run.old.is_null();
    let same_cycle = former.reason == run.reason
        && former.old == run.old
        && former.handled_last == run.handled_last
        && known;
    let complaint = if former.written {
        "called again for the same reason"
    } else {
        "its outcome is lost"
    };
    (ever || same_state || same_cycle).then_some(complaint)
}

/// What had not been written when the operator was killed, or could not write any more, may be done again.
fn was_cut_off(record: &Record, run: &Run) -> bool {
    !run.written && !record.clean_ends.contains(&run.start)
}

/// Creation handlers are owed one run that comes to an end.
fn created(life: &Life, role: &Role) -> Option<String> {
    let owed = role.on == "create" && !life.runs(&role.id).any(Run::is_final);
    owed.then(|| format!("{:?}: {} has not seen the creation", life.name, role.id))
}

/// The last run has come to an end, on what is so now, and was told so.
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

/// What the last run that succeeded has patched is on the object.
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
