//! One history from start to end.
//!
//! In the first part, any trouble may happen at any time. After that nothing goes wrong, and exactly the expected daemons and timers must
//! run.

use std::time::Duration;

use kopf_rs::{Index, IndexValues};
use kopf_rs_apiserver::{Fault, FaultHandle, Verb};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::record::{End, Record};
use super::roles::Role;
use super::simulation::{OBJECTS, Simulation, USER, index_key};
use crate::operating::{KIND, Working};
use crate::random::dice::Dice;
use crate::random::{Seed, verdict};

/// Longer than any back-off of an operator, and than any call that had a fault.
const STILL: Duration = Duration::from_secs(200);

/// The duration for which the check counts timer ticks.
const WINDOW: Duration = Duration::from_secs(120);

pub(super) struct History {
    pub(super) simulation: Simulation,
    objects: &'static [&'static str],
    steps: usize,
    working: Option<Working>,
    /// The fault that is active until the next step.
    trouble: Option<FaultHandle>,
    may: Troubles,
}

/// The troubles that may happen in a history, besides users' edits.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may happen or not")]
struct Troubles {
    deaths: bool,
    watches: bool,
    requests: bool,
    failures: bool,
}

impl History {
    pub(super) fn new(seed: Seed, mut record: Record) -> Self {
        let mut dice = Dice::new(seed.number);
        let roles = Role::some(seed.size, &mut dice);
        let may = Troubles {
            deaths: dice.one_in(2),
            watches: dice.one_in(2),
            requests: dice.one_in(2),
            failures: !dice.one_in(3),
        };
        let objects = &OBJECTS[..=dice.roll(seed.size.min(3))];
        let steps = 1 + dice.roll(seed.size * 4);
        let ids: Vec<_> = roles.iter().map(|role| role.id).collect();
        record.story.tell(format!("{ids:?}, {may:?}"));
        Self {
            simulation: Simulation::new(dice, record, roles, may.failures),
            objects,
            steps,
            working: None,
            trouble: None,
            may,
        }
    }

    fn roll(&self, sides: usize) -> usize {
        self.simulation.roll(sides)
    }

    pub(super) async fn play(&mut self) -> Result<(), String> {
        self.simulation.serve().await;
        if self.roll(2) == 0 {
            self.create_all().await;
        }
        self.start();
        for _ in 0..self.steps {
            self.time_passes().await;
            self.step().await;
        }
        self.time_passes().await;
        self.calm().await;
        self.check("once nothing goes wrong").await?;
        self.flip().await;
        self.check("after labels have changed").await?;
        self.kill().await;
        self.wait(STILL).await;
        self.check("after a restart").await?;
        self.farewell().await
    }

    async fn step(&mut self) {
        self.trouble = None;
        let name = self.objects[self.roll(self.objects.len())];
        match self.roll(16) {
            0 if self.may.deaths => self.kill().await,
            1 if self.may.deaths => self.stop().await,
            2 | 3 if self.may.watches => self.break_watches(),
            4 | 5 if self.may.requests => self.refuse(),
            6 | 7 => self.simulation.delete(name).await,
            8 | 9 => self.simulation.create(name).await,
            10 => {
                // The object is gone before the operator can add a finalizer.
                self.simulation.create(name).await;
                self.simulation.delete(name).await;
            }
            _ => self.simulation.edit(name).await,
        }
    }

    fn break_watches(&mut self) {
        let fault = match self.roll(5) {
            0 => Fault::cut(),
            1 => Fault::reset(),
            2 => Fault::gone(),
            3 => Fault::stall(),
            _ => {
                self.simulation.tell("the server forgets the past");
                self.simulation.server.compact();
                Fault::gone()
            }
        };
        self.begin("watches break", fault.on(Verb::Watch));
    }

