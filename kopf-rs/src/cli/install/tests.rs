//! Installations, upgrades and removals on the server in this process, which simulates Deployments and Pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use kopf_rs_apiserver::{ApiServer, User, WorkloadOptions};
use kopf_rs_flags::installing::InstallingFlags;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::Service as _;

use super::*;
use crate::cluster::{Client, Cluster};
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::object::resource::Resource;
use crate::operator::installation::kinds;
use crate::operator::run::Operator;
use crate::operator::run::footprint::Footprint;
use crate::operator::run::manifests::Install;
use crate::operator::settings::Settings;

mod limits;

/// The result of a command: its lines, and its error.
struct Ended {
    lines: Vec<String>,
    error: Option<String>,
}

impl Ended {
    /// Asserts that the command has succeeded, and has printed these lines in this order.
    #[track_caller]
    fn with(&self, lines: &[&str]) {
        assert_eq!(self.error, None, "{:#?}", self.lines);
        let mut left = self.lines.iter();
        for line in lines {
            assert!(left.any(|it| it == line), "not said in this order: {line}\n{:#?}", self.lines);
        }
    }

    /// Asserts that the command has failed, with all of these texts in the message.
    #[track_caller]
    fn failed(&self, texts: &[&str]) {
        let error = self.error.as_deref().unwrap_or_default();
        for text in texts {
            assert!(error.contains(text), "not said: {text}\n{error}\n{:#?}", self.lines);
        }
    }
}

/// A side of a request.
#[derive(Clone, Copy, Debug)]
enum Side {
    Before,
    After,
}

const DEMOS: &str = "/apis/example.com/v1/namespaces/default/demos";

fn server() -> ApiServer {
    let server = ApiServer::new();
    server.workloads(WorkloadOptions::new());
    server
}

fn client(server: &ApiServer) -> Client {
    Client::new(server.service(), "default")
}

fn operator() -> Operator {
    let finish = handler("finish", |_| async { Ok(()) });
    let registry = Registry::new()
        .on_delete("demos.example.com", finish)
        .reconcile("demos.example.com", handler("keep", |_| async { Ok(()) }).owns("configmaps"));
    let settings = Settings::with(|settings| settings.peering.standalone = true);
    Operator::new(registry).name("op").settings(settings)
}

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "demos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "demos", "singular": "demo", "kind": "Demo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

/// A webhook configuration that refuses all changes of Demos, because nobody answers.
fn webhooks() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "op.kopf.rs"},
        "webhooks": [{
            "name": "check.op.kopf.rs", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "op", "name": "op"}},
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["demos"]}],
        }],
    })
}

/// Returns the printed manifests with this image.
async fn manifests(image: &str) -> Vec<Value> {
    manifests_in(None, image).await
}

async fn manifests_in(namespace: Option<&str>, image: &str) -> Vec<Value> {
    let kinds = client(&ApiServer::new());
    Cluster::new(kinds.clone()).apply_manifest(&definition()).await.unwrap();
    let install = Install {
        namespace: namespace.map(str::to_owned),
        image: Some(image.to_owned()),
        definitions: vec![definition()],
        ..Install::default()
    };
    operator().manifests(kinds, install).await.unwrap().objects
}

