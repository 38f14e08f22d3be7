//! One history from its beginning to its end.
//!
//! A wild part, where anything may happen at any time; then nothing goes wrong any more, and everything must come to rest, and be right.

use std::time::Duration;

use kopf_rs::{Lifecycle, Settings};
use kopf_rs_apiserver::{Fault, FaultHandle, Verb};
use kopf_rs_tests::Lines;
use serde_json::json;

use super::cast::Cast;
use super::check::{self, Rigour};
use super::keeping::Keeping;
use super::stage::{Play, Stage, Trouble};
use super::troupe::{STILL, Troupe, perform};
use crate::operating::KIND;
use crate::random::dice::Dice;
use crate::random::{Failure, Seed, verdict};

/// What a history has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: usize,
    pub(super) writes: usize,
    pub(super) troubles: usize,
    pub(super) starts: usize,
    pub(super) changes: usize,
}

/// Play one history.
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

/// What there is to be told of one history.
pub(super) fn story(seed: Seed) -> Vec<String> {
    let told = perform_and(seed, None, |play| play.record.story().to_vec());
    told.unwrap_or_else(|failure| failure.story)
}

fn perform_and<R>(
    seed: Seed,
    lines: Option<&Lines>,
    sum: impl FnOnce(&Play) -> R,
) -> Result<R, Failure> {
    let make = || {
        let history = History::new(seed);
        (history.troupe.stage.clone(), history)
    };
    let tell = async |history: &mut History| history.tell().await;
    perform(lines, make, tell, sum)
}

struct History {
    troupe: Troupe,
    steps: usize,
    /// Watches are in trouble until the next step.
    silence: Option<FaultHandle>,
}

// === impl History ===

impl History {
    fn new(seed: Seed) -> Self {
        let mut dice = Dice::new(seed.number);
        let cast = Cast::of(seed.size, |sides| dice.roll(sides));
        let keepings = [
            Keeping::Named,
            Keeping::Named,
            Keeping::Named,
            Keeping::Kopf,
            Keeping::Status,
            Keeping::Own,
        ];
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
        let stage = Stage::new(dice, keeping, trouble);
        let lifecycle = &settings.execution.lifecycle;
        let limit = settings.queueing.worker_limit;
        let title = format!("{cast}\n{keeping:?}, {lifecycle:?}, workers: {limit:?}, {trouble:?}");
        stage.play().objects = objects.map(|it| (*it).to_owned()).collect();
        stage.play().record.tell(title);
        Self {
            troupe: Troupe::new(stage, cast, settings, everywhere),
            steps,
            silence: None,
        }
    }

    async fn tell(&mut self) -> Result<(), String> {
        self.troupe.stage.serve().await;
        self.wild().await;
        self.calm().await;
        self.troupe.rest().await?;
        self.right(Rigour::Forgiving)?;
        self.troupe.idle().await?;
        self.resume().await?;
        self.last_word().await?;
        self.troupe.farewell().await?;
        self.troupe.idle().await?;
        let play = self.troupe.stage.play();
        verdict(&check::in_the_end(&play.record, &self.troupe.cast))
    }

    async fn wild(&mut self) {
        if self.troupe.roll(3) == 0 {
            self.troupe.create().await;
        }
        self.troupe.start();
        if self.troupe.roll(2) == 0 {
            self.time_passes().await;
        }
        self.troupe.create().await;
        for _ in 0..self.steps {
            self.time_passes().await;
            self.step().await;
        }
        self.time_passes().await;
    }

    async fn step(&mut self) {
        let trouble = self.troupe.stage.play().trouble;
        self.silence = None;
        match self.troupe.roll(16) {
            0 if trouble.deaths => self.troupe.kill().await,
            1 if trouble.deaths => self.troupe.stop().await,
            2 | 3 if trouble.cuts => self.cut(),
            4 if trouble.deletions => {
                let name = self.any();
                self.troupe.stage.delete(&name).await;
            }
            5 => {
                let name = self.any();
                let merge = json!({"status": {"other": self.troupe.roll(3)}});
                let stage = &self.troupe.stage;
                stage.patch(&format!("{name}/status"), &merge).await;
            }
            6 | 7 => self.troupe.create().await,
            _ => self.troupe.stage.edit().await,
        }
    }

    fn cut(&mut self) {
        let fault = match self.troupe.roll(5) {
            0 => Fault::cut(),
            1 => Fault::reset(),
            2 => Fault::gone(),
            3 => {
                self.troupe.note("the server forgets the past");
                return self.troupe.stage.server.compact();
            }
            _ => Fault::stall(),
        };
        self.troupe.note("watches break");
        let fault = fault.on(Verb::Watch).plural(KIND);
        self.silence = Some(self.troupe.stage.server.fault(fault));
    }

    async fn time_passes(&mut self) {
        let pauses = [0, 0, 1, 30, 500, 3000, 12_000, 90_000];
        let pause = pauses[self.troupe.roll(pauses.len())];
        self.troupe.wait(Duration::from_millis(pause)).await;
    }

    /// From now on nothing goes wrong.
    async fn calm(&mut self) {
        self.troupe.stage.play().calm();
        self.silence = None;
        self.troupe.note("from now on nothing goes wrong");
        // Watches that were broken have come back by then: what they list anew is news to raw-event handlers.
        self.troupe.wait(STILL).await;
        self.troupe.create().await;
    }

    fn right(&self, rigour: Rigour) -> Result<(), String> {
        let Troupe { stage, cast, .. } = &self.troupe;
        verdict(&check::at_rest(&stage.play().record, cast, rigour))
    }

    async fn resume(&mut self) -> Result<(), String> {
        self.troupe.kill().await;
        self.troupe.wait(Duration::from_secs(30)).await;
        self.troupe.rest().await?;
        let Troupe { stage, cast, .. } = &self.troupe;
        verdict(&check::resumed(&stage.play().record, cast))
    }

    /// All that counts changes once more, and all must have seen it.
    async fn last_word(&mut self) -> Result<(), String> {
        for first in [true, false] {
            for name in &self.troupe.objects() {
                let object = self.troupe.stage.get(name).await.unwrap_or_default();
                let a = if object["spec"]["a"] == 2 { 1 } else { 2 };
                let merge = if first {
                    json!({"metadata": {"labels": {"tier": "gold"}}, "spec": {"a": 0, "b": 0}})
                } else {
                    json!({"spec": {"a": a, "b": 1}})
                };
                self.troupe.stage.patch(name, &merge).await;
            }
            self.troupe.rest().await?;
        }
        self.right(Rigour::Strict)?;
        self.troupe.idle().await
    }

    fn any(&mut self) -> String {
        let mut objects = self.troupe.objects();
        objects.remove(self.troupe.roll(objects.len()))
    }
}

fn settings(dice: &mut Dice, keeping: Keeping) -> Settings {
    let mut settings = Settings {
        persistence: Some(keeping.persistence()),
        ..Settings::default()
    };
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
