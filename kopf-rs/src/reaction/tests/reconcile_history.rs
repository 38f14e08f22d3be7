//! Tests reconcilers by random histories: changes of the object and of children, failures, refused writes, restarts, deletions.
//!
//! No reconciler runs twice at a time. In the stable state, the last call has succeeded and began after the last change. No call begins for
//! an object that is being deleted, and finalizing comes last. `KOPF_RS_SEED` replays a history, `KOPF_RS_HISTORIES` sets their number.

use serde_json::json;

use super::history::{Dice, explore};
use super::world::{World, handlers, own, reconciler};
use crate::object::resource::Resource;
use crate::reaction::background::BackgroundMemory;

/// Longer than any delay, shorter than any resync.
const LONG: i64 = 3600;

struct History {
    world: World,
    dice: Dice,
    steps: usize,
    /// The step of the last change that calls the reconciler.
    changed: usize,
    /// The step in which its last call began.
    began: usize,
    calls: usize,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::of(seed);
        let others = ["", "create:c update:u", "delete:g", "finalize:z delete:g resume:s"];
        let mut all = handlers(others[dice.roll(others.len())]);
        all.push(reconciler("r", |it| {
            own(it, "services");
        }));
        let world = World::new(all)
            .script("u", "t2 e ok p ok")
            .script("c", "e ok t2 ok")
            .script("g", "t2 ok e ok")
            .script("z", "e ok t2 ok");
        Self { world, dice, steps: 0, changed: 0, began: 0, calls: 0 }
    }

    fn step(&mut self) {
        self.steps += 1;
        let Self { world, dice, .. } = self;
        let size = dice.roll(100);
        match dice.roll(12) {
            _ if world.object.is_none() => {
                self.changed = self.steps;
                world.running.clear();
                world.background = BackgroundMemory::default();
                world.seen = None;
                world.create(json!({}));
            }
            0 | 1 => {
                self.changed = self.steps;
                world.update(json!({"spec": {"size": self.steps}}));
            }
            2 => {
                world.update(json!({"status": {"size": size}}));
            }
            3 | 4 => {
                self.changed = self.steps;
                let kind = Resource { plural: "services".to_owned(), ..Resource::default() };
                world.background.child_changed(&kind, world.now);
                world.again();
            }
            5 if size < 20 => {
                world.delete();
            }
            6 if !world.is_deleting() => {
                self.changed = self.steps;
                world.restart();
            }
            7 => world.refuse = 1,
            8 => {
                world.sleep(3).again();
            }
            _ => {
                let outcomes = ["ok", "t2", "e", "p", "1", "ok"];
                if !world.running.is_empty() {
                    world.ends("r", outcomes[dice.roll(outcomes.len())]);
                }
            }
        }
        self.count();
    }

    /// Counts the calls of the step.
    fn count(&mut self) {
        let calls = self.world.calls();
        let reconciled = calls.matches("r#").count();
        if reconciled > 0 {
            self.began = self.steps;
            self.calls += reconciled;
            assert!(!self.world.is_deleting(), "a call begins: {calls}");
        }
        assert!(self.world.running.len() <= 1, "two calls at a time");
    }

    /// Runs until the object is stable after any history.
    fn rest(&mut self) {
        self.world.refuse = 0;
        for _ in 0..50 {
            self.steps += 1;
            self.world.again().wait();
            if !self.world.running.is_empty() {
                self.world.ends("r", "ok");
            } else if self.world.due().is_some_and(|due| due < LONG) {
                self.world.wake();
            } else {
                self.count();
                return;
            }
            self.count();
        }
        panic!("no rest");
    }
}

fn history(seed: u64) -> usize {
    let mut history = History::new(seed);
    for _ in 0..60 {
        history.step();
    }
    history.rest();
    if history.world.object.is_some() {
        // A permanent error waits for a change of the object.
        history.steps += 1;
        history.changed = history.steps;
        history.world.update(json!({"spec": {"last": true}}));
        history.count();
        history.rest();
        assert!(history.began >= history.changed, "the last change is lost");
        history.world.delete().wait();
        let calls = history.world.calls();
        let (last, first) = (calls.rfind("g delete"), calls.find("z delete"));
        assert!(first.is_none() || last < first, "finalizing comes last: {calls}");
    }
    assert!(history.world.object.is_none(), "it does not go");
    history.calls
}

#[test]
fn no_change_is_lost_and_no_two_calls_overlap() {
    explore(history);
}
