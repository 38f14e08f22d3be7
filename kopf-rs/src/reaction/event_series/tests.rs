use std::sync::Arc;

use super::*;
use crate::object::posted_event::{EventKind, Regarding};
use crate::object::reference::Reference;

fn event(object: &str, note: &str) -> PostedEvent {
    let regarding = Regarding {
        object: Arc::new(Reference { name: object.into(), uid: object.into(), ..Reference::default() }),
        resource_version: None,
    };
    PostedEvent::new(regarding, EventKind::Normal, ("act", "Reason"), note)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// Returns the count and the name of the due update.
fn due(series: &mut EventSeries, seconds: i64) -> Option<(u32, String)> {
    let update = series.due(at(seconds), false)?;
    Some((update.count, update.name))
}

#[test]
fn the_same_event_is_posted_once_and_counted_soon_then_seldom() {
    let mut series = EventSeries::default();
    let one = event("a", "one");
    assert_eq!(series.observe(&one, at(0)), Verdict::Post);
    assert_eq!(series.observe(&one, at(0)), Verdict::Counted);
    // The first Event is still being posted.
    assert_eq!((series.next_due(), due(&mut series, 0)), (None, None));
    series.posted(one.key(), "e1");
    assert_eq!(series.next_due(), Some(at(0)));
    assert_eq!(due(&mut series, 0), Some((2, "e1".into())));
    assert_eq!((series.next_due(), due(&mut series, 0)), (None, None));
    // Retries once per second for an hour: 6 + 59 updates instead of 3,600.
    let mut told = Vec::new();
    for second in 1..3600 {
        assert_eq!(series.observe(&one, at(second)), Verdict::Counted);
        told.extend(due(&mut series, second));
    }
    assert_eq!(told.len(), 64, "{told:?}");
    let end = series.due(at(3600), true).map(|it| it.count);
    assert_eq!(end, Some(3601));
    assert_eq!(series.due(at(3600), true), None);
}

#[test]
fn a_series_that_was_quiet_is_over_once_it_is_told() {
    let mut series = EventSeries::default();
    let one = event("a", "one");
    series.observe(&one, at(0));
    series.posted(one.key(), "e1");
    series.observe(&one, at(359));
    assert_eq!(series.observe(&one, at(800)), Verdict::Counted);
    assert_eq!(due(&mut series, 800), Some((3, "e1".into())));
    assert_eq!(series.observe(&one, at(1159)), Verdict::Counted);
    assert_eq!(due(&mut series, 1159), Some((4, "e1".into())));
    assert_eq!(series.observe(&one, at(1519)), Verdict::Post);
    // An Event that the server no longer has is posted anew, too.
    series.forget(one.key());
    assert_eq!(series.observe(&one, at(1520)), Verdict::Post);
}

#[test]
fn different_events_about_one_object_are_limited_and_other_objects_are_not_concerned() {
    let mut series = EventSeries::default();
    let mut post =
        |object: &str, note: usize, second| series.observe(&event(object, &note.to_string()), at(second));
    for note in 0..25 {
        assert_eq!(post("a", note, 0), Verdict::Post);
    }
    assert_eq!(post("a", 25, 0), Verdict::TooMany);
    // Known series do not count against the limit.
    assert_eq!(post("a", 0, 0), Verdict::Counted);
    assert_eq!(post("b", 25, 0), Verdict::Post);
    assert_eq!(post("a", 26, 299), Verdict::TooMany);
    assert_eq!(post("a", 27, 300), Verdict::Post);
    assert_eq!(post("a", 28, 300), Verdict::TooMany);
    assert_eq!(post("a", 29, 301 + 300), Verdict::Post);
}

#[test]
fn memory_is_bounded_and_many_objects_are_told_of() {
    let mut series = EventSeries::default();
    for second in 0..3 * i64::try_from(MOST).unwrap() {
        let one = event(&second.to_string(), "x");
        assert_eq!(series.observe(&one, at(second / 100)), Verdict::Post);
        assert!(series.series.len() <= MOST && series.budgets.len() <= MOST);
    }
    let last = event(&(3 * MOST - 1).to_string(), "x");
    assert_eq!(series.observe(&last, at(123)), Verdict::Counted);
    series.posted(last.key(), "e");
    assert_eq!(due(&mut series, 123), Some((2, "e".into())));
    assert_eq!(series.observe(&event("new", "x"), at(7500)), Verdict::Post);
    assert_eq!((series.series.len(), series.budgets.len()), (1, 1));
}
