//! Progress records: the memory of a handler between attempts.
//!
//! Uses Kopf's JSON plus `target`, `wait` and `owed`. Unreadable records are reported rather than guessed. This
//! module does not know which handlers exist.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit, civil};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::handler::subject::Reason;
use crate::object::essence::{Essence, Sight};
use crate::object::path::FieldPath;
use crate::state::diffbase::KnownEssence;
use crate::state::error::StorageError;
use crate::state::naming::is_ambiguous;

/// One handler's progress within one cycle. Times have microsecond precision, as on the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub(crate) started: Timestamp,
    pub(crate) stopped: Option<Timestamp>,
    pub(crate) delayed: Option<Timestamp>,
    /// The delay that the handler requested, if it is longer than usual.
    pub(crate) wait: Option<Duration>,
    pub(crate) purpose: Option<Reason>,
    pub(crate) retries: u32,
    pub(crate) success: bool,
    pub(crate) failure: bool,
    pub(crate) message: Option<String>,
    /// Ids of sub-handlers, sorted.
    pub(crate) subrefs: Vec<String>,
    /// The digest of the handler's scope as the last attempt has seen it; `None` before the first attempt.
    pub(crate) target: Option<Sight>,
    /// The handler must be called regardless of changes, because the stored last-handled state is not the state that it has seen.
    pub(crate) is_owed: bool,
}

/// The stored form of a record.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// The handler's id, if earlier versions used the same annotation for other handlers.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    started: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delayed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<String>,
    retries: Option<u32>,
    success: Option<bool>,
    failure: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subrefs: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owed: Option<bool>,
}

/// The default delay of temporary errors. Only longer delays are stored in addition to the resulting time.
pub(crate) const USUAL_DELAY: Duration = Duration::from_secs(60);

