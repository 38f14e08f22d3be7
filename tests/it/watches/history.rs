//! One history from start to end.
//!
//! In the first part, any trouble may happen at any time. After that all versions are served, nothing goes wrong, and everything must come
//! to rest in the right state.

use std::collections::BTreeSet;
use std::time::Duration;

use kopf_rs::{Lifecycle, Operator, Settings};
use kopf_rs_apiserver::{Fault, FaultHandle, Verb};
use tokio::time::Instant;

use super::check::{self, Rigour};
use super::cluster::{Name, OBJECTS, PLURAL, Presence, Second, Shape};
use super::event::Event;
use super::handler::handler;
use super::record::Record;
use super::roles::{Naming, Roles};
use super::simulation::Simulation;
use crate::operating::{NAME, Working};
use crate::random::dice::Dice;
use crate::random::{Seed, verdict};

/// The deadline for everything to be at rest.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The time in which nothing may happen once everything is at rest: longer than any back-off of an operator.
const STILL: Duration = Duration::from_secs(150);

pub(super) struct History {
    pub(super) simulation: Simulation,
    pub(super) roles: Roles,
    settings: Settings,
    /// True if the operator is for the namespaces `team-*` only.
    scoped: bool,
    objects: Vec<Name>,
    /// True if the timeouts of handlers may pass before their first call.
    kept_up: bool,
    steps: usize,
    shape: Shape,
    rival: bool,
    /// The faults on the watches, active until they are dropped.
    silence: Vec<FaultHandle>,
    working: Option<Working>,
}

// === impl History ===

impl History {
    pub(super) fn new(seed: Seed, mut record: Record) -> Self {
        let mut dice = Dice::new(seed.number ^ 0x5EED);
        let events = Event::some(&mut dice);
        let naming = match dice.roll(4) {
            _ if events.contains(&Event::TwoVersions) => Naming::Versions,
            0 => Naming::Plural,
            1 => Naming::Mixed,
            2 => Naming::Group,
            _ => Naming::Version,
        };
        let roles = Roles::roll(seed.size, naming, &mut dice);
        let settings = settings(&mut dice);
        let scoped = dice.one_in(2);
        let count = 1 + dice.roll(OBJECTS.len().min(1 + seed.size / 2));
        let steps = 1 + dice.roll(seed.size * 3 + 1);
        let limited = settings.queueing.worker_limit.is_some();
        // As in Kopf, the timeouts of all handlers of a cycle start with its first write, so a worker permit may come too late.
        let waits = limited && roles.served().filter(|role| role.on != "event").count() > 1;
        let one_by_one = matches!(settings.execution.lifecycle, Lifecycle::OneByOne);
        let kept_up = waits || one_by_one || events.iter().any(|event| event.delays());
        let second = match naming {
            Naming::Versions => Second::Served,
            _ => Second::Absent,
        };
        let (lifecycle, limit) = (settings.execution.lifecycle.clone(), settings.queueing.worker_limit);
        let scope = if scoped { "team-*" } else { "all namespaces" };
        record.story.tell(format!("{roles}\n{scope}, {lifecycle:?}, workers: {limit:?}, {events:?}"));
        Self {
            simulation: Simulation::new(dice, record, events),
            roles,
            settings,
            scoped,
            objects: OBJECTS[..count].to_vec(),
            kept_up,
            steps,
            shape: Shape { second, ..Shape::PLAIN },
            rival: false,
            silence: Vec::new(),
            working: None,
        }
    }

    pub(super) async fn play(&mut self) -> Result<(), String> {
        self.wild().await;
        self.calm().await;
        self.rest().await?;
        self.right(Rigour::Forgiving).await?;
        self.idle().await?;
        self.restart().await?;
        self.last_word().await?;
        self.farewell().await?;
        self.idle().await?;
        let record = &self.simulation.state().record;
        verdict(&check::in_the_end(record, &self.roles))
    }

    async fn wild(&mut self) {
        for namespace in namespaces() {
            self.simulation.cluster.make_namespace(namespace).await;
        }
        let late = self.simulation.state().may(Event::Definition) && self.roll(2) == 0;
        if !late {
            self.simulation.cluster.define(self.shape).await;
        }
        if self.roll(3) == 0 {
            self.create().await;
        }
        self.start();
        if self.roll(2) == 0 {
            self.time_passes().await;
        }
        self.create().await;
        for _ in 0..self.steps {
            self.time_passes().await;
            self.step().await;
            self.simulation.look().await;
        }
        self.time_passes().await;
    }

    /// Makes one random event happen.
    async fn step(&mut self) {
        let events: Vec<_> = self.simulation.state().events.iter().copied().collect();
        let name = self.objects[self.roll(self.objects.len())];
        let choice = self.roll(events.len() * 2 + 4);
        match events.get(choice / 2) {
            Some(event) => self.happen(*event, name).await,
            None if choice.is_multiple_of(4) => self.create().await,
            None => {
                let field = self.roll(2) == 0;
                self.simulation.edit(name, field).await;
            }
        }
    }

