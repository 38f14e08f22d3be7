//! A cluster of a test: the API server in memory, what a test does to it, and what it awaits of it.
//!
//! Everything unexpected panics: it fails the test. Must not know how an operator works.

use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kopf_rs_apiserver::{ApiServer, Entry, Fault, FaultHandle};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::cluster::Client;
use crate::operator::run::Operator;
use crate::testing::asking::{self, USER_AGENT};
use crate::testing::calls::Calls;
use crate::testing::capture::lines_of_this_test;
use crate::testing::kinds::{Served, listed, roots};
use crate::testing::kubeconfig::Kubeconfig;
use crate::testing::lines::Lines;
use crate::testing::operator::TestOperator;
use crate::testing::until::{Awaited, until};

/// For so long a test waits for something, unless it says otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// An API server of this test alone, in memory, with what a test does to a cluster and what it awaits of it. Clones are the same cluster.
///
/// Objects are JSON. A resource is named by its plural or its kind, with or without its group (`pods`, `MyApp`, `myapps.example.com`), or by
/// the path of a collection. Objects that name no namespace are in `default`, unless [`TestCluster::in_namespace`] chose another one.
///
/// What is not as a test takes for granted, such as an object that the server refuses, panics and so fails the test.
#[derive(Clone, Debug)]
pub struct TestCluster {
    shared: Arc<Shared>,
    namespace: String,
    lines: Lines,
}

#[derive(Debug)]
struct Shared {
    server: ApiServer,
    known: Mutex<Vec<Served>>,
    kubeconfig: OnceCell<Kubeconfig>,
}

