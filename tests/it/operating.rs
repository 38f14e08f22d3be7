//! An operator on a cluster: a test-specific kind, handlers that record their calls, start, stop and kill.

pub(crate) mod in_status;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use kopf_rs::testing::Calls;
use kopf_rs::{Callback, Client, Context, HandlerResult, Operator, OperatorError, Registry, Report, handler};
use kopf_rs_tests::{Lines, Server, TestCluster};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// The plural of the kind in most scenarios.
pub(crate) const KIND: &str = "kopfexamples";

/// The name of the operators in these tests: they store their state under `tester.kopf.rs`.
pub(crate) const NAME: &str = "tester";

/// A cluster that serves [`KIND`] in a test-specific API group.
pub(crate) struct TestOperator {
    pub(crate) cluster: TestCluster,
    pub(crate) group: String,
    pub(crate) calls: Calls,
}

impl TestOperator {
    pub(crate) async fn of(cluster: TestCluster) -> Self {
        let test = Self::bare(cluster);
        test.serve().await;
        test
    }

    /// Creates a cluster that does not serve the kind yet.
    pub(crate) fn bare(cluster: TestCluster) -> Self {
        Self {
            group: format!("{}.kopf.dev", cluster.namespace()),
            calls: Calls::new(cluster.lines()),
            cluster,
        }
    }

    /// Makes the cluster serve the kind.
    pub(crate) async fn serve(&self) {
        let crd = definition(&self.group);
        self.cluster.apply(&crd.to_string()).await;
    }

    /// Makes the cluster serve the kind with a status that accepts only numbers.
    pub(crate) async fn serve_strictly(&self) {
        let mut crd = definition(&self.group);
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["status"] =
            json!({"type": "object", "additionalProperties": {"type": "integer"}});
        self.cluster.apply(&crd.to_string()).await;
    }

    /// Returns the full name of the kind, which is unique in a shared cluster.
    pub(crate) fn kind(&self) -> String {
        format!("{KIND}.{}", self.group)
    }

    /// Returns the selector of the kind for handlers.
    pub(crate) fn selector(&self) -> (&str, &'static str, &'static str) {
        (&self.group, "v1", KIND)
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) -> Value {
        let api_version = format!("{}/v1", self.group);
        let object = json!({"apiVersion": api_version, "kind": "KopfExample", "metadata": {"name": name}, "spec": spec});
        self.cluster.create(&object).await
    }

    pub(crate) async fn patch(&self, name: &str, merge: Value) -> Value {
        self.cluster.patch(&self.kind(), name, &merge).await
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.cluster.delete(&self.kind(), name).await;
    }

    pub(crate) async fn get(&self, name: &str) -> Value {
        let found = self.cluster.get(&self.kind(), name).await;
        found.unwrap_or_else(|| panic!("{name} is not there"))
    }

    pub(crate) async fn until(&self, what: &str, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let there = |object: Option<&Value>| object.is_some_and(&condition);
        self.cluster.until(what, &self.kind(), name, there).await
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        let gone = |object: Option<&Value>| object.is_none();
        self.cluster.until("it is gone", &self.kind(), name, gone).await;
    }

    /// Waits for a line that contains `text`, and returns it.
    pub(crate) async fn line(&self, text: &str) -> String {
        self.cluster.lines().until(text, |line| line.contains(text)).await
    }

    /// Waits until this call is recorded.
    pub(crate) async fn calls_until(&self, call: &str) {
        let mut count = 1;
        loop {
            let calls = self.calls.until(count).await;
            if calls.iter().any(|it| it == call) {
                return;
            }
            count = calls.len() + 1;
        }
    }

    /// Returns the number of operators' writes to the object, as far as the server has logged them.
    pub(crate) async fn writes(&self, name: &str) -> usize {
        self.cluster.writes_to(&self.kind(), name).await.len()
    }

    /// Asserts the number of operators' writes to the object.
    pub(crate) async fn assert_writes(&self, name: &str, expected: usize) {
        let kind = self.kind();
        self.cluster.assert_writes_to(&kind, name, expected).await;
    }

    /// Returns the number of operators' writes to the object, after the server has logged all of them.
    pub(crate) async fn all_writes(&self, name: &str) -> usize {
        self.logged().await;
        self.writes(name).await
    }

    /// Wait until the server's log has all that was asked until now.
    pub(crate) async fn logged(&self) {
        let marker = format!("/api/v1/namespaces/{}/configmaps/until-here", self.cluster.namespace());
        let shown = || self.cluster.asked_about(&marker).len();
        let before = shown();
        let asked = http::Request::get(&marker).body(Vec::new());
        let asked = asked.expect("a valid request");
        let answer = self.cluster.client().request::<Value>(asked).await;
        assert!(answer.is_err(), "nobody makes {marker}");
        let mut pulse = tokio::time::interval(Duration::from_millis(100));
        for _ in 0..300 {
            pulse.tick().await;
            if shown() > before {
                return;
            }
        }
        panic!("the server's log does not show {marker}");
    }

