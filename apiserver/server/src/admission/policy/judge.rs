//! Evaluates the expressions of a policy for one request.
//!
//! Guarantees that an evaluation failure is reported and never counts as true. Must not depend on the origin of the objects.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Policy, Validation};
use crate::cel::{Fault, Outcome, Program, Value};

/// The cost limits of one expression and of all expressions of a policy.
const LIMIT: u64 = 1_000_000;
const BUDGET: u64 = 10_000_000;

/// The maximum length of a message in bytes.
const LONGEST: usize = 5 * 1024;

/// The values that expressions can read.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) request: &'a Json,
    pub(super) params: &'a Json,
    pub(super) namespace: &'a Json,
    pub(super) has_params: bool,
}

/// A validation that does not pass.
pub(super) enum Judged {
    /// An expression cannot be evaluated.
    Fails(String),
    Denies {
        reason: String,
        message: String,
    },
}

/// The variables of a policy: the computed values, and the errors of the others.
struct Variables<'a> {
    made: Value<'a>,
    failed: Vec<(&'a str, String)>,
}

/// Returns all validations that do not pass.
pub(super) fn judge(policy: &Policy, seen: Seen<'_>) -> Vec<Judged> {
    match meets_conditions(policy, seen) {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(why) => return vec![Judged::Fails(why)],
    }
    let programs = policy
        .variables
        .iter()
        .map(|(name, source)| (name.as_str(), Program::of(source)));
    let programs: Vec<_> = programs.collect();
    let mut left = BUDGET;
    let variables = variables(&programs, seen, &mut left);
    let mut judged = Vec::new();
    for validation in &policy.validations {
        match evaluate(&validation.expression, seen, Some(&variables), &mut left) {
            Ok(Json::Bool(true)) => {}
            Ok(_) => {
                let message = message(validation, seen, &variables, &mut left);
                judged.push(Judged::Denies {
                    reason: validation.reason.clone(),
                    message,
                });
            }
            Err(why) => judged.push(Judged::Fails(why)),
        }
    }
    judged
}

/// Returns whether the policy applies to the request; an error if a condition fails and no other is false.
fn meets_conditions(policy: &Policy, seen: Seen<'_>) -> Result<bool, String> {
    let mut failed = None;
    let seen = Seen {
        namespace: &Json::Null,
        ..seen
    };
    let mut left = BUDGET;
    for condition in &policy.conditions {
        match evaluate(condition, seen, None, &mut left) {
            Ok(Json::Bool(true)) => {}
            Ok(_) => return Ok(false),
            Err(why) => failed = failed.or(Some(why)),
        }
    }
    failed.map_or(Ok(true), Err)
}

fn names(seen: Seen<'_>) -> Vec<(&str, Outcome<'_>)> {
    let part = |name: &str| Ok(Value::plain(seen.request.get(name).unwrap_or(&Json::Null)));
    let mut names = vec![
        ("object", part("object")),
        ("oldObject", part("oldObject")),
        ("request", Ok(Value::plain(seen.request))),
        ("namespaceObject", Ok(Value::plain(seen.namespace))),
    ];
    if seen.has_params {
        names.push(("params", Ok(Value::plain(seen.params))));
    }
    names
}

/// Computes the variables; each can read those before it.
fn variables<'a>(
    programs: &'a [(&'a str, Result<Arc<Program>, String>)],
    seen: Seen<'a>,
    left: &mut u64,
) -> Variables<'a> {
    let mut variables = Variables {
        made: Value::no_entries(),
        failed: Vec::new(),
    };
    for (name, program) in programs {
        let made = program.as_ref().map_err(Clone::clone).and_then(|program| {
            let mut names = names(seen);
            names.push(("variables", Ok(variables.made.clone())));
            let (made, cost) = program.run(names, LIMIT.min(*left));
            *left = left.saturating_sub(cost);
            made.map_err(|fault| told(fault, &variables))
        });
        match made {
            Ok(value) => variables.made = variables.made.with_entry(name, value),
            Err(why) => variables.failed.push((name, why)),
        }
    }
    variables
}

/// Evaluates an expression; the result is a boolean, a string or null.
fn evaluate(
    source: &str,
    seen: Seen<'_>,
    variables: Option<&Variables<'_>>,
    left: &mut u64,
) -> Result<Json, String> {
    let failed = |why: String| format!("expression '{source}' resulted in error: {why}");
    let program = Program::of(source).map_err(failed)?;
    let none = Variables {
        made: Value::no_entries(),
        failed: Vec::new(),
    };
    let mut names = names(seen);
    if let Some(variables) = variables {
        names.push(("variables", Ok(variables.made.clone())));
    }
    let (made, cost) = program.run(names, LIMIT.min(*left));
    *left = left.saturating_sub(cost);
    match made {
        Ok(Value::Bool(truth)) => Ok(truth.into()),
        Ok(Value::Text(text)) => Ok(text.into_owned().into()),
        Ok(_) => Ok(Json::Null),
        Err(fault) => Err(failed(told(fault, variables.unwrap_or(&none)))),
    }
}

/// Returns the error message of an evaluation; a failed variable is reported where it is read.
fn told(fault: Fault, variables: &Variables<'_>) -> String {
    match fault {
        Fault::Limit => "operation cancelled: actual cost limit exceeded".to_owned(),
        Fault::Told(why) => {
            let mut failed = variables.failed.iter();
            let failed = failed.find(|(name, _)| why == format!("no such key: {name}"));
            failed.map_or(why, |(name, of)| {
                format!("composited variable {name:?} fails to evaluate: {of}")
            })
        }
    }
}

/// Returns the message for an object that violates a validation.
fn message(
    validation: &Validation,
    seen: Seen<'_>,
    variables: &Variables<'_>,
    left: &mut u64,
) -> String {
    if !validation.message_expression.is_empty()
        && let Ok(Json::String(made)) =
            evaluate(&validation.message_expression, seen, Some(variables), left)
    {
        let made = made.trim();
        if !made.is_empty() && made.len() <= LONGEST && !made.contains('\n') {
            return made.to_owned();
        }
    }
    if validation.message.is_empty() {
        format!("failed expression: {}", validation.expression)
    } else {
        validation.message.clone()
    }
}