impl Record {
    /// Creates the record of a handler that was just selected.
    pub(crate) fn fresh(purpose: Reason, now: Timestamp) -> Self {
        Self { purpose: Some(purpose), ..Self::begun(now) }
    }
    /// Creates the record of a handler whose attempts begin now, for any purpose.
    pub(crate) fn begun(now: Timestamp) -> Self {
        Self {
            started: micros(now),
            stopped: None,
            delayed: None,
            wait: None,
            purpose: None,
            retries: 0,
            success: false,
            failure: false,
            message: None,
            subrefs: Vec::new(),
            target: None,
            is_owed: false,
        }
    }
    /// Returns true if the record is a mark: it has outlived its cycle, because the state that its handler has seen is not the state that was
    /// stored as last-handled.
    pub(crate) fn is_mark(&self) -> bool {
        self.purpose.is_none() && self.target.is_some()
    }
    /// Prepares an attempt: the handler's time counts from the first one.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        if !self.was_called() {
            self.started = micros(now);
        }
    }
    /// Returns true if an attempt was made, even one that has only waited for sub-handlers.
    pub(crate) fn was_called(&self) -> bool {
        self.retries > 0 || self.delayed.is_some()
    }
    /// Returns true if the handler has succeeded or failed permanently.
    pub(crate) fn is_final(&self) -> bool {
        self.success || self.failure
    }
    /// Returns true if an attempt may be made now.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        !self.is_final() && self.delayed.is_none_or(|delayed| delayed <= now)
    }
    /// Delays the next attempt until `at`.
    pub(crate) fn wait_until(&mut self, at: Option<Timestamp>, now: Timestamp) {
        let wait = at.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
        let whole = |wait: Duration| {
            let part = u64::from(wait.subsec_nanos() > 0);
            Duration::from_secs(wait.as_secs().saturating_add(part))
        };
        self.delayed = at;
        self.wait = wait.filter(|it| *it > USUAL_DELAY).map(whole);
    }
    /// Returns true if all attempts have seen `essence` at `field`, or if there were none.
    pub(crate) fn saw(&self, essence: &Essence, field: Option<&FieldPath>) -> bool {
        let seen = self.target.as_ref();
        seen.is_none_or(|seen| seen.is_of(essence, field))
    }
    /// Returns true if all attempts have seen `known` at `field`, as far as that can be decided.
    pub(crate) fn saw_known(&self, known: &KnownEssence, field: Option<&FieldPath>) -> bool {
        match (known, &self.target) {
            (_, None) => true,
            (KnownEssence::Whole(essence), _) => self.saw(essence, field),
            (KnownEssence::Digest(digest), Some(seen)) => field.is_none() && seen.digest() == *digest,
        }
    }
    /// Returns the record as a mark, without its purpose.
    pub(crate) fn as_mark(&self) -> Self {
        Self { purpose: None, is_owed: false, ..self.clone() }
    }
    /// Returns the record without the fields that Kopf's format lacks.
    pub(crate) fn in_kopfs_fields(&self) -> Self {
        Self { target: None, wait: None, is_owed: false, ..self.clone() }
    }
    /// Returns a new record of the same handler that keeps only the state that it has seen.
    pub(crate) fn again(&self, purpose: Option<Reason>, now: Timestamp) -> Self {
        Self { purpose, target: self.target.clone(), subrefs: self.subrefs.clone(), ..Self::begun(now) }
    }
    /// Returns the record with its seen state spelled out, unless that equals the `kept` state.
    pub(super) fn spelled(&self, kept: Option<&Essence>) -> Option<Self> {
        let seen = self.target.as_ref()?;
        let is_told_of_it = self.is_mark() || self.is_owed || kept.is_some();
        let target = seen.spelling(kept, is_told_of_it)?;
        Some(Self { target: Some(target), ..self.clone() })
    }
    /// Returns the record with a shortened message, or `None` if the message is short.
    pub(super) fn in_short(&self) -> Option<Self> {
        const SHORT: usize = 64;
        let message = self.message.as_deref().filter(|it| it.len() > SHORT)?;
        Some(Self { message: Some(shortened(message, SHORT)), ..self.clone() })
    }
    /// Returns the record as a JSON object, without fields that have no value. The operator's own fields `target`, `wait` and `owed` are not
    /// part of Kopf's records.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self.stored()).unwrap_or_default()
    }
    /// Reads the JSON that [`to_value`](Self::to_value) returns or that Kopf stores.
    ///
    /// # Errors
    /// If the value is not such a record.
    pub fn from_value(value: &Value) -> Result<Self, StorageError> {
        let stored = Stored::deserialize(value)?;
        Ok(Self::of(stored)?)
    }
    /// Returns Kopf's fields in Kopf's order, with `null` for missing values.
    pub(crate) fn kopf_fields(&self) -> [(&'static str, Value); 9] {
        let stored = self.stored();
        [
            ("started", stored.started.into()),
            ("stopped", stored.stopped.into()),
            ("delayed", stored.delayed.into()),
            ("purpose", stored.purpose.into()),
            ("retries", stored.retries.into()),
            ("success", stored.success.into()),
            ("failure", stored.failure.into()),
            ("message", stored.message.into()),
            ("subrefs", stored.subrefs.into()),
        ]
    }
    fn stored(&self) -> Stored {
        Stored {
            id: None,
            started: time_to_text(self.started),
            stopped: self.stopped.map(time_to_text),
            delayed: self.delayed.map(time_to_text),
            purpose: self.purpose.map(|it| it.as_str().to_owned()),
            retries: Some(self.retries),
            success: Some(self.success),
            failure: Some(self.failure),
            message: self.message.clone(),
            subrefs: (!self.subrefs.is_empty()).then(|| self.subrefs.clone()),
            target: self.target.as_ref().map(|it| it.text().into_owned()),
            wait: self.wait.map(|it| it.as_secs()),
            owed: self.is_owed.then_some(true),
        }
    }
    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        Self::of(serde_json::from_str(text).map_err(|error| error.to_string())?)
    }
    fn of(stored: Stored) -> Result<Self, String> {
        let time = |text: Option<String>| text.map(|it| time_from_text(&it)).transpose();
        Ok(Self {
            started: time_from_text(&stored.started)?,
            stopped: time(stored.stopped)?,
            delayed: time(stored.delayed)?,
            wait: stored.wait.map(Duration::from_secs),
            purpose: stored.purpose.as_deref().and_then(reason),
            retries: stored.retries.unwrap_or_default(),
            success: stored.success.unwrap_or_default(),
            failure: stored.failure.unwrap_or_default(),
            message: stored.message,
            subrefs: stored.subrefs.unwrap_or_default(),
            target: stored.target.map(Sight::Read),
            is_owed: stored.owed.unwrap_or_default(),
        })
    }
}

