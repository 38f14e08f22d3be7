//! Validates the status of a Job: terminal conditions and immutable fields.
//!
//! Ignores errors of unchanged fields. Independent of Pods.

use serde_json::Value;

use crate::object::{Body, at_path, text};
use crate::valid::finder::{Finder, is_true, items, map, maps, number};

/// A status with the true conditions of its Job.
struct State<'a> {
    status: &'a Body,
    ends: Vec<&'a str>,
}

// === impl State ===

impl<'a> State<'a> {
    fn of(status: &'a Body) -> Self {
        let conditions = maps(status, "conditions", "").into_iter();
        let true_ones = conditions.filter(|(_, found)| text(found, "status") == "True");
        Self {
            status,
            ends: true_ones.map(|(_, found)| text(found, "type")).collect(),
        }
    }

    fn complete(&self) -> bool {
        self.ends.contains(&"Complete")
    }

    fn failed(&self) -> bool {
        self.ends.contains(&"Failed")
    }

    fn doomed(&self) -> bool {
        self.ends.contains(&"FailureTarget")
    }

    fn met(&self) -> bool {
        self.ends.contains(&"SuccessCriteriaMet")
    }

    fn finished(&self) -> bool {
        self.complete() || self.failed()
    }

    fn differs(&self, other: &Self, field: &str) -> bool {
        let of = |status: &Body| {
            let found = status.get(field).cloned().unwrap_or_default();
            let nothing = found == "" || found == 0 && !matches!(field, "ready" | "terminating");
            (!nothing).then_some(found).filter(|found| !found.is_null())
        };
        of(self.status) != of(other.status)
    }
}

/// Validates a status update.
pub(super) fn check(finder: &mut Finder<'_>, old: &Body, status: &Body) {
    let empty = Body::new();
    let old = State::of(map(old, "status").unwrap_or(&empty));
    let new = State::of(status);
    uncounted(finder, status);
    ends(finder, &old, &new);
    rest(finder, &old, &new);
    indexes(finder, &old, &new);
    counts(finder, &old, &new);
    if new.met() && new.failed() {
        wrong(
            finder,
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        );
    }
    if new.met() && new.doomed() {
        wrong(
            finder,
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        );
    }
    let policy = at_path(finder.root, ".spec.successPolicy").is_some();
    if policy && new.complete() && !new.met() {
        let why =
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        wrong(finder, why);
    }
    changes(finder, &old, &new);
}

fn wrong(finder: &mut Finder<'_>, why: &str) {
    finder.invalid_bare("status.conditions", why);
}

/// Checks that each uncounted Pod is listed once.
fn uncounted(finder: &mut Finder<'_>, status: &Body) {
    let mut seen = Vec::new();
    let Some(pods) = map(status, "uncountedTerminatedPods") else {
        return;
    };
    for list in ["succeeded", "failed"] {
        for (index, uid) in items(pods, list).iter().enumerate() {
            let at = format!("status.uncountedTerminatedPods.{list}[{index}]");
            if uid == "" {
                finder.invalid(at, uid, "must not be empty");
            } else if seen.contains(&uid) {
                finder.duplicate(at, uid);
            } else {
                seen.push(uid);
            }
        }
    }
}

/// Checks that the conditions and the completion time are consistent.
fn ends(finder: &mut Finder<'_>, old: &State<'_>, new: &State<'_>) {
    let (complete, failed) = (
        old.complete() != new.complete(),
        old.failed() != new.failed(),
    );
    let time = new.status.get("completionTime");
    let (timed, started) = (
        new.differs(old, "completionTime"),
        new.differs(old, "startTime"),
    );
    if (complete || failed) && new.complete() && new.failed() {
        wrong(
            finder,
            "cannot set Complete=True and Failed=true conditions",
        );
    }
    if (complete || old.doomed() != new.doomed()) && new.complete() && new.doomed() {
        wrong(
            finder,
            "cannot set Complete=True and FailureTarget=true conditions",
        );
    }
    if complete || timed {
        match time {
            Some(time) if !new.complete() => {
                let why = "cannot set completionTime when there is no Complete=True condition";
                finder.invalid("status.completionTime", time, why);
            }
            None if new.complete() => {
                let why = "completionTime is required for Complete jobs";
                finder.required("status.completionTime", why);
            }
            _ => {}
        }
    }
    let start = text(new.status, "startTime");
    if let Some(time) = time.filter(|time| (timed || started) && time.as_str() < Some(start)) {
        let why = "must be equal to or after `startTime`";
        finder.invalid("status.completionTime", time, why);
    }
    if (failed || new.differs(old, "failedIndexes")) && new.failed() && !new.doomed() {
        let why = "cannot set Failed=True condition without the FailureTarget=true condition";
        wrong(finder, why);
    }
    if (complete || old.met() != new.met()) && new.complete() && !new.met() {
        let why =
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        wrong(finder, why);
    }
}