    fn refuse(&mut self) {
        let fault = match self.roll(6) {
            0 => Fault::answer(500).on(Verb::Patch),
            1 => Fault::answer(429).on(Verb::Patch),
            2 => Fault::drop_before().on(Verb::Patch),
            3 => Fault::drop_after().on(Verb::Patch),
            4 => Fault::answer(500).on(Verb::Get),
            _ => Fault::delay(Duration::from_millis(1700)).on(Verb::Patch),
        };
        self.begin("requests fail", fault);
    }

    fn begin(&mut self, what: &str, fault: Fault) {
        self.simulation.tell(format!("{what}: {fault:?}"));
        self.simulation.state().troubles += 1;
        let is_operators = |entry: &kopf_rs_apiserver::Entry| entry.user_agent.as_deref() != Some(USER);
        let fault = fault.plural(KIND).when(is_operators);
        self.trouble = Some(self.simulation.server.fault(fault));
    }

    // === the operator ===

    fn start(&mut self) {
        self.simulation.tell("the operator starts");
        let (client, operator) = self.simulation.operator();
        self.working = Some(Working::start_as(client, operator));
    }

    async fn kill(&mut self) {
        self.simulation.tell("the operator is killed");
        if let Some(working) = self.working.take() {
            working.kill().await;
        }
        self.again().await;
    }

    async fn stop(&mut self) {
        self.simulation.tell("the operator is stopped");
        if let Some(working) = self.working.take() {
            working.stop().await;
        }
        self.again().await;
    }

    async fn again(&mut self) {
        // Let the calls that the operator had started end, too.
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
        let left = self.simulation.state().record.running().count();
        if left > 0 {
            let wrong = format!("{left} calls are left of an operator that has ended");
            self.simulation.state().record.wrong.push(wrong);
        }
        let edits = if self.simulation.state().calm { 0 } else { self.roll(3) };
        for _ in 0..edits {
            let name = self.objects[self.roll(self.objects.len())];
            self.simulation.edit(name).await;
        }
        self.start();
    }

    // === time ===

    async fn time_passes(&mut self) {
        let pauses = [0, 0, 1, 500, 3000, 12_000, 95_000];
        let pause = pauses[self.roll(pauses.len())];
        self.wait(Duration::from_millis(pause)).await;
    }

    async fn wait(&self, pause: Duration) {
        tokio::time::sleep(pause).await;
    }

    /// Stops all trouble and creates the missing objects.
    async fn calm(&mut self) {
        self.trouble = None;
        self.simulation.tell("from now on nothing goes wrong");
        self.simulation.state().calm = true;
        self.wait(STILL).await;
        self.create_all().await;
        for name in self.objects {
            let merge = json!({"spec": {"a": 7}});
            self.simulation.patch(name, &merge).await;
        }
        self.wait(STILL).await;
    }

    async fn create_all(&self) {
        for name in self.objects {
            self.simulation.create(name).await;
        }
    }

    /// Adds the label to each object, or removes it.
    async fn flip(&mut self) {
        for name in self.objects {
            let object = self.simulation.get(name).await.unwrap_or_default();
            let has_label = !object["metadata"]["labels"][super::roles::LABEL].is_null();
            let label = if has_label { Value::Null } else { json!("gold") };
            let merge = json!({"metadata": {"labels": {super::roles::LABEL: label}}});
            self.simulation.patch(name, &merge).await;
        }
        self.wait(STILL).await;
    }

    /// Deletes all objects; the objects and all calls for them must end.
    async fn farewell(&mut self) -> Result<(), String> {
        for name in self.objects {
            self.simulation.delete(name).await;
        }
        self.wait(Duration::from_secs(60)).await;
        let mut wrong = Vec::new();
        for name in self.objects {
            if let Some(object) = self.simulation.look(name).await {
                wrong.push(format!("{name} does not go: {object}"));
            }
        }
        let index = self.simulation.state().index.take();
        let left = index.as_ref().map(pairs).unwrap_or_default();
        if !left.is_empty() {
            wrong.push(format!("the index still has {left:?}"));
        }
        if let Some(working) = self.working.take() {
            working.stop().await;
        }
        let record = &self.simulation.state().record;
        wrong.extend(record.running().map(|call| format!("{:?} runs on", call.of)));
        wrong.extend(record.wrong.iter().cloned());
        verdict(&wrong)
    }

