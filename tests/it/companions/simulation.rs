//! The in-memory server, the users, and the behaviour of daemons and timers: random at first, faultless once the trouble is over.
//!
//! This module must not depend on the checks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kopf_rs::{
    Callback, Cause, Context, HandlerError, HandlerResult, Index, Operator, PermanentError, Registry,
    Settings, TemporaryError, handler, indexer,
};
use kopf_rs_apiserver::ApiServer;
use kube::Client;
use serde_json::{Value, json};

use super::record::{End, Record, uid};
use super::roles::{LABEL, Role};
use crate::operating::{KIND, NAME, definition};
use crate::random::dice::Dice;

const GROUP: &str = "companions.kopf.dev";

/// The names of the objects.
pub(super) const OBJECTS: [&str; 3] = ["a", "b", "c"];

/// The simulation; clones share its state.
#[derive(Clone)]
pub(super) struct Simulation {
    pub(super) server: ApiServer,
    client: Client,
    state: Arc<Mutex<State>>,
}

pub(super) struct State {
    pub(super) dice: Dice,
    seed: u64,
    pub(super) record: Record,
    pub(super) roles: Vec<Role>,
    /// The trouble is over.
    pub(super) calm: bool,
    /// Calls may fail and take time.
    pub(super) failures: bool,
    pub(super) troubles: usize,
    /// The index of the current operator.
    pub(super) index: Option<Index<String, String>>,
}

/// The behaviour of a call.
#[derive(Clone, Copy, Debug)]
struct Act {
    /// The duration of the call, unless the operator stops it; `None` is unlimited.
    runs: Option<Duration>,
    /// The time that the call continues after the stop flag is set.
    lingers: Duration,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Done,
    Result(usize),
    Temporary(f64),
    Arbitrary,
    Permanent,
}

/// A running call; if it is dropped before its end, the operator cancelled it.
struct Running {
    simulation: Simulation,
    role: Role,
    place: usize,
    end: End,
}

impl Drop for Running {
    fn drop(&mut self) {
        let state = &mut self.simulation.state();
        state.record.ended(self.place, &self.role, self.end);
    }
}

// === impl Simulation ===

impl Simulation {
    pub(super) fn new(dice: Dice, record: Record, roles: Vec<Role>, failures: bool) -> Self {
        let rolled = dice.clone().roll(1 << 31);
        let server = ApiServer::new();
        let state = State {
            dice,
            seed: u64::try_from(rolled).expect("a small number"),
            record,
            roles,
            calm: false,
            failures,
            troubles: 0,
            index: None,
        };
        Self { client: Client::new(server.service(), "default"), server, state: Arc::new(Mutex::new(state)) }
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

    /// Returns the client and the operator for the next start.
    pub(super) fn operator(&self) -> (Client, Operator) {
        let (roles, seed) = {
            let state = &mut self.state();
            state.record.start += 1;
            let start = u64::try_from(state.record.start).expect("few starts");
            (state.roles.clone(), state.seed.wrapping_add(start))
        };
        let mut registry = Registry::new();
        for (place, role) in roles.iter().enumerate() {
            let callback = self.callback(place, role.clone());
            registry = role.add(registry, (GROUP, "v1", KIND), callback);
        }
        registry = registry.index((GROUP, "v1", KIND), self.indexer()).on_startup(self.index_keeper());
        let operator = Operator::new(registry).name(NAME).seed(seed);
        let settings = Settings::with(|it| it.scanning.disabled = true);
        let operator = operator.settings(settings).namespaces(["default"]);
        (Client::new(self.server.service(), "default"), operator)
    }

    // === users ===

    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", content);
        let request = request.header("user-agent", USER).body(bytes);
        let request = request.expect("a valid request");
        self.client.request::<Value>(request).await.ok()
    }

