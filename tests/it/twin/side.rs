//! One side of a scenario: an operator, its namespace and kind, and the record of its results.

use std::path::PathBuf;
use std::time::Duration;

use kopf_rs_tests::{Asked, RealServer, TestCluster, documents};
use serde_json::{Value, json};

use super::kopf::Python;
use super::ours::Ours;
use super::requests;
use super::scenario::{OBJECT, Scenario, Step};
use crate::operating::{TestOperator, definition};

/// The framework of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Kopf,
    Ours,
}

pub(super) struct Side<'a> {
    who: Who,
    scenario: &'a Scenario,
    test: TestOperator,
    place: Place,
    /// The object of the steps.
    object: String,
    /// The size of the server's log at the start of the scenario.
    began: u64,
    running: Option<Running>,
    /// The calls of operators that have ended.
    past: Vec<Value>,
    answers: Vec<String>,
}

/// The environment of an operator outside its cluster.
pub(super) struct Place {
    /// The folder of the files that release gates.
    pub(super) gates: PathBuf,
    /// The API server: its address, its certificate authorities, the administrator's token.
    pub(super) server: Value,
    port: u16,
}

enum Running {
    Kopf(Box<Python>),
    Ours(Ours),
}

/// The raw result of a scenario.
pub(super) struct Seen {
    pub(super) calls: Vec<Value>,
    /// `null` if the object is gone.
    pub(super) object: Value,
    pub(super) writes: usize,
    pub(super) answers: Vec<String>,
    /// The Events about the object, sorted by their texts.
    pub(super) events: Vec<Value>,
}

impl<'a> Side<'a> {
    /// Plays the scenario on a cluster; Kopf's side needs a cluster with an address.
    pub(super) async fn play(who: Who, scenario: &'a Scenario, cluster: TestCluster) -> Seen {
        let began = cluster.real().map_or(0, RealServer::audit_size);
        let mut side = Self {
            who,
            began,
            scenario,
            place: Place::of(&cluster),
            test: TestOperator::bare(cluster),
            object: OBJECT.to_owned(),
            running: None,
            past: Vec::new(),
            answers: Vec::new(),
        };
        side.serve().await;
        if !scenario.steps.iter().any(|step| matches!(step, Step::Start | Step::Fails)) {
            side.start().await;
        }
        for step in &scenario.steps {
            side.step(step).await;
        }
        side.end().await
    }

    async fn serve(&self) {
        let mut crd = definition(&self.test.group);
        if !self.scenario.status_subresource {
            crd["spec"]["versions"][0]["subresources"] = json!({});
        }
        if !self.scenario.open_status {
            let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            schema["properties"]["status"] =
                json!({"type": "object", "properties": {"known": {"type": "string"}}});
        }
        self.test.cluster.apply(&crd.to_string()).await;
    }

    /// Starts the operator, and waits until it watches.
    async fn start(&mut self) {
        let before = self.watches();
        self.running = Some(self.started());
        self.audited("it watches", || self.watches() > before).await;
    }

    fn started(&self) -> Running {
        let (test, scenario, place) = (&self.test, self.scenario, &self.place);
        match self.who {
            Who::Kopf => Running::Kopf(Box::new(Python::start(test, scenario, place))),
            Who::Ours => Running::Ours(Ours::start(test, scenario, place)),
        }
    }

    /// Starts the operator, and waits until it ends by itself.
    async fn fail(&mut self) {
        let code = match self.started() {
            Running::Kopf(mut python) => {
                let code = python.failed().await;
                self.past.extend(python.calls());
                code
            }
            Running::Ours(ours) => ours.failed().await,
        };
        self.answers.push(format!("exit {code}"));
    }

    /// Returns the number of watches of the kind that operators have opened.
    fn watches(&self) -> usize {
        let group = format!("/{}/", self.test.group);
        let Some(real) = self.test.cluster.real() else {
            let asked = self.test.cluster.asked();
            let opened = |it: &&Asked| it.verb == "watch" && it.path.contains(&group);
            return asked.iter().filter(opened).count();
        };
        let entries = real.audit_since(self.began, &group);
        let opened =
            |entry: &&Value| entry["verb"] == "watch" && entry["userAgent"] != TestCluster::USER_AGENT;
        entries.iter().filter(opened).count()
    }

    /// Waits for a condition on the server's log, which lags behind.
    async fn audited(&self, what: &str, condition: impl Fn() -> bool) {
        let mut pulse = tokio::time::interval(Duration::from_millis(100));
        for _ in 0..300 {
            pulse.tick().await;
            if condition() {
                return;
            }
        }
        panic!("the audit log does not show that {what}");
    }