/// Checks the fields of a finished Job.
fn rest(finder: &mut Finder<'_>, old: &State<'_>, new: &State<'_>) {
    if !new.finished() {
        return;
    }
    let ended = old.finished() != new.finished();
    let count = |field: &str| number(new.status, field).filter(|count| *count > 0);
    for field in ["active", "terminating"] {
        if let Some(count) = count(field).filter(|_| ended || new.differs(old, field)) {
            let why = format!("{field}>0 is invalid for finished job");
            finder.invalid(format!("status.{field}"), &count.into(), &why);
        }
    }
    let spec = map(finder.root, "spec");
    let idle =
        spec.is_some_and(|spec| is_true(spec, "suspend") && number(spec, "completions") == Some(0));
    let started = new.status.contains_key("startTime");
    if (ended || new.differs(old, "startTime")) && !idle && !started {
        finder.required("status.startTime", "startTime is required for finished job");
    }
    let pods = map(new.status, "uncountedTerminatedPods");
    let some = |pods: &&Body| {
        ["succeeded", "failed"]
            .iter()
            .any(|list| !items(pods, list).is_empty())
    };
    if let Some(pods) = pods.filter(some)
        && (ended || new.differs(old, "uncountedTerminatedPods"))
    {
        let list = |name: &str| pods.get(name).cloned().unwrap_or_default();
        let shown = format!(
            "{{\"Succeeded\":{},\"Failed\":{}}}",
            list("succeeded"),
            list("failed")
        );
        finder.invalid_as(
            "status.uncountedTerminatedPods",
            &shown,
            "must be empty for finished job",
        );
    }
}

/// Checks the lists of completed and failed indexes.
fn indexes(finder: &mut Finder<'_>, old: &State<'_>, new: &State<'_>) {
    let empty = Body::new();
    let spec = map(finder.root, "spec").unwrap_or(&empty);
    let completions = number(spec, "completions");
    let (done, lost) = (
        text(new.status, "completedIndexes"),
        new.status.get("failedIndexes"),
    );
    let (done_anew, lost_anew) = (
        new.differs(old, "completedIndexes"),
        new.differs(old, "failedIndexes"),
    );
    let limited = spec.contains_key("backoffLimitPerIndex");
    let mut parse = |field: &str, list: &str| {
        if let Some(Err(why)) = completions.map(|most| read(list, most)) {
            let why = format!("error parsing {field}: {why}");
            finder.invalid(format!("status.{field}"), &list.into(), &why);
        }
    };
    if done_anew {
        parse("completedIndexes", done);
    }
    if let Some(lost) = lost
        .and_then(Value::as_str)
        .filter(|_| lost_anew && limited)
    {
        parse("failedIndexes", lost);
    }
    if done_anew && !done.is_empty() && text(spec, "completionMode") != "Indexed" {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        finder.invalid("status.completedIndexes", &done.into(), why);
    }
    let Some(lost) = lost else {
        return;
    };
    if lost_anew && !limited {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        finder.invalid("status.failedIndexes", lost, why);
    }
    if let Some(most) = completions.filter(|_| done_anew || lost_anew)
        && let Some(both) = overlap(done, lost.as_str().unwrap_or_default(), most)
    {
        let why = format!("failedIndexes and completedIndexes overlap at index: {both}");
        finder.invalid("status.failedIndexes", lost, &why);
    }
}

