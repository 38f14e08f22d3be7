//! Tests retries, limits, error modes, and lifecycles (scenarios 3, 31 to 41; rows 1, 6, 12, 14).

use std::time::Duration;

use serde_json::json;

use super::world::{World, handlers, with};
use crate::handler::definition::{ErrorsMode, Handler};
use crate::handler::lifecycle::Lifecycle;
use crate::reaction::judge::Judge;

/// Returns the calls, and the seconds until the object is stable.
fn story(options: impl FnOnce(&mut Handler), outcomes: &str) -> (String, f64) {
    let mut world = World::new(vec![with(handlers("create:c").remove(0), options)]).script("c", outcomes);
    let start = world.now;
    world.create(json!({})).wait();
    let calls = world.calls().matches("create#").count();
    let ending = world.lines().pop().unwrap();
    let passed = world.now.duration_since(start).as_secs_f64();
    assert_eq!(world.records(), "");
    (format!("{calls}: {ending}"), passed)
}

#[test]
fn the_outcome_table() {
    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }
    let ok = "Creation is processed: 1 succeeded; 0 failed.";
    let bad = "Creation is processed: 0 succeeded; 1 failed.";
    let plain = |_: &mut Handler| {};
    assert_eq!(story(plain, "t5 t7 ok"), (format!("3: {ok}"), 12.0));
    assert_eq!(story(plain, "t0 ok"), (format!("2: {ok}"), 0.0));
    assert_eq!(story(plain, "p"), (format!("1: {bad}"), 0.0));
    assert_eq!(story(plain, "x"), (format!("1: {bad}"), 0.0));
    assert_eq!(
        story(plain, "e e e e e e e e ok"),
        (format!("9: {ok}"), 179.3),
        "1 2 4 8 16 32 and then 50 s, each a tenth longer by chance"
    );
    assert_eq!(story(|it| it.retry.backoff = Some(secs(3)), "e e ok"), (format!("3: {ok}"), 6.0));
    assert_eq!(story(|it| it.retry.retries = Some(3), "t1 t1 t1 ok"), (format!("3: {bad}"), 2.0));
    assert_eq!(story(|it| it.retry.retries = Some(0), "ok"), (format!("0: {bad}"), 0.0));
    assert_eq!(story(|it| it.retry.timeout = Some(secs(10)), "t4 t4 t4 ok"), (format!("3: {bad}"), 8.0));
    assert_eq!(story(|it| it.retry.errors = Some(ErrorsMode::Permanent), "e"), (format!("1: {bad}"), 0.0));
    assert_eq!(story(|it| it.retry.errors = Some(ErrorsMode::Ignored), "e"), (format!("1: {ok}"), 0.0));
}

#[test]
fn what_is_written_between_attempts() {
    let mut world = World::of("create:c1 create:c2").script("c2", "t5 t5 ok");
    world.create(json!({}));
    assert_eq!(
        (world.calls(), world.records()),
        ("c1 create#0 c2 create#0".into(), "c1 c2 target-configuration".into())
    );
    let c1 = world.record("c1");
    assert_eq!((&c1["success"], &c1["retries"], &c1["purpose"]), (&json!(true), &json!(1), &json!("create")));
    assert_eq!(world.record("c2")["delayed"], "2026-01-01T00:00:05.000000+00:00");
    assert_eq!(world.record("c2")["message"], "not yet");
    assert_eq!(world.writes(), 2);
    world.wait();
    assert_eq!(
        (world.calls(), world.writes(), world.records()),
        ("c2 create#1 c2 create#2".into(), 2, String::new())
    );
}

#[test]
fn nothing_is_written_to_wait() {
    let mut world = World::of("create:c").script("c", "t5 ok");
    world.create(json!({}));
    assert_eq!(world.writes(), 1);
    world.again().update(json!({"status": {"x": 1}})).sleep(1).again();
    assert_eq!((world.calls(), world.writes()), ("c create#0".into(), 0));
    assert_eq!(world.wake_at.unwrap().to_string(), "2026-01-01T00:00:05Z");
}

