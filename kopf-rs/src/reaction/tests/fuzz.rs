//! Objects with random annotations: the operator reaches a stable state, and stores the object's state as last-handled.

use kopf_rs_fuzz::{Run, Target, attack, texts};
use serde_json::json;

use super::world::{LAST, World};
use crate::object::event::EventType;
use crate::state::diffbase::{BUDGET, KnownEssence, decode};

const ANNOTATIONS: &[&str] = &[
    r#"{"op.kopf.rs/c":"{\"started\":\"2026-01-01T00:00:00.000000+00:00\",\"purpose\":\"create\",\"retries\":1,\"success\":false,\"failure\":false,\"delayed\":\"2099-01-01T00:01:00.000000+00:00\",\"wait\":7200}","op.kopf.rs/kopf-managed":"yes"}"#,
    r#"{"op.kopf.rs/last-handled-configuration":"{\"spec\":{\"f\":2}}","op.kopf.rs/u":"{\"started\":\"2026-01-01T00:00:00Z\",\"purpose\":\"update\",\"retries\":4294967295,\"subrefs\":[\"u/a\"]}"}"#,
    r#"{"op.kopf.rs/target-configuration":"{\"spec\":{\"f\":3}}","op.kopf.rs/f":"{\"started\":\"2026-01-01T00:00:00Z\",\"purpose\":null,\"target\":\"=4\",\"success\":true,\"owed\":true}"}"#,
    r#"{"op.kopf.rs/last-handled-configuration":"digest:abc","op.kopf.rs/r":"{\"started\":\"2026-01-01T00:00:00Z\",\"purpose\":\"resume\",\"failure\":true,\"wait\":18446744073709551615,\"delayed\":\"9999-12-30T22:00:00Z\"}"}"#,
];

const WORDS: &[&str] = &[
    "op.kopf.rs/c",
    "op.kopf.rs/u",
    "op.kopf.rs/f",
    "op.kopf.rs/r",
    "op.kopf.rs/target-configuration",
    "op.kopf.rs/last-handled-configuration",
    "op.kopf.rs/kopf-managed",
    "{}",
    "null",
    "digest:",
    "gz:",
    "{\\\"spec\\\":{\\\"f\\\":1}}",
    "\\\"owed\\\":true",
    "\\\"target\\\":\\\"=1\\\"",
    "\\\"target\\\":\\\"absent\\\"",
    "\\\"wait\\\":18446744073709551615",
    "\\\"retries\\\":4294967295",
    "\\\"delayed\\\":\\\"9999-12-30T22:00:00Z\\\"",
    "\\\"purpose\\\":\\\"delete\\\"",
    "\\\"success\\\":true",
];

fn objects() -> Run {
    Box::new(|input| {
        let Ok(annotations) = serde_json::from_slice::<serde_json::Value>(input) else {
            return;
        };
        // Skip annotations that a server would refuse.
        if !annotations.as_object().is_some_and(|it| it.values().all(serde_json::Value::is_string)) {
            return;
        }
        let mut world =
            World::of("create:c update:u field:f resume:r").script("u", "t5 ok").script("c", "t7200 ok");
        world.put(json!({"f": 1}));
        world.edit(json!({"metadata": {"annotations": annotations}}));
        world.see(EventType::Listed).wait();
        world.update(json!({"spec": {"f": 5}})).wait();
        let object = world.object.as_ref().expect("nobody deletes it");
        let stored = object["metadata"]["annotations"][LAST].as_str();
        let stored = stored.unwrap_or_default();
        let is_handled = match decode(stored) {
            Ok(KnownEssence::Whole(essence)) => essence.value()["spec"] == json!({"f": 5}),
            Ok(KnownEssence::Digest(_)) => input.len() > BUDGET / 2,
            Err(_) => false,
        };
        assert!(is_handled, "stored as handled: {stored}");
        world.delete().wait();
    })
}

#[test]
fn no_annotations_keep_an_operator_from_its_work() {
    let target =
        Target { name: "objects", share: 1, tokens: WORDS, samples: || texts(ANNOTATIONS), begin: objects };
    attack(&[target], 2000);
}