    async fn happen(&mut self, event: Event, name: Name) {
        match event {
            Event::OtherGroup => {
                self.rival = !self.rival;
                let what = ["a kind of the same plural goes", "a kind of the same plural comes"];
                self.simulation.tell(what[usize::from(self.rival)]);
                self.simulation.cluster.rival(self.rival).await;
            }
            Event::SecondVersion | Event::Served | Event::Status => self.reshape(event).await,
            Event::Definition => {
                if self.roll(2) == 0 {
                    self.simulation.tell("the definition is deleted");
                    self.simulation.cluster.undefine().await;
                } else {
                    self.define().await;
                    self.create().await;
                }
            }
            Event::Namespaces => {
                if self.roll(2) == 0 {
                    self.simulation.tell(format!("namespace {} is deleted", name.0));
                    self.simulation.cluster.delete_namespace(name.0).await;
                } else {
                    self.simulation.tell(format!("namespace {} is made", name.0));
                    self.simulation.cluster.make_namespace(name.0).await;
                    self.create().await;
                }
            }
            Event::Watches => self.disturb(),
            Event::Discovery => {
                let outage = !self.simulation.state().outage;
                self.simulation.tell(format!("discovery is out: {outage}"));
                self.simulation.state().outage = outage;
            }
            Event::Kills => self.kill().await,
            Event::Stops => self.stop().await,
            Event::Deletions => self.simulation.delete(name).await,
            Event::Refusals | Event::Failures | Event::TwoVersions => {
                self.simulation.edit(name, true).await;
            }
        }
    }

    async fn reshape(&mut self, event: Event) {
        let shape = &mut self.shape;
        match event {
            Event::SecondVersion => {
                shape.second = match shape.second {
                    Second::Absent => Second::Served,
                    Second::Served | Second::Unserved => Second::Absent,
                };
            }
            Event::Status => shape.status = !shape.status,
            _ if shape.second == Second::Absent || self.simulation.roll(2) == 0 => {
                shape.first = !shape.first;
            }
            _ => {
                shape.second = match shape.second {
                    Second::Served => Second::Unserved,
                    _ => Second::Served,
                };
            }
        }
        self.define().await;
    }

    async fn define(&self) {
        self.simulation.tell(format!("the definition is: {:?}", self.shape));
        self.simulation.cluster.define(self.shape).await;
    }

    fn disturb(&mut self) {
        let server = self.simulation.cluster.server.clone();
        let plurals = [PLURAL, PLURAL, "customresourcedefinitions", "namespaces"];
        let plural = plurals[self.roll(plurals.len())];
        let (fault, what) = match self.roll(7) {
            0 => (Fault::cut(), "are cut"),
            1 => (Fault::reset(), "break"),
            2 => (Fault::gone(), "are too old"),
            3 => (Fault::late(Duration::from_secs(3)), "are late"),
            4 => {
                self.simulation.tell("the server forgets the past");
                return server.compact();
            }
            5 => {
                self.simulation.tell("watches recover");
                return self.silence.clear();
            }
            _ => (Fault::stall(), "fall silent"),
        };
        self.simulation.tell(format!("watches of {plural} {what}"));
        let fault = server.fault(fault.on(Verb::Watch).plural(plural));
        self.silence.push(fault);
    }

    async fn time_passes(&self) {
        let pauses = [0, 0, 1, 30, 150, 500, 3000, 12_000, 90_000];
        let pause = pauses[self.roll(pauses.len())];
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    fn start(&mut self) {
        self.simulation.tell("the operator starts");
        let (client, seed) = self.simulation.client();
        let registry = self.roles.registry(|role| handler(&self.simulation, role));
        let operator = Operator::new(registry).name(NAME).seed(seed);
        let operator = operator.settings(self.settings.clone());
        let operator = if self.scoped { operator.namespaces(["team-*"]) } else { operator.all_namespaces() };
        self.working = Some(Working::start_as(client, operator));
    }

    async fn kill(&mut self) {
        if let Some(working) = self.working.take() {
            self.simulation.tell("the operator is killed");
            working.kill().await;
        }
        self.start_again().await;
    }

    async fn stop(&mut self) {
        if let Some(working) = self.working.take() {
            self.simulation.tell("the operator is stopped");
            let clean = {
                let state = &mut self.simulation.state();
                state.record.stopped = Some(Instant::now());
                let troubles =
                    [Event::Refusals, Event::Served, Event::SecondVersion, Event::Status, Event::Definition];
                !troubles.iter().any(|event| state.may(*event))
            };
            working.stop().await;
            let record = &mut self.simulation.state().record;
            record.story.tell("the operator has stopped");
            let start = record.start;
            if clean {
                record.clean_ends.insert(start);
            }
        }
        self.start_again().await;
    }

    async fn start_again(&mut self) {
        // Let the calls that the operator had started end, too.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        if self.roll(2) == 0 {
            let name = self.objects[self.roll(self.objects.len())];
            self.simulation.edit(name, true).await;
        }
        self.start();
    }

    /// Creates the missing objects.
    async fn create(&self) {
        for name in &self.objects {
            if self.simulation.cluster.get(*name).await.is_none() {
                self.simulation.create(*name).await;
            }
        }
    }