    /// Ends the operator and keeps its calls.
    async fn stop(&mut self, gracefully: bool) {
        match self.running.take() {
            Some(Running::Kopf(mut python)) => {
                python.end(if gracefully { "TERM" } else { "KILL" }).await;
                self.past.extend(python.calls());
            }
            Some(Running::Ours(ours)) if gracefully => ours.stop().await,
            Some(Running::Ours(ours)) => ours.kill().await,
            None => {}
        }
    }

    fn calls(&self) -> Vec<Value> {
        let noted = match &self.running {
            Some(Running::Kopf(python)) => python.calls(),
            _ => Vec::new(),
        };
        let ours = self.test.calls.all();
        let ours = ours
            .iter()
            .map(|call| serde_json::from_str(call).unwrap_or_else(|error| panic!("{error} in {call}")));
        self.past.iter().cloned().chain(noted).chain(ours).collect()
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Start => self.start().await,
            Step::Stop => self.stop(true).await,
            Step::Kill => self.stop(false).await,
            Step::Fails => self.fail().await,
            Step::Release(gate) => {
                std::fs::write(self.place.gates.join(gate), "").expect("a gate can be opened");
            }
            Step::Wait(seconds) => tokio::time::sleep(Duration::from_secs_f64(*seconds)).await,
            Step::Of(name, step) => {
                let before = std::mem::replace(&mut self.object, name.clone());
                Box::pin(self.step(step)).await;
                self.object = before;
            }
            Step::Probe(path) => {
                let (code, text) = self.place.ask(path).await;
                // The texts of failures are specific to each framework.
                let results = serde_json::from_str::<Value>(&text).map(|it| it.to_string());
                let results = results.ok().filter(|_| code == 200).unwrap_or_default();
                self.answers.push(format!("{path} {code} {results}"));
            }
            of_the_object => self.change_or_await(of_the_object).await,
        }
    }

    async fn change_or_await(&self, step: &Step) {
        let (test, object, who) = (&self.test, self.object.as_str(), self.who);
        let until = async |what: &str, condition: &dyn Fn(&Value) -> bool| {
            drop(test.until(what, object, condition).await);
        };
        match step {
            Step::Create(stanzas) => self.create(stanzas).await,
            Step::Patch(merge) => drop(test.patch(object, merge.clone()).await),
            Step::Status(status) => {
                let merge = json!({"status": status});
                test.patch(&format!("{object}/status"), merge).await;
            }
            Step::Delete => test.delete(object).await,
            Step::Calls(count) => self.until_calls(*count).await,
            Step::Handled => until("it is handled", &|it| who.has_handled(it)).await,
            Step::Recorded(attempts) => {
                let recorded = |object: &Value| {
                    let enough = |(id, count): (&String, &u64)| who.attempts(object, id) >= *count;
                    attempts.iter().all(enough)
                };
                until("it is on record", &recorded).await;
            }
            Step::Has(part) => until(&format!("it has {part}"), &|it| contains(it, part)).await,
            Step::Written(ids) => {
                let written = |object: &Value| ids.iter().all(|id| !object["status"][id].is_null());
                until("it has the results", &written).await;
            }
            Step::Held => until("it is held", &|it| who.holds(it)).await,
            Step::Gone => test.until_gone(object).await,
            Step::Events(count) => self.until_events(*count).await,
            of_the_operator => unreachable!("{of_the_operator:?} is no step of an object"),
        }
    }

    async fn create(&self, stanzas: &Value) {
        let mut object = stanzas.clone();
        object["apiVersion"] = json!(format!("{}/v1", self.test.group));
        object["kind"] = json!("KopfExample");
        object["metadata"]["name"] = json!(self.object);
        self.test.cluster.create(&object).await;
    }

    async fn until_events(&self, count: usize) {
        let mut pulse = tokio::time::interval(Duration::from_millis(100));
        for _ in 0..300 {
            pulse.tick().await;
            if self.events().await.len() >= count {
                return;
            }
        }
        panic!("there are not {count} Events: {:?}", self.events().await);
    }

    async fn events(&self) -> Vec<Value> {
        let mut events = self.test.cluster.list("events").await;
        events.retain(|event| event["involvedObject"]["name"] == OBJECT);
        let text = |event: &Value| ["reason", "message"].map(|key| event[key].to_string());
        events.sort_by_key(text);
        events
    }

    async fn until_calls(&self, count: usize) {
        match &self.running {
            Some(Running::Kopf(python)) => python.until_calls(count - self.past.len()).await,
            _ => drop(self.test.calls.until(count).await),
        }
    }

    async fn end(mut self) -> Seen {
        self.stop(true).await;
        let object = self.test.cluster.get(&self.test.kind(), OBJECT).await;
        let writes = self.writes().await;
        drop(std::fs::remove_dir_all(&self.place.gates));
        Seen {
            calls: self.calls(),
            object: object.unwrap_or_default(),
            writes,
            events: self.events().await,
            answers: self.answers,
        }
    }

    /// Returns the number of writes. On a real server, waits until the log contains a later marker request.
    async fn writes(&self) -> usize {
        let Some(real) = self.test.cluster.real() else {
            return self.test.writes(OBJECT).await;
        };
        let marker =
            format!("/api/v1/namespaces/{}/configmaps/end-of-scenario", self.test.cluster.namespace());
        let answer = self.test.cluster.request("GET", &marker, None).await;
        assert!(answer.is_err(), "nobody makes {marker}");
        let shown = || !real.audit_since(self.began, &marker).is_empty();
        self.audited("the scenario has ended", shown).await;
        self.test.writes(OBJECT).await
    }
}

