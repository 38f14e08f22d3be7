//! Rules in CEL when they are defined: whether they compile, and what their parts are.
//!
//! Promise: a build that cannot evaluate rules says nothing of them. What they would cost is not looked at. Must not know how
//! expressions are read.

use serde_json::Value;

use super::printed;
use crate::schema::cel::{self, Kind};
use crate::schema::expression;
use crate::status::Cause;

/// What is wrong with the rules of a schema, which may be that of a whole object; `unfound` names what keeps its values from
/// being found in an older object.
pub(super) fn check(schema: &Value, whole: bool, unfound: Option<&str>, field: &str) -> Vec<Cause> {
    let rules = schema.get("x-kubernetes-validations");
    let rules = rules.and_then(Value::as_array);
    let rules = rules.map_or(&[][..], Vec::as_slice);
    if !expression::AVAILABLE || rules.is_empty() {
        return Vec::new();
    }
    let field = format!("{field}.x-kubernetes-validations");
    let Some(kind) = Kind::of(schema, whole) else {
        let message = "Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        return vec![Cause::new("InternalError", field, message)];
    };
    let rules = rules.iter().enumerate();
    rules
        .flat_map(|(at, rule)| judge(rule, &kind, unfound, &format!("{field}[{at}]")))
        .collect()
}

fn judge(rule: &Value, kind: &Kind, unfound: Option<&str>, field: &str) -> Vec<Cause> {
    let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut causes = Vec::new();
    let mut wrong = |part: &str, why: &str| {
        let message = format!("Invalid value: {}: {why}", printed::rule(rule));
        let field = format!("{field}.{part}");
        causes.push(Cause::new("FieldValueInvalid", field, message));
    };
    let optional = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
    let old = if optional {
        Kind::Optional(Box::new(kind.clone()))
    } else {
        kind.clone()
    };
    let names = [("self", kind.clone()), ("oldSelf", old)];
    let compile = |source: &str| -> Result<(bool, Kind), String> {
        let uses_old = expression::compile(source)?;
        Ok((uses_old, cel::check(source, &names)?))
    };
    let uses_old = match compile(text("rule")) {
        Err(why) => {
            wrong("rule", &format!("compilation failed: {why}"));
            false
        }
        Ok((_, made)) if !matches!(made, Kind::Bool | Kind::Unknown) => {
            wrong("rule", "cel expression must evaluate to a bool");
            false
        }
        Ok((uses_old, _)) => {
            match compile(text("messageExpression")) {
                _ if text("messageExpression").is_empty() => {}
                Err(why) => {
                    let why = format!("messageExpression compilation failed: {why}");
                    wrong("messageExpression", &why);
                }
                Ok((_, Kind::Text | Kind::Unknown)) => {}
                Ok(_) => wrong(
                    "messageExpression",
                    "messageExpression must evaluate to a string",
                ),
            }
            uses_old
        }
    };
    if uses_old {
        if let Some(part) = unfound {
            let message = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {part}"
            );
            let field = format!("{field}.rule");
            causes.push(Cause::invalid(field, &text("rule").into(), &message));
        }
    } else if let Some(given) = rule.get("optionalOldSelf") {
        let message = "may not be set if oldSelf is not used in rule";
        let field = format!("{field}.optionalOldSelf");
        causes.push(Cause::invalid(field, given, message));
    }
    causes
}
