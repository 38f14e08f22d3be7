//! Tests handlers with filters on the former and the current value by random histories: changes, retries, refused writes and restarts at any
//! point.
//!
//! Handlers are never called for changes that their filters exclude, and never miss changes that these accept. Only creations have no former
//! state, and, with a log line, states that are too large to store. `KOPF_RS_SEED` replays one history.

use std::sync::Arc;

use serde_json::{Value, json};

use super::history::{Dice, explore};
use super::world::{World, handlers, on_field, outcome_of, with};
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::filter::{ABSENT, Criterion, Filters, Former, PRESENT};
use crate::handler::lifecycle::Lifecycle;
use crate::handler::subject::Reason;
use crate::object::diff::same;
use crate::object::event::EventType;
use crate::object::patch::Patch;
use crate::reaction::settle::{Attempted, settle};
use crate::state::budget::LIMIT;
use crate::state::diffbase::tests::noise;

/// One call of a handler that a write has recorded or will record.
#[derive(Debug)]
struct Run {
    id: Arc<str>,
    /// The `spec` that it received.
    saw: Value,
    is_done: bool,
    /// The number of states that were stored as handled before.
    stores: usize,
    is_recorded: bool,
}

struct History {
    world: World,
    dice: Dice,
    /// Every `spec` that the object has had.
    versions: Vec<Value>,
    runs: Vec<Run>,
    /// Every `spec` that was stored as handled.
    handled: Vec<Value>,
    /// Handlers that must be called again for the state that was stored as handled, with the number of versions at that time and the state
    /// that they have seen.
    owed: Vec<(Arc<Handler>, usize, Option<Value>)>,
    is_wild: bool,
    /// True if the states are too large to store the target beside the last-handled state.
    is_large: bool,
    calls: usize,
}

