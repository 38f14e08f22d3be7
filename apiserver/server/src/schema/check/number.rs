//! Checks numbers and their limits.
//!
//! Compares integers with the integer part of the limit, as the real server does. Independent of other types.

use serde_json::Value;

use super::{Place, Verdict};
use crate::schema::{format, go, is};
use crate::status::Cause;

/// The type and the format whose range is checked; empty if the schema allows several types.
struct Range<'a> {
    kind: &'a str,
    format: &'a str,
}

pub(super) fn judge(schema: &Value, found: &Value, place: &Place<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let range = Range::of(schema);
    if let Some(cause) = range.misses(found, "Checked", place) {
        verdict.add(cause);
    }
    let limit = |name: &str| schema.get(name).filter(|limit| limit.is_number());
    if let Some(factor) = limit("multipleOf") {
        let outside = range.misses(factor, "MultipleOf", place);
        let whole = found.as_i64().filter(|_| outside.is_none());
        verdict.add_all(outside);
        verdict.add_all(multiple(found, whole, float(factor), place));
    }
    for bound in &BOUNDS {
        if let Some(limit) = limit(bound.name) {
            let outside = range.misses(limit, bound.prefix, place);
            let whole = found.as_i64().filter(|_| outside.is_none());
            verdict.add_all(outside);
            let exclusive = is(schema, bound.exclusive);
            if let Some(told) = bound.crossed(found, whole, float(limit), exclusive) {
                let word = bound.words[usize::from(exclusive)];
                verdict.add(place.invalid(found, &format!("should be {word} {told}")));
            }
        }
    }
    verdict.matches += 1;
    verdict
}

/// An upper or a lower limit.
struct Bound {
    name: &'static str,
    exclusive: &'static str,
    prefix: &'static str,
    words: [&'static str; 2],
    /// The factor that turns a lower limit into an upper one: 1 or -1.
    sign: f64,
}

const BOUNDS: [Bound; 2] = [
    Bound {
        name: "maximum",
        exclusive: "exclusiveMaximum",
        prefix: "Maximum boundary",
        words: ["less than or equal to", "less than"],
        sign: 1.0,
    },
    Bound {
        name: "minimum",
        exclusive: "exclusiveMinimum",
        prefix: "Minimum boundary",
        words: ["greater than or equal to", "greater than"],
        sign: -1.0,
    },
];

// === impl Bound ===

impl Bound {
    /// Returns the limit as the error shows it if the number exceeds it; `whole` is the number if both count as integers.
    fn crossed(
        &self,
        found: &Value,
        whole: Option<i64>,
        limit: f64,
        exclusive: bool,
    ) -> Option<String> {
        let (wrong, told) = if let Some(whole) = whole {
            let limit = cut(limit);
            let order = whole.cmp(&limit);
            let order = if self.sign > 0.0 {
                order
            } else {
                order.reverse()
            };
            (
                order.is_gt() || (exclusive && order.is_eq()),
                limit.to_string(),
            )
        } else {
            let (found, bound) = (self.sign * float(found), self.sign * limit);
            let wrong = if exclusive {
                found >= bound
            } else {
                found > bound
            };
            (wrong, go::float(limit))
        };
        wrong.then_some(told)
    }
}

fn float(number: &Value) -> f64 {
    number.as_f64().unwrap_or_default()
}

#[expect(clippy::cast_possible_truncation, reason = "as Go cuts off floats")]
fn cut(float: f64) -> i64 {
    float as i64
}

fn multiple(found: &Value, whole: Option<i64>, factor: f64, place: &Place<'_>) -> Option<Cause> {
    let must_be_positive = |told: &str, factor: &Value| {
        let message = format!(
            "factor MultipleOf declared for {} must be positive: {told}",
            place.shown
        );
        Cause::invalid(place.field(), factor, &message)
    };
    let told = |factor: &str| place.invalid(found, &format!("should be a multiple of {factor}"));
    if let Some(whole) = whole {
        let factor = cut(factor);
        if factor <= 0 {
            return Some(must_be_positive(&factor.to_string(), &factor.into()));
        }
        return (whole % factor != 0).then(|| told(&factor.to_string()));
    }
    if factor <= 0.0 {
        return Some(must_be_positive(&go::float(factor), &factor.into()));
    }
    let times = if factor < 1.0 {
        1.0 / factor * float(found)
    } else {
        float(found) / factor
    };
    (!go::is_whole(times)).then(|| told(&go::float(factor)))
}

// === impl Range ===

impl<'a> Range<'a> {
    fn of(schema: &'a Value) -> Self {
        let wanted = super::wanted(schema);
        let [kind @ ("integer" | "number")] = wanted.as_slice() else {
            return Self {
                kind: "",
                format: "",
            };
        };
        Self {
            kind,
            format: format::of(schema),
        }
    }

    fn misses(&self, number: &Value, prefix: &str, place: &Place<'_>) -> Option<Cause> {
        let whole = number.as_i64().or_else(|| {
            let float = float(number);
            (float.fract() == 0.0 && float.abs() < super::TOO_LARGE).then(|| cut(float))
        });
        let fits = match (self.kind, self.format) {
            ("integer", "int32") => whole.is_some_and(|whole| i32::try_from(whole).is_ok()),
            ("integer", _) => whole.is_some(),
            ("number", "float") => float(number).abs() <= f64::from(f32::MAX),
            _ => true,
        };
        let format = match self.format {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        let told = || {
            format!(
                "{prefix} value must be of type {} {format} in {}",
                self.kind, place.shown
            )
        };
        (!fits).then(|| place.nowhere(&told()))
    }
}