    /// Stops all trouble and serves all versions.
    async fn calm(&mut self) {
        self.simulation.tell("from now on nothing goes wrong");
        {
            let state = &mut self.simulation.state();
            state.events = BTreeSet::new();
            state.outage = false;
        }
        self.silence.clear();
        self.rival = false;
        self.simulation.cluster.rival(false).await;
        self.shape.first = true;
        self.shape.status = true;
        if self.roles.naming == Naming::Versions {
            self.shape.second = Second::Served;
        }
        self.define().await;
        // By then, broken watches have reconnected; their new lists cause events for raw-event handlers.
        tokio::time::sleep(STILL).await;
    }

    /// Waits until everything exists and is handled, and no work is left.
    async fn rest(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_secs(1);
        loop {
            tokio::time::sleep(pause).await;
            let Some(why) = self.unrest().await else {
                return Ok(());
            };
            if Instant::now() > deadline {
                return Err(format!("no rest: {why}"));
            }
            pause = (pause * 2).min(Duration::from_secs(60));
        }
    }

    /// Returns a reason why the history is not at rest yet.
    async fn unrest(&mut self) -> Option<String> {
        let leaves = |it: &serde_json::Value| !it["metadata"]["deletionTimestamp"].is_null();
        let cluster = &self.simulation.cluster;
        match cluster.definition().await {
            Some(definition) if leaves(&definition) => return Some(definition.to_string()),
            Some(_) => {}
            None => {
                self.define().await;
                return Some("the definition was gone".to_owned());
            }
        }
        for name in namespaces() {
            match cluster.namespace(name).await {
                Some(namespace) if leaves(&namespace) => return Some(namespace.to_string()),
                Some(_) => {}
                None => {
                    cluster.make_namespace(name).await;
                    return Some(format!("namespace {name} was gone"));
                }
            }
        }
        self.create().await;
        self.simulation.look().await;
        let record = &self.simulation.state().record;
        let start = record.start;
        let open = |life: &&super::record::Life| {
            let handled = self.roles.handle_changes() && self.is_in_scope(life.name);
            let leaves = life.presence == Presence::Terminating;
            leaves || life.presence == Presence::Alive && !life.is_at_rest(start, handled)
        };
        let open = record.lives.iter().find(open);
        open.map(|life| format!("{:?} is left as {}", life.name, life.object))
    }

    fn is_in_scope(&self, name: Name) -> bool {
        !self.scoped || name.0.starts_with("team-")
    }

    async fn right(&self, rigour: Rigour) -> Result<(), String> {
        self.simulation.look().await;
        let record = &self.simulation.state().record;
        let how = (rigour, self.kept_up);
        verdict(&check::at_rest(record, &self.roles, how, |life| self.is_in_scope(life.name)))
    }

    /// Checks that an operator at rest makes no calls or writes.
    async fn idle(&self) -> Result<(), String> {
        let done = || {
            let record = &self.simulation.state().record;
            (record.calls, record.writes)
        };
        let before = done();
        tokio::time::sleep(STILL).await;
        let after = done();
        if before == after {
            return Ok(());
        }
        Err(format!("calls and writes were {before:?} when all was still, then {after:?}"))
    }

    /// Checks that an operator without work has no work after a restart.
    async fn restart(&mut self) -> Result<(), String> {
        if let Some(working) = self.working.take() {
            working.kill().await;
        }
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        self.start();
        tokio::time::sleep(STILL).await;
        let record = &self.simulation.state().record;
        verdict(&check::restarted(record))
    }

    /// Changes every scope once more; all handlers must have seen the change.
    async fn last_word(&mut self) -> Result<(), String> {
        for name in self.objects.clone() {
            self.simulation.edit(name, true).await;
        }
        self.rest().await?;
        self.right(Rigour::Strict).await?;
        self.idle().await
    }

    /// Deletes all objects, which must go.
    async fn farewell(&mut self) -> Result<(), String> {
        for name in self.objects.clone() {
            self.simulation.delete(name).await;
        }
        let mut left = None;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(5)).await;
            self.simulation.look().await;
            let record = &self.simulation.state().record;
            let there = record.lives.iter().find(|it| it.presence != Presence::Gone);
            left = there.map(|life| life.object.clone());
            if left.is_none() {
                return Ok(());
            }
        }
        Err(format!("it does not go: {left:?}"))
    }

    fn roll(&self, sides: usize) -> usize {
        self.simulation.roll(sides)
    }
}

fn namespaces() -> BTreeSet<&'static str> {
    OBJECTS.iter().map(|name| name.0).collect()
}

fn settings(dice: &mut Dice) -> Settings {
    let mut settings = Settings::default();
    settings.execution.lifecycle = match dice.roll(6) {
        0 => Lifecycle::OneByOne,
        1 => Lifecycle::AllAtOnce,
        2 => Lifecycle::Shuffled,
        _ => Lifecycle::Asap,
    };
    settings.queueing.worker_limit = match dice.roll(6) {
        0 | 1 => Some(1),
        2 => Some(2),
        _ => None,
    };
    settings
}
