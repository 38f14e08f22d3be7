//! Checks CEL rules when a definition is written: syntax, types and costs.
//!
//! Every accepted rule can be evaluated. Independent of how expressions are parsed and costs estimated.

use serde_json::Value;

use super::printed;
use crate::cel::{self, Checked, Declared, Kind, Program};
use crate::status::Cause;

/// The highest cost of one expression, and of all expressions of a schema.
const LIMIT: u64 = 10_000_000;
const TOTAL: u64 = 100_000_000;

/// The context in which rules are checked.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    /// The enclosing value that has no counterpart in an older object, which rules out transition rules.
    pub(super) unfound: Option<String>,
    /// The most occurrences of the value, if they are limited.
    pub(super) times: Option<u64>,
    /// True if the costs were accepted before.
    pub(super) settled: bool,
}

/// The results of the check.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) causes: Vec<Cause>,
    /// The field and the cost of each expression.
    pub(super) costs: Vec<(String, u64)>,
}

/// Checks the rules of a schema and returns their costs; `whole` means that the schema describes a whole object.
pub(super) fn check(schema: &Value, whole: bool, sight: &Sight, field: &str) -> Found {
    let rules = schema.get("x-kubernetes-validations");
    let rules = rules.and_then(Value::as_array);
    let rules = rules.map_or(&[][..], Vec::as_slice);
    let mut found = Found::default();
    if rules.is_empty() {
        return found;
    }
    let field = format!("{field}.x-kubernetes-validations");
    let (Some(kind), Some(declared)) = (Kind::of(schema, whole), Declared::of(schema, whole))
    else {
        let message = "Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        found
            .causes
            .push(Cause::new("InternalError", field, message));
        return found;
    };
    for (at, rule) in rules.iter().enumerate() {
        let one = Ruled {
            rule,
            kind: &kind,
            declared: &declared,
            field: format!("{field}[{at}]"),
        };
        one.judge(sight, &mut found);
    }
    found
}

/// Returns an error if the expressions of a schema cost too much in total.
pub(super) fn check_total(costs: &[(String, u64)], place: &str) -> Vec<Cause> {
    let sum = |sum: u64, (_, cost): &(String, u64)| sum.saturating_add(*cost);
    let total = costs.iter().fold(0, sum);
    if total <= TOTAL {
        return Vec::new();
    }
    let mut dear: Vec<_> = costs
        .iter()
        .filter(|(_, cost)| *cost >= TOTAL / 100)
        .collect();
    dear.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
    let why =
        "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
    let causes = dear
        .iter()
        .take(4)
        .map(|(field, _)| Cause::forbidden(field, why));
    let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    let whole = Cause::forbidden(place, &exceeded(what, total, TOTAL));
    causes.chain([whole]).collect()
}

/// A rule and the type of the values that it applies to.
struct Ruled<'a> {
    rule: &'a Value,
    kind: &'a Kind,
    declared: &'a Declared,
    field: String,
}

// === impl Ruled ===

impl Ruled<'_> {
    fn text(&self, name: &str) -> &str {
        let found = self.rule.get(name).and_then(Value::as_str);
        found.unwrap_or_default()
    }

    fn wrong(&self, part: &str, why: &str) -> Cause {
        let message = format!("Invalid value: {}: {why}", printed::rule(self.rule));
        Cause::new(
            "FieldValueInvalid",
            format!("{}.{part}", self.field),
            message,
        )
    }

    /// Compiles an expression; the flag is true if it uses `oldSelf`.
    fn compile(&self, source: &str) -> Result<(bool, Checked), String> {
        let optional = self.rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        let kind = self.kind.clone();
        let old = if optional {
            Kind::Optional(Box::new(kind.clone()))
        } else {
            kind.clone()
        };
        cel::syntax(source)?;
        let uses_old = Program::of(source)?.names("oldSelf");
        Ok((
            uses_old,
            cel::check(source, &[("self", kind), ("oldSelf", old)])?,
        ))
    }

    fn judge(&self, sight: &Sight, found: &mut Found) {
        let uses_old = match self.compile(self.text("rule")) {
            Err(why) => {
                let why = format!("compilation failed: {why}");
                found.causes.push(self.wrong("rule", &why));
                false
            }
            Ok((_, checked)) if !matches!(checked.kind(), Kind::Bool | Kind::Unknown) => {
                let why = "cel expression must evaluate to a bool";
                found.causes.push(self.wrong("rule", why));
                false
            }
            Ok((_, checked)) if checked.flaw().is_some() => {
                let why = checked.flaw().unwrap_or_default();
                let why = format!("program instantiation failed: {why}");
                found.causes.push(self.wrong("rule", &why));
                false
            }
            Ok((uses_old, checked)) => {
                let times = sight.times.unwrap_or_else(|| self.declared.times());
                let cost = checked.cost(self.declared).saturating_mul(times);
                self.spend(("rule", "estimated rule cost"), cost, sight, found);
                self.judge_message(sight, found);
                uses_old
            }
        };
        if uses_old {
            if let Some(part) = &sight.unfound {
                let message = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {part}"
                );
                let field = format!("{}.rule", self.field);
                let cause = Cause::invalid(field, &self.text("rule").into(), &message);
                found.causes.push(cause);
            }
        } else if let Some(given) = self.rule.get("optionalOldSelf") {
            let message = "may not be set if oldSelf is not used in rule";
            let field = format!("{}.optionalOldSelf", self.field);
            found.causes.push(Cause::invalid(field, given, message));
        }
    }

    fn judge_message(&self, sight: &Sight, found: &mut Found) {
        let source = self.text("messageExpression");
        if source.is_empty() {
            return;
        }
        match self.compile(source) {
            Err(why) => {
                let why = format!("messageExpression compilation failed: {why}");
                found.causes.push(self.wrong("messageExpression", &why));
            }
            Ok((_, checked)) if checked.flaw().is_some() => {
                let why = checked.flaw().unwrap_or_default();
                let why = format!("messageExpression instantiation failed: {why}");
                found.causes.push(self.wrong("messageExpression", &why));
            }
            Ok((_, checked)) if matches!(checked.kind(), Kind::Text | Kind::Unknown) => {
                // A message is computed at most once, so the number of values does not matter.
                let what = ("messageExpression", "estimated messageExpression cost");
                self.spend(what, checked.cost(self.declared), sight, found);
            }
            Ok(_) => {
                let why = "messageExpression must evaluate to a string";
                found.causes.push(self.wrong("messageExpression", why));
            }
        }
    }

    fn spend(&self, (part, what): (&str, &str), cost: u64, sight: &Sight, found: &mut Found) {
        let field = format!("{}.{part}", self.field);
        if cost > LIMIT && !sight.settled {
            let cause = Cause::forbidden(&*field, &exceeded(what, cost, LIMIT));
            found.causes.push(cause);
        }
        found.costs.push((field, cost));
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the real server tells a rough factor"
)]
fn exceeded(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let shown = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
