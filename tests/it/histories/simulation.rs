//! The simulation of a history: the in-memory server, the users, and all troubles.
//!
//! All requests of the operator pass through here. At each of them a user may change something, the answer may be
//! lost, or the operator may be killed. This module must not depend on the checks.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Either};
use kopf_rs_apiserver::{ApiBody, ApiServer};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::ServiceExt as _;

use super::keeping::Keeping;
use super::record::Record;
use crate::operating::{KIND, definition};
use crate::random::dice::Dice;
use crate::random::door::{Answer, read, refusal};

/// The API group of the kind in these histories.
pub(super) const GROUP: &str = "histories.kopf.dev";

/// More writes than any history needs; beyond it, the operator loops.
const ENDLESS: usize = 3000;

/// The troubles that may happen in a history.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may go wrong or not")]
pub(super) struct Trouble {
    /// Users change objects while requests are in flight.
    pub(super) meddling: bool,
    /// Requests are refused, answers are lost.
    pub(super) faults: bool,
    /// The operator is killed before and after requests, stopped and started.
    pub(super) deaths: bool,
    /// Watches are cut, hang, or start at a version that is too old.
    pub(super) cuts: bool,
    /// Handlers fail.
    pub(super) failures: bool,
    /// Objects are deleted and created again.
    pub(super) deletions: bool,
}

/// The simulation; clones share its state.
#[derive(Clone)]
pub(super) struct Simulation {
    pub(super) server: ApiServer,
    play: Arc<Mutex<Play>>,
    alarm: Arc<Notify>,
}

pub(super) struct Play {
    pub(super) dice: Dice,
    /// The base for the operators' seeds. It derives from the dice without a roll, so that one more start of the operator does not change
    /// later rolls.
    seed: u64,
    pub(super) record: Record,
    pub(super) trouble: Trouble,
    /// The number of troubles so far.
    pub(super) troubles: usize,
    pub(super) objects: Vec<String>,
    /// The number of requests of the operator.
    pub(super) requests: usize,
    /// The request at which to kill the operator, if it is not random.
    pub(super) doom: Option<Doom>,
    /// True if the current operator was killed, so that its requests have no effect.
    dead: bool,
}

/// The kill of an operator, before or after its nth request, counted from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doom {
    pub(super) request: usize,
    pub(super) after: bool,
}

/// The events around a request.
#[derive(Clone, Copy, Debug, Default)]
struct Around {
    latency: Duration,
    edit_before: bool,
    instead: Option<Instead>,
    edit_after: bool,
    loss: Option<Instead>,
}

/// The replacement of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instead {
    Code(u16),
    Drop,
    Death,
}

// === impl Simulation ===

impl Simulation {
    pub(super) fn new(dice: Dice, keeping: Keeping, trouble: Trouble) -> Self {
        let rolled = dice.clone().roll(1 << 31);
        let play = Play {
            dice,
            seed: u64::try_from(rolled).expect("a small number"),
            record: Record::new(keeping),
            trouble,
            troubles: 0,
            objects: Vec::new(),
            requests: 0,
            doom: None,
            dead: false,
        };
        Self { server: ApiServer::new(), play: Arc::new(Mutex::new(play)), alarm: Arc::default() }
    }

    pub(super) fn play(&self) -> MutexGuard<'_, Play> {
        self.play.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a client for the next start of the operator.
    pub(super) fn client(&self) -> kube::Client {
        let mut play = self.play();
        play.record.start += 1;
        play.dead = false;
        let door = Door { simulation: self.clone(), start: play.record.start };
        kube::Client::new(tower::service_fn(move |request| door.clone().pass(request)), "default")
    }

    /// Returns the seed for the random choices of the operator's next start.
    pub(super) fn seed(&self) -> u64 {
        let play = self.play();
        let start = u64::try_from(play.record.start).expect("few starts");
        play.seed.wrapping_add(start)
    }

    /// Waits until the operator is to be killed.
    pub(super) async fn death(&self) {
        self.alarm.notified().await;
    }

