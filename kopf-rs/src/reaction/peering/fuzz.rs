//! Random statuses of peering objects: the operator always reaches a conclusion and knows when to check again.

use std::time::Duration;

use kopf_rs_fuzz::{Run, Target, attack, texts};
use serde_json::Value;

use super::*;

const STATUSES: &[&str] = &[
    r#"{"me":{"priority":5,"lifetime":60,"lastseen":"2026-01-01T12:00:00Z","engine":"kopf-rs","started":"2026-01-01T11:00:00Z"},"you":{"priority":"6","lifetime":"20","lastseen":"2026-01-01T12:00:00+00:00"}}"#,
    r#"{"other":{"priority":5,"lifetime":10,"engine":"kopf-rs","message":"the bank moves"},"old":{"priority":9,"lastseen":"2025-01-01T00:00:00"},"none":null}"#,
];

const WORDS: &[&str] = &[
    "priority",
    "lifetime",
    "lastseen",
    "engine",
    "kopf-rs",
    "started",
    "message",
    "me",
    "9223372036854775807",
    "-9223372036854775808",
    "\"",
    "{",
    "}",
    "null",
    ":",
    ",",
    "-009999-01-01T00:00:00Z",
    "9999-12-30T22:00:00Z",
];

fn statuses() -> Run {
    let wall = "2026-01-01T12:00:00Z".parse().expect("a time");
    let own = OwnPeer {
        identity: "me".to_owned(),
        priority: 5,
        lifetime: Duration::from_secs(60),
        started: wall,
        is_sharded: false,
        is_shared: false,
    };
    let mut peers = Peers::default();
    Box::new(move |input| {
        let Ok(status) = serde_json::from_slice::<Value>(input) else {
            return;
        };
        for seconds in [0, 5, 1_000_000] {
            let now = Duration::from_secs(seconds);
            peers.take_in(&status, now, wall);
            for is_sharded in [false, true] {
                let verdict = peers.judge(&OwnPeer { is_sharded, ..own.clone() }, now);
                // The operator adds it to its own clock, which ends in some hundred years.
                let wakes = verdict.until.unwrap_or_default();
                assert!(wakes <= now + LONGEST, "{wakes:?}");
                assert_eq!(verdict.lacks_own, !status["me"].is_object());
                let change = without(&verdict.dead, "7");
                assert_eq!(change["status"].as_object().map(Map::len), Some(verdict.dead.len()));
            }
        }
    })
}

#[test]
fn no_peering_object_breaks_the_operator() {
    let target =
        Target { name: "peering", share: 1, tokens: WORDS, samples: || texts(STATUSES), begin: statuses };
    attack(&[target], 3000);
}