/// Returns the text of an annotation for the record of handler `id`.
pub(super) fn annotated(record: &Record, id: &str) -> String {
    let stored = Stored { id: is_ambiguous(id).then(|| id.to_owned()), ..record.stored() };
    serde_json::to_string(&stored).unwrap_or_default()
}

/// Returns true if the text of an annotation is a record that may be that of handler `id`.
pub(super) fn may_be_of(id: &str, text: &str) -> bool {
    let stored = serde_json::from_str::<Stored>(text);
    stored.is_ok_and(|it| it.id.is_none_or(|owner| owner == id))
}

/// Returns `text`, or its beginning and its end.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let half = longest.saturating_sub(3) / 2;
    let head = (0..=half).rev().find(|at| text.is_char_boundary(*at));
    let tail = (text.len() - half..=text.len()).find(|at| text.is_char_boundary(*at));
    format!("{}...{}", &text[..head.unwrap_or(0)], &text[tail.unwrap_or(text.len())..])
}

/// Rounds to microseconds, so that stored and compared times are equal.
pub(crate) fn micros(time: Timestamp) -> Timestamp {
    time.round(Unit::Microsecond).unwrap_or(time)
}

fn time_to_text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// Parses a time with any offset. Without an offset it is UTC, as very old Kopf versions wrote it. Refuses years before 1, which neither
/// Kopf nor [`time_to_text`] can write.
fn time_from_text(text: &str) -> Result<Timestamp, String> {
    let naive = || {
        let local = text.parse::<civil::DateTime>().ok()?;
        TimeZone::UTC.to_timestamp(local).ok()
    };
    let time = text.parse::<Timestamp>().ok().or_else(naive);
    let time = time.filter(|it| it.to_zoned(TimeZone::UTC).year() >= 1);
    time.map(micros)
        .ok_or_else(|| format!("expected a time such as 2026-01-01T00:00:00.000000+00:00, found {text:?}"))
}