impl TestCluster {
    /// An empty cluster. Log lines of the test are kept from now on.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "it needs a runtime, and begins to keep log lines"
    )]
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                server: ApiServer::new(),
                known: Mutex::default(),
                kubeconfig: OnceCell::new(),
            }),
            namespace: "default".to_owned(),
            lines: lines_of_this_test(PATIENCE),
        }
    }

    /// A cluster with these objects: definitions of custom resources, most of all.
    ///
    /// # Panics
    /// Where the text is not YAML or JSON, or the server refuses an object.
    pub async fn with(objects: &str) -> Self {
        let cluster = Self::new();
        cluster.apply(objects).await;
        cluster
    }

    /// The same cluster, for objects in another namespace, which is made where it is not there.
    ///
    /// # Panics
    /// Where the server refuses the name.
    pub async fn in_namespace(&self, namespace: &str) -> Self {
        let object = json!({"metadata": {"name": namespace}});
        let made = asking::ask(
            &self.shared.server,
            "POST",
            "/api/v1/namespaces",
            Some(&object),
        );
        match made.await {
            Err(refused) if refused.code != 409 => panic!("namespace {namespace}: {refused}"),
            _ => Self {
                namespace: namespace.to_owned(),
                ..self.clone()
            },
        }
    }

    /// The same cluster, in which conditions and lines are awaited for so much real time. Default: 30 seconds. Under paused time, a wait
    /// ends after an hour of that time, too.
    #[must_use]
    pub fn patience(&self, patience: Duration) -> Self {
        Self {
            lines: self.lines.with_patience(patience),
            ..self.clone()
        }
    }

    /// A client of an administrator, for handlers, and for requests that have no method here.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.shared.server.service(), self.namespace.clone())
    }

    /// The server itself: its clock, its history, its users, and what becomes of Deployments and Pods.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.shared.server
    }

    /// Let requests of operators and clients fail until the handle is dropped: refusals, conflicts, lost answers, watches that are cut or fall
    /// silent. What the test itself does to the cluster goes on.
    pub fn fault(&self, fault: Fault) -> FaultHandle {
        self.shared.server.fault(fault)
    }

    /// What was logged by this test, its operators included, in the shape of `--verbose` but for the times.
    #[must_use]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The first line, logged already or still to come, that contains `text`.
    ///
    /// # Panics
    /// At the deadline, with all lines.
    pub async fn line(&self, text: &str) -> String {
        let what = format!("contains {text:?}");
        self.lines.until(&what, |line| line.contains(text)).await
    }

    /// What handlers of this test note, to be awaited and counted.
    #[must_use]
    pub fn calls(&self) -> Calls {
        Calls::new(&self.lines)
    }

    /// Start an operator as a task of this runtime: `cluster.start(Registry::collected()?)`, or one with a name, settings and more.
    ///
    /// Dropping the result kills it. A registry becomes an operator of the whole cluster.
    #[must_use = "dropping it kills the operator"]
    pub fn start(&self, operator: impl Into<Operator>) -> TestOperator {
        TestOperator::start(self.client(), operator.into(), self.lines.clone())
    }

    /// Create or merge every object of a YAML or JSON text, and return them as stored. What is defined is served when this returns.
    ///
    /// # Panics
    /// Where the text is not YAML or JSON, or the server refuses an object.
    pub async fn apply(&self, text: &str) -> Vec<Value> {
        let parsed = serde_saphyr::from_multiple::<Value>(text);
        let documents = parsed.unwrap_or_else(|error| panic!("not YAML: {error}\n{text}"));
        let mut stored = Vec::new();
        for object in documents.into_iter().filter(|it| !it.is_null()) {
            stored.push(self.apply_one(object).await);
        }
        stored
    }

    async fn apply_one(&self, object: Value) -> Value {
        let is_definition = object["kind"] == "CustomResourceDefinition";
        let (path, object) = self.placed(object).await;
        let stored = match self.ask("POST", &path, Some(&object)).await {
            Err(refused) if refused.code == 409 => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{path}/{name}");
                self.must("PATCH", &path, Some(&object)).await
            }
            Err(refused) => panic!("POST {path}: {refused}\n{object:#}"),
            Ok(stored) => stored,
        };
        if !is_definition {
            return stored;
        }
        let name = stored["metadata"]["name"].as_str().unwrap_or_default();
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let is_established =
            |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        let conditions = |crd: &Value| crd["status"]["conditions"].as_array().cloned();
        self.until(definitions, name, |crd| {
            conditions(crd).is_some_and(|all| all.iter().any(is_established))
        })
        .await
    }

    /// Create an object.
    ///
    /// # Panics
    /// Where the server refuses it.
    pub async fn create(&self, object: Value) -> Value {
        let (path, object) = self.placed(object).await;
        self.must("POST", &path, Some(&object)).await
    }

    /// An object, if it is there.
    ///
    /// # Panics
    /// Where there is no such resource.
    pub async fn get(&self, resource: &str, name: &str) -> Option<Value> {
        let path = self.path(resource, name).await;
        match self.ask("GET", &path, None).await {
            Ok(object) => Some(object),
            Err(refused) if refused.code == 404 => None,
            Err(refused) => panic!("GET {path}: {refused}"),
        }
    }

    /// All objects of a kind, in this namespace if the kind has them.
    ///
    /// # Panics
    /// Where there is no such resource.
    pub async fn list(&self, resource: &str) -> Vec<Value> {
        let path = self.collection(resource).await;
        let mut list = self.must("GET", &path, None).await;
        match list["items"].take() {
            Value::Array(items) => items,
            other => panic!("GET {path}: items are {other}"),
        }
    }

    /// Merge into an object; `name` may end in a subresource (`example-app/status`).
    ///
    /// # Panics
    /// Where the server refuses it.
    pub async fn patch(&self, resource: &str, name: &str, merge: Value) -> Value {
        let path = self.path(resource, name).await;
        self.must("PATCH", &path, Some(&merge)).await
    }

    /// Ask for the deletion of an object; finalizers may keep it: see [`TestCluster::until_gone`].
    ///
    /// # Panics
    /// Where the server refuses it.
    pub async fn delete(&self, resource: &str, name: &str) {
        let path = self.path(resource, name).await;
        self.must("DELETE", &path, None).await;
    }

    /// Wait until an object is as it should be, and return it: `cluster.until("myapps", "x", |app| app["status"]["pod"] == "x-pod")`.
    ///
    /// The condition sees each state that a watch shows, and `null` as long as there is no such object.
    ///
    /// # Panics
    /// At the deadline, with the object's last state and all log lines.
    #[track_caller]
    pub fn until(
        &self,
        resource: &str,
        name: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> impl Future<Output = Value> {
        let asked_at = Location::caller();
        async move {
            let collection = self.collection(resource).await;
            let awaited = Awaited {
                collection: &collection,
                name,
                asked_at,
                lines: &self.lines,
            };
            until(&self.shared.server, &awaited, condition).await
        }
    }

    /// Wait until an object is gone.
    ///
    /// # Panics
    /// At the deadline, with the object's last state and all log lines.
    #[track_caller]
    pub fn until_gone(&self, resource: &str, name: &str) -> impl Future<Output = ()> {
        let gone = self.until(resource, name, Value::is_null);
        async move {
            gone.await;
        }
    }

    /// All answered requests but those that the test has made through this cluster, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Entry> {
        let mut entries = self.shared.server.journal().entries();
        entries.retain(|entry| entry.user_agent.as_deref() != Some(USER_AGENT));
        entries
    }

    /// What was asked of an object by requests that change it, the test's own left out.
    pub async fn writes_to(&self, resource: &str, name: &str) -> Vec<Entry> {
        let path = self.path(resource, name).await;
        let mut requests = self.requests();
        requests.retain(|entry| {
            let rest = entry.path.strip_prefix(&path);
            let is_within = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            is_within && entry.method != "GET"
        });
        requests
    }

    /// A command for [`Program::start`](crate::testing::Program::start) that finds this cluster as kubectl would: over TLS, by a file that
    /// `KUBECONFIG` names. Such a test needs real time.
    ///
    /// # Panics
    /// Where no port can be listened on.
    pub async fn command(&self, program: &str) -> std::process::Command {
        let kubeconfig = &self.shared.kubeconfig;
        let kubeconfig = kubeconfig.get_or_init(|| Kubeconfig::of(&self.shared.server));
        let mut command = std::process::Command::new(program);
        command.env("KUBECONFIG", kubeconfig.await.path());
        command
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, asking::Refused> {
        asking::ask(&self.shared.server, method, path, body).await
    }

    async fn must(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        asking::must(&self.shared.server, method, path, body).await
    }

    /// The collection path of an object, and the object with its namespace filled in.
    async fn placed(&self, mut object: Value) -> (String, Value) {
        let kind = object["kind"].to_string();
        let served = self.lookup(&kind, |it| it.is_of(&object)).await;
        if served.is_namespaced() && object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = json!(self.namespace);
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        (served.collection(namespace), object)
    }

    async fn path(&self, resource: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(resource).await)
    }

    async fn collection(&self, resource: &str) -> String {
        if resource.starts_with('/') {
            return resource.to_owned();
        }
        let served = self.lookup(resource, |it| it.is_meant_by(resource)).await;
        served.collection(&self.namespace)
    }

    /// A known resource, else one of what the server serves now.
    async fn lookup(&self, word: &str, is_meant: impl Fn(&Served) -> bool) -> Served {
        let found = self.known().iter().find(|it| is_meant(it)).cloned();
        if let Some(served) = found {
            return served;
        }
        let served = self.discover().await;
        let found = served.iter().find(|it| is_meant(it)).cloned();
        *self.known() = served;
        found.unwrap_or_else(|| {
            panic!(
                "the cluster serves no {word}: is its definition applied, and the apiVersion right?"
            )
        })
    }

    fn known(&self) -> MutexGuard<'_, Vec<Served>> {
        let known = self.shared.known.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }

    /// Core resources first, so that a bare `events` means those.
    async fn discover(&self) -> Vec<Served> {
        let groups = self.must("GET", "/apis", None).await;
        let mut served = Vec::new();
        for root in roots(&groups) {
            // A group may go away between the two requests, with its last definition.
            if let Ok(list) = self.ask("GET", &root, None).await {
                served.extend(listed(&root, &list));
            }
        }
        served
    }
}
