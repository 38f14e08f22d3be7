//! Records the last run of each timer with a schedule in an annotation.
//!
//! Without the record, the operator could not detect a missed run after a restart. This module must not depend on
//! schedules.

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};

use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::state::Persistence;

impl Persistence {
    /// Returns the time when the timer was last called, or first seen, according to the object.
    pub(crate) fn last_run(&self, id: &str, body: &Body) -> Option<Timestamp> {
        let annotation = self.runs.of_last_run(id, body);
        body.annotation_map().get(&annotation)?.as_str()?.parse().ok()
    }

    /// Records a run.
    pub(crate) fn note_run(&self, id: &str, at: Timestamp, body: &Body, patch: &mut Patch) {
        let whole = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Floor);
        let at = at.round(whole).unwrap_or(at);
        let annotation = self.runs.of_last_run(id, body);
        self.runs.put(&annotation, at.to_string(), body, patch);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::lazy_json::Outline;
    use crate::object::raw::Raw;
    use crate::state::kopf::status::StatusProgressStorage;

    fn noted(persistence: &Persistence, id: &str) -> serde_json::Value {
        let at = "2026-01-31T03:00:00.7Z".parse().unwrap();
        let mut patch = Patch::new();
        persistence.note_run(id, at, &Body::new(json!({})), &mut patch);
        patch.as_value().clone()
    }

    #[test]
    fn a_noted_run_is_found_again() {
        let long = "x".repeat(80);
        let kopfs = Persistence::kopf().progress(StatusProgressStorage::default());
        for persistence in [Persistence::named("op"), kopfs] {
            for id in ["nightly", long.as_str()] {
                let body = Body::new(noted(&persistence, id));
                let found = persistence.last_run(id, &body).unwrap();
                assert_eq!(found.to_string(), "2026-01-31T03:00:00Z", "{id}");
                assert_eq!(persistence.last_run("other", &body), None);
            }
        }
        assert_eq!(
            noted(&Persistence::named("op"), "nightly"),
            json!({"metadata": {"annotations": {
                "op.kopf.rs/kopf-managed": "yes",
                "op.kopf.rs/last-run.nightly": "2026-01-31T03:00:00Z",
            }}})
        );
    }

    #[test]
    fn an_invalid_time_is_no_run() {
        let object = json!({"metadata": {"annotations": {"op.kopf.rs/last-run.nightly": "yesterday"}}});
        let found = Persistence::named("op").last_run("nightly", &Body::new(object));
        assert_eq!(found, None);
    }

    /// An object with a recorded run is still recognised as handled from its text, and the annotation is not mistaken for a record of another
    /// operator.
    #[test]
    fn a_run_is_no_progress() {
        let persistence = Persistence::named("op");
        let mut object = noted(&persistence, "nightly");
        object["metadata"]["name"] = json!("a");
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["resourceVersion"] = json!("1");
        let essence = persistence.plain_essence_of(&Body::new(object.clone()));
        let last = "op.kopf.rs/last-handled-configuration";
        object["metadata"]["annotations"][last] = json!(essence.text());
        let raw = Raw::parse(&object.to_string()).unwrap();
        assert!(persistence.is_handled(&Outline::of(&raw).unwrap()));
    }
}
