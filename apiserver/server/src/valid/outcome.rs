//! Validates the failure and success policies of Jobs, and their limits.
//!
//! Success policies are validated only for indexed Jobs. Never looks at the old object of an update.

use serde_json::{Value, json};

use super::finder::{Finder, child, items, map, maps, number};
use super::rule::Named;
use crate::object::{Body, at_path, text};
use crate::rules::names;

pub(super) const NAMED: Named = &[("outcome", outcome)];

fn outcome(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let indexed = text(spec, "completionMode") == "Indexed";
    if indexed {
        counts(finder, spec, at);
    }
    if let Some(policy) = map(spec, "podFailurePolicy") {
        for (at, rule) in maps(policy, "rules", &child(at, "podFailurePolicy")) {
            failure(finder, spec, rule, &at);
        }
    }
    let Some(policy) = map(spec, "successPolicy") else {
        return;
    };
    let at = child(at, "successPolicy");
    let rules = items(policy, "rules");
    if !indexed {
        let rules = Value::from(rules);
        let message = "requires indexed completion mode";
        return finder.invalid_as(at, &format!("{{\"Rules\":{rules}}}"), message);
    }
    if rules.is_empty() {
        let message = "at least one rules must be specified when the successPolicy is specified";
        finder.required(child(&at, "rules"), message);
    }
    for (at, rule) in maps(policy, "rules", &at) {
        success(finder, spec, rule, &at);
    }
}

fn counts(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let (parallel, failed) = (
        number(spec, "parallelism"),
        number(spec, "maxFailedIndexes"),
    );
    if let Some(parallel) = parallel.filter(|parallel| *parallel > 100_000) {
        let message = "must be less than or equal to 100000 when completion mode is Indexed";
        finder.invalid(child(at, "parallelism"), &parallel.into(), message);
    }
    if let (Some(failed), Some(all)) = (failed, number(spec, "completions"))
        && failed > all
    {
        let message = "must be less than or equal to completions";
        finder.invalid(child(at, "maxFailedIndexes"), &failed.into(), message);
    }
}

/// Checks a rule of the Pod failure policy.
fn failure(finder: &mut Finder<'_>, spec: &Body, rule: &Body, at: &str) {
    let (action, at_action) = (text(rule, "action"), child(at, "action"));
    let known = ["Count", "FailIndex", "FailJob", "Ignore"];
    match action {
        "" => finder.required(at_action, &valid_values(&known)),
        "FailIndex" if !spec.contains_key("backoffLimitPerIndex") => {
            let message = "requires the backoffLimitPerIndex to be set";
            finder.invalid(at_action, &action.into(), message);
        }
        action if !known.contains(&action) => {
            finder.unsupported(at_action, &action.into(), &known);
        }
        _ => {}
    }
    let codes = map(rule, "onExitCodes");
    if let Some(codes) = codes {
        exit_codes(finder, spec, codes, &child(at, "onExitCodes"));
    }
    let patterns = maps(rule, "onPodConditions", at);
    for (at, pattern) in &patterns {
        let of = text(pattern, "type");
        finder.all(&child(at, "type"), &of.into(), names::qualified(of));
        let (state, at) = (text(pattern, "status"), child(at, "status"));
        let known = ["False", "True", "Unknown"];
        if state.is_empty() {
            finder.required(at, &valid_values(&known));
        } else if !known.contains(&state) {
            finder.unsupported(at, &state.into(), &known);
        }
    }
    let message = match (codes.is_some(), patterns.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    finder.invalid_bare(at, message);
}

fn valid_values(known: &[&str]) -> String {
    let known: Vec<String> = known.iter().map(|word| format!("{word:?}")).collect();
    format!("valid values: [{}]", known.join(" "))
}

fn exit_codes(finder: &mut Finder<'_>, spec: &Body, codes: &Body, at: &str) {
    let (operator, at_operator) = (text(codes, "operator"), child(at, "operator"));
    let known = ["In", "NotIn"];
    if operator.is_empty() {
        finder.required(at_operator, &valid_values(&known));
    } else if !known.contains(&operator) {
        finder.unsupported(at_operator, &operator.into(), &known);
    }
    if let Some(name) = codes.get("containerName") {
        let lists = ["containers", "initContainers"];
        let mut containers = lists.iter().flat_map(|list| {
            let found = at_path(spec, &format!(".template.spec.{list}"));
            found.and_then(Value::as_array).into_iter().flatten()
        });
        if !containers.any(|container| container["name"] == *name) {
            let message = "must be one of the container or initContainer names in the pod template";
            finder.invalid(child(at, "containerName"), name, message);
        }
    }
    let (values, at) = (items(codes, "values"), child(at, "values"));
    if values.is_empty() {
        return finder.invalid(at, &values.into(), "at least one value is required");
    }
    for (index, value) in values.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if operator == "In" && *value == json!(0) {
            let message = "must not be 0 for the In operator";
            finder.invalid(at.as_str(), value, message);
        }
        if values[..index].contains(value) {
            finder.duplicate(at, value);
        }
    }
    if !values.is_sorted_by_key(Value::as_i64) {
        finder.invalid(at, &values.into(), "must be ordered");
    }
}

/// Checks a rule of the success policy.
fn success(finder: &mut Finder<'_>, spec: &Body, rule: &Body, at: &str) {
    let (count, which) = (number(rule, "succeededCount"), rule.get("succeededIndexes"));
    if count.is_none() && which.is_none() {
        let message = "at least one of succeededCount or succeededIndexes must be specified";
        finder.required(at, message);
    }
    let all = number(spec, "completions").unwrap_or_default();
    let mut total = 0;
    if let Some(which) = which {
        match indexes(which.as_str().unwrap_or_default(), all) {
            Ok(found) => total = found,
            Err(why) => {
                let message = format!("error parsing succeededIndexes: {why}");
                finder.invalid(child(at, "succeededIndexes"), which, &message);
            }
        }
    }
    let Some(count) = count else {
        return;
    };
    let at = child(at, "succeededCount");
    let mut complain = |wrong: bool, message: &str| {
        if wrong {
            finder.invalid(at.as_str(), &count.into(), message);
        }
    };
    complain(count < 0, "must be greater than or equal to 0");
    let most = |most: i64, of: &str| format!("must be less than or equal to {most} ({of})");
    complain(
        count > all,
        &most(all, "the number of specified completions"),
    );
    let of = "the number of indexes in the specified succeededIndexes field";
    complain(which.is_some() && count > total, &most(total, of));
}

/// Returns the number of indexes in a list such as `1,3-5`.
fn indexes(text: &str, all: i64) -> Result<i64, String> {
    let one = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!(
            "cannot convert string to integer for index: {text:?}"
        )),
        Ok(index) if index >= all => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
    };
    let order =
        |before: i64, now: i64| format!("non-increasing order, previous: {before}, current: {now}");
    let (mut total, mut last) = (0, None);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let ends: Vec<&str> = part.split('-').collect();
        let (from, to) = match ends.as_slice() {
            [only] => (one(only)?, one(only)?),
            [from, to] => {
                let (from, to) = (one(from)?, one(to)?);
                if from >= to {
                    return Err(order(from, to));
                }
                (from, to)
            }
            _ => {
                return Err(format!(
                    "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
                ));
            }
        };
        if let Some(last) = last.filter(|last| *last >= from) {
            return Err(order(last, from));
        }
        total += to - from + 1;
        last = Some(to);
    }
    Ok(total)
}