    /// Sends a request of a user.
    pub(super) async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", content);
        let request = request.body(Body::from(bytes)).expect("a valid request");
        let answer = self.server.service().oneshot(request).await;
        let answer = answer.expect("users are served").into_body();
        let bytes = answer.collect().await.expect("an answer").to_bytes();
        serde_json::from_slice(&bytes).expect("answers are JSON")
    }

    pub(super) async fn serve(&self) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let made = self.ask("POST", path, Some(&definition(GROUP))).await;
        assert_eq!(made["kind"], "CustomResourceDefinition", "{made}");
    }

    pub(super) async fn get(&self, name: &str) -> Option<Value> {
        let object = self.ask("GET", &path(name), None).await;
        (object["kind"] == "KopfExample").then_some(object)
    }

    pub(super) async fn create(&self, name: &str) {
        let (a, b) = {
            let dice = &mut self.play().dice;
            (dice.roll(3), dice.roll(3))
        };
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "KopfExample",
            "metadata": {"name": name}, "spec": {"a": a, "b": b},
        });
        let made = self.ask("POST", &path(""), Some(&object)).await;
        if made["kind"] == "KopfExample" {
            let record = &mut self.play().record;
            record.story.tell(format!("{name}: a user creates it: {}", object["spec"]));
            record.saw(&made);
        }
    }

    pub(super) async fn patch(&self, name: &str, merge: &Value) {
        let changed = self.ask("PATCH", &path(name), Some(merge)).await;
        if changed["kind"] == "KopfExample" {
            let record = &mut self.play().record;
            record.story.tell(format!("{name}: a user sets {merge}"));
            record.saw(&changed);
        }
    }

    pub(super) async fn delete(&self, name: &str) {
        self.play().record.story.tell(format!("{name}: a user deletes it"));
        self.ask("DELETE", &path(name), None).await;
        match self.get(name).await {
            Some(object) => self.play().record.saw(&object),
            None => self.play().gone(name),
        }
    }

    /// Changes a random object, as a user does.
    pub(super) async fn edit(&self) {
        let (name, merge) = self.play().change();
        self.patch(&name, &merge).await;
    }

    /// Marks the operator as dead and never returns, so that it can do nothing until it is killed.
    async fn never(&self) -> io::Error {
        self.play().dead = true;
        self.alarm.notify_one();
        std::future::pending().await
    }
}

// === impl Play ===

impl Play {
    fn change(&mut self) -> (String, Value) {
        let name = self.dice.pick(&self.objects).clone();
        let value = [json!(0), json!(1), json!(2), Value::Null][self.dice.roll(4)].clone();
        let merge = match self.dice.roll(12) {
            0..5 => json!({"spec": {"a": value}}),
            5..9 => json!({"spec": {"b": value}}),
            9 | 10 => {
                let tier = [json!("gold"), Value::Null][self.dice.roll(2)].clone();
                json!({"metadata": {"labels": {"tier": tier}}})
            }
            _ => {
                let note = [json!("read"), Value::Null][self.dice.roll(2)].clone();
                json!({"metadata": {"annotations": {"note": note}}})
            }
        };
        (name, merge)
    }

    /// Records that an object without a finalizer is gone.
    pub(super) fn gone(&mut self, name: &str) {
        let lives = self.record.lives.iter_mut();
        for life in lives.filter(|life| life.name == *name && life.deleted.is_none()) {
            life.deleted = Some(false);
        }
    }

    pub(super) fn calm(&mut self) {
        self.trouble = Trouble::default();
    }

