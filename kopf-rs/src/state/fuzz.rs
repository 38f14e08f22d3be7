//! Random progress records and last-handled states: values that can be read survive another round of writing and reading.

use kopf_rs_fuzz::{Run, Target, attack, texts};
use serde_json::{Value, json};

use super::Persistence;
use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::state::diffbase::compress;

const RECORDS: &[&str] = &[
    r#"{"started":"2026-01-01T00:00:00.000000+00:00","purpose":"create","retries":1,"success":false,"failure":false,"delayed":"2026-01-01T00:01:00.000000+00:00","message":"not yet","subrefs":["c/a","c/b"],"target":"0123456789abcdef","wait":7200,"owed":true}"#,
    r#"{"id":"c","started":"2026-01-01T00:00:00","stopped":"2026-01-01T00:00:09+02:00","retries":0,"success":true,"failure":null,"target":"={\"spec\":{\"f\":1}}"}"#,
];

const WORDS: &[&str] = &[
    "started",
    "stopped",
    "delayed",
    "wait",
    "purpose",
    "retries",
    "subrefs",
    "target",
    "owed",
    "null",
    "create",
    "resume",
    "+25:00",
    "-262144-01-01T00:00:00Z",
    "9999-12-31T23:59:59.9999999Z",
    "4294967296",
    "18446744073709551615",
    "=",
    "={",
    "absent",
    "gz:",
    "digest:",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
];

const ESSENCES: &[&str] = &[
    r#"{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}},"spec":{"f":1,"list":[1,2.5,{"x":null}]}}"#,
    "digest:0123456789abcdef",
    "gz:H4sIAAAAAAAA/6tWKi5IzVayUihLzClNVaoFAFqTBeASAAAA",
];

fn of_named(annotations: &Value) -> Vec<(Persistence, Body)> {
    let status = json!({"kopf": {"progress": {"c": annotations["op.kopf.rs/c"]}}});
    let body = json!({"metadata": {"annotations": annotations}, "spec": {"f": 1}, "status": status});
    let body = Body::new(body);
    vec![(Persistence::named("op"), body.clone()), (Persistence::kopf(), body)]
}

fn progress() -> Run {
    Box::new(|input| {
        let text = String::from_utf8_lossy(input);
        let annotations = json!({"op.kopf.rs/c": text, "kopf.zalando.org/c": text, "op.kopf.rs/target-configuration": text});
        for (persistence, body) in of_named(&annotations) {
            let _target = persistence.progress.fetch_target(&body);
            let Ok(Some(record)) = persistence.progress.fetch("c", &body) else {
                continue;
            };
            let mut patch = Patch::new();
            let stored = persistence.progress.store("c", &record, &body, &mut patch);
            assert_eq!(stored, Ok(()));
            let written = Body::new(patch.as_value().clone());
            let again = persistence.progress.fetch("c", &written);
            let again = again.expect("it was written by us");
            let kept = record.clone();
            let kept = if persistence.progress.keeps_targets() { kept } else { kept.in_kopfs_fields() };
            assert_eq!(again, Some(kept), "what is written is read");
            record.in_short();
            record.spelled(None);
        }
    })
}

fn last_handled() -> Run {
    Box::new(|input| {
        let text = String::from_utf8_lossy(input);
        for text in [text.clone().into_owned(), compress(input)] {
            let annotations = json!({"op.kopf.rs/last-handled-configuration": text, "kopf.zalando.org/last-handled-configuration": text});
            for (persistence, body) in of_named(&annotations) {
                let Ok(Some(last)) = persistence.essence.fetch(&body) else {
                    continue;
                };
                let essence = persistence.essence_of(&body, []);
                assert_eq!(last.is(&essence), last.digest() == essence.digest());
                let mut patch = Patch::new();
                let stored = persistence.essence.store(&last, &body, &mut patch);
                stored.expect("it was read");
                let written = Body::new(patch.as_value().clone());
                let again = persistence.essence.fetch(&written);
                let again = again.expect("it was written by us").expect("it is there");
                assert!(again.is_same(&last), "what is written is read");
            }
        }
    })
}

#[test]
fn no_record_breaks_its_reader() {
    let target =
        Target { name: "progress", share: 1, tokens: WORDS, samples: || texts(RECORDS), begin: progress };
    attack(&[target], 3000);
}

#[test]
fn no_last_handled_state_breaks_its_reader() {
    let target = Target {
        name: "last-handled",
        share: 1,
        tokens: WORDS,
        samples: || texts(ESSENCES),
        begin: last_handled,
    };
    attack(&[target], 3000);
}
