//! Tests of expressions, zones and clock changes.

use super::*;

fn schedule(text: &str, zone: &str) -> Schedule {
    Schedule::parse(text, Some(zone)).unwrap()
}

/// Returns the times after `after` as the clocks of `zone` show them, with their offsets.
fn times_after(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = schedule(text, zone);
    let zone = TimeZone::get(zone).unwrap();
    let mut at: Timestamp = after.parse().unwrap();
    let mut found = Vec::new();
    while found.len() < count {
        let next = schedule.next(at).unwrap();
        assert!(next > at, "{next} after {at}");
        at = next;
        let shown = zone.to_offset(at).to_datetime(at);
        found.push(shown.strftime("%m-%d %H:%M").to_string());
    }
    found
}

#[test]
fn expressions_by_table() {
    for (text, after, expected) in [
        ("*/15 * * * *", "2026-01-01T10:07:30Z", "2026-01-01T10:15:00Z"),
        ("0 3 * * *", "2026-01-31T10:00:00Z", "2026-02-01T03:00:00Z"),
        ("0 3 * * *", "2026-01-31T03:00:00Z", "2026-02-01T03:00:00Z"),
        ("0 3 * * *", "2026-01-31T02:59:59.999Z", "2026-01-31T03:00:00Z"),
        ("0 3 * * *", "2026-01-31T03:00:00.001Z", "2026-02-01T03:00:00Z"),
        ("30 8 * * mon-fri", "2026-01-02T09:00:00Z", "2026-01-05T08:30:00Z"),
        ("0 0 29 feb *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        // The fifth Monday of a February is always the 29th.
        ("0 0 * 2 MON#5", "2026-01-01T00:00:00Z", "2044-02-29T00:00:00Z"),
        (" @hourly ", "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"),
        ("@yearly", "2026-01-01T10:00:00Z", "2027-01-01T00:00:00Z"),
    ] {
        let found = Schedule::parse(text, None).unwrap();
        let found = found.next(after.parse().unwrap()).unwrap();
        assert_eq!(found.to_string(), expected, "{text}");
    }
}

#[test]
fn invalid_schedules_are_errors() {
    for (text, zone, expected) in [
        ("", None, "expected five fields"),
        ("0 3 * *", None, "expected five fields"),
        ("0 0 3 * * *", None, "expected five fields"),
        ("0 3 * * * Europe/Kyiv", None, "expected five fields"),
        ("CRON_TZ=UTC 0 3 * * *", None, "expected five fields"),
        ("@reboot", None, "expected five fields"),
        ("61 3 * * *", None, "`61 3 * * *`: "),
        ("0 3 * * x", None, "`schedule` cannot be understood"),
        ("*/0 * * * *", None, "`schedule` cannot be understood"),
        ("0 0 30 2 *", None, "`schedule` never comes"),
        ("0 0 31 4,6 *", None, "`schedule` never comes"),
        ("0 3 * * *", Some("Europe/Kiev/Kyiv"), "`zone` is no time zone: `Europe/Kiev/Kyiv`"),
        ("0 3 * * *", Some(""), "`zone` is no time zone"),
    ] {
        let error = Schedule::parse(text, zone).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(expected) && !said.contains('\n'), "{text}: {said}");
    }
}

/// Kyiv skips the hour from 03:00 to 04:00 on 2026-03-29.
#[test]
fn a_run_in_the_gap_is_due_at_its_end() {
    let after = "2026-03-28T00:00:00Z";
    assert_eq!(
        times_after("30 3 * * *", "Europe/Kyiv", after, 3),
        ["03-28 03:30", "03-29 04:00", "03-30 03:30"]
    );
    assert_eq!(
        times_after("0,20,40 3 * * *", "Europe/Kyiv", "2026-03-28T12:00:00Z", 3),
        ["03-29 04:00", "03-30 03:00", "03-30 03:20"]
    );
    assert_eq!(
        times_after("0 3,4 * * *", "Europe/Kyiv", "2026-03-28T12:00:00Z", 2),
        ["03-29 04:00", "03-30 03:00"]
    );
}