    pub(super) async fn serve(&self) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let made = self.ask("POST", path, Some(&definition(GROUP))).await;
        assert!(made.is_some(), "the kind is defined");
    }

    pub(super) async fn get(&self, name: &str) -> Option<Value> {
        self.ask("GET", &path(name), None).await
    }

    /// Creates the object if it does not exist.
    pub(super) async fn create(&self, name: &'static str) {
        self.look(name).await;
        let labels = [json!({}), json!({LABEL: "gold"})][self.roll(2)].clone();
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "KopfExample",
            "metadata": {"name": name, "labels": labels}, "spec": {"a": 0},
        });
        if let Some(made) = self.ask("POST", &path(""), Some(&object)).await {
            self.state().record.made(name, &made);
        }
    }

    pub(super) async fn patch(&self, name: &str, merge: &Value) {
        if let Some(changed) = self.ask("PATCH", &path(name), Some(merge)).await {
            let record = &mut self.state().record;
            record.story.tell(format!("{name} is changed: {merge}"));
            record.edited(&changed);
        }
    }

    pub(super) async fn delete(&self, name: &str) {
        self.tell(format!("{name} is deleted"));
        self.ask("DELETE", &path(name), None).await;
        self.look(name).await;
    }

    /// Looks up the current object of this name and updates the record.
    pub(super) async fn look(&self, name: &str) -> Option<Value> {
        let object = self.get(name).await;
        let record = &mut self.state().record;
        record.only(name, object.as_ref().map(uid));
        object
    }

    /// Changes an object at random, as a user does.
    pub(super) async fn edit(&self, name: &str) {
        let (kind, value) = (self.roll(5), self.roll(3));
        let merge = match kind {
            0 => json!({"spec": {"a": value}}),
            1 => json!({"metadata": {"annotations": {"note": value.to_string()}}}),
            2 | 3 => {
                let label = [Value::Null, json!("gold"), json!("iron")][value].clone();
                json!({"metadata": {"labels": {LABEL: label}}})
            }
            _ => {
                let merge = json!({"status": {"a": value}});
                let path = format!("{}/status", path(name));
                self.ask("PATCH", &path, Some(&merge)).await;
                return;
            }
        };
        self.patch(name, &merge).await;
    }

    // === the index ===

    /// Returns an index function that maps label and field of an object to its uid.
    fn indexer(&self) -> Callback {
        let simulation = self.clone();
        indexer(INDEX, move |cause: &Cause| {
            simulation.state().fails_to_index()?;
            let uid = cause.uid().to_owned();
            Ok::<_, HandlerError>(index_key(cause.body()).map(|key| (key, uid)))
        })
    }

    /// Returns a handler that keeps the index for the checks.
    fn index_keeper(&self) -> Callback {
        let simulation = self.clone();
        handler("keep", move |context: Context| {
            let index = context.index(INDEX).ok();
            simulation.state().index = index;
            async { Ok(()) }
        })
    }

    // === handlers ===

    fn callback(&self, place: usize, role: Role) -> Callback {
        let simulation = self.clone();
        handler(role.id, move |context: Context| {
            let (simulation, role) = (simulation.clone(), role.clone());
            async move { simulation.run(place, role, &context).await }
        })
    }

    async fn run(self, place: usize, role: Role, context: &Context) -> HandlerResult<Value> {
        let (mut running, act) = {
            let state = &mut self.state();
            let act = state.act(&role);
            let place = state.record.begun(place, &role, context.uid());
            let running = Running { simulation: self.clone(), role: role.clone(), place, end: End::CutOff };
            (running, act)
        };
        let stopped = context.stopped().expect("there is a flag").clone();
        if role.deaf && act.runs.is_none() {
            std::future::pending::<()>().await;
        }
        let told = match act.runs {
            None => {
                stopped.wait().await;
                true
            }
            Some(runs) if role.is_daemon => stopped.wait_for(runs).await,
            Some(runs) => {
                tokio::time::sleep(runs).await;
                stopped.is_set()
            }
        };
        if told {
            tokio::time::sleep(act.lingers).await;
        }
        let result = act.outcome.result();
        running.end = match (&result, told || stopped.is_set()) {
            (_, true) => End::Told,
            (Ok(_), false) => End::Done,
            (Err(kopf_rs::HandlerError::Permanent(_)), false) => End::Failed,
            (Err(_), false) if role.is_last(context.retry()) => End::Failed,
            (Err(_), false) => End::Again,
        };
        result
    }
}

/// The name of the index.
const INDEX: &str = "by_tier";

/// Returns the index key of the object, if it has one.
pub(super) fn index_key(object: &Value) -> Option<String> {
    let tier = object["metadata"]["labels"][LABEL].as_str()?;
    Some(format!("{tier}/{}", object["spec"]["a"]))
}

/// The user agent of the users' requests.
pub(super) const USER: &str = "user";

impl State {
    /// Lets an index function fail at random; the index then drops the object for a while, or keeps its former entry.
    fn fails_to_index(&mut self) -> Result<(), HandlerError> {
        if self.calm || !self.failures {
            return Ok(());
        }
        match self.dice.roll(12) {
            0 => Err(TemporaryError::new("as the dice fell").delay(2.0).into()),
            1 => Err("as the dice fell")?,
            _ => Ok(()),
        }
    }

    fn act(&mut self, role: &Role) -> Act {
        let mut act = Act {
            runs: (!role.is_daemon).then_some(Duration::ZERO),
            lingers: Duration::ZERO,
            outcome: Outcome::Done,
        };
        if self.calm || !self.failures {
            return act;
        }
        let millis = |from: &[u64], dice: &mut Dice| Duration::from_millis(*dice.pick(from));
        let dice = &mut self.dice;
        if role.is_daemon {
            act.lingers = millis(&[0, 0, 3, 1501, 7003], dice);
            if dice.one_in(3) {
                act.runs = Some(millis(&[0, 11, 1507, 40_009], dice));
            }
        } else {
            act.runs = Some(millis(&[0, 0, 13, 1511, 26_017], dice));
        }
        if act.runs.is_some() {
            act.outcome = match dice.roll(12) {
                0 => Outcome::Temporary(0.0),
                1 => Outcome::Temporary(2.0),
                2 => Outcome::Temporary(40.0),
                3 | 4 => Outcome::Arbitrary,
                5 => Outcome::Permanent,
                6 | 7 => Outcome::Result(dice.roll(3)),
                _ => Outcome::Done,
            };
        }
        act
    }
}

impl Outcome {
    fn result(self) -> HandlerResult<Value> {
        match self {
            Self::Done => Ok(Value::Null),
            Self::Result(number) => Ok(json!({"made": number})),
            Self::Temporary(delay) => Err(TemporaryError::new("as the dice fell").delay(delay).into()),
            Self::Arbitrary => Err("as the dice fell")?,
            Self::Permanent => Err(PermanentError::new("as the dice fell").into()),
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