/// Parses a list such as `1,3-5`, in increasing order and below a limit.
fn read(text: &str, most: i64) -> Result<(), String> {
    let mut reached = None;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(part, most)?;
        if let Some(reached) = reached.filter(|reached| *reached >= first) {
            return Err(format!(
                "non-increasing order, previous: {reached}, current: {first}"
            ));
        }
        reached = Some(end);
    }
    Ok(())
}

fn interval(part: &str, most: i64) -> Result<(i64, i64), String> {
    let words: Vec<&str> = part.split('-').collect();
    if words.len() > 2 {
        return Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let number = |word: &str| match word.parse::<i64>() {
        Err(_) => Err(format!(
            "cannot convert string to integer for index: {word:?}"
        )),
        Ok(index) if index >= most => Err(format!("too large index: {word:?}")),
        Ok(index) => Ok(index),
    };
    let first = number(words[0])?;
    let Some(word) = words.get(1) else {
        return Ok((first, first));
    };
    let end = number(word)?;
    if first >= end {
        return Err(format!(
            "non-increasing order, previous: {first}, current: {end}"
        ));
    }
    Ok((first, end))
}

/// Returns the first index that is in both lists.
fn overlap(one: &str, other: &str, most: i64) -> Option<i64> {
    let read = |list: &str| -> Vec<(i64, i64)> {
        list.split(',')
            .filter_map(|part| interval(part, most).ok())
            .collect()
    };
    let (one, other) = (read(one), read(other));
    let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
    let mut shared = pairs.filter(|(a, b)| a.0 <= b.1 && b.0 <= a.1);
    shared.next().map(|(a, b)| a.0.max(b.0))
}

fn counts(finder: &mut Finder<'_>, old: &State<'_>, new: &State<'_>) {
    let active = number(new.status, "active").unwrap_or_default();
    let ready = number(new.status, "ready").filter(|ready| *ready > active);
    if let Some(ready) = ready
        && (new.differs(old, "ready") || new.differs(old, "active"))
    {
        finder.invalid(
            "status.ready",
            &ready.into(),
            "cannot set more ready pods than active",
        );
    }
}

/// Checks fields that must not change any more.
fn changes(finder: &mut Finder<'_>, old: &State<'_>, new: &State<'_>) {
    for (name, was, is) in [
        ("Failed", old.failed(), new.failed()),
        ("Complete", old.complete(), new.complete()),
        ("FailureTarget", old.doomed(), new.doomed()),
    ] {
        if was && !is {
            wrong(
                finder,
                &format!("cannot disable the terminal {name}=True condition"),
            );
        }
    }
    let empty = Body::new();
    let spec = map(finder.root, "spec").unwrap_or(&empty);
    let elastic = text(spec, "completionMode") == "Indexed"
        && spec.get("completions") == spec.get("parallelism");
    for (field, may_fall) in [("failed", false), ("succeeded", elastic)] {
        let count = |state: &State<'_>| number(state.status, field).unwrap_or_default();
        if !may_fall && count(new) < count(old) {
            let why = format!("cannot decrease the {field} counter");
            finder.invalid(format!("status.{field}"), &count(new).into(), &why);
        }
    }
    let time = new.status.get("completionTime");
    let had = old.status.contains_key("completionTime");
    if let Some(time) = time.filter(|_| had && new.differs(old, "completionTime")) {
        finder.invalid("status.completionTime", time, "field is immutable");
    }
    let started = old.status.contains_key("startTime");
    if started
        && new.differs(old, "startTime")
        && !is_true(spec, "suspend")
        && !is_resumed(old, new)
    {
        let why = "field is immutable for unsuspended job once set";
        let start = new.status.get("startTime").unwrap_or(&Value::Null);
        finder.invalid("status.startTime", start, why);
    }
    if old.met() && !new.met() {
        wrong(
            finder,
            "cannot disable the SuccessCriteriaMet=True condition",
        );
    }
    if old.complete() && !old.met() && new.met() {
        wrong(
            finder,
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        );
    }
}

fn is_resumed(old: &State<'_>, new: &State<'_>) -> bool {
    let suspended = |state: &State<'_>, value: &str| {
        let conditions = maps(state.status, "conditions", "");
        conditions
            .iter()
            .any(|(_, found)| text(found, "type") == "Suspended" && text(found, "status") == value)
    };
    suspended(old, "True") && suspended(new, "False")
}
