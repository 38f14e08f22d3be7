//! Compares two sides of a scenario, aspect by aspect.

use serde_json::{Value, json};

use super::scenario::{Aspect, Difference, Scenario};
use super::shown::Shown;
use super::side::contains;

/// The result of the comparison.
pub(super) enum Verdict {
    Matched,
    /// Different in the way that these rows of the deviation table state.
    Deviates(Vec<u32>),
}

/// Judges a scenario. Fails on a difference without a row, and on a row without a difference.
pub(super) fn judge(scenario: &Scenario, kopf: &Shown, ours: &Shown) -> Result<Verdict, String> {
    let mut wrong = Vec::new();
    if brief(&kopf.calls) != scenario.calls {
        wrong.push(format!("calls of Kopf: {:?}", brief(&kopf.calls)));
    }
    if kopf.answers != scenario.answers {
        wrong.push(format!("answers of Kopf: {:?}", kopf.answers));
    }
    if kopf.events != scenario.events {
        wrong.push(format!("Events of Kopf: {:?}", kopf.events));
    }
    for aspect in
        [Aspect::Calls, Aspect::Arguments, Aspect::Object, Aspect::Writes, Aspect::Answers, Aspect::Events]
    {
        let (theirs, own) = (facet(aspect, kopf), facet(aspect, ours));
        let explained = scenario.differs.iter().find(|it| it.aspect == aspect);
        let complaint = match explained {
            None if theirs == own => None,
            // Different calls imply different arguments; this counts as one difference.
            None if aspect == Aspect::Arguments && brief(&kopf.calls) != brief(&ours.calls) => None,
            None => Some("they differ, and no row says why".to_owned()),
            Some(it) => unlike(it, &theirs, &own),
        };
        if let Some(complaint) = complaint {
            wrong.push(format!("{aspect:?}: {complaint}\n  Kopf: {theirs}\n  ours: {own}"));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    let rows: Vec<u32> = scenario.differs.iter().map(|it| it.row).collect();
    Ok(if rows.is_empty() { Verdict::Matched } else { Verdict::Deviates(rows) })
}

/// Returns why an explained difference is not as explained.
fn unlike(explained: &Difference, theirs: &Value, own: &Value) -> Option<String> {
    let agrees = |shown: &Value, said: &Value| match explained.aspect {
        Aspect::Object | Aspect::Arguments => contains(shown, said),
        Aspect::Calls | Aspect::Answers | Aspect::Events => shown == said,
        Aspect::Writes => counted(shown, said),
    };
    let row = explained.row;
    if theirs == own && !may_be_equal(&explained.kopf) {
        Some(format!("row {row} explains a difference that is not there"))
    } else if !agrees(theirs, &explained.kopf) {
        Some(format!("Kopf does not do what row {row} is said to mean: {}", explained.kopf))
    } else if !agrees(own, &explained.ours) {
        Some(format!("we do not do what row {row} is said to mean: {}", explained.ours))
    } else {
        None
    }
}

/// Compares a count, or a lower bound such as `>8` or `>=8` if the count depends on the speed of the machine: on a slow machine, the next
/// attempt may already be due before Kopf starts to wait for it, which saves a touch patch.
fn counted(shown: &Value, said: &Value) -> bool {
    let bound = said.as_str().and_then(|text| text.strip_prefix('>'));
    let number = |text: &str| text.parse::<u64>().ok();
    let least = bound.and_then(|bound| match bound.strip_prefix('=') {
        // One touch patch fewer.
        Some(bound) => Some(number(bound)? - 1),
        None => Some(number(bound)? + 1),
    });
    match least {
        Some(least) => shown.as_u64().is_some_and(|count| count >= least),
        None => shown == said,
    }
}

fn may_be_equal(said: &Value) -> bool {
    said.as_str().is_some_and(|text| text.starts_with(">="))
}

fn facet(aspect: Aspect, shown: &Shown) -> Value {
    match aspect {
        Aspect::Calls => json!(brief(&shown.calls)),
        Aspect::Arguments => json!(shown.calls),
        Aspect::Object => shown.object.clone(),
        Aspect::Writes => json!(shown.writes),
        Aspect::Answers => json!(shown.answers),
        Aspect::Events => json!(shown.events),
    }
}

/// Formats calls as `id reason retry`; the type of an event, or the note of a handler, replaces the reason.
fn brief(calls: &[Value]) -> Vec<String> {
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let line = |call: &Value| {
        // Daemons, timers and activities have neither. The type of an event from a list is `null`.
        let why = call.get("reason").or_else(|| call.get("type"));
        let why = why.map_or_else(|| "call".to_owned(), word);
        format!("{} {why} {}", word(&call["id"]), word(&call["retry"]))
    };
    calls.iter().map(line).collect()
}
