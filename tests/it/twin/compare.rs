//! What two sides of a scenario have in common, aspect by aspect.

use serde_json::{Value, json};

use super::scenario::{Aspect, Difference, Scenario};
use super::shown::Shown;
use super::side::contains;

/// How a scenario ended.
pub(super) enum Verdict {
    Matched,
    /// Different as the rows of the deviation table say.
    Deviates(Vec<u32>),
}

/// What is wrong, if anything is: a difference that no row explains, or a row that explains none.
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
    for aspect in [
        Aspect::Calls,
        Aspect::Arguments,
        Aspect::Object,
        Aspect::Writes,
        Aspect::Answers,
        Aspect::Events,
    ] {
        let (theirs, own) = (facet(aspect, kopf), facet(aspect, ours));
        let explained = scenario.differs.iter().find(|it| it.aspect == aspect);
        let complaint = match explained {
            None if theirs == own => None,
            // Other calls have other arguments: that is one difference, not two.
            None if aspect == Aspect::Arguments && brief(&kopf.calls) != brief(&ours.calls) => None,
            None => Some("they differ, and no row says why".to_owned()),
            Some(it) => unlike(it, &theirs, &own),
        };
        if let Some(complaint) = complaint {
            wrong.push(format!(
                "{aspect:?}: {complaint}\n  Kopf: {theirs}\n  ours: {own}"
            ));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    let rows: Vec<u32> = scenario.differs.iter().map(|it| it.row).collect();
    Ok(if rows.is_empty() {
        Verdict::Matched
    } else {
        Verdict::Deviates(rows)
    })
}

/// Why an explained difference is not as explained.
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
        Some(format!(
            "Kopf does not do what row {row} is said to mean: {}",
            explained.kopf
        ))
    } else if !agrees(own, &explained.ours) {
        Some(format!(
            "we do not do what row {row} is said to mean: {}",
            explained.ours
        ))
    } else {
        None
    }
}

/// A count, or a lower bound such as `>8` or `>=8` where it depends on how fast the machine is: a slow one finds the time for the next
/// attempt come before Kopf has begun to wait for it, and so saves a touch.
fn counted(shown: &Value, said: &Value) -> bool {
    let bound = said.as_str().and_then(|text| text.strip_prefix('>'));
    let number = |text: &str| text.parse::<u64>().ok();
    let least = bound.and_then(|bound| match bound.strip_prefix('=') {
        // One touch less.
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

/// `id reason retry`, where an event's type, or what a handler says itself, stands for the reason.
fn brief(calls: &[Value]) -> Vec<String> {
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let line = |call: &Value| {
        // Daemons, timers and activities have neither. The type of an event of a listing is `null`.
        let why = call.get("reason").or_else(|| call.get("type"));
        let why = why.map_or_else(|| "call".to_owned(), word);
        format!("{} {why} {}", word(&call["id"]), word(&call["retry"]))
    };
    calls.iter().map(line).collect()
}
