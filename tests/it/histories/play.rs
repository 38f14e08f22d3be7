//! One history from start to end.
//!
//! In the first part, any trouble may happen at any time. After that nothing goes wrong, and everything must come to rest in the right
//! state.

use std::time::Duration;

use kopf_rs::{Lifecycle, Settings};
use kopf_rs_apiserver::{Fault, FaultHandle, Verb};
use kopf_rs_tests::Lines;
use serde_json::json;

use super::actors::{Actors, STILL, perform};
use super::check::{self, Rigour};
use super::keeping::Keeping;
use super::roles::Roles;
use super::simulation::{Play, Simulation, Trouble};
use crate::operating::KIND;
use crate::random::dice::Dice;
use crate::random::{Failure, Seed, verdict};

/// The counts of a history.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: usize,
    pub(super) writes: usize,
    pub(super) troubles: usize,
    pub(super) starts: usize,
    pub(super) changes: usize,
}

/// Plays one history.
pub(super) fn play(seed: Seed, lines: Option<&Lines>) -> Result<Tally, Failure> {
    perform_and(seed, lines, |play| {
        let record = &play.record;
        Tally {
            calls: record.calls,
            writes: record.writes,
            troubles: play.troubles,
            starts: record.start,
            changes: record.lives.iter().map(|life| life.versions.len()).sum(),
        }
    })
}

/// Returns the story of one history.
pub(super) fn story(seed: Seed) -> Vec<String> {
    let told = perform_and(seed, None, |play| play.record.story.told());
    told.unwrap_or_else(|failure| failure.story)
}

fn perform_and<R>(seed: Seed, lines: Option<&Lines>, sum: impl FnOnce(&Play) -> R) -> Result<R, Failure> {
    let make = || {
        let history = History::new(seed);
        (history.actors.simulation.clone(), history)
    };
    let tell = async |history: &mut History| history.tell().await;
    perform(lines, make, tell, sum)
}

struct History {
    actors: Actors,
    steps: usize,
    /// The fault on the watches, active until the next step.
    silence: Option<FaultHandle>,
}

// === impl History ===

impl History {
    fn new(seed: Seed) -> Self {
        let mut dice = Dice::new(seed.number);
        let roles = Roles::of(seed.size, |sides| dice.roll(sides));
        let keepings =
            [Keeping::Named, Keeping::Named, Keeping::Named, Keeping::Kopf, Keeping::Status, Keeping::Own];
        let keeping = *dice.pick(&keepings);
        let settings = settings(&mut dice, keeping);
        let mut likely = || !dice.one_in(3);
        let trouble = Trouble {
            meddling: likely(),
            faults: likely(),
            deaths: likely(),
            cuts: likely(),
            failures: likely(),
            deletions: dice.one_in(4),
        };
        let two = seed.size > 3 && dice.one_in(4);
        let objects = ["a", "b"][..=usize::from(two)].iter();
        let (steps, everywhere) = (dice.roll(seed.size * 3 + 1), dice.one_in(3));
        let simulation = Simulation::new(dice, keeping, trouble);
        let lifecycle = &settings.execution.lifecycle;
        let limit = settings.queueing.worker_limit;
        let title = format!("{roles}\n{keeping:?}, {lifecycle:?}, workers: {limit:?}, {trouble:?}");
        simulation.play().objects = objects.map(|it| (*it).to_owned()).collect();
        simulation.play().record.story.tell(title);
        Self { actors: Actors::new(simulation, roles, settings, everywhere), steps, silence: None }
    }

    async fn tell(&mut self) -> Result<(), String> {
        self.actors.simulation.serve().await;
        self.wild().await;
        self.calm().await;
        self.actors.rest().await?;
        self.right(Rigour::Forgiving)?;
        self.actors.idle().await?;
        self.resume().await?;
        self.last_word().await?;
        self.actors.farewell().await?;
        self.actors.idle().await?;
        let play = self.actors.simulation.play();
        verdict(&check::in_the_end(&play.record, &self.actors.roles))
    }