    /// Waits for an event that should not happen: the whole time in memory, where it is virtual, and three seconds elsewhere.
    pub(crate) async fn nothing_more(&self, time: Duration) {
        let is_virtual = self.cluster.server() == Server::Memory;
        let most = if is_virtual { Duration::MAX } else { Duration::from_secs(3) };
        tokio::time::sleep(time.min(most)).await;
    }

    /// Returns a handler that records its calls as `id name` and succeeds.
    pub(crate) fn noting(&self, id: &str) -> Callback {
        self.handler(id, |_| async { Ok(Value::Null) })
    }

    /// Returns a handler that records its calls as `id name` before it runs the function.
    pub(crate) fn handler<F, R>(&self, id: &str, function: F) -> Callback
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult<Value>> + Send + 'static,
    {
        let (calls, owned) = (self.calls.clone(), id.to_owned());
        handler(id, move |context: Context| {
            calls.note(format!("{owned} {}", context.name()));
            function(context)
        })
    }

    /// Does the same as [`Self::noting`] with a handler that waits at the gate.
    pub(crate) fn waiting(&self, id: &str, gate: &Gate) -> Callback {
        self.waiting_with(id, gate, Value::Null)
    }

    /// Does the same as [`Self::waiting`] with a handler that then returns this result.
    pub(crate) fn waiting_with(&self, id: &str, gate: &Gate, result: Value) -> Callback {
        let held = gate.clone();
        self.handler(id, move |_| {
            let (gate, result) = (held.clone(), result.clone());
            async move {
                gate.pass().await;
                Ok(result)
            }
        })
    }

    /// Starts an operator with these handlers for the cluster's namespace.
    pub(crate) fn start(&self, registry: Registry) -> Working {
        Working::start(&self.cluster, self.operator(registry))
    }

    pub(crate) fn operator(&self, registry: Registry) -> Operator {
        let operator = Operator::new(registry).name(NAME);
        operator.namespaces([self.cluster.namespace()])
    }
}

/// Returns the definition of [`KIND`] in `group` with these versions: name, whether it is served, whether it is stored.
pub(crate) fn definition_of_versions(group: &str, versions: &[(&str, bool, bool)]) -> Value {
    let mut crd = definition(group);
    let like = crd["spec"]["versions"][0].take();
    let versions = versions.iter().map(|(name, served, storage)| {
        let mut version = like.clone();
        version["name"] = json!(name);
        version["served"] = json!(served);
        version["storage"] = json!(storage);
        version
    });
    crd["spec"]["versions"] = versions.collect();
    crd
}

/// Returns the definition of [`KIND`] in `group`.
pub(crate) fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{KIND}.{}", group)},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": KIND, "singular": "kopfexample", "kind": "KopfExample", "shortNames": ["kex"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"size": {"type": "integer"}}},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    })
}

/// Returns whether an operator has handled the object.
pub(crate) fn is_handled(object: &Value) -> bool {
    last_handled(object).is_some()
}

/// Returns the essence handled last, as stored on the object.
pub(crate) fn last_handled(object: &Value) -> Option<Value> {
    let text = object["metadata"]["annotations"]["tester.kopf.rs/last-handled-configuration"].as_str()?;
    Some(serde_json::from_str(text).unwrap_or_else(|_| json!(text)))
}

/// Blocks handlers until it is opened. Clones share its state.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn closed() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets this number of handlers pass, now or later.
    pub(crate) fn open(&self, passes: usize) {
        self.0.add_permits(passes);
    }

    /// Waits for permission to pass.
    pub(crate) async fn pass(&self) {
        let pass = self.0.acquire().await;
        pass.expect("a gate is never torn down").forget();
    }
}

/// An operator that runs as a task.
pub(crate) struct Working(kopf_rs::testing::TestOperator);

impl Working {
    pub(crate) fn start(cluster: &TestCluster, operator: Operator) -> Self {
        Self::start_as(cluster.client(), operator)
    }

    pub(crate) fn start_as(client: Client, operator: Operator) -> Self {
        let lines = Lines::new(Duration::from_secs(3600));
        Self(kopf_rs::testing::TestOperator::start(client, operator, lines))
    }

    /// Stops it gracefully.
    pub(crate) async fn stop(self) -> Report {
        self.0.stop().await
    }

    /// Waits until it ends by itself.
    pub(crate) async fn end(self) -> Result<Report, OperatorError> {
        self.0.end().await
    }

    /// Ends it as SIGKILL would: nothing is finished or written.
    pub(crate) async fn kill(self) {
        self.0.kill().await;
    }
}
