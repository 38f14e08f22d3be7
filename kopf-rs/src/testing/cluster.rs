//! The cluster of a test: an in-memory API server, with methods that change and await its state.
//!
//! All unexpected results panic, so that the test fails. This module does not depend on the internals of an operator.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use kopf_rs_apiserver::{ApiServer, Entry, Fault, FaultHandle};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::cli::yaml;
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

/// The default real-time limit of a wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// An in-memory API server for this test alone, with methods that change and await its state. Clones are the same
/// cluster.
///
/// Objects are JSON. Name a resource by its plural or its kind, with or without its group (`pods`, `MyApp`,
/// `myapps.example.com`), or by the path of a collection. Objects without a namespace are in `default`, unless
/// [`TestCluster::in_namespace`] selects another one.
///
/// Unexpected results, such as an object that the server rejects, panic and thereby fail the test.
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
    /// Creates an empty cluster, and starts to capture the test's log lines.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it needs a runtime, and begins to keep log lines")]
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

    /// Creates a cluster with these objects, such as CRDs.
    ///
    /// # Panics
    /// Panics if the text is neither YAML nor JSON, or if the server rejects an object.
    pub async fn with(objects: &str) -> Self {
        let cluster = Self::new();
        cluster.apply(objects).await;
        cluster
    }

    /// Returns the same cluster with another default namespace, which is created if it does not exist.
    ///
    /// # Panics
    /// Panics if the server rejects the name.
    pub async fn in_namespace(&self, namespace: &str) -> Self {
        let object = json!({"metadata": {"name": namespace}});
        let made = asking::ask(&self.shared.server, "POST", "/api/v1/namespaces", Some(&object));
        match made.await {
            Err(refused) if refused.code != 409 => panic!("namespace {namespace}: {refused}"),
            _ => Self { namespace: namespace.to_owned(), ..self.clone() },
        }
    }

    /// Returns the same cluster with another real-time limit for waits. Default: 30 seconds. Under paused time, a
    /// wait also ends after an hour of virtual time.
    #[must_use]
    pub fn patience(&self, patience: Duration) -> Self {
        Self { lines: self.lines.with_patience(patience), ..self.clone() }
    }

    /// Returns an administrator's client, for handlers, and for requests that have no method here.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.shared.server.service(), self.namespace.clone())
    }

    /// Returns the server, for access to its clock, its history, its users, and its simulation of Deployments and
    /// Pods.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.shared.server
    }

    /// Makes requests of operators and clients fail until the handle is dropped: rejections, conflicts, lost
    /// responses, and watches that break or stall. Requests of the test itself are not affected.
    pub fn fault(&self, fault: Fault) -> FaultHandle {
        self.shared.server.fault(fault)
    }

    /// Returns the log lines of this test and its operators, in the format of `--verbose` without timestamps.
    #[must_use]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Returns the first line that contains `text`; waits for it if necessary.
    ///
    /// # Panics
    /// Panics at the deadline, showing all lines.
    pub async fn line(&self, text: &str) -> String {
        let what = format!("contains {text:?}");
        self.lines.until(&what, |line| line.contains(text)).await
    }

    /// Creates a list in which handlers of this test record their calls, to await and count them.
    #[must_use]
    pub fn calls(&self) -> Calls {
        Calls::new(&self.lines)
    }

    /// Starts an operator as a task of this runtime: `cluster.start(Registry::collected()?)`, or an operator with a
    /// name, settings and more.
    ///
    /// A registry is run as an operator of the whole cluster. Admission webhooks and conversions are served on this machine, unless the
    /// settings name another server. Dropping the result kills the operator.
    #[must_use = "dropping it kills the operator"]
    pub fn start(&self, operator: impl Into<Operator>) -> TestOperator {
        let operator: Operator = operator.into();
        // The start reports what is wrong with an operator that cannot be prepared.
        let prepared = operator.clone().asked_on_this_machine().unwrap_or(operator);
        TestOperator::start(self.client(), prepared, self.lines.clone())
    }

    /// Creates or merges every object of a YAML or JSON text, and returns them as stored. The kinds of new CRDs are
    /// already served when this returns.
    ///
    /// # Panics
    /// Panics if the text is neither YAML nor JSON, or if the server rejects an object.
    pub async fn apply(&self, text: &str) -> Vec<Value> {
        let documents = yaml::parse(text).unwrap_or_else(|error| panic!("not YAML: {error}\n{text}"));
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
        self.until(definitions, name, |crd| conditions(crd).is_some_and(|all| all.iter().any(is_established)))
            .await
    }

    /// Creates an object.
    ///
    /// # Panics
    /// Panics if the server rejects it.
    pub async fn create(&self, object: Value) -> Value {
        let (path, object) = self.placed(object).await;
        self.must("POST", &path, Some(&object)).await
    }

    /// Returns an object; `None` if it does not exist.
    ///
    /// # Panics
    /// Panics if the resource does not exist.
    pub async fn get(&self, resource: &str, name: &str) -> Option<Value> {
        let path = self.path(resource, name).await;
        match self.ask("GET", &path, None).await {
            Ok(object) => Some(object),
            Err(refused) if refused.code == 404 => None,
            Err(refused) => panic!("GET {path}: {refused}"),
        }
    }

    /// Returns all objects of a kind, for a namespaced kind those in this namespace.
    ///
    /// # Panics
    /// Panics if the resource does not exist.
    pub async fn list(&self, resource: &str) -> Vec<Value> {
        let path = self.collection(resource).await;
        let mut list = self.must("GET", &path, None).await;
        match list["items"].take() {
            Value::Array(items) => items,
            other => panic!("GET {path}: items are {other}"),
        }
    }

    /// Merge-patches an object. `name` may end in a subresource (`example-app/status`).
    ///
    /// # Panics
    /// Panics if the server rejects it.
    pub async fn patch(&self, resource: &str, name: &str, merge: Value) -> Value {
        let path = self.path(resource, name).await;
        self.must("PATCH", &path, Some(&merge)).await
    }

    /// Requests the deletion of an object. Finalizers may delay it; see [`TestCluster::until_gone`].
    ///
    /// # Panics
    /// Panics if the server rejects it.
    pub async fn delete(&self, resource: &str, name: &str) {
        let path = self.path(resource, name).await;
        self.must("DELETE", &path, None).await;
    }

    /// Waits until an object meets the condition, and returns it:
    /// `cluster.until("myapps", "x", |app| app["status"]["pod"] == "x-pod")`.
    ///
    /// The condition is evaluated for each state that a watch shows, and for `null` while the object does not exist.
    ///
    /// # Panics
    /// Panics at the deadline, showing the object's last state and all log lines.
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
            let awaited = Awaited { collection: &collection, name, asked_at, lines: &self.lines };
            until(&self.shared.server, &awaited, condition).await
        }
    }

    /// Waits until an object no longer exists.
    ///
    /// # Panics
    /// Panics at the deadline, showing the object's last state and all log lines.
    #[track_caller]
    pub fn until_gone(&self, resource: &str, name: &str) -> impl Future<Output = ()> {
        let gone = self.until(resource, name, Value::is_null);
        async move {
            gone.await;
        }
    }

    /// Returns all answered requests, oldest first, except those that the test made through this cluster.
    #[must_use]
    pub fn requests(&self) -> Vec<Entry> {
        let mut entries = self.shared.server.journal().entries();
        entries.retain(|entry| entry.user_agent.as_deref() != Some(USER_AGENT));
        entries
    }

    /// Returns the mutating requests to an object, except the test's own.
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

    /// Returns a command for [`Program::start`](crate::testing::Program::start) with a kubeconfig for this cluster,
    /// served over TLS, in the variable `KUBECONFIG`. The test needs real time.
    ///
    /// # Panics
    /// Panics if no port is available.
    pub async fn command(&self, program: &str) -> std::process::Command {
        let kubeconfig = &self.shared.kubeconfig;
        let kubeconfig = kubeconfig.get_or_init(|| Kubeconfig::of(&self.shared.server));
        let mut command = std::process::Command::new(program);
        command.env("KUBECONFIG", kubeconfig.await.path());
        command
    }

    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, asking::Refused> {
        asking::ask(&self.shared.server, method, path, body).await
    }

    async fn must(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        asking::must(&self.shared.server, method, path, body).await
    }

    /// Returns the collection path of an object, and the object with its namespace filled in.
    async fn placed(&self, mut object: Value) -> (String, Value) {
        let kind = object["kind"].to_string();
        let served = self.lookup(&kind, |it| it.is_of(&object)).await;
        if served.namespaced && object["metadata"]["namespace"].is_null() {
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

    /// Returns a resource from the cache, or from the server's current discovery.
    async fn lookup(&self, word: &str, is_meant: impl Fn(&Served) -> bool) -> Served {
        let found = self.shared.known.lock().iter().find(|it| is_meant(it)).cloned();
        if let Some(served) = found {
            return served;
        }
        let served = self.discover().await;
        let found = served.iter().find(|it| is_meant(it)).cloned();
        *self.shared.known.lock() = served;
        found.unwrap_or_else(|| {
            panic!("the cluster serves no {word}: is its definition applied, and is the apiVersion correct?")
        })
    }

    /// Lists core resources first, so that a bare `events` refers to them.
    async fn discover(&self) -> Vec<Served> {
        let groups = self.must("GET", "/apis", None).await;
        let mut served = Vec::new();
        for root in roots(&groups) {
            // A group may disappear between the two requests, with its last CRD.
            if let Ok(list) = self.ask("GET", &root, None).await {
                served.extend(listed(&root, &list));
            }
        }
        served
    }
}