/// Runs a task with its lines collected.
async fn collected(client: Client, patience: u64, task: impl AsyncFnOnce(&Site<'_>) -> site::Done) -> Ended {
    let lines = Mutex::new(Vec::new());
    let say = |line: &str| lines.lock().push(line.to_owned());
    let site = Site::new(client, &say, Duration::from_secs(patience)).await.unwrap();
    let error = task(&site).await.err().map(|error| error.to_string());
    drop(site);
    Ended { lines: lines.into_inner(), error }
}

const NONE: InstallingFlags = InstallingFlags {
    install: false,
    upgrade: false,
    uninstall: false,
    dry_run: false,
    adopt: false,
    delete_objects: false,
    remove_finalizers: false,
    crds: false,
};
const INSTALL: InstallingFlags = InstallingFlags { install: true, ..NONE };
const UPGRADE: InstallingFlags = InstallingFlags { upgrade: true, ..NONE };
const UNINSTALL: InstallingFlags = InstallingFlags { uninstall: true, ..NONE };
const UNINSTALL_ALL: InstallingFlags =
    InstallingFlags { delete_objects: true, remove_finalizers: true, crds: true, ..UNINSTALL };

async fn apply(client: Client, flags: InstallingFlags, objects: &[Value]) -> Ended {
    collected(client, 60, async |site| applying::apply(site, "op", flags, objects.to_vec()).await).await
}

async fn remove(client: Client, flags: InstallingFlags) -> Ended {
    let footprint = operator().footprint(client.clone()).await.unwrap();
    remove_in(client, None, flags, footprint).await
}

async fn remove_in(
    client: Client,
    namespace: Option<&str>,
    flags: InstallingFlags,
    footprint: Footprint,
) -> Ended {
    collected(client, 60, async |site| removing::remove(site, &footprint, flags, namespace).await).await
}

/// Sends a request as the administrator.
async fn ask(server: &ApiServer, method: Method, path: &str, body: &Value) -> Value {
    let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", content);
    let request = request.body(body.to_string().into_bytes()).unwrap();
    client(server).request(request).await.unwrap()
}

/// Creates an object with the finalizer of the operator.
async fn create_demo(server: &ApiServer, name: &str) {
    let demo = json!({
        "apiVersion": "example.com/v1", "kind": "Demo",
        "metadata": {"name": name, "finalizers": ["op.kopf.rs/finalizer"]},
    });
    ask(server, Method::POST, DEMOS, &demo).await;
}

/// Returns all objects of the kinds of installations by their paths, without what depends on times and attempts.
async fn state(server: &ApiServer) -> BTreeMap<String, Value> {
    let cluster = Cluster::new(client(server));
    let resources = cluster.discover().await.unwrap();
    let demos = resources.iter().find(|it| it.plural == "demos").cloned();
    let leases = Resource::built_in("coordination.k8s.io", "Lease", true);
    let mut all = BTreeMap::new();
    for kind in kinds(&resources, &[]).into_iter().chain(demos).chain([leases]) {
        for object in cluster.list_pages(&kind, None, "", false).await.unwrap() {
            let metadata = &object["metadata"];
            let key = format!("{kind} {} {}", metadata["namespace"], metadata["name"]);
            let mut object = crate::operator::installation::comparable(&object);
            object["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = Value::Null;
            all.insert(key, object);
        }
    }
    all
}

/// Returns a client that stops to answer before or after the nth write, and then notifies.
fn dying(server: &ApiServer, nth: usize, side: Side, died: &Arc<Notify>) -> Client {
    let (count, service, died) = (Arc::new(AtomicUsize::new(0)), server.service(), died.clone());
    let service = tower::service_fn(move |request: http::Request<_>| {
        let is_write =
            *request.method() != Method::GET && !request.uri().path().ends_with("/selfsubjectaccessreviews");
        let is_dry = request.uri().query().is_some_and(|it| it.contains("dryRun"));
        let number = if is_write && !is_dry { count.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
        let (mut service, died) = (service.clone(), died.clone());
        async move {
            if number > nth || number == nth && matches!(side, Side::Before) {
                died.notify_one();
                std::future::pending::<()>().await;
            }
            let answer = service.call(request).await;
            if number == nth {
                died.notify_one();
                std::future::pending::<()>().await;
            }
            answer
        }
    });
    Client::new(service, "default")
}

/// Kills a command before and after each of its writes, and repeats it. The final state is always that of a command without interruption.
async fn kill_around_each_write(
    prepared: impl AsyncFn() -> ApiServer,
    command: impl AsyncFn(Client) -> Ended,
    least: usize,
) {
    let server = prepared().await;
    let ended = command(client(&server)).await;
    assert_eq!(ended.error, None);
    let expected = state(&server).await;
    for side in [Side::Before, Side::After] {
        let mut deaths = 0;
        for nth in 1.. {
            let server = prepared().await;
            let died = Arc::new(Notify::new());
            let is_complete = tokio::select! {
                biased;
                () = died.notified() => false,
                ended = command(dying(&server, nth, side, &died)) => ended.error.is_none(),
            };
            if is_complete {
                break;
            }
            deaths += 1;
            let again = command(client(&server)).await;
            assert_eq!(again.error, None, "killed {side:?} write {nth}: {:#?}", again.lines);
            let after = state(&server).await;
            assert_eq!(after, expected, "killed {side:?} write {nth}");
        }
        assert!(deaths >= least, "{deaths} kills");
    }
}

#[tokio::test(start_paused = true)]
async fn an_installation_is_applied_in_order_and_awaited() {
    let server = server();
    let objects = manifests("op:1").await;
    let installed = apply(client(&server), INSTALL, &objects).await;
    installed.with(&[
        "customresourcedefinition.apiextensions.k8s.io/demos.example.com created",
        "namespace/op created",
        "serviceaccount/op created",
        "clusterrole.rbac.authorization.k8s.io/op.op created",
        "deployment.apps/op created",
        "waiting for deployment.apps/op: 0 of 1 Pods are available",
        "deployment.apps/op is rolled out",
        "The operator op is installed in the namespace op.",
    ]);
    let before = state(&server).await;
    let again = apply(client(&server), INSTALL, &objects).await;
    again.with(&["The operator op is installed in the namespace op, and up to date."]);
    let newer = manifests("op:2").await;
    let refused = apply(client(&server), INSTALL, &newer).await;
    refused.failed(&["is already installed in the namespace op", "1 objects differ", "Use `upgrade`"]);
    let dry = InstallingFlags { dry_run: true, ..UPGRADE };
    let shown = apply(client(&server), dry, &newer).await;
    shown.with(&[]);
    assert_eq!(shown.lines.len(), 1, "{:#?}", shown.lines);
    let diff = &shown.lines[0];
    assert!(diff.starts_with("--- cluster/deployment.apps/op\n+++ wanted/deployment.apps/op\n@@"), "{diff}");
    let [old, new] =
        ["-", "+"].map(|sign| diff.lines().find(|it| it.starts_with(sign) && it.contains("image: ")));
    assert!(
        old.is_some_and(|it| it.ends_with("op:1")) && new.is_some_and(|it| it.ends_with("op:2")),
        "{diff}"
    );
    assert_eq!(state(&server).await, before);
    let upgraded = apply(client(&server), UPGRADE, &newer).await;
    upgraded.with(&[
        "serviceaccount/op unchanged",
        "deployment.apps/op configured",
        "deployment.apps/op is rolled out",
    ]);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_removes_what_the_new_version_does_not_need() {
    let server = server();
    let mut objects = manifests("op:1").await;
    let absent = apply(client(&server), UPGRADE, &objects).await;
    absent.failed(&["not installed in the namespace op", "upgrade --install"]);
    let kept = definition().to_string().replace("demo", "gadget").replace("Demo", "Gadget");
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old", "namespace": "op"}});
    let older: Vec<Value> = [vec![kept], objects.clone(), vec![map, webhooks()]].concat();
    apply(client(&server), InstallingFlags { install: true, ..UPGRADE }, &older)
        .await
        .with(&["configmap/old created"]);
    objects.retain(|it| it["kind"] != "CustomResourceDefinition");
    let upgraded = apply(client(&server), UPGRADE, &objects).await;
    upgraded.with(&[
        "validatingwebhookconfiguration.admissionregistration.k8s.io/op.kopf.rs deleted",
        "deployment.apps/op is rolled out",
        "configmap/old deleted",
        "customresourcedefinition.apiextensions.k8s.io/gadgets.example.com is not part of this version. It is kept, because its removal would \
         delete other objects with it",
    ]);
    let state = state(&server).await;
    let definitions = state.keys().filter(|it| it.starts_with("customresourcedefinitions")).count();
    assert_eq!(definitions, 2);
}

#[tokio::test(start_paused = true)]
async fn objects_of_others_are_not_taken_over() {
    let server = server();
    let objects = manifests("op:1").await;
    let account = objects.iter().find(|it| it["kind"] == "ServiceAccount").unwrap();
    let namespace = json!({"metadata": {"name": "op"}});
    ask(&server, Method::POST, "/api/v1/namespaces", &namespace).await;
    ask(&server, Method::POST, "/api/v1/namespaces/op/serviceaccounts", account).await;
    let before = state(&server).await;
    let refused = apply(client(&server), INSTALL, &objects).await;
    refused.failed(&["serviceaccount/op", "op.kopf.rs/installed-in=op", "--adopt"]);
    assert_eq!(state(&server).await, before);
    let adopted = apply(client(&server), InstallingFlags { adopt: true, ..INSTALL }, &objects).await;
    adopted.with(&["serviceaccount/op configured", "deployment.apps/op is rolled out"]);
}

#[tokio::test(start_paused = true)]
async fn missing_permissions_are_named_before_anything_is_applied() {
    let server = server();
    let objects = manifests("op:1").await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = |verbs: &[&str]| json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]);
    let half = json!({"metadata": {"name": "half"}, "rules": rules(&["get", "list", "patch"])});
    let path = format!("{rbac}/clusterroles");
    ask(&server, Method::POST, &path, &half).await;
    let binding = json!({
        "metadata": {"name": "half"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "half"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    });
    ask(&server, Method::POST, &format!("{rbac}/clusterrolebindings"), &binding).await;
    let ann = || Client::new(server.service().as_user(User::new("ann")), "default");
    let refused = apply(ann(), INSTALL, &objects).await;
    refused.failed(&[
        "nothing has been changed",
        "create customresourcedefinitions.apiextensions.k8s.io",
        "create deployments.apps in the namespace op",
    ]);
    assert!(!refused.error.unwrap_or_default().contains("patch "));
    // Everything that the installation needs, but not the right to watch, which the roles of the operator grant.
    let more = json!({"rules": rules(&["get", "list", "patch", "create", "bind"])});
    ask(&server, Method::PATCH, &format!("{path}/half"), &more).await;
    let before = state(&server).await;
    let refused = apply(ann(), INSTALL, &objects).await;
    refused.failed(&[
        "clusterrole.rbac.authorization.k8s.io/op.op would be refused",
        "nothing has been changed",
        "escalate",
    ]);
    assert_eq!(state(&server).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_start_is_explained() {
    let server = server();
    let objects = manifests("missing:1").await;
    let failed = apply(client(&server), INSTALL, &objects).await;
    failed.failed(&[
        "still waiting after 60 seconds (--timeout) for deployment.apps/op: ",
        "pod/op-",
        "container operator: ",
        "logs deployment/op",
    ]);
    let objects = manifests("op:1").await;
    apply(client(&server), INSTALL, &objects).await.with(&["deployment.apps/op is rolled out"]);
}

#[tokio::test(start_paused = true)]
async fn a_removal_ends_no_conversion_of_another_operator() {
    const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/demos.example.com";
    // The Service of the operator is gone, maybe with its namespace.
    for (service, strategy) in [("other", "Webhook"), ("op", "None")] {
        let server = server();
        apply(client(&server), INSTALL, &manifests("op:1").await).await.with(&[]);
        let other = json!({"metadata": {"name": "other"}, "spec": {"ports": [{"port": 443}]}});
        ask(&server, Method::POST, "/api/v1/namespaces/op/services", &other).await;
        let webhook = json!({
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "op", "name": service, "path": "/convert"}},
        });
        let converted = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}});
        ask(&server, Method::PATCH, DEFINITION, &converted).await;
        remove(client(&server), UNINSTALL).await.with(&["The operator op is removed from the namespace op."]);
        let left = ask(&server, Method::GET, DEFINITION, &json!({})).await;
        assert_eq!(left["spec"]["conversion"]["strategy"], strategy, "{service}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_keeps_definitions_and_objects() {
    let server = server();
    let objects = [manifests("op:1").await, vec![webhooks()]].concat();
    let lines = ["The operator op is not installed."];
    for dry_run in [true, false] {
        remove(client(&server), InstallingFlags { dry_run, ..UNINSTALL }).await.with(&lines);
    }
    let before = state(&server).await;
    apply(client(&server), INSTALL, &objects[..objects.len() - 1]).await.with(&[]);
    create_demo(&server, "a").await;
    apply(client(&server), UPGRADE, &objects).await.with(&[]);
    let installed = state(&server).await;
    let shown = remove(client(&server), InstallingFlags { dry_run: true, ..UNINSTALL }).await;
    shown.with(&[
        "deployment.apps/op would be deleted",
        "kept: 1 objects of the operator's kinds: demo.example.com/a (namespace default). --delete-objects deletes them",
        "kept: customresourcedefinition.apiextensions.k8s.io/demos.example.com. --crds removes definitions",
        "kept: namespace/op, which may contain objects of others. `kubectl delete namespace op` removes it",
    ]);
    assert_eq!(state(&server).await, installed);
    let refused = remove(client(&server), InstallingFlags { crds: true, ..UNINSTALL }).await;
    refused.failed(&["--crds would delete 1 objects", "demo.example.com/a", "--delete-objects"]);
    assert_eq!(state(&server).await, installed);
    let removed = remove(client(&server), UNINSTALL).await;
    removed.with(&[
        "validatingwebhookconfiguration.admissionregistration.k8s.io/op.kopf.rs deleted",
        "deployment.apps/op deleted",
        "waiting for 1 Pods to end",
        "clusterrole.rbac.authorization.k8s.io/op.op deleted",
        "serviceaccount/op deleted",
        "kept: 1 objects of the operator's kinds: demo.example.com/a (namespace default). --delete-objects deletes them",
        "The operator op is removed from the namespace op.",
    ]);
    assert!(removed.lines.iter().any(|it| it.contains("--remove-finalizers removes op.kopf.rs/finalizer")));
    let rest: Vec<_> = state(&server).await.into_keys().filter(|it| !before.contains_key(it)).collect();
    let is_kept = |it: &String| {
        [
            "customresource",
            "demos",
            "namespaces",
            "serviceaccounts.v1 \"op\" \"default\"",
            "configmaps.v1 \"op\" \"kube-root",
        ]
        .iter()
        .any(|kept| it.starts_with(kept))
    };
    assert!(rest.iter().all(is_kept), "{rest:#?}");
    // The operator is down.
    let refused = remove(client(&server), InstallingFlags { delete_objects: true, ..UNINSTALL }).await;
    refused.failed(&[
        "1 objects have the finalizer op.kopf.rs/finalizer",
        "does not run",
        "--remove-finalizers",
    ]);
    remove(client(&server), UNINSTALL_ALL)
        .await
        .with(&["demo.example.com/a (namespace default) lost its finalizer"]);
    let rest: Vec<_> = state(&server).await.into_keys().filter(|it| it.contains("example.com")).collect();
    assert!(rest.is_empty(), "{rest:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_running_operator_finishes_the_deletions() {
    let server = server();
    apply(client(&server), INSTALL, &manifests("op:1").await).await.with(&[]);
    create_demo(&server, "a").await;
    ask(&server, Method::DELETE, &format!("{DEMOS}/a"), &json!({})).await;
    let waited = remove(client(&server), UNINSTALL).await;
    waited.failed(&[
        "still waiting after 60 seconds (--timeout) for the operator to finish the deletion of 1 objects: demo.example.com/a",
        "The operator still runs",
    ]);
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let running = operator().run(client(&server), async move { stopped.notified().await });
    let running = tokio::spawn(running);
    create_demo(&server, "b").await;
    let all = InstallingFlags { delete_objects: true, crds: true, ..UNINSTALL };
    let removed = remove(client(&server), all).await;
    removed.with(&[
        "demo.example.com/b (namespace default) deleted",
        "deployment.apps/op deleted",
        "customresourcedefinition.apiextensions.k8s.io/demos.example.com deleted",
    ]);
    stop.notify_one();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_killed_installation_continues() {
    let objects = manifests("op:1").await;
    let install = async |client: Client| apply(client, INSTALL, &objects).await;
    kill_around_each_write(async || server(), install, objects.len()).await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_upgrade_continues() {
    let objects = manifests("op:1").await;
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "op"}});
    let older = [objects, vec![map("old"), webhooks()]].concat();
    let newer = [manifests("op:2").await, vec![map("new")]].concat();
    let prepared = async || {
        let server = server();
        apply(client(&server), INSTALL, &older).await.with(&[]);
        server
    };
    let upgrade = async |client: Client| apply(client, UPGRADE, &newer).await;
    kill_around_each_write(prepared, upgrade, newer.len()).await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_removal_continues() {
    let objects = manifests("op:1").await;
    let prepared = async || {
        let server = server();
        apply(client(&server), INSTALL, &objects).await.with(&[]);
        for name in ["a", "b"] {
            create_demo(&server, name).await;
        }
        apply(client(&server), UPGRADE, &[objects.clone(), vec![webhooks()]].concat()).await.with(&[]);
        // The Deployment is stopped, so that no operator handles deletions.
        let stop = json!({"spec": {"replicas": 0}});
        ask(&server, Method::PATCH, "/apis/apps/v1/namespaces/op/deployments/op", &stop).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        server
    };
    let remove_all = async |client: Client| remove(client, UNINSTALL_ALL).await;
    kill_around_each_write(prepared, remove_all, objects.len()).await;
}