fn reason(text: &str) -> Option<Reason> {
    [Reason::Create, Reason::Update, Reason::Delete, Reason::Resume]
        .into_iter()
        .find(|it| it.as_str() == text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::body::Body;
    use crate::object::patch::{Patch, apply};
    use crate::state::naming::Annotations;
    use crate::state::storage::ProgressStore;

    const KOPFS: &str = r#"{"started":"2026-11-21T04:02:54.519710+00:00","delayed":"2026-11-21T04:03:54.519710+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"not yet"}"#;

    fn to_json(record: &Record) -> String {
        serde_json::to_string(&record.stored()).unwrap()
    }

    #[test]
    fn reads_and_writes_as_kopf() {
        let record = Record::from_json(KOPFS).unwrap();
        assert_eq!(to_json(&record), KOPFS);
        assert_eq!(record.purpose, Some(Reason::Create));
        assert!(!record.is_due(record.started) && record.is_due(record.delayed.unwrap()));
        let fresh = Record::fresh(Reason::Update, record.started);
        assert_eq!(
            to_json(&fresh),
            r#"{"started":"2026-11-21T04:02:54.519710+00:00","purpose":"update","retries":0,"success":false,"failure":false}"#
        );
        assert_eq!(Record::from_json(&to_json(&fresh)), Ok(fresh));
    }

    #[test]
    fn is_lenient_with_times_and_nulls() {
        let read = |text: &str| Record::from_json(text).map(|it| time_to_text(it.started));
        let utc = Ok("2026-01-01T00:00:00.000000+00:00".to_owned());
        assert_eq!(read(r#"{"started":"2026-01-01T00:00:00"}"#), utc);
        assert_eq!(
            read(r#"{"started":"2026-01-01T02:00:00+02:00","stopped":null,"retries":null,"other":1}"#),
            utc
        );
        for text in [
            "",
            "{}",
            "[]",
            r#"{"started":7}"#,
            r#"{"started":"soon"}"#,
            r#"{"started":"-009999-01-03T00:00:00Z"}"#,
            r#"{"started":"2026-01-01T00:00:00Z","retries":-1}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    /// Returns the object after the records of these handlers were stored, with one patch each.
    fn carrying(store: &ProgressStore, ids: &[(&str, u32)]) -> Body {
        let mut body = json!({"metadata": {}});
        for (id, retries) in ids {
            let mut record = Record::from_json(KOPFS).unwrap();
            record.retries = *retries;
            let mut patch = Patch::new();
            let carrier = Body::new(body.clone());
            store.store(id, &record, &carrier, &mut patch).unwrap();
            apply(&mut body, patch.as_value());
        }
        Body::new(body)
    }

    fn retries(store: &ProgressStore, id: &str, body: &Body) -> Option<u32> {
        store.fetch(id, body).unwrap().map(|record| record.retries)
    }

    #[test]
    fn ids_that_look_alike_have_records_of_their_own() {
        let store = ProgressStore::Annotations(Annotations::under("p"));
        let alike = ["a/b.c", "a/b/c", "a.b.c", "a.b/c"];
        for id in alike {
            let body = carrying(&store, &[(id, 7)]);
            for other in alike {
                let expected = (other == id).then_some(7);
                assert_eq!(retries(&store, other, &body), expected, "{other} beside {id}");
            }
        }
        let body = carrying(&store, &[("a/b", 1), ("a.b", 2)]);
        assert_eq!(retries(&store, "a/b", &body), Some(1));
        assert_eq!(retries(&store, "a.b", &body), Some(2));
        let mut patch = Patch::new();
        store.purge("a.b", &body, &mut patch).unwrap();
        let mut left = Value::clone(&body);
        apply(&mut left, patch.as_value());
        let left = Body::new(left);
        assert_eq!(retries(&store, "a/b", &left), Some(1));
        assert_eq!(retries(&store, "a.b", &left), None);
    }

    #[test]
    fn records_under_names_of_earlier_versions_are_read_and_removed() {
        let store = ProgressStore::Annotations(Annotations::under("p"));
        let object = json!({"metadata": {"annotations": {"p/a.b": KOPFS, "p/c.d.e": KOPFS}}});
        let body = Body::new(object.clone());
        for id in ["a.b", "a/b", "c/d/e", "c.d.e"] {
            assert_eq!(retries(&store, id, &body), Some(1), "{id}");
        }
        let mut record = Record::from_json(KOPFS).unwrap();
        record.retries = 2;
        let mut patch = Patch::new();
        store.store("c/d/e", &record, &body, &mut patch).unwrap();
        let mut object = object;
        apply(&mut object, patch.as_value());
        let body = Body::new(object.clone());
        assert_eq!(retries(&store, "c/d/e", &body), Some(2));
        let mut patch = Patch::new();
        for id in ["a.b", "c/d/e"] {
            store.purge(id, &body, &mut patch).unwrap();
        }
        apply(&mut object, patch.as_value());
        assert_eq!(object, json!({"metadata": {"annotations": {"p/kopf-managed": "yes"}}}));
        // A record that is written in the same patch stays.
        let body = Body::new(json!({"metadata": {"annotations": {"p/a.b": KOPFS}}}));
        let mut patch = Patch::new();
        store.store("a/b", &record, &body, &mut patch).unwrap();
        store.purge("a.b", &body, &mut patch).unwrap();
        assert!(patch.get(&["metadata", "annotations", "p/a.b"]).is_some_and(Value::is_string));
    }

    #[test]
    fn damage_is_named() {
        let store = ProgressStore::Annotations(Annotations::under("p"));
        let body = |value| Body::new(json!({"metadata": {"annotations": {"p/f": value}}}));
        assert_eq!(store.fetch("g", &body(json!("x"))), Ok(None));
        for value in [json!("x"), json!(7), json!(null)] {
            assert_eq!(store.fetch("f", &body(value)).unwrap_err().place, "annotation p/f");
        }
        assert!(store.fetch("f", &body(json!(KOPFS))).unwrap().is_some());
    }
}
