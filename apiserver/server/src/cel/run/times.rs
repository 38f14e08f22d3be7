//! Accessors of dates, times and durations.
//!
//! Months and days of the year start at zero, as CEL defines. Independent of the textual form.

use crate::cel::value::moment::Moment;
use crate::cel::value::{Fault, Outcome, Value};

const SECOND: i64 = 1_000_000_000;

/// Returns a part of a date or a duration, or `None` if the function belongs to another module.
pub(super) fn call<'a>(name: &str, given: &[Value<'a>]) -> Option<Outcome<'a>> {
    let part = match given {
        [Value::Timestamp(moment)] => of_moment(name, *moment, None)?,
        [Value::Timestamp(moment), Value::Text(zone)] => of_moment(name, *moment, Some(zone))?,
        [Value::Duration(nanos)] => Ok(match name {
            "getHours" => nanos / (3600 * SECOND),
            "getMinutes" => nanos / (60 * SECOND),
            "getSeconds" => nanos / SECOND,
            "getMilliseconds" => nanos / (SECOND / 1000),
            _ => return None,
        }),
        _ => return None,
    };
    Some(part.map(Value::Int).map_err(Fault::Told))
}

fn of_moment(name: &str, moment: Moment, zone: Option<&str>) -> Option<Result<i64, String>> {
    let of: fn(jiff::civil::DateTime) -> i64 = match name {
        "getFullYear" => |civil| civil.year().into(),
        "getMonth" => |civil| i64::from(civil.month()) - 1,
        "getDate" => |civil| civil.day().into(),
        "getDayOfMonth" => |civil| i64::from(civil.day()) - 1,
        "getDayOfWeek" => |civil| civil.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => |civil| i64::from(civil.day_of_year()) - 1,
        "getHours" => |civil| civil.hour().into(),
        "getMinutes" => |civil| civil.minute().into(),
        "getSeconds" => |civil| civil.second().into(),
        "getMilliseconds" => |civil| civil.millisecond().into(),
        _ => return None,
    };
    Some(moment.civil(zone).map(of))
}
