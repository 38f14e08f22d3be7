//! Tests daemons and timers by random histories: creations, changes, labels, deletions, ends of calls, failures, refused writes, restarts.
//!
//! At every moment, no handler runs twice, a handler that the object no longer matches has a stop signal, no matching handler is missing, and
//! the finalizer is present as long as a handler needs it. `KOPF_RS_SEED` replays a history, `KOPF_RS_HISTORIES` sets their number.

use std::time::Duration;

use kopf_rs_schedule::HandlerKind;
use serde_json::json;

use super::background::{ON, label, labelled};
use super::history::{Dice, explore};
use super::world::{World, declared, handlers, pause};
use crate::handler::definition::HandlerCall;
use crate::handler::stopped::Stopped;
use crate::reaction::memory::ObjectMemory;

struct History {
    world: World,
    dice: Dice,
    /// The number of started calls.
    calls: usize,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::of(seed);
        let others = ["", "create:c update:u", "delete:g", "optional:o event:e"];
        let mut all = handlers(others[dice.roll(others.len())]);
        let kinds = [HandlerKind::Daemon, HandlerKind::Timer];
        for id in ["x", "y"] {
            let (filtered, limited) = (dice.one_in(2), dice.one_in(4));
            let (sharp, idle, once) = (dice.one_in(3), dice.one_in(3), dice.one_in(4));
            let kind = kinds[dice.roll(2)];
            let handler = declared(kind, id, |it| {
                if filtered {
                    labelled(it);
                }
                if limited {
                    it.handler.retry.retries = Some(2);
                }
                if kind == HandlerKind::Timer {
                    it.handler.timing.interval = (!once).then(|| pause(10));
                    it.handler.timing.sharp = sharp && !once;
                    it.handler.timing.idle = idle.then(|| Duration::from_secs(15));
                } else if sharp {
                    it.handler.timing.cancellation_backoff = Some(Duration::from_secs(3));
                    it.handler.timing.cancellation_timeout = Some(Duration::from_secs(4));
                }
            });
            all.push(handler);
        }
        Self { world: World::new(all), dice, calls: 0 }
    }

    fn step(&mut self) {
        let Self { world, dice, .. } = self;
        let size = dice.roll(3);
        match dice.roll(12) {
            _ if world.object.is_none() => {
                world.create_another();
            }
            0 => {
                world.update(json!({"spec": {"size": size}}));
            }
            1 => {
                world.update(json!({"status": {"size": size}}));
            }
            2 | 3 => {
                world.update(label(if size > 0 { ON } else { "" }));
            }
            4 => {
                world.delete();
            }
            5 if !world.is_deleting() => {
                world.restart();
            }
            6 => world.refuse = 1,
            7 | 8 => {
                if let Some(due) = world.background.due(world.wall_ahead) {
                    world.now = world.now.max(due);
                    world.again();
                }
            }
            9 => {
                let pauses = [1, 8, 15];
                world.sleep(pauses[size]).again();
            }
            _ => {
                let count = world.running.len();
                if count > 0 {
                    let id = world.running[dice.roll(count)].handler.id.clone();
                    let outcomes = ["ok", "t2", "e", "p", "1", "ok"];
                    world.ends(&id, outcomes[dice.roll(outcomes.len())]);
                }
            }
        }
        self.calls += self.world.calls().matches(['x', 'y']).count();
    }

    fn check(&self) {
        let world = &self.world;
        let is_told = |call: &HandlerCall| call.stopped().is_some_and(Stopped::is_set);
        let Some(object) = &world.object else {
            assert!(world.running.iter().all(is_told), "they run for no object");
            return;
        };
        let has_label = !object["metadata"]["labels"]["on"].is_null();
        for handler in world.handlers.iter().filter(|it| it.is_background()) {
            let runs = world.running.iter().filter(|it| it.handler.id == handler.id);
            let runs: Vec<_> = runs.collect();
            assert!(runs.len() <= 1, "{handler} runs twice");
            let is_wanted = (has_label || handler.filters.labels.is_empty()) && !world.is_deleting();
            if is_wanted {
                assert!(world.background.knows(handler), "{handler} is forgotten");
            } else {
                assert!(runs.into_iter().all(is_told), "{handler} is not told");
            }
        }
        let needs = world.handlers.iter().any(|it| it.needs_finalizer());
        let is_unwritten = |it: &ObjectMemory| it.wants() || it.wanted_in_background().is_some();
        if world.refuse == 0 && !world.seen.as_ref().is_some_and(is_unwritten) {
            let is_held = world.is_held();
            let expected = needs || world.background.holds(true);
            assert_eq!(is_held, expected, "the finalizer: {object}");
        }
    }
}

fn history(seed: u64) -> usize {
    let mut history = History::new(seed);
    for _ in 0..60 {
        history.step();
        history.check();
    }
    // After any history, the object can be deleted.
    history.world.refuse = 0;
    if history.world.object.is_some() {
        history.world.delete();
        history.check();
        while let Some(id) = history.world.running.first().map(|it| it.handler.id.clone()) {
            history.world.ends(&id, "ok");
        }
        history.world.again().wait();
    }
    assert!(history.world.object.is_none(), "it does not go");
    history.calls
}

#[test]
fn no_daemon_is_without_its_object_and_no_object_without_its_daemon() {
    explore(history);
}
