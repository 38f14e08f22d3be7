//! Tests the guarantee (row 4) by random histories: changes at any point of a cycle, failures, refused writes, restarts, kills.
//!
//! A failure names its seed; `KOPF_RS_SEED` replays it, `KOPF_RS_HISTORIES` sets the number of histories.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::world::{FINALIZER, World, handlers, sub_handler};
use crate::handler::definition::HandlerCall;
use crate::handler::lifecycle::Lifecycle;
use crate::handler::outcome::Outcome;
use crate::handler::subject::Reason;
use crate::object::essence::Essence;
use crate::object::event::EventType;
use crate::object::patch::Patch;
use crate::reaction::plan::{Decision, Plan};
use crate::reaction::settle::{Attempted, Effects, settle};
use crate::reaction::subhandlers::Progress;

/// A small random number generator (SplitMix64): the same seed gives the same history.
pub(in crate::reaction) struct Dice(u64);

/// One call of a handler.
#[derive(Debug)]
struct Run {
    id: String,
    /// The version of the object that it received.
    version: usize,
    /// The new value that it received: the `spec`, or only its field.
    new: Value,
    whole: bool,
    /// True if it has completed.
    done: bool,
    /// True if the object has its record.
    written: bool,
}

struct History {
    world: World,
    dice: Dice,
    /// The `spec` of every version.
    versions: Vec<Value>,
    runs: Vec<Run>,
    /// The state that was first stored as handled.
    first_handled: Option<Value>,
    /// Handlers that were called since the last write.
    unwritten: Vec<String>,
    /// Handlers whose last call is not recorded, and the states that the object has recorded instead: if the object returns to one of these
    /// before the next process starts, the difference is undetectable.
    forgotten: Vec<(String, Value)>,
    /// The handlers that have succeeded in this cycle, with the reason: they must not be called for it again, even after restarts.
    succeeded: BTreeSet<(String, Reason)>,
    /// True while users make changes and handlers fail.
    wild: bool,
    attempts: usize,
}

