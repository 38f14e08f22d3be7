//! Random histories of owners and their children, on the server in memory, in virtual time: specs change, strangers edit, delete and unmark children
//! and apply other values under the operator's own name, requests fail and their answers are lost, watches break and are late, operators die. In half
//! of the histories there are two instances, and the Lease goes from one to the other.
//!
//! At rest, every owner has just the children of its last spec, as that wants them, and none is left over.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use kopf_rs::{Context, HandlerResult, Operator, Registry, Settings, handler};
use kopf_rs_apiserver::{ApiServer, Entry, Fault, FaultHandle, Verb};
use kopf_rs_tests::{Lines, say};
use kube::Client;
use serde_json::{Value, json};

use crate::operating::{KIND, NAME, Working, definition};
use crate::owned::apply_as_operator;
use crate::random::dice::Dice;
use crate::random::{Failure, Seed, explore, in_virtual_time};

/// So many are played where nothing else is said.
const HISTORIES: u64 = 60;

const GROUP: &str = "children.kopf.dev";

/// The user agent of everybody but operators.
const USER: &str = "user";

const OWNERS: [&str; 3] = ["a", "b", "c"];

/// The kinds of children: plural and kind.
const KINDS: [(&str, &str); 2] = [("configmaps", "ConfigMap"), ("secrets", "Secret")];

/// Longer than any pause that an operator makes.
const STILL: Duration = Duration::from_secs(300);

/// What a history has come to.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    specs: usize,
    drifts: usize,
    applies: usize,
    takeovers: usize,
    troubles: usize,
    starts: usize,
    children: usize,
}

#[test]
fn children_are_what_the_last_call_wanted() {
    let total = Mutex::new(Tally::default());
    let count = explore(HISTORIES, play, |tally: Tally| {
        let mut total = total.lock().expect("no panics here");
        total.specs += tally.specs;
        total.drifts += tally.drifts;
        total.applies += tally.applies;
        total.takeovers += tally.takeovers;
        total.troubles += tally.troubles;
        total.starts += tally.starts;
        total.children += tally.children;
    });
    let Some(count) = count else { return };
    let Tally { specs, drifts, applies, takeovers, troubles, starts, children } =
        total.into_inner().expect("no panics here");
    say(&format!(
        "{count} histories of children: {specs} specs, {drifts} edits of children by others, {applies} applies under the operator's name, \
         {takeovers} takeovers, {troubles} troubles, {starts} starts; {children} children at rest, missing, wrong or left over: 0"
    ));
}

fn play(seed: Seed, lines: Option<&Lines>) -> Result<Tally, Failure> {
    let story = Mutex::new(Vec::new());
    let played = in_virtual_time(lines, async || {
        let mut history = History::new(seed, &story, lines);
        history.play().await?;
        Ok(history.tally)
    });
    played.map_err(|why| Failure { why, story: story.into_inner().expect("no panics here") })
}

struct History<'a> {
    dice: Dice,
    server: ApiServer,
    user: Client,
    steps: usize,
    /// How many instances there are.
    instances: usize,
    working: Vec<Working>,
    trouble: Option<FaultHandle>,
    /// The children that each owner wants: by kind and name, with their data.
    wanted: BTreeMap<&'static str, BTreeMap<(usize, String), String>>,
    tally: Tally,
    story: &'a Mutex<Vec<String>>,
    lines: Option<(&'a Lines, usize)>,
}

/// Wants what the spec lists.
async fn keep(context: Context) -> HandlerResult {
    let wanted: Vec<Value> = context.read("spec.children")?;
    context.children()?.set(&wanted).await?;
    Ok(())
}

impl<'a> History<'a> {
    fn new(seed: Seed, story: &'a Mutex<Vec<String>>, lines: Option<&'a Lines>) -> Self {
        let server = ApiServer::new();
        let mut dice = Dice::new(seed.number);
        let steps = 1 + dice.roll(seed.size * 5);
        let instances = 1 + dice.roll(2);
        Self {
            dice,
            user: Client::new(server.service(), "default"),
            server,
            steps,
            instances,
            working: Vec::new(),
            trouble: None,
            wanted: BTreeMap::new(),
            tally: Tally::default(),
            story,
            lines: lines.map(|lines| (lines, 0)),
        }
    }

    fn tell(&mut self, line: impl AsRef<str>) {
        let mut story = self.story.lock().expect("no panics here");
        if let Some((lines, told)) = &mut self.lines {
            let lines = lines.all();
            story.extend(lines[*told..].iter().map(|line| format!("    {line}")));
            *told = lines.len();
        }
        story.push(line.as_ref().to_owned());
    }

    async fn play(&mut self) -> Result<(), String> {
        let crd = definition(GROUP);
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.request("POST", path, Some(&crd)).await;
        self.start_all();
        for _ in 0..self.steps {
            self.time_passes().await;
            self.step().await;
        }
        self.trouble = None;
        self.tell("nothing goes wrong any more");
        tokio::time::sleep(STILL).await;
        self.check("at rest").await?;
        self.restart(true).await;
        tokio::time::sleep(STILL).await;
        self.check("after a restart").await?;
        for working in self.working.drain(..) {
            working.stop().await;
        }
        Ok(())
    }