/// Kyiv repeats the hour from 03:00 to 04:00 on 2026-10-25.
#[test]
fn a_run_in_an_hour_that_comes_twice_is_due_once() {
    let after = "2026-10-24T12:00:00Z";
    assert_eq!(times_after("30 3 * * *", "Europe/Kyiv", after, 2), ["10-25 03:30", "10-26 03:30"]);
    let first = schedule("30 3 * * *", "Europe/Kyiv").next(after.parse().unwrap());
    assert_eq!(first.unwrap().to_string(), "2026-10-25T00:30:00Z");
    // Starts within the second of the two hours.
    assert_eq!(times_after("0,45 3 * * *", "Europe/Kyiv", "2026-10-25T01:10:00Z", 1), ["10-26 03:00"]);
}

#[test]
fn hourly_schedules_follow_the_clocks() {
    assert_eq!(
        times_after("30 * * * *", "Europe/Kyiv", "2026-03-29T00:00:00Z", 3),
        ["03-29 02:30", "03-29 04:30", "03-29 05:30"]
    );
    assert_eq!(
        times_after("30 * * * *", "Europe/Kyiv", "2026-10-25T00:00:00Z", 3),
        ["10-25 03:30", "10-25 03:30", "10-25 04:30"]
    );
    assert_eq!(
        times_after("0 * * * *", "Europe/Kyiv", "2026-03-29T00:30:00Z", 2),
        ["03-29 04:00", "03-29 05:00"]
    );
}

/// Lord Howe Island changes its clocks by half an hour.
#[test]
fn half_an_hour_is_a_change_too() {
    let zone = "Australia/Lord_Howe";
    assert_eq!(times_after("45 1 * * *", zone, "2026-04-04T00:00:00Z", 2), ["04-05 01:45", "04-06 01:45"]);
    assert_eq!(times_after("15 2 * * *", zone, "2026-10-03T00:00:00Z", 2), ["10-04 02:30", "10-05 02:15"]);
    let half_hours = times_after("*/30 * * * *", zone, "2026-04-04T14:00:00Z", 4);
    assert_eq!(half_hours, ["04-05 01:30", "04-05 01:30", "04-05 02:00", "04-05 02:30"]);
}

/// Samoa skipped a whole day: 2011-12-30.
#[test]
fn a_day_that_was_left_out_has_one_run() {
    assert_eq!(
        times_after("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 3),
        ["12-29 12:00", "12-31 00:00", "12-31 12:00"]
    );
}

/// The next time is always later, and none is skipped: the result for a moment is also the result for each earlier
/// moment after the previous run.
#[test]
fn no_time_is_skipped_whenever_it_is_asked_for() {
    let zones = ["UTC", "Europe/Kyiv", "America/New_York", "Australia/Lord_Howe"];
    let texts = ["30 2 * * *", "*/20 * * * *", "15 1-4 * * *", "0 */2 * * *"];
    for zone in zones {
        for text in texts {
            let schedule = schedule(text, zone);
            for start in ["2026-03-07T00:00:00Z", "2026-03-28T00:00:00Z", "2026-04-04T00:00:00Z"] {
                let mut at: Timestamp = start.parse().unwrap();
                let end = at.checked_add(SignedDuration::from_hours(48)).unwrap();
                let mut next = schedule.next(at).unwrap();
                while at < end {
                    at = at.checked_add(SignedDuration::from_mins(10)).unwrap();
                    if at >= next {
                        next = schedule.next(next).unwrap();
                    }
                    assert!(next > at, "{text} {zone}");
                    assert_eq!(schedule.next(at), Some(next), "{text} {zone} after {at}");
                }
            }
        }
    }
}

#[test]
fn the_last_day_of_a_month_is_refused() {
    for text in ["0 0 L * *", "0 0 L 12 *", "0 0 * * FRIL", "0 0 * * 5L"] {
        let refused = Schedule::parse(text, None).unwrap_err().to_string();
        assert!(refused.contains("`L`, the last day of a month, is not supported"), "{refused}");
    }
    assert!(Schedule::parse("0 0 1 JUL *", None).is_ok());
}