/// A handler of updates of `spec.n` or `spec.color`, with random filters.
fn filtered(number: usize, dice: &mut Dice) -> Handler {
    let (field, values) =
        [("n", [json!(1), json!(2), json!(3)]), ("color", [json!("red"), json!("green"), json!("blue")])]
            [dice.roll(2)]
        .clone();
    let mut criterion = |chance: usize| match dice.roll(chance) {
        0 => Some(ABSENT),
        1 => Some(PRESENT),
        2 | 3 => Some(Criterion::Equals(values[dice.roll(3)].clone())),
        _ => None,
    };
    let filter = |it: &mut Handler| {
        it.filters.old = criterion(8);
        it.filters.new = criterion(8);
        it.filters.value = criterion(12);
    };
    let handler = on_field(&format!("h{number}"), &format!("spec.{field}"));
    with(handler, filter)
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::of(seed);
        let mut all = handlers("create:c");
        all.extend((0..=dice.roll(4)).map(|number| filtered(number, &mut dice)));
        if dice.one_in(2) {
            all.extend(handlers("update:u"));
        }
        let mut world = World::new(all);
        world.policy.lifecycle =
            [Lifecycle::Asap, Lifecycle::OneByOne, Lifecycle::AllAtOnce, Lifecycle::Randomized][dice.roll(4)]
                .clone();
        let is_large = dice.one_in(64);
        let mut spec = json!({"n": 1, "color": "red"});
        if is_large {
            spec["large"] = noise(100_000).into();
        }
        world.put(spec.clone());
        if is_large {
            let filler = "x".repeat(LIMIT - 150_000);
            world.edit(json!({"metadata": {"annotations": {"other.kopf.rs/x": filler}}}));
        }
        Self {
            versions: vec![spec],
            world,
            dice,
            runs: Vec::new(),
            handled: Vec::new(),
            owed: Vec::new(),
            is_wild: true,
            is_large,
            calls: 0,
        }
    }

    fn spec(&self) -> Value {
        self.world.object.as_ref().unwrap()["spec"].clone()
    }

    /// A user changes a field, often back to a former value.
    fn edit(&mut self) {
        let (field, values) = [
            ("n", [json!(1), json!(2), json!(3), Value::Null]),
            ("color", [json!("red"), json!("green"), json!("blue"), Value::Null]),
        ][self.dice.roll(2)]
        .clone();
        let value = values[self.dice.roll(4)].clone();
        self.world.edit(json!({"spec": {field: value}}));
        self.versions.push(self.spec());
    }

    fn may_edit(&mut self, chance: usize) {
        if self.is_wild && self.dice.one_in(chance) {
            self.edit();
        }
    }

    /// Ends the process, which loses everything that was not written.
    fn may_restart(&mut self, chance: usize) -> bool {
        let restarts = self.is_wild && self.dice.one_in(chance);
        if restarts {
            self.world.seen = None;
            self.world.wake_at = None;
            self.runs.retain(|run| run.is_recorded);
        }
        restarts
    }

    /// Performs one pass of the engine, and returns true if another one is to follow.
    fn pass(&mut self) -> bool {
        let body = self.world.body();
        let event = self.world.seen.is_none().then_some(EventType::Listed);
        let plan = self.world.plan(event, &body);
        self.world.hear(&plan.told);
        let mut attempted = Vec::new();
        for cause in plan.changing.clone() {
            self.check_call(&cause);
            self.may_edit(4);
            if self.may_restart(16) {
                return true;
            }
            let outcome =
                if self.is_wild { ["ok", "ok", "ok", "t0", "t5", "e"][self.dice.roll(6)] } else { "ok" };
            let run = self.runs.last_mut().unwrap();
            run.is_done = outcome == "ok";
            attempted.push(Attempted {
                id: cause.handler.id.clone(),
                outcome: outcome_of(outcome),
                subhandlers: Vec::new(),
            });
        }
        let effects = settle(plan, attempted, Patch::new(), self.world.now);
        self.world.hear(&effects.told);
        self.may_edit(8);
        if self.may_restart(16) {
            return true;
        }
        let is_refused = self.is_wild && self.dice.one_in(8);
        self.world.refuse = usize::from(is_refused);
        let again = self.world.write(effects);
        if !is_refused {
            self.runs.iter_mut().for_each(|run| run.is_recorded = true);
            self.note_handled();
        }
        self.may_restart(8) || again
    }

    fn note_handled(&mut self) {
        let last = self.world.last_handled();
        let is_digest = self.is_large && last.is_string();
        assert!(last.is_null() || last.is_object() || is_digest, "a state, not {last}");
        let last = last["spec"].clone();
        if last.is_null() || self.is_large || self.handled.last() == Some(&last) {
            return;
        }
        self.handled.push(last.clone());
        if let ([.., former, _], true) = (&self.handled.clone()[..], last == self.spec()) {
            for handler in self.world.handlers.clone() {
                // The handler has seen another state: it is called again, and its record stays until then.
                if self.world.record(&handler.id).is_null() {
                    self.check_told(&handler, former, &last);
                } else {
                    let saw = self.last_seen_by(&handler.id).cloned();
                    self.owed.push((handler, self.versions.len(), saw));
                }
            }
        }
    }

    /// Checks that the handler is called for a change that its filters accept, from a state that was handled or that it has seen.
    fn check_call(&mut self, cause: &HandlerCall) {
        self.calls += 1;
        let handler = &cause.handler;
        let (old, new) = (cause.old(), cause.new());
        let story = || {
            format!(
                "{}: {old:?} -> {new:?} by {:?}; {:?}; handled {:?}; {:?}",
                handler.id,
                options(handler),
                self.versions,
                self.handled,
                self.runs
            )
        };
        let spec = cause.body()["spec"].clone();
        let is_update = cause.reason() == Some(Reason::Update);
        let is_known = |state: &Value| {
            let field = handler.field();
            let state = json!({"spec": state});
            same(field.map_or(Some(&state), |it| it.resolve(&state)), old)
        };
        let mut known = self.versions.iter();
        let is_unknown = old.is_none() && self.has_lost_former_state_of(handler);
        if is_update && !is_unknown {
            assert!(known.any(is_known), "an unknown former state: {}", story());
        }
        if is_update && !is_unknown && handler.field().is_some() {
            assert!(!same(old, new), "no change: {}", story());
            assert!(is_accepted(handler, old, new), "excluded: {}", story());
        }
        self.runs.push(Run {
            id: handler.id.clone(),
            saw: spec,
            is_done: false,
            stores: self.handled.len(),
            is_recorded: false,
        });
    }

    /// Returns the `spec` that the handler has seen last.
    fn last_seen_by(&self, id: &str) -> Option<&Value> {
        let mut runs = self.runs.iter().rev();
        runs.find(|run| &*run.id == id).map(|run| &run.saw)
    }

    /// Returns true if the log says that the former state was too large to store.
    fn has_lost_former_state_of(&self, handler: &Handler) -> bool {
        let said = [
            format!("Handler '{}' gets no old state: ", handler.id),
            "The last-handled configuration takes ".to_owned(),
        ];
        let mut lines = self.world.lines.iter();
        self.is_large && lines.any(|line| said.iter().any(|it| line.starts_with(it)))
    }

    /// Checks that a handler that accepts the change between two handled states has seen it, if the newer one is the current state.
    fn check_told(&self, handler: &Arc<Handler>, former: &Value, last: &Value) {
        let Some(field) = handler.field() else {
            return;
        };
        let at = |spec: &Value| field.resolve(&json!({"spec": spec})).cloned();
        let (old, new) = (at(former), at(last));
        if same(old.as_ref(), new.as_ref()) || !is_accepted(handler, old.as_ref(), new.as_ref()) {
            return;
        }
        let story = || {
            format!(
                "{} misses {old:?} -> {new:?}: {:?}; handled {:?}; {:?}",
                handler.id, self.versions, self.handled, self.runs
            )
        };
        let mut runs = self.runs.iter().rev().filter(|run| run.id == handler.id);
        let run = runs.next().unwrap_or_else(|| panic!("{}", story()));
        let is_recent = run.stores + 1 >= self.handled.len() - 1;
        assert!(run.is_done && is_recent && at(&run.saw) == new, "{}", story());
    }

    /// Handles everything that is due; this must terminate.
    fn calm(&mut self) {
        self.is_wild = false;
        for _ in 0..100 {
            if !self.pass() && self.world.seen.is_some() && !self.world.advance() {
                return;
            }
        }
        panic!("no end");
    }
}

