//! One side of a scenario: an operator, its own namespace and kind, and what was seen.

use std::path::PathBuf;
use std::time::Duration;

use kopf_rs_tests::{Asked, RealServer, TestCluster};
use serde_json::{Value, json};

use super::kopf::Python;
use super::ours;
use super::scenario::{OBJECT, Scenario, Step};
use crate::operating::{TestOperator, Working, definition};

/// Whose operator it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Kopf,
    Ours,
}

pub(super) struct Side<'a> {
    who: Who,
    scenario: &'a Scenario,
    test: TestOperator,
    gates: PathBuf,
    /// The size of the server's log when the scenario began.
    began: u64,
    running: Option<Running>,
    /// Calls of operators that have ended.
    past: Vec<Value>,
}

enum Running {
    Kopf(Box<Python>),
    Ours(Working),
}

/// What a scenario has come to.
pub(super) struct Seen {
    pub(super) calls: Vec<Value>,
    /// `null` where the object is gone.
    pub(super) object: Value,
    pub(super) writes: usize,
}

impl<'a> Side<'a> {
    /// Play the scenario on a cluster: Kopf's side on one with an address.
    pub(super) async fn play(who: Who, scenario: &'a Scenario, cluster: TestCluster) -> Seen {
        let gates = std::env::temp_dir().join(format!("kopf-rs-gates-{}", cluster.namespace()));
        std::fs::create_dir_all(&gates).expect("temporary folders can be made");
        let began = cluster.real().map_or(0, RealServer::audit_size);
        let mut side = Self {
            who,
            began,
            scenario,
            test: TestOperator::bare(cluster),
            gates,
            running: None,
            past: Vec::new(),
        };
        side.serve().await;
        if !scenario
            .steps
            .iter()
            .any(|step| matches!(step, Step::Start))
        {
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

    /// Start the operator, and await that it watches.
    async fn start(&mut self) {
        let before = self.watches();
        let (test, scenario, gates) = (&self.test, self.scenario, self.gates.as_path());
        self.running = Some(match self.who {
            Who::Kopf => Running::Kopf(Box::new(Python::start(test, scenario, gates))),
            Who::Ours => Running::Ours(ours::start(test, scenario, gates)),
        });
        self.audited("it watches", || self.watches() > before).await;
    }

    /// How many watches of the kind operators have opened.
    fn watches(&self) -> usize {
        let group = format!("/{}/", self.test.group);
        let Some(real) = self.test.cluster.real() else {
            let asked = self.test.cluster.asked();
            let opened = |it: &&Asked| it.verb == "watch" && it.path.contains(&group);
            return asked.iter().filter(opened).count();
        };
        let entries = real.audit_since(self.began, &group);
        let opened = |entry: &&Value| {
            entry["verb"] == "watch" && entry["userAgent"] != TestCluster::USER_AGENT
        };
        entries.iter().filter(opened).count()
    }

    /// Await what the server's log shows, which is a moment late.
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

    /// End the operator, and keep what it has done.
    async fn stop(&mut self, gracefully: bool) {
        match self.running.take() {
            Some(Running::Kopf(mut python)) => {
                python.end(if gracefully { "TERM" } else { "KILL" }).await;
                self.past.extend(python.calls());
            }
            Some(Running::Ours(working)) if gracefully => {
                working.stop().await;
            }
            Some(Running::Ours(working)) => working.kill().await,
            None => {}
        }
    }

    fn calls(&self) -> Vec<Value> {
        let noted = match &self.running {
            Some(Running::Kopf(python)) => python.calls(),
            _ => Vec::new(),
        };
        let ours = self.test.calls.all();
        let ours = ours.iter().map(|call| {
            serde_json::from_str(call).unwrap_or_else(|error| panic!("{error} in {call}"))
        });
        self.past.iter().cloned().chain(noted).chain(ours).collect()
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Start => self.start().await,
            Step::Stop => self.stop(true).await,
            Step::Kill => self.stop(false).await,
            Step::Create(stanzas) => self.create(stanzas).await,
            Step::Patch(merge) => drop(self.test.patch(OBJECT, merge.clone()).await),
            Step::Status(status) => {
                let merge = json!({"status": status});
                self.test.patch(&format!("{OBJECT}/status"), merge).await;
            }
            Step::Delete => self.test.delete(OBJECT).await,
            Step::Calls(count) => self.until_calls(*count).await,
            Step::Handled => {
                let who = self.who;
                let done = move |object: &Value| who.has_handled(object);
                self.test.until("it is handled", OBJECT, done).await;
            }
            Step::Recorded(attempts) => {
                let who = self.who;
                let recorded = |object: &Value| {
                    let enough = |(id, count): (&String, &u64)| who.attempts(object, id) >= *count;
                    attempts.iter().all(enough)
                };
                self.test.until("it is on record", OBJECT, recorded).await;
            }
            Step::Has(part) => {
                let has = |object: &Value| contains(object, part);
                self.test
                    .until(&format!("it has {part}"), OBJECT, has)
                    .await;
            }
            Step::Gone => self.test.until_gone(OBJECT).await,
            Step::Release(gate) => {
                std::fs::write(self.gates.join(gate), "").expect("a gate can be opened");
            }
        }
    }

    async fn create(&self, stanzas: &Value) {
        let mut object = stanzas.clone();
        object["apiVersion"] = json!(format!("{}/v1", self.test.group));
        object["kind"] = json!("KopfExample");
        object["metadata"]["name"] = json!(OBJECT);
        self.test.cluster.create(&object).await;
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
        drop(std::fs::remove_dir_all(&self.gates));
        Seen {
            calls: self.calls(),
            object: object.unwrap_or_default(),
            writes,
        }
    }

    /// The writes made, counted once the log of a real server shows a request made after them.
    async fn writes(&self) -> usize {
        let Some(real) = self.test.cluster.real() else {
            return self.test.writes(OBJECT).await;
        };
        let marker = format!(
            "/api/v1/namespaces/{}/configmaps/end-of-scenario",
            self.test.cluster.namespace()
        );
        let answer = self.test.cluster.request("GET", &marker, None).await;
        assert!(answer.is_err(), "nobody makes {marker}");
        let shown = || !real.audit_since(self.began, &marker).is_empty();
        self.audited("the scenario has ended", shown).await;
        self.test.writes(OBJECT).await
    }
}

impl Who {
    /// The prefix of what the operator keeps on objects.
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

    /// What the operator has handled last, as the object says.
    pub(super) fn last_handled(self, object: &Value) -> Option<Value> {
        let key = format!("{}last-handled-configuration", self.prefix());
        let text = object["metadata"]["annotations"][key].as_str()?;
        serde_json::from_str(text).ok()
    }

    /// How many attempts of a handler the object remembers.
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

/// Whether `whole` has all of `part`; a `null` of `part` is absence.
pub(super) fn contains(whole: &Value, part: &Value) -> bool {
    match part {
        Value::Object(fields) if !whole.is_null() => {
            fields.iter().all(|(key, test)| contains(&whole[key], test))
        }
        other => whole == other,
    }
}