    /// Rolls the events around this request.
    fn around(&mut self, asked: &Asked) -> Around {
        let Trouble { meddling, faults, deaths, .. } = self.trouble;
        let mut around = Around::default();
        self.requests += 1;
        match self.doom.filter(|doom| doom.request == self.requests) {
            Some(Doom { after: false, .. }) => around.instead = Some(Instead::Death),
            Some(Doom { after: true, .. }) => around.loss = Some(Instead::Death),
            None => {}
        }
        let dice = &mut self.dice;
        // Discovery and watches get fewer troubles: they are rare, and the same for all handlers.
        let rare = if asked.name.is_some() { 1 } else { 3 };
        if meddling {
            let late = [0, 0, 0, 1, 20, 400];
            around.latency = Duration::from_millis(*dice.pick(&late));
            around.edit_before = dice.one_in(8 * rare);
            around.edit_after = dice.one_in(8 * rare);
        }
        if faults && dice.one_in(8 * rare) {
            let kinds = [
                Instead::Code(500),
                Instead::Code(503),
                Instead::Code(429),
                Instead::Drop,
                Instead::Code(409),
            ];
            // Only writes can get a conflict.
            let kinds = &kinds[..if asked.writes { 5 } else { 4 }];
            around.instead = Some(*dice.pick(kinds));
        }
        if faults && dice.one_in(16 * rare) {
            around.loss = Some(*dice.pick(&[Instead::Code(504), Instead::Drop]));
        }
        if deaths && dice.one_in(20 * rare) {
            let before = dice.one_in(2);
            let which = if before { &mut around.instead } else { &mut around.loss };
            *which = Some(Instead::Death);
        }
        let troubles = [around.instead, around.loss];
        self.troubles += troubles.into_iter().flatten().count();
        around
    }
}

/// The entry point of an operator's requests.
#[derive(Clone)]
struct Door {
    simulation: Simulation,
    start: usize,
}

/// The relevant parts of a request.
struct Asked {
    words: String,
    /// The name of its object.
    name: Option<String>,
    writes: bool,
    /// True if it is not for a subresource.
    whole: bool,
}

// === impl Door ===

impl Door {
    async fn pass(self, request: Request<Body>) -> Result<Answer, io::Error> {
        let simulation = &self.simulation;
        let asked = Asked::of(&request);
        let Some(around) = self.is_alive().then(|| simulation.play().around(&asked)) else {
            return Err(std::future::pending().await);
        };
        if !around.latency.is_zero() {
            tokio::time::sleep(around.latency).await;
        }
        if around.edit_before {
            simulation.edit().await;
        }
        if let Some(instead) = around.instead {
            return self.instead(instead, &asked, "before").await;
        }
        let answer = simulation.server.service().oneshot(request).await;
        let answer = answer.map_err(io::Error::other)?;
        let answer = self.read(&asked, answer).await?;
        if around.edit_after {
            simulation.edit().await;
        }
        match around.loss {
            Some(instead) => self.instead(instead, &asked, "after").await,
            None => Ok(answer),
        }
    }

    fn is_alive(&self) -> bool {
        let play = self.simulation.play();
        !play.dead && play.record.start == self.start && play.record.writes <= ENDLESS
    }

    async fn instead(&self, instead: Instead, asked: &Asked, when: &str) -> Result<Answer, io::Error> {
        let words = &asked.words;
        let line = format!("   trouble {when} the operator's {words}: {instead:?}");
        self.simulation.play().record.story.tell(line);
        match instead {
            Instead::Drop => Err(io::ErrorKind::ConnectionReset.into()),
            Instead::Death => Err(self.simulation.never().await),
            Instead::Code(code) => Ok(refusal(code)),
        }
    }

    /// Records the object that a write returned.
    async fn read(&self, asked: &Asked, answer: Response<ApiBody>) -> Result<Answer, io::Error> {
        if !asked.writes {
            return Ok(answer.map(Either::Left));
        }
        let (answer, bytes) = read(answer).await?;
        let words = &asked.words;
        let record = &mut self.simulation.play().record;
        record.story.tell(format!("   the operator's {words}: {}", answer.status()));
        if answer.status().is_success() {
            let object = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
            record.wrote(&object, asked.whole);
        }
        Ok(answer)
    }
}

impl Asked {
    fn of(request: &Request<Body>) -> Self {
        let (method, path) = (request.method(), request.uri().path());
        let rest = path.split_once(&format!("/{KIND}/"));
        let name = rest.and_then(|(_, rest)| rest.split('/').next());
        let of = rest.map_or(path, |(_, rest)| rest);
        Self {
            words: format!("{method} {of}"),
            name: name.map(str::to_owned),
            writes: name.is_some() && method == "PATCH",
            whole: !of.contains('/'),
        }
    }
}

fn path(name: &str) -> String {
    let collection = format!("/apis/{GROUP}/v1/namespaces/default/{KIND}");
    match name {
        "" => collection,
        name => format!("{collection}/{name}"),
    }
}