impl Dice {
    /// Returns the dice of one history.
    pub(in crate::reaction) fn of(seed: u64) -> Self {
        Self(seed)
    }
    pub(in crate::reaction) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        usize::try_from(self.below(u64::try_from(sides).unwrap())).unwrap()
    }
    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::of(seed);
        let all = [
            "create:c",
            "update:u",
            "field:a",
            "field:b",
            "create:f update:f",
            "resume:f update:f create:f",
            "resume:r",
            "delete:d",
            "optional:o",
            "create:x/a field:x/a",
            "create:p update:p",
        ];
        let words: Vec<_> = all.into_iter().filter(|_| dice.one_in(2)).collect();
        let mut world = World::new(handlers(&format!("create:z {}", words.join(" "))));
        world.policy.lifecycle = [
            Lifecycle::Asap,
            Lifecycle::OneByOne,
            Lifecycle::AllAtOnce,
            Lifecycle::Randomized,
            Lifecycle::Shuffled,
        ][dice.roll(5)]
        .clone();
        let subs: [&[_]; 3] = [&["s1", "s2"], &["s1", "s2", "s3"], &["s1", "a@spec.a", "b@spec.b"]];
        let subs = subs[dice.roll(3)];
        world.subs.insert("p".into(), subs.to_vec());
        world.put(json!({"a": 0, "b": 0}));
        world.object.as_mut().unwrap()["metadata"]["generation"] = json!(0);
        Self {
            world,
            dice,
            versions: vec![json!({"a": 0, "b": 0})],
            runs: Vec::new(),
            first_handled: None,
            unwritten: Vec::new(),
            forgotten: Vec::new(),
            succeeded: BTreeSet::new(),
            wild: true,
            attempts: 0,
        }
    }

    /// A user changes a field, often back to a former value.
    fn edit(&mut self) {
        let field = ["a", "b"][self.dice.roll(2)];
        let value = [json!(0), json!(1), json!(2), Value::Null][self.dice.roll(4)].clone();
        self.world.edit(json!({"spec": {field: value}}));
        self.note_version();
    }

    fn note_version(&mut self) {
        let version = self.versions.len();
        let Some(object) = &mut self.world.object else {
            return;
        };
        if self.versions.last() != Some(&object["spec"]) {
            object["metadata"]["generation"] = json!(version);
            self.versions.push(object["spec"].clone());
        }
    }

    /// Returns the last-handled state on the object, resolving a digest if necessary.
    fn last_handled(&self) -> Value {
        let last = self.world.last_handled();
        let Some(digest) = last.as_str().and_then(|it| it.strip_prefix("digest:")) else {
            return last["spec"].clone();
        };
        let is_it = |spec: &&Value| Essence::from(json!({"spec": spec})).digest() == digest;
        self.versions.iter().find(is_it).unwrap().clone()
    }

    fn crash(&mut self) {
        self.world.seen = None;
        self.world.wake_at = None;
        if self.world.object.is_some() {
            let handled = self.last_handled();
            for id in self.unwritten.drain(..) {
                let mut earlier = self.runs.iter().rev().filter(|it| it.id == id && it.written);
                let recorded = earlier.next().map(|it| self.versions[it.version].clone());
                self.forgotten.extend(recorded.map(|it| (id.clone(), it)));
                self.succeeded.retain(|(it, _)| *it != id);
                self.forgotten.push((id, handled.clone()));
            }
        }
    }

    /// Performs one pass of the engine, with possible interruptions. Returns true if the object has changed.
    fn pass(&mut self) -> bool {
        if self.world.object.is_none() {
            return false;
        }
        let body = self.world.body();
        let event = self.world.seen.is_none().then_some(EventType::Listed);
        let plan = self.world.plan(event, &body);
        let (mut attempted, mut patch) = (Vec::new(), Patch::new());
        for cause in plan.changing.clone() {
            match self.call(&plan, &cause, &mut patch) {
                Some(attempt) => attempted.push(attempt),
                None => return true,
            }
        }
        let resumes = matches!(plan.decision, Decision::Handle { reason: Reason::Resume, .. });
        let effects = settle(plan, attempted, patch, self.world.now);
        if self.wild && self.dice.one_in(8) {
            self.edit();
        }
        self.is_killed() || self.write(effects, resumes) || self.is_killed()
    }

    /// Makes one attempt, with those of its picked sub-handlers; `None` if the process is killed in the middle of it.
    fn call(&mut self, plan: &Plan, cause: &HandlerCall, patch: &mut Patch) -> Option<Attempted> {
        let id = cause.handler.id.clone();
        let mut outcome = self.attempt(cause, patch)?;
        let mut subhandlers = Vec::new();
        let names = self.world.subs.get(&*id).cloned();
        if let (Some(names), Outcome::Succeeded(_)) = (names, &outcome) {
            let (mut subs, now) = (plan.subhandler_plan(&cause.handler).unwrap(), self.world.now);
            let callbacks = names.into_iter().map(sub_handler).collect();
            let group = subs.register(cause, callbacks, now, &mut Vec::new()).unwrap();
            for (place, sub) in subs.pick(&group, cause, None, now, &mut Vec::new()) {
                let outcome = self.attempt(&sub, patch)?;
                subs.attempted(place, outcome, now);
            }
            if subs.progress(&group) == Progress::Left {
                outcome = Outcome::Waiting;
            }
            subhandlers = subs.into_records();
        }
        self.ended(cause, &outcome);
        Some(Attempted { id, outcome, subhandlers })
    }

    fn attempt(&mut self, cause: &HandlerCall, patch: &mut Patch) -> Option<Outcome> {
        self.note(cause);
        if self.wild && self.dice.one_in(4) {
            self.edit();
        }
        if self.is_killed() {
            return None;
        }
        // Some handlers change their object, with varying values during the wild phase.
        let own = if self.wild { self.dice.roll(12) } else { 0 };
        if own < 3 && ["u", "c", "p/s1", "p/s2", "a"].contains(&&*cause.handler.id) {
            patch.merge(json!({"spec": {"own": own}}));
        }
        let outcome = self.outcome();
        self.ended(cause, &outcome);
        Some(outcome)
    }

    /// Records the end of the handler's last run.
    fn ended(&mut self, cause: &HandlerCall, outcome: &Outcome) {
        let id = cause.handler.id.to_string();
        let done = matches!(outcome, Outcome::Succeeded(_));
        let mut runs = self.runs.iter_mut().rev();
        runs.find(|it| it.id == id).unwrap().done = done;
        let key = (id, cause.reason().unwrap());
        if done {
            self.succeeded.insert(key);
        } else {
            self.succeeded.remove(&key);
        }
    }

    fn is_killed(&mut self) -> bool {
        let killed = self.wild && self.dice.one_in(12);
        if killed {
            self.crash();
        }
        killed
    }

    fn note(&mut self, cause: &HandlerCall) {
        self.attempts += 1;
        let id = cause.handler.id.to_string();
        let key = (id.clone(), cause.reason().unwrap());
        assert!(
            !self.succeeded.contains(&key),
            "called again in one cycle: {key:?} {:?} {:?}",
            self.versions,
            self.runs
        );
        self.unwritten.push(id.clone());
        let version = cause.meta()["generation"].as_u64().unwrap();
        let new = cause.new().cloned().unwrap_or_default();
        let whole = cause.handler.field().is_none();
        self.runs.push(Run {
            id,
            version: usize::try_from(version).unwrap(),
            new: if whole { new["spec"].clone() } else { new },
            whole,
            done: false,
            written: false,
        });
    }

    fn write(&mut self, effects: Effects, resumes: bool) -> bool {
        // If the object returns to its last-handled state, and no handler has seen another one, updating changes to resuming.
        if resumes {
            self.succeeded.retain(|(_, reason)| *reason == Reason::Resume);
        }
        let refused = self.wild && self.dice.one_in(6);
        self.world.refuse = usize::from(refused);
        let concluded = effects.concluded;
        let changed = self.world.write(effects);
        self.note_version();
        if !refused && self.world.object.is_some() {
            // After a refused conclusion, the next pass may only need to remove records.
            if concluded || self.world.records().is_empty() {
                self.succeeded.clear();
            }
            self.unwritten.clear();
            self.runs.iter_mut().for_each(|it| it.written = true);
        }
        if self.first_handled.is_none() && self.world.object.is_some() {
            self.first_handled = Some(self.last_handled()).filter(|it| !it.is_null());
        }
        changed
    }

    fn outcome(&mut self) -> Outcome {
        let message = "random".to_owned();
        match self.dice.roll(if self.wild { 8 } else { 1 }) {
            5 => Outcome::Temporary { message, delay: Duration::ZERO, child: None },
            6 => Outcome::Temporary { message, delay: Duration::from_secs(5), child: None },
            7 => Outcome::Arbitrary { message },
            _ => Outcome::Succeeded(None),
        }
    }

    /// Handles everything that is due; this must terminate.
    fn calm(&mut self) {
        self.wild = false;
        for _ in 0..100 {
            let changed = self.pass();
            if !changed && self.world.seen.is_some() && !self.world.advance() {
                return;
            }
        }
        panic!("no end");
    }

    /// Checks that every handler's last call has received the current object and has succeeded.
    fn check(&self) {
        let newest = self.versions.last().unwrap();
        let subs = self.world.subs["p"].iter().map(|words| {
            let name = words.split('@').next().unwrap_or_default();
            format!("p/{name}")
        });
        let is_parent = self.world.handlers.iter().any(|it| &*it.id == "p");
        let subs = subs.filter(|_| is_parent);
        let ids = self.world.handlers.iter().map(|it| it.id.to_string());
        for id in ids.chain(subs) {
            let id: &str = &id;
            let field = id.rsplit('/').next().filter(|it| ["a", "b"].contains(it));
            let scope = |spec: &Value| field.map_or(spec.clone(), |field| spec[field].clone());
            let mut runs = self.runs.iter().filter(|it| it.id == id);
            let complaint = || format!("{id}: {:?} {:?}", self.versions, self.runs);
            if matches!(id, "c" | "z") {
                assert!(runs.any(|it| it.done), "{}", complaint());
            }
            if !matches!(id, "u" | "f" | "a" | "b" | "x/a") && !id.starts_with('p') {
                continue;
            }
            let Some(last) = runs.next_back() else {
                let first = self.first_handled.as_ref().expect("handled");
                // If a field disappeared before the first call of its parent, its sub-handler has never acted on it.
                let unchanged = match id {
                    "u" => first == newest,
                    "p/a" | "p/b" => scope(newest).is_null(),
                    _ => scope(first).is_null() && scope(newest).is_null(),
                };
                assert!(unchanged, "{}", complaint());
                continue;
            };
            let told = if last.whole { scope(&last.new) } else { last.new.clone() } == scope(newest);
            let seen = scope(&self.versions[last.version]) == scope(newest);
            let forgotten =
                self.forgotten.iter().any(|(it, handled)| it == id && scope(handled) == scope(newest));
            assert!(last.done && told && seen || forgotten, "{}", complaint());
        }
    }
}

