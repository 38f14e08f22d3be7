//! Checks `anyOf`, `oneOf`, `allOf` and `not`.
//!
//! If all alternatives fail, reports the errors of the one that passed most checks, the first among equals.
//! Independent of other keywords.

use serde_json::Value;

use super::{Place, Verdict};
use crate::schema::ratchet::Node;

pub(super) fn judge(
    schema: &Value,
    found: &Value,
    place: &Place<'_>,
    node: Option<Node<'_>>,
) -> Verdict {
    let each = |name: &str| -> Vec<Verdict> {
        let branches = schema.get(name).and_then(Value::as_array);
        // Ratcheting does not apply within a branch: only the whole value can count as unchanged.
        let of = |branch: &Value| super::judge(branch, found, place, node.map(Node::inside));
        branches.into_iter().flatten().map(of).collect()
    };
    let told = |what: &str| place.nowhere(&format!("{:?} must {what}", place.shown));
    let mut verdict = Verdict::default();
    any_of(each("anyOf"), told, &mut verdict);
    one_of(each("oneOf"), told, &mut verdict);
    all_of(each("allOf"), told, &mut verdict);
    if let Some(branch) = schema.get("not")
        && super::judge(branch, found, place, node.map(Node::inside)).is_right()
    {
        verdict.add(told("not validate the schema (not)"));
    }
    verdict.matches += 1;
    verdict
}

/// Returns the failed alternative that passed most checks.
fn nearest(results: Vec<Verdict>) -> Option<Verdict> {
    let mut best: Option<Verdict> = None;
    for result in results {
        if best
            .as_ref()
            .is_none_or(|best| result.matches > best.matches)
        {
            best = Some(result);
        }
    }
    best
}

fn any_of(
    results: Vec<Verdict>,
    told: impl Fn(&str) -> crate::status::Cause,
    verdict: &mut Verdict,
) {
    if results.is_empty() {
        return;
    }
    if let Some(right) = results.iter().position(Verdict::is_right) {
        verdict.matches += results[right].matches;
        return;
    }
    verdict.add(told("validate at least one schema (anyOf)"));
    if let Some(best) = nearest(results) {
        verdict.merge(best);
    }
}

fn one_of(
    results: Vec<Verdict>,
    told: impl Fn(&str) -> crate::status::Cause,
    verdict: &mut Verdict,
) {
    if results.is_empty() {
        return;
    }
    let one = "validate one and only one schema (oneOf). Found";
    match results.iter().filter(|result| result.is_right()).count() {
        0 => {
            verdict.add(told(&format!("{one} none valid")));
            if let Some(best) = nearest(results) {
                verdict.merge(best);
            }
        }
        1 => {
            let right = results.iter().find(|result| result.is_right());
            verdict.matches += right.map_or(0, |right| right.matches);
        }
        many => verdict.add(told(&format!("{one} {many} valid alternatives"))),
    }
}

fn all_of(
    results: Vec<Verdict>,
    told: impl Fn(&str) -> crate::status::Cause,
    verdict: &mut Verdict,
) {
    let (all, right) = (
        results.len(),
        results.iter().filter(|result| result.is_right()).count(),
    );
    for result in results {
        verdict.merge(result);
    }
    if right < all {
        let none = if right == 0 { ". None validated" } else { "" };
        verdict.add(told(&format!("validate all the schemas (allOf){none}")));
    }
}