fn is_accepted(handler: &Handler, old: Option<&Value>, new: Option<&Value>) -> bool {
    let value = handler.filters.value.clone().unwrap_or(PRESENT);
    let is_in_scope = value.holds(old) || value.holds(new);
    is_in_scope && handler.filters.accept_change(Former::Known(old), new)
}

fn history(seed: u64) -> usize {
    let mut history = History::new(seed);
    for _ in 0..history.dice.roll(40) {
        history.may_edit(5);
        if !history.pass() {
            history.world.advance();
        }
    }
    history.calm();
    assert_eq!(history.world.records(), "", "nothing is left on the object");
    if history.is_large {
        return history.calls;
    }
    assert_eq!(history.handled.last(), Some(&history.spec()));
    for (handler, versions, saw) in &history.owed {
        let mut runs = history.runs.iter().rev();
        let last = runs.find(|run| run.id == handler.id);
        let is_last_state = history.versions.len() == *versions;
        let is_told = last.is_some_and(|run| run.is_done && run.saw == history.spec());
        let at = |spec: Option<&Value>| {
            let spec = json!({"spec": spec});
            let field = handler.field();
            field.map_or(Some(spec.clone()), |it| it.resolve(&spec).cloned())
        };
        let (old, new) = (at(saw.as_ref()), at(Some(&history.spec())));
        let is_wanted = !same(old.as_ref(), new.as_ref()) && is_accepted(handler, old.as_ref(), new.as_ref());
        assert!(
            !is_last_state || is_told || !is_wanted,
            "{} by {:?} is not told {saw:?} -> {:?}",
            handler.id,
            options(handler),
            history.spec()
        );
    }
    history.calls
}

#[test]
fn no_filter_is_passed_by_and_no_change_is_lost() {
    explore(history);
}

fn options(handler: &Handler) -> String {
    let Filters { old, new, value, .. } = &handler.filters;
    format!("old {old:?} new {new:?} value {value:?}")
}
