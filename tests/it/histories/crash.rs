//! An operator that is killed before and after each of its requests, one by one: the final object must be the same, and only the attempt in
//! flight may be repeated.
//!
//! Plays each life once undisturbed to count its requests, then once per kill. This module must not roll dice.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use kopf_rs::Settings;
use kopf_rs_tests::say;
use serde_json::{Value, json};

use super::actors::{Actors, perform};
use super::check::{self, Rigour};
use super::keeping::Keeping;
use super::record::{End, Record, Run};
use super::roles::{Roles, essence};
use super::simulation::{Doom, Simulation, Trouble};
use crate::random::dice::Dice;
use crate::random::{Failure, verdict};

/// The handlers of each life, and the storage of their state.
const LIVES: [(&str, Keeping); 12] = [
    ("create c", Keeping::Named),
    ("create c fails=2", Keeping::Named),
    ("create c; create c2 fails=1; create c3", Keeping::Named),
    ("create c; update u; delete d", Keeping::Named),
    ("create c; update u fails=2; delete d fails=1", Keeping::Named),
    ("update u; field f field=spec.a; resume r; event e", Keeping::Named),
    ("create c children; update u children", Keeping::Named),
    ("update u patches; create c grows", Keeping::Named),
    ("create c; update u labelled; delete d labelled", Keeping::Named),
    ("create c; update u fails=2; delete d fails=1", Keeping::Kopf),
    ("create c fails=1; update u; delete d", Keeping::Status),
    ("create c fails=1; update u; delete d", Keeping::Own),
];

/// The result of a life.
struct Lived {
    requests: usize,
    /// The object after each part of the life.
    objects: Vec<Value>,
    /// The number of attempts, including those that were cut off.
    attempts: BTreeMap<String, usize>,
}

#[test]
fn an_operator_killed_around_any_request_leaves_the_same_object() {
    let lives = Mutex::new(LIVES.iter());
    let total = Mutex::new((0, 0));
    let work = || {
        loop {
            let next = lives.lock().expect("no panics here").next();
            let Some((words, keeping)) = next else { return };
            let (requests, deaths) = all_deaths(words, *keeping);
            let mut total = total.lock().expect("no panics here");
            *total = (total.0 + requests, total.1 + deaths);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let (requests, deaths) = total.into_inner().expect("no panics here");
    say(&format!(
        "crashes: {} lives of {requests} requests, {deaths} deaths before and after them: the same objects, no attempt skipped, at most the one \
         in flight made twice",
        LIVES.len()
    ));
}

/// Plays one life with every possible kill, and returns the number of requests and of kills.
fn all_deaths(words: &'static str, keeping: Keeping) -> (usize, usize) {
    let plain = live(words, keeping, None);
    let mut deaths = 0;
    for request in 1..=plain.requests {
        for after in [false, true] {
            let doom = Doom { request, after };
            let lived = live(words, keeping, Some(doom));
            if let Some(wrong) = lived.differs_from(&plain) {
                panic!("{words} ({keeping:?}), {doom:?}: {wrong}");
            }
            deaths += 1;
        }
    }
    (plain.requests, deaths)
}

fn live(words: &'static str, keeping: Keeping, doom: Option<Doom>) -> Lived {
    let mut objects = Vec::new();
    let make = || {
        let simulation = Simulation::new(Dice::new(0), keeping, Trouble::default());
        simulation.play().objects = vec!["a".to_owned()];
        simulation.play().doom = doom;
        let settings = Settings::with(|it| it.persistence = Some(keeping.persistence()));
        let actors = Actors::new(simulation.clone(), Roles::parse(words), settings, true);
        (simulation, actors)
    };
    let lived = perform(
        None,
        make,
        async |actors: &mut Actors| life(actors, &mut objects).await,
        |play| (play.requests, attempts(&play.record)),
    );
    match lived {
        Ok((requests, attempts)) => Lived { requests, objects, attempts },
        Err(Failure { why, story }) => {
            panic!("{words} ({keeping:?}), {doom:?}:\n{}\n\nwrong:\n{why}", story.join("\n"))
        }
    }
}

async fn life(actors: &mut Actors, objects: &mut Vec<Value>) -> Result<(), String> {
    actors.simulation.serve().await;
    actors.start();
    actors.wait(Duration::from_secs(5)).await;
    actors.create().await;
    let changes = [
        Value::Null,
        json!({"spec": {"a": 7}, "metadata": {"labels": {"tier": "gold"}}}),
        json!({"spec": {"b": 8}}),
    ];
    for change in changes {
        if !change.is_null() {
            actors.simulation.patch("a", &change).await;
        }
        actors.rest().await?;
        let object = actors.simulation.get("a").await.unwrap_or_default();
        objects.push(json!({"essence": essence(&object), "results": results(&object), "finalizers": object["metadata"]["finalizers"]}));
    }
    actors.idle().await?;
    verdict(&check::at_rest(&actors.simulation.play().record, &actors.roles, Rigour::Strict))?;
    actors.farewell().await?;
    let play = actors.simulation.play();
    verdict(&check::in_the_end(&play.record, &actors.roles))
}

/// Returns the status without the parts that operators keep there.
fn results(object: &Value) -> Value {
    let mut status = object["status"].clone();
    if let Some(fields) = status.as_object_mut() {
        for kept in ["kopf", "progress", "handled"] {
            fields.remove(kept);
        }
    }
    status
}

/// Counts attempts by handler, reason and number. Skips resume and event handlers, because every start calls them, and waiting parents,
/// because they are called for their sub-handlers.
fn attempts(record: &Record) -> BTreeMap<String, usize> {
    let mut attempts = BTreeMap::new();
    let counts = |run: &&Run| {
        !["resume", "event"].contains(&run.role.on) && run.end != Some(End::Waiting) && !run.role.children
    };
    for run in record.lives.iter().flat_map(|life| &life.runs).filter(counts) {
        let name = format!("{} {} #{}", run.role.id, run.reason, run.retry);
        *attempts.entry(name).or_default() += 1;
    }
    attempts
}

impl Lived {
    fn differs_from(&self, plain: &Self) -> Option<String> {
        if self.objects != plain.objects {
            let (one, other) = (json!(self.objects), json!(plain.objects));
            return Some(format!("{one}, undisturbed: {other}"));
        }
        let (mut more, mut less) = (0, Vec::new());
        for (name, count) in &plain.attempts {
            let found = self.attempts.get(name).copied().unwrap_or_default();
            more += found.saturating_sub(*count);
            less.extend((found < *count).then_some(name));
        }
        let new = self.attempts.keys();
        let new: Vec<_> = new.filter(|name| !plain.attempts.contains_key(*name)).collect();
        if more <= 1 && less.is_empty() && new.is_empty() {
            return None;
        }
        let (one, other) = (&self.attempts, &plain.attempts);
        Some(format!("attempts {one:?}, undisturbed: {other:?}"))
    }
}