/// Plays one history, and returns the number of attempts.
fn history(seed: u64) -> usize {
    let mut history = History::new(seed);
    for _ in 0..history.dice.roll(40) {
        if history.dice.one_in(5) {
            history.edit();
        }
        if history.dice.one_in(20) {
            history.crash();
        }
        if !history.pass() {
            history.world.advance();
        }
    }
    history.calm();
    history.check();
    assert_eq!(history.world.records(), "", "nothing is left on the object");
    assert_eq!(history.last_handled(), *history.versions.last().unwrap());
    let attempts = history.attempts;
    history.calm();
    assert_eq!(history.attempts, attempts, "nothing runs once all is still");
    history.crash();
    history.calm();
    let may_resume = |id: &str| ["f", "r"].contains(&id);
    let resumed = history.world.handlers.iter().filter(|it| it.is_for_resuming()).count();
    assert_eq!(history.attempts - attempts, resumed, "a restart only resumes");
    assert!(history.runs.iter().rev().take(resumed).all(|it| may_resume(&it.id)));
    deleted_at_last(&mut history);
    history.attempts
}

/// Deletes the object at the end: it disappears, and interested handlers have seen it.
fn deleted_at_last(history: &mut History) {
    let demanded = history.world.handlers.iter().any(|it| &*it.id == "d");
    let object = history.world.object.as_ref().unwrap();
    let held = object["metadata"]["finalizers"] == json!([FINALIZER]);
    assert_eq!(held, demanded);
    history.world.edit(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    history.calm();
    assert!(history.world.object.is_none(), "the object is gone");
    let count = |id: &str| history.runs.iter().filter(|it| it.id == id).count();
    assert_eq!(count("d"), usize::from(demanded));
}

/// Plays the requested histories, each of which returns its number of calls. Returns the number of histories and of all calls.
pub(in crate::reaction) fn explore(play: fn(u64) -> usize) -> (usize, usize) {
    let number = |name| std::env::var(name).ok().and_then(|it: String| it.parse::<u64>().ok());
    let seeds = match number("KOPF_RS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KOPF_RS_HISTORIES").unwrap_or(300),
    };
    let mut calls = 0;
    for seed in seeds.clone() {
        let found = std::panic::catch_unwind(|| play(seed));
        calls +=
            found.unwrap_or_else(|_| panic!("history {seed} goes wrong; replay it with KOPF_RS_SEED={seed}"));
    }
    let histories = seeds.count();
    println!("{histories} histories, {calls} calls");
    assert!(calls > 0, "nobody was called");
    (histories, calls)
}

#[test]
fn no_change_is_lost() {
    explore(history);
}