    // === the checks ===

    /// Checks that exactly the expected calls run and that the index has the expected entries.
    async fn check(&mut self, when: &str) -> Result<(), String> {
        self.simulation.tell(format!("all is looked at, {when}"));
        let (from, mut wrong) = (Instant::now(), Vec::new());
        self.wait(WINDOW).await;
        let (mut known, mut indexed) = (Vec::new(), Vec::new());
        for name in self.objects {
            let Some(object) = self.simulation.look(name).await else {
                wrong.push(format!("{name} is gone"));
                continue;
            };
            self.check_object(&object, from, &mut wrong);
            let uid = super::record::uid(&object).to_owned();
            indexed.extend(index_key(&object).map(|key| (key, uid.clone())));
            known.push(uid);
        }
        let state = self.simulation.state();
        let found = state.index.as_ref().map(pairs).unwrap_or_default();
        indexed.sort();
        if found != indexed {
            wrong.push(format!("the index has {found:?}, and not {indexed:?}"));
        }
        let others = state
            .record
            .running()
            .filter(|call| call.start != state.record.start || !known.contains(&call.of.1));
        wrong.extend(others.map(|call| {
            let id = state.roles[call.of.0].id;
            format!("{id} runs without its object")
        }));
        wrong.extend(state.record.wrong.iter().cloned());
        verdict(&wrong)
    }

    fn check_object(&self, object: &Value, from: Instant, wrong: &mut Vec<String>) {
        let state = self.simulation.state();
        let (record, mut is_needed) = (&state.record, false);
        let name = &object["metadata"]["name"];
        for (place, role) in state.roles.iter().enumerate() {
            let of = (place, super::record::uid(object).to_owned());
            let runs = record.running().filter(|call| call.of == of).count();
            let ticks = record.calls.iter().filter(|call| call.of == of && call.begun >= from);
            let ticks = ticks.count();
            let is_wanted = role.accepts(object);
            let is_over = role.is_called_once() && has_ended(record, &of);
            is_needed |= is_wanted && !is_over;
            let (least, most) = match (is_wanted && !is_over, role.interval) {
                (true, Some(interval)) if !role.is_daemon => {
                    let ticks = WINDOW.as_secs() / interval.as_secs();
                    (ticks - 1, ticks + 1)
                }
                _ => (0, 0),
            };
            let should_run = usize::from(is_wanted && !is_over && role.is_daemon);
            let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
            if runs != should_run || !(least..=most).contains(&ticks) {
                wrong.push(format!(
                    "{} of {name}: {runs} of {should_run} run, {ticks} calls in {WINDOW:?}, expected {least} to {most}",
                    role.id
                ));
            }
        }
        let held = object["metadata"]["finalizers"].as_array();
        let is_held = held.is_some_and(|it| !it.is_empty());
        if is_held != is_needed {
            wrong.push(format!("{name} is held: {is_held}, needed: {is_needed}"));
        }
    }
}

/// Returns all entries of an index.
fn pairs(index: &Index<String, String>) -> Vec<(String, String)> {
    let of_key = |(key, uids): (String, IndexValues<String>)| {
        let uids = uids.to_vec().into_iter();
        uids.map(move |uid| (key.clone(), uid)).collect::<Vec<_>>()
    };
    let mut pairs: Vec<_> = index.iter().flat_map(of_key).collect();
    pairs.sort();
    pairs
}

/// Returns whether the last call by the current operator ended by itself, with success or a permanent error.
fn has_ended(record: &Record, of: &(usize, String)) -> bool {
    let last = record.last(of).and_then(|call| call.end);
    last.is_some_and(|(_, end)| matches!(end, End::Done | End::Failed))
}