    async fn time_passes(&mut self) {
        let millis = *self.dice.pick(&[0, 1, 30, 500, 3_000, 20_000]);
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    async fn step(&mut self) {
        self.trouble = None;
        match self.dice.roll(14) {
            0 => self.restart(true).await,
            1 => self.restart(false).await,
            2 | 3 => self.break_watches(),
            4 | 5 => self.refuse(),
            6..=8 => self.drift().await,
            9 => self.delete_owner().await,
            10 => self.apply_as_operator().await,
            11 => self.take_over().await,
            _ => self.want().await,
        }
    }

    // === the operator ===

    fn start(&mut self) {
        self.tally.starts += 1;
        self.tell("the operator starts");
        let keeping = handler("keep", keep).owns("configmaps").owns("secrets");
        let registry = Registry::new().reconcile((GROUP, "v1", KIND), keeping);
        let seed = u64::try_from(self.dice.roll(1 << 20)).expect("a small number");
        let operator = Operator::new(registry).name(NAME).seed(seed);
        let settings = Settings::with(|it| {
            it.scanning.disabled = true;
            it.lease.enabled = self.instances > 1;
            it.lease.namespace = Some("default".to_owned());
        });
        let operator = operator.settings(settings).namespaces(["default"]);
        let client = Client::new(self.server.service(), "default");
        self.working.push(Working::start_as(client, operator));
    }

    fn start_all(&mut self) {
        for _ in 0..self.instances {
            self.start();
        }
    }

    /// Somebody else takes the Lease: some instance is at work again when that one's time is over.
    async fn take_over(&mut self) {
        self.tally.takeovers += 1;
        self.tell("somebody takes the Lease");
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/default/leases/{NAME}");
        let somebody = json!({"spec": {"holderIdentity": "somebody"}});
        self.request("PATCH", &path, Some(&somebody)).await;
    }

    async fn restart(&mut self, is_kill: bool) {
        self.tell(if is_kill { "the operator is killed" } else { "the operator is stopped" });
        for working in std::mem::take(&mut self.working) {
            if is_kill {
                working.kill().await;
            } else {
                working.stop().await;
            }
        }
        if self.dice.one_in(2) {
            self.want().await;
            self.drift().await;
        }
        self.start_all();
    }

    // === troubles ===

    fn break_watches(&mut self) {
        let fault = match self.dice.roll(6) {
            0 => Fault::cut(),
            1 => Fault::reset(),
            2 => Fault::gone(),
            3 => Fault::stall(),
            4 => Fault::late(Duration::from_secs(2)),
            _ => {
                self.server.compact();
                Fault::gone()
            }
        };
        self.begin(fault.on(Verb::Watch));
    }

    fn refuse(&mut self) {
        let verb = *self.dice.pick(&[Verb::Patch, Verb::Patch, Verb::Delete, Verb::Get]);
        let fault = match self.dice.roll(6) {
            0 => Fault::answer(500),
            1 => Fault::answer(403),
            2 => Fault::drop_before(),
            3 => Fault::drop_after(),
            4 => Fault::answer_after_write(500),
            _ => Fault::delay(Duration::from_millis(1700)),
        };
        self.begin(fault.on(verb));
    }

    fn begin(&mut self, fault: Fault) {
        self.tally.troubles += 1;
        self.tell(format!("trouble: {fault:?}"));
        let (plural, _) = *self.dice.pick(&KINDS);
        let is_operators = |entry: &Entry| entry.user_agent.as_deref() != Some(USER);
        let fault = fault.plural(plural).when(is_operators);
        self.trouble = Some(self.server.fault(fault));
    }

    // === users ===

    async fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(|it| it.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", kind).header("user-agent", USER);
        let request = request.body(body).expect("a valid request");
        self.user.request::<Value>(request).await.ok()
    }

    /// Another spec of an owner, which is made where it is not there.
    async fn want(&mut self) {
        self.tally.specs += 1;
        let owner = *self.dice.pick(&OWNERS);
        let mut wanted = BTreeMap::new();
        for _ in 0..self.dice.roll(4) {
            let kind = self.dice.roll(KINDS.len());
            let name = format!("{owner}{}", self.dice.roll(3));
            wanted.insert((kind, name), self.dice.roll(3).to_string());
        }
        self.tell(format!("{owner} wants {wanted:?}"));
        let children: Vec<Value> =
            wanted.iter().map(|((kind, name), data)| child(*kind, name, data)).collect();
        let spec = json!({"spec": {"children": children}});
        if self.request("PATCH", &owner_path(owner), Some(&spec)).await.is_none() {
            let mut object = spec;
            object["apiVersion"] = json!(format!("{GROUP}/v1"));
            object["kind"] = json!("KopfExample");
            object["metadata"] = json!({"name": owner});
            let made = self.request("POST", &owners_path(), Some(&object)).await;
            made.expect("it is made");
        }
        self.wanted.insert(owner, wanted);
    }

    async fn delete_owner(&mut self) {
        let owner = *self.dice.pick(&OWNERS);
        self.tell(format!("{owner} is deleted"));
        self.request("DELETE", &owner_path(owner), None).await;
        self.wanted.remove(owner);
    }

    /// Somebody changes a child, or deletes it.
    async fn drift(&mut self) {
        self.tally.drifts += 1;
        let owner = *self.dice.pick(&OWNERS);
        let kind = self.dice.roll(KINDS.len());
        let number = self.dice.roll(3);
        let path = child_path(kind, &format!("{owner}{number}"));
        let metadata = |change: Value| json!({"metadata": change});
        let change = match self.dice.roll(7) {
            0 | 1 => None,
            2 => Some(metadata(json!({"labels": null}))),
            // Without both its owner and what is noted of it, it is nobody's child any more.
            3 if number > 0 => Some(metadata(json!({"ownerReferences": []}))),
            3 | 4 => Some(metadata(json!({"annotations": {"theirs": "x"}}))),
            5 if number == 0 => Some(metadata(json!({"managedFields": [{}]}))),
            _ => Some(json!({"data": {"a": "dGhlaXJz"}})),
        };
        self.tell(format!("somebody changes {path}: {change:?}"));
        let method = if change.is_some() { "PATCH" } else { "DELETE" };
        self.request(method, &path, change.as_ref()).await;
    }

    /// Somebody applies a child of an owner with other values, under the name of the operator.
    async fn apply_as_operator(&mut self) {
        let first = self.dice.roll(OWNERS.len() * KINDS.len() * 3);
        let value = encoded(&self.dice.roll(3).to_string());
        for number in 0..OWNERS.len() * KINDS.len() * 3 {
            let number = first + number;
            let owner = OWNERS[number % OWNERS.len()];
            let kind = number / OWNERS.len() % KINDS.len();
            let name = number / OWNERS.len() / KINDS.len() % 3;
            let path = child_path(kind, &format!("{owner}{name}"));
            let found = self.request("GET", &path, None).await;
            let Some(found) = found.filter(is_marked) else {
                continue;
            };
            self.tell(format!("somebody applies {path} as the operator: {value}"));
            self.tally.applies += 1;
            apply_as_operator(&self.user, &path, &found, &json!({"a": value})).await;
            return;
        }
    }

    // === what is right ===

    async fn check(&mut self, when: &str) -> Result<(), String> {
        let mut wrong = Vec::new();
        let mut there = BTreeMap::new();
        for (kind, (plural, _)) in KINDS.iter().enumerate() {
            let path = format!("/api/v1/namespaces/default/{plural}");
            let list = self.request("GET", &path, None).await.expect("a list");
            for object in list["items"].as_array().into_iter().flatten() {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                there.insert((kind, name.to_owned()), object.clone());
            }
        }
        for (owner, wanted) in &self.wanted {
            for ((kind, name), data) in wanted {
                let object = there.remove(&(*kind, name.clone()));
                let metadata = object.as_ref().map(|it| &it["metadata"]);
                let is_owned = metadata.is_some_and(|it| {
                    it["ownerReferences"][0]["name"] == **owner
                        && it["labels"]["tester.kopf.rs/owned"] == "true"
                });
                let is_right = object.as_ref().is_some_and(|it| it["data"]["a"] == encoded(data));
                if !is_owned || !is_right {
                    wrong.push(format!("{when}: {owner} wants {kind} {name} with {data}: {object:?}"));
                }
                self.tally.children += 1;
            }
        }
        let left = there
            .into_iter()
            .filter(|(_, object)| is_marked(object))
            .map(|((kind, name), object)| format!("{when}: {kind} {name} is left over: {object}"));
        wrong.extend(left);
        self.tell(format!("checked {when}"));
        crate::random::verdict(&wrong)
    }
}

/// Whether it has all that makes it a child: what others have taken a part of is theirs.
fn is_marked(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let mut entries = metadata["managedFields"].as_array().into_iter().flatten();
    entries.any(|it| it["manager"] == "tester.kopf.rs" && it["operation"] == "Apply")
        && metadata["ownerReferences"][0]["controller"] == true
        && metadata["labels"]["tester.kopf.rs/owned"] == "true"
        && metadata["annotations"]["tester.kopf.rs/set"] == "keep"
}

fn child(kind: usize, name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": KINDS[kind].1, "metadata": {"name": name}, "data": {"a": encoded(data)}})
}

/// As it stands in config maps and secrets alike: base64.
fn encoded(data: &str) -> &'static str {
    match data {
        "0" => "MA==",
        "1" => "MQ==",
        _ => "Mg==",
    }
}

fn owners_path() -> String {
    format!("/apis/{GROUP}/v1/namespaces/default/{KIND}")
}

fn owner_path(name: &str) -> String {
    format!("{}/{name}", owners_path())
}

fn child_path(kind: usize, name: &str) -> String {
    format!("/api/v1/namespaces/default/{}/{name}", KINDS[kind].0)
}