#[test]
fn retries_survive_restarts() {
    let mut world = World::new(vec![
        with(handlers("create:c").remove(0), |it| {
            it.retry.retries = Some(3);
        }),
        handlers("create:ok").remove(0),
    ])
    .script("c", "t60 t60 t60 ok");
    world.create(json!({}));
    assert_eq!(world.calls(), "c create#0 ok create#0");
    world.sleep(10).restart();
    assert_eq!(
        (world.calls(), world.wake_at.unwrap().to_string()),
        (String::new(), "2026-01-01T00:01:00Z".into())
    );
    world.wait();
    assert_eq!(world.calls(), "c create#1 c create#2");
    assert_eq!(world.lines().last().unwrap(), "Creation is processed: 1 succeeded; 1 failed.");
    assert_eq!(world.failed, ["c"]);
}

#[test]
fn limits_are_checked_before_the_call() {
    let timeout = |it: &mut Handler| it.retry.timeout = Some(Duration::from_secs(61));
    let retries = |it: &mut Handler| it.retry.retries = Some(1);
    let cases: [(fn(&mut Handler), _); 2] = [
        (timeout, "Handler 'c' has timed out after 1:00:00."),
        (retries, "Handler 'c' has exceeded 1 retries."),
    ];
    for (limit, told) in cases {
        let mut world = World::of("create:c").script("c", "t60 ok");
        world.create(json!({})).sleep(3600);
        world.handlers = vec![with(handlers("create:c").remove(0), limit).into()];
        world.restart();
        assert_eq!((world.calls(), world.records()), ("c create#0".into(), String::new()));
        assert!(world.lines().contains(&told.to_owned()), "{told}");
    }
}

#[test]
fn lifecycles() {
    for (lifecycle, expected) in [
        (Lifecycle::Asap, "a0 b0 c0 a1 b1 a2 b2"),
        (Lifecycle::OneByOne, "a0 b0 c0 a1 b1 a2 b2"),
        (Lifecycle::AllAtOnce, "a0 b0 c0 a1 b1 a2 b2"),
    ] {
        let mut world =
            World::of("create:a create:b create:c").script("a", "t5 t5 ok").script("b", "t5 t5 ok");
        world.policy.lifecycle = lifecycle.clone();
        world.create(json!({})).wait();
        assert_eq!(world.calls().replace(" create#", ""), expected, "{lifecycle:?}");
    }
    let mut world = World::of("create:a create:b").script("a", "t0 t0 ok");
    world.policy.lifecycle = Lifecycle::OneByOne;
    assert_eq!(world.create(json!({})).calls().replace(" create#", ""), "a0 a1 a2 b0");
    let mut world = World::of("create:a create:b").script("a", "t0 t0 ok");
    assert_eq!(world.create(json!({})).calls().replace(" create#", ""), "a0 b0 a1 a2");
}

#[test]
fn delays_grow_with_jitter_and_stay_in_bounds() {
    for (random, first, longest) in [(0.0, 1.0, 50.0), (0.5, 1.1, 55.0), (0.999_999, 1.199, 59.999)] {
        let judge = Judge {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            random,
        };
        let delay = |retries| judge.growing(retries).as_secs_f64();
        assert!(
            (delay(0) - first).abs() < 0.01 && (delay(100) - longest).abs() < 0.01,
            "{} {}",
            delay(0),
            delay(100)
        );
        assert!((delay(2) / delay(0) - 4.0).abs() < 0.01);
        for fixed in [5, u64::MAX].map(Duration::from_secs) {
            let judge = Judge { backoff: (fixed, fixed), ..judge };
            let fixed = fixed.min(Duration::from_millis(u64::MAX));
            assert_eq!([judge.growing(0), judge.growing(9)], [fixed, fixed]);
        }
    }
}