    async fn wild(&mut self) {
        if self.actors.roll(3) == 0 {
            self.actors.create().await;
        }
        self.actors.start();
        if self.actors.roll(2) == 0 {
            self.time_passes().await;
        }
        self.actors.create().await;
        for _ in 0..self.steps {
            self.time_passes().await;
            self.step().await;
        }
        self.time_passes().await;
    }

    async fn step(&mut self) {
        let trouble = self.actors.simulation.play().trouble;
        self.silence = None;
        match self.actors.roll(16) {
            0 if trouble.deaths => self.actors.kill().await,
            1 if trouble.deaths => self.actors.stop().await,
            2 | 3 if trouble.cuts => self.cut(),
            4 if trouble.deletions => {
                let name = self.any();
                self.actors.simulation.delete(&name).await;
            }
            5 => {
                let name = self.any();
                let merge = json!({"status": {"other": self.actors.roll(3)}});
                let simulation = &self.actors.simulation;
                simulation.patch(&format!("{name}/status"), &merge).await;
            }
            6 | 7 => self.actors.create().await,
            _ => self.actors.simulation.edit().await,
        }
    }

    fn cut(&mut self) {
        let fault = match self.actors.roll(5) {
            0 => Fault::cut(),
            1 => Fault::reset(),
            2 => Fault::gone(),
            3 => {
                self.actors.note("the server forgets the past");
                return self.actors.simulation.server.compact();
            }
            _ => Fault::stall(),
        };
        self.actors.note("watches break");
        let fault = fault.on(Verb::Watch).plural(KIND);
        self.silence = Some(self.actors.simulation.server.fault(fault));
    }

    async fn time_passes(&mut self) {
        let pauses = [0, 0, 1, 30, 500, 3000, 12_000, 90_000];
        let pause = pauses[self.actors.roll(pauses.len())];
        self.actors.wait(Duration::from_millis(pause)).await;
    }

    /// Stops all trouble.
    async fn calm(&mut self) {
        self.actors.simulation.play().calm();
        self.silence = None;
        self.actors.note("from now on nothing goes wrong");
        // By then, broken watches have reconnected; their new lists cause events for raw-event handlers.
        self.actors.wait(STILL).await;
        self.actors.create().await;
    }

    fn right(&self, rigour: Rigour) -> Result<(), String> {
        let Actors { simulation, roles, .. } = &self.actors;
        verdict(&check::at_rest(&simulation.play().record, roles, rigour))
    }

    async fn resume(&mut self) -> Result<(), String> {
        self.actors.kill().await;
        self.actors.wait(Duration::from_secs(30)).await;
        self.actors.rest().await?;
        let Actors { simulation, roles, .. } = &self.actors;
        verdict(&check::resumed(&simulation.play().record, roles))
    }

    /// Changes every scope once more; all handlers must have seen the change.
    async fn last_word(&mut self) -> Result<(), String> {
        for first in [true, false] {
            for name in &self.actors.objects() {
                let object = self.actors.simulation.get(name).await.unwrap_or_default();
                let a = if object["spec"]["a"] == 2 { 1 } else { 2 };
                let merge = if first {
                    json!({"metadata": {"labels": {"tier": "gold"}}, "spec": {"a": 0, "b": 0}})
                } else {
                    json!({"spec": {"a": a, "b": 1}})
                };
                self.actors.simulation.patch(name, &merge).await;
            }
            self.actors.rest().await?;
        }
        self.right(Rigour::Strict)?;
        self.actors.idle().await
    }

    fn any(&mut self) -> String {
        let mut objects = self.actors.objects();
        objects.remove(self.actors.roll(objects.len()))
    }
}

fn settings(dice: &mut Dice, keeping: Keeping) -> Settings {
    let mut settings = Settings::with(|it| it.persistence = Some(keeping.persistence()));
    settings.execution.lifecycle = match dice.roll(8) {
        0 => Lifecycle::OneByOne,
        1 => Lifecycle::AllAtOnce,
        2 => Lifecycle::Randomized,
        3 => Lifecycle::Shuffled,
        _ => Lifecycle::Asap,
    };
    settings.queueing.worker_limit = dice.one_in(4).then_some(1);
    settings.scanning.disabled = dice.one_in(2);
    settings
}