impl Place {
    fn of(cluster: &TestCluster) -> Self {
        let gates = std::env::temp_dir().join(format!("kopf-rs-gates-{}", cluster.namespace()));
        std::fs::create_dir_all(&gates).expect("temporary folders can be made");
        let kubeconfig = std::fs::read_to_string(cluster.kubeconfig()).expect("a kubeconfig");
        let [config]: [Value; 1] = documents(&kubeconfig).try_into().expect("one document");
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        Self {
            gates,
            server: json!({
                "server": cluster["server"], "ca_path": cluster["certificate-authority"], "token": user["token"],
            }),
            port: requests::free_port(),
        }
    }

    pub(super) fn liveness(&self) -> String {
        format!("http://127.0.0.1:{}/healthz", self.port)
    }

    async fn ask(&self, path: &str) -> (u16, String) {
        requests::get(self.port, path).await
    }
}

impl Who {
    /// Returns the prefix of the annotations that the operator keeps on objects.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Kopf => "kopf.zalando.org/",
            Self::Ours => "tester.kopf.rs/",
        }
    }

    pub(super) fn finalizer(self) -> &'static str {
        match self {
            Self::Kopf => "kopf.zalando.org/KopfFinalizerMarker",
            Self::Ours => "tester.kopf.rs/finalizer",
        }
    }

    fn holds(self, object: &Value) -> bool {
        let finalizers = object["metadata"]["finalizers"].as_array();
        finalizers.is_some_and(|all| all.iter().any(|it| it == self.finalizer()))
    }

    /// Returns the essence handled last, as stored on the object.
    pub(super) fn last_handled(self, object: &Value) -> Option<Value> {
        let key = format!("{}last-handled-configuration", self.prefix());
        let text = object["metadata"]["annotations"][key].as_str()?;
        serde_json::from_str(text).ok()
    }

    /// Returns the number of attempts of a handler that the object stores.
    fn attempts(self, object: &Value, id: &str) -> u64 {
        let key = format!("{}{id}", self.prefix());
        let text = object["metadata"]["annotations"][key].as_str();
        let record: Value = serde_json::from_str(text.unwrap_or("{}")).unwrap_or_default();
        record["retries"].as_u64().unwrap_or_default()
    }

    fn has_handled(self, object: &Value) -> bool {
        let Some(last) = self.last_handled(object) else {
            return false;
        };
        let kept = ["last-handled-configuration", "kopf-managed", "touch-dummy"];
        let annotations = object["metadata"]["annotations"].as_object();
        let unfinished = annotations
            .into_iter()
            .flatten()
            .filter_map(|(key, _)| key.strip_prefix(self.prefix()))
            .any(|name| !kept.contains(&name));
        !unfinished
            && last["spec"] == object["spec"]
            && last["metadata"]["labels"] == object["metadata"]["labels"]
    }
}

/// Returns whether `whole` contains all of `part`; a `null` in `part` means absence.
pub(super) fn contains(whole: &Value, part: &Value) -> bool {
    match part {
        Value::Object(fields) if !whole.is_null() => {
            fields.iter().all(|(key, test)| contains(&whole[key], test))
        }
        other => whole == other,
    }
}
