//! The state that the operator, its handlers and its users share in a history: the cluster, the dice, the record, and the troubles.
//!
//! All requests of the operator pass through here: they may be delayed or refused, or their answers may be lost. This
//! module must not depend on the checks.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Either;
use kopf_rs_apiserver::ApiBody;
use kube::client::Body;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::cluster::{Cluster, Name, OBJECTS, PLURAL, Presence};
use super::event::Event;
use super::record::Record;
use crate::random::dice::Dice;
use crate::random::door::{Answer, read, refusal};

/// The simulation; clones share its state.
#[derive(Clone)]
pub(super) struct Simulation {
    pub(super) cluster: Cluster,
    state: Arc<Mutex<State>>,
}

pub(super) struct State {
    pub(super) dice: Dice,
    /// The base for the operators' seeds. It derives from the dice without a roll, so that one more start of the operator does not change
    /// later rolls.
    seed: u64,
    pub(super) record: Record,
    /// The events that may happen now.
    pub(super) events: BTreeSet<Event>,
    /// True if discovery requests fail.
    pub(super) outage: bool,
    /// The number of edits by users.
    edits: u64,
    pub(super) troubles: usize,
}

// === impl Simulation ===

impl Simulation {
    pub(super) fn new(dice: Dice, record: Record, events: BTreeSet<Event>) -> Self {
        let rolled = dice.clone().roll(1 << 31);
        let state = State {
            dice,
            seed: u64::try_from(rolled).expect("a small number"),
            record,
            events,
            outage: false,
            edits: 0,
            troubles: 0,
        };
        Self { cluster: Cluster::new(), state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, line: impl AsRef<str>) {
        self.state().record.story.tell(line);
    }

    pub(super) fn roll(&self, sides: usize) -> usize {
        self.state().dice.roll(sides)
    }

    /// Returns a client for the next start of the operator, and the seed of its random choices.
    pub(super) fn client(&self) -> (kube::Client, u64) {
        let mut state = self.state();
        state.record.start += 1;
        state.record.stopped = None;
        let start = state.record.start;
        let requests = Requests { simulation: self.clone(), start };
        let number = u64::try_from(start).expect("few starts");
        let seed = state.seed.wrapping_add(number);
        let service = tower::service_fn(move |request| requests.clone().pass(request));
        (kube::Client::new(service, "default"), seed)
    }

    pub(super) async fn create(&self, name: Name) {
        let spec = {
            let state = &mut self.state();
            let number = state.next();
            json!({"n": number, "f": number})
        };
        let definition = self.cluster.definition().await;
        let made = self.cluster.create(name, &spec).await;
        if let (Some(made), Some(definition)) = (made, definition) {
            let record = &mut self.state().record;
            record.story.tell(format!("{name:?}: a user creates it: {spec}"));
            record.made(name, &made, &definition);
        }
    }

    /// Records an object for which a handler is called, because the call may come before the user's creation is recorded.
    pub(super) async fn meet(&self, object: &Value) {
        let metadata = &object["metadata"];
        let is_it = |name: &&Name| metadata["namespace"] == name.0 && metadata["name"] == name.1;
        let name = OBJECTS.iter().find(is_it);
        let is_new = {
            let uid = metadata["uid"].as_str().unwrap_or_default();
            self.state().record.life(uid).is_none()
        };
        if let Some(name) = name.filter(|_| is_new) {
            let definition = self.cluster.definition().await.unwrap_or_default();
            let record = &mut self.state().record;
            record.made(*name, object, &definition);
        }
    }

    /// Changes the object, as a user does.
    pub(super) async fn edit(&self, name: Name, field: bool) {
        let mut spec = json!({"n": self.state().next()});
        if field {
            spec["f"] = spec["n"].clone();
        }
        let changed = self.cluster.patch(name, &json!({"spec": spec})).await;
        if let Some(changed) = changed {
            let record = &mut self.state().record;
            record.story.tell(format!("{name:?}: a user sets {spec}"));
            record.saw(&changed);
        }
    }

    pub(super) async fn delete(&self, name: Name) {
        self.tell(format!("{name:?}: a user deletes it"));
        self.cluster.delete(name).await;
        self.look().await;
    }

    /// Looks up all objects that existed at the last look-up, and updates the record.
    pub(super) async fn look(&self) {
        let lives = self.state().record.lives.clone();
        for life in lives.iter().filter(|life| life.presence != Presence::Gone) {
            if let Some(object) = self.cluster.get(life.name).await {
                self.state().record.saw(&object);
            }
            self.presence(&life.uid).await;
        }
    }

    /// Returns whether the object exists.
    pub(super) async fn presence(&self, uid: &str) -> Presence {
        let life = self.state().record.life(uid).cloned();
        let Some(life) = life else {
            return Presence::Unknown;
        };
        let cluster = &self.cluster;
        let presence = cluster.presence(life.name, uid, &life.definition, life.presence);
        let presence = presence.await;
        if let Some(life) = self.state().record.life(uid).filter(|_| presence != Presence::Unknown) {
            life.presence = presence;
        }
        presence
    }
}

// === impl State ===

impl State {
    fn next(&mut self) -> u64 {
        self.edits += 1;
        self.edits
    }

