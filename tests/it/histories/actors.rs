//! An operator on the simulation: starts, kills, stops and restarts it, and waits until it has no work left.
//!
//! This module must not depend on the changes of objects or the checks.

use std::time::Duration;

use kopf_rs::{Operator, Settings};
use kopf_rs_tests::Lines;
use tokio::time::Instant;

use super::actor::actor;
use super::roles::{Roles, essence};
use super::simulation::{GROUP, Play, Simulation};
use crate::operating::{KIND, NAME, Working};
use crate::random::{self, Failure};

/// The deadline for everything to be at rest.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The time in which nothing may happen once everything is at rest: longer than any back-off of an operator.
pub(super) const STILL: Duration = Duration::from_secs(150);

pub(super) struct Actors {
    pub(super) simulation: Simulation,
    pub(super) roles: Roles,
    settings: Settings,
    everywhere: bool,
    working: Option<Working>,
}

/// Runs `act` under virtual time on a simulation that `make` creates. With `lines`, the story includes the log of the operator.
pub(super) fn perform<T, R>(
    lines: Option<&Lines>,
    make: impl FnOnce() -> (Simulation, T),
    act: impl AsyncFnOnce(&mut T) -> Result<(), String>,
    sum: impl FnOnce(&Play) -> R,
) -> Result<R, Failure> {
    let begin = || {
        let (simulation, actors) = make();
        simulation.play().record.story.listen(lines);
        (simulation, actors)
    };
    let told = |simulation: &Simulation| simulation.play().record.story.told();
    random::perform(lines, begin, act, told, |simulation| sum(&simulation.play()))
}

// === impl Actors ===

impl Actors {
    pub(super) fn new(simulation: Simulation, roles: Roles, settings: Settings, everywhere: bool) -> Self {
        Self { simulation, roles, settings, everywhere, working: None }
    }

    pub(super) fn start(&mut self) {
        self.note("the operator starts");
        let simulation = &self.simulation;
        let selector = (GROUP, "v1", KIND);
        let registry = self.roles.registry(selector, |role| actor(simulation, role));
        let operator = Operator::new(registry).name(NAME).seed(simulation.seed());
        let operator = operator.settings(self.settings.clone());
        let operator =
            if self.everywhere { operator.all_namespaces() } else { operator.namespaces(["default"]) };
        self.working = Some(Working::start_as(simulation.client(), operator));
    }

    pub(super) async fn kill(&mut self) {
        if let Some(working) = self.working.take() {
            self.note("the operator is killed");
            working.kill().await;
        }
        self.again().await;
    }

    pub(super) async fn stop(&mut self) {
        if let Some(working) = self.working.take() {
            self.note("the operator is stopped");
            working.stop().await;
        }
        self.again().await;
    }

    /// Starts the operator again after its end.
    async fn again(&mut self) {
        // Let the calls that the operator had started end, too.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        self.simulation.play().record.crashed();
        let wild = self.simulation.play().trouble.deaths;
        for _ in 0..if wild { self.roll(3) } else { 0 } {
            self.simulation.edit().await;
        }
        self.start();
    }

    /// Lets time pass. Kills the operator if the simulation demands it meanwhile.
    pub(super) async fn wait(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        loop {
            let simulation = self.simulation.clone();
            tokio::select! {
                biased;
                () = simulation.death() => self.kill().await,
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    /// Waits until everything is handled and no work is left.
    pub(super) async fn rest(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_secs(1);
        loop {
            self.wait(pause).await;
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
        for name in self.objects() {
            let Some(object) = self.simulation.get(&name).await else {
                self.simulation.play().gone(&name);
                self.simulation.create(&name).await;
                return Some(format!("{name} was gone"));
            };
            let keeping = self.simulation.play().record.keeping;
            let handled = keeping.handled(&object) == Some(essence(&object));
            let deleting = !object["metadata"]["deletionTimestamp"].is_null();
            if !handled || deleting || !keeping.records(&object).is_empty() {
                return Some(object.to_string());
            }
        }
        let play = self.simulation.play();
        play.record.unfinished().map(ToString::to_string)
    }

    /// Deletes all objects, which must go.
    pub(super) async fn farewell(&mut self) -> Result<(), String> {
        for name in self.objects() {
            self.simulation.delete(&name).await;
        }
        let mut left = None;
        for _ in 0..10 {
            self.wait(Duration::from_secs(5)).await;
            left = None;
            for name in self.objects() {
                left = left.or(self.simulation.get(&name).await);
            }
            if left.is_none() {
                return Ok(());
            }
        }
        Err(format!("it does not go: {left:?}"))
    }

    /// Checks that an operator at rest makes no calls or writes.
    pub(super) async fn idle(&mut self) -> Result<(), String> {
        let done = |actors: &Self| {
            let play = actors.simulation.play();
            (play.record.calls, play.record.writes)
        };
        let before = done(self);
        self.wait(STILL).await;
        let after = done(self);
        if before == after {
            return Ok(());
        }
        Err(format!("calls and writes were {before:?} when all was still, then {after:?}"))
    }

    /// Creates the missing objects.
    pub(super) async fn create(&mut self) {
        for name in self.objects() {
            self.simulation.create(&name).await;
        }
    }

    pub(super) fn objects(&self) -> Vec<String> {
        self.simulation.play().objects.clone()
    }

    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.simulation.play().dice.roll(sides)
    }

    pub(super) fn note(&self, line: &str) {
        self.simulation.play().record.story.tell(line);
    }
}