    pub(super) fn may(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    /// Rolls the events around a request.
    fn around(&mut self, asked: &Asked) -> Around {
        let mut around = Around::default();
        let refusals = self.may(Event::Refusals);
        // Discovery and watches get fewer troubles: they are rare, and the same for all handlers.
        let rare = if asked.writes { 1 } else { 3 };
        let dice = &mut self.dice;
        if !self.events.is_empty() {
            around.latency = Duration::from_millis(*dice.pick(&[0, 0, 0, 1, 20, 400]));
        }
        if refusals && dice.one_in(8 * rare) {
            let kinds = [Instead::Code(500), Instead::Code(503), Instead::Code(429), Instead::Drop];
            around.instead = Some(*dice.pick(&kinds));
        }
        if refusals && dice.one_in(16 * rare) {
            around.loss = Some(*dice.pick(&[Instead::Code(504), Instead::Drop]));
        }
        if self.outage && asked.discovers {
            around.instead = Some(Instead::Code(503));
        }
        let troubles = [around.instead, around.loss];
        self.troubles += troubles.into_iter().flatten().count();
        around
    }
}

/// The events around a request.
#[derive(Clone, Copy, Debug, Default)]
struct Around {
    latency: Duration,
    instead: Option<Instead>,
    loss: Option<Instead>,
}

/// The replacement of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instead {
    Code(u16),
    Drop,
}

/// The entry point for the requests of one start of the operator.
#[derive(Clone)]
struct Requests {
    simulation: Simulation,
    start: usize,
}

/// The relevant parts of a request.
struct Asked {
    words: String,
    writes: bool,
    /// True if it is not for a subresource.
    whole: bool,
    discovers: bool,
}

// === impl Requests ===

impl Requests {
    async fn pass(self, request: Request<Body>) -> Result<Answer, io::Error> {
        let simulation = &self.simulation;
        let asked = Asked::of(&request);
        if simulation.state().record.start != self.start {
            return Err(std::future::pending().await);
        }
        let around = simulation.state().around(&asked);
        if !around.latency.is_zero() {
            tokio::time::sleep(around.latency).await;
        }
        if let Some(instead) = around.instead {
            return self.instead(instead, &asked, "before");
        }
        let answer = simulation.cluster.server.service().oneshot(request).await;
        let answer = self.read(&asked, answer.map_err(io::Error::other)?).await?;
        match around.loss {
            Some(instead) => self.instead(instead, &asked, "after"),
            None => Ok(answer),
        }
    }

    fn instead(&self, instead: Instead, asked: &Asked, when: &str) -> Result<Answer, io::Error> {
        let words = &asked.words;
        let line = format!("   trouble {when} the operator's {words}: {instead:?}");
        self.simulation.tell(line);
        match instead {
            Instead::Code(code) => Ok(refusal(code)),
            Instead::Drop => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    /// Records the object that a write returned.
    async fn read(&self, asked: &Asked, answer: Response<ApiBody>) -> Result<Answer, io::Error> {
        if !asked.writes {
            return Ok(answer.map(Either::Left));
        }
        let (answer, bytes) = read(answer).await?;
        let words = &asked.words;
        self.simulation.tell(format!("   the operator's {words}: {}", answer.status()));
        if answer.status().is_success() {
            let object: Value = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
            let record = &mut self.simulation.state().record;
            record.wrote(&object, asked.whole);
        }
        Ok(answer)
    }
}

impl Asked {
    fn of(request: &Request<Body>) -> Self {
        let (method, path) = (request.method(), request.uri().path());
        let object = path.split_once(&format!("/{PLURAL}/"));
        Self {
            words: format!("{method} {path}"),
            writes: object.is_some() && method == "PATCH",
            whole: object.is_some_and(|(_, rest)| !rest.contains('/')),
            discovers: match path.split('/').nth(1) {
                Some("api") => path.matches('/').count() <= 2,
                _ => path.matches('/').count() <= 3,
            },
        }
    }
}
