//! Tests the whole module against the API server in the process: after any fault, the watcher's view of the objects is correct in the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kopf_rs_apiserver::{ApiServer, Fault, Verb};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, ServiceExt as _, service_fn};

use crate::cluster::error::ClusterError;
use crate::cluster::manifest::Applied;
use crate::cluster::watch::{WatchEvent, WatchPace, Watched};
use crate::cluster::write::{Changes, Part, PatchRequest};
use crate::cluster::{Client, Cluster};
use crate::object::event::EventType;
use crate::object::key::Key;
use crate::object::patch::Patch;
use crate::object::raw::{Facts, Raw};
use crate::object::resource::Resource;

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kopfexamples.kopf.dev"},
        "spec": {
            "group": "kopf.dev", "scope": "Namespaced",
            "names": {"plural": "kopfexamples", "singular": "kopfexample", "kind": "KopfExample"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
            }]
        }
    })
}

fn example(name: &str, size: u32) -> Value {
    json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"size": size}
    })
}

fn patch(content: Value) -> Patch {
    let mut patch = Patch::new();
    patch.merge(content);
    patch
}

/// Starts a server with one kind, and a client for it.
async fn start() -> (ApiServer, Cluster, Resource) {
    let server = ApiServer::new();
    let cluster = Cluster::new(Client::new(server.service(), "default"));
    assert_eq!(cluster.apply_manifest(&definition()).await.unwrap(), Applied::Created);
    let resources = cluster.discover().await.unwrap();
    let mut kinds = resources.into_iter();
    let resource = kinds.find(|resource| resource.kind == "KopfExample").unwrap();
    (server, cluster, resource)
}

async fn create(cluster: &Cluster, resource: &Resource, name: &str) -> Raw {
    let content = example(name, 0);
    let created = cluster.create(resource, Some("default"), &content);
    created.await.unwrap()
}

/// The objects that the listener of a watch believes to exist: name and version.
#[derive(Debug, Default)]
struct Picture(BTreeMap<Key, (String, String)>);

impl Picture {
    fn take(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Object(event, raw) => {
                let facts = raw.facts();
                let key = Key::of_uid(&facts.uid);
                self.0.remove(&key);
                if event != EventType::Deleted {
                    let state = (facts.name.clone(), facts.resource_version.clone());
                    self.0.insert(key, state);
                }
            }
            WatchEvent::Synced(listed) => self.0.retain(|key, _| listed.contains(key)),
            WatchEvent::Listing(_)
            | WatchEvent::Trouble(_)
            | WatchEvent::Resumed
            | WatchEvent::Silent
            | WatchEvent::Bookmark => {}
        }
    }
}

async fn truth(cluster: &Cluster, resource: &Resource, names: &[&str]) -> BTreeMap<String, String> {
    let mut truth = BTreeMap::new();
    for name in names {
        if let Ok(raw) = cluster.get(resource, Some("default"), name).await {
            truth.insert((*name).to_owned(), raw.facts().resource_version.clone());
        }
    }
    truth
}

type Named = (&'static str, fn() -> Fault);

/// Injects every fault at every point of a watch's life, with changes before and after it.
#[tokio::test(start_paused = true)]
async fn whatever_hits_a_watch_its_listener_has_the_right_picture_in_the_end() {
    let faults: [Named; 9] = [
        ("cut", Fault::cut),
        ("cut after an event", || Fault::cut_after(1)),
        ("stall", Fault::stall),
        ("reset", Fault::reset),
        ("gone", Fault::gone),
        ("500", || Fault::answer(500)),
        ("429", || Fault::answer(429).retry_after(Duration::from_secs(3))),
        ("403", || Fault::answer(403)),
        ("dropped", Fault::drop_before),
    ];
    for (what, fault) in faults {
        for nth in 1..=3 {
            survives(&format!("{what} at watch {nth}"), fault().on(Verb::Watch).nth(nth).times(1)).await;
        }
    }
}

async fn survives(what: &str, fault: Fault) {
    let (server, cluster, resource) = start().await;
    for name in ["a", "b"] {
        create(&cluster, &resource, name).await;
    }
    let armed = server.fault(fault);
    let mut picture = Picture::default();
    let watched = Watched::new(Arc::new(resource.clone()), None, WatchPace::default());
    let mut sink = |event| picture.take(event);
    let changes = async {
        sleep(Duration::from_secs(1)).await;
        create(&cluster, &resource, "c").await;
        // Long enough for the server to end the watch once or twice by itself.
        for size in 1..=3 {
            sleep(Duration::from_secs(150)).await;
            let a = cluster.apply_manifest(&example("a", size)).await;
            assert_eq!(a.unwrap(), Applied::Configured);
        }
        let gone = kube::Api::<kube::core::DynamicObject>::namespaced_with(
            cluster.client.clone(),
            "default",
            &kube::core::ApiResource {
                group: resource.group.clone(),
                version: resource.version.clone(),
                api_version: resource.api_version(),
                kind: resource.kind.clone(),
                plural: resource.plural.clone(),
            },
        );
        gone.delete("b", &kube::api::DeleteParams::default()).await.unwrap();
        sleep(Duration::from_secs(120)).await;
    };
    let watch = cluster.watch(&watched, &mut sink);
    tokio::select! {
        never = watch => match never {},
        () = changes => {}
    }
    let truth = truth(&cluster, &resource, &["a", "b", "c"]).await;
    assert_eq!(armed.hits(), 1, "{what}");
    let seen: BTreeMap<_, _> = picture.0.into_values().collect();
    assert_eq!(seen, truth, "{what}");
    assert_eq!(truth.len(), 2);
}

/// Sends both parts of a patch once, the status first.
async fn write(
    cluster: &Cluster,
    resource: &Resource,
    facts: &Facts,
    content: Value,
) -> Vec<Result<Raw, ClusterError>> {
    let changes = Changes::Merge(Arc::new(patch(content)));
    let rest = Part::Object { with_status: false };
    let mut answers = Vec::new();
    for part in [Part::Status, rest] {
        let request = PatchRequest { resource, facts, changes: &changes, part, is_bound: false };
        if changes.has(part) {
            answers.push(cluster.patch(request, None).await);
        }
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_written_once() {
    let (server, cluster, resource) = start().await;
    let raw = create(&cluster, &resource, "a").await;
    let fault = server.fault(Fault::drop_after().on(Verb::Patch).times(1));
    let content = json!({"metadata": {"annotations": {"k": "v"}}, "status": {"n": 1}});
    let answers = write(&cluster, &resource, raw.facts(), content.clone()).await;
    assert_eq!(fault.hits(), 1);
    assert!(matches!(answers[0], Err(ClusterError::Unreachable(_))));
    let landed = answers[1].as_ref().unwrap();
    let body: Value = serde_json::from_str(landed.text()).unwrap();
    assert_eq!(body["status"]["n"], 1);
    assert_eq!(body["metadata"]["annotations"]["k"], "v");
    for again in write(&cluster, &resource, landed.facts(), content).await {
        let (again, landed) = (again.unwrap(), landed.facts());
        let (version, known) = (&again.facts().resource_version, &landed.resource_version);
        assert_eq!(version, known, "nothing has changed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_write_does_not_reach_the_next_object_of_the_name() {
    let (_server, cluster, resource) = start().await;
    let first = create(&cluster, &resource, "a").await;
    let mut late = first.facts().clone();
    late.uid = "00000000-0000-4000-8000-000000000000".to_owned();
    late.resource_version = "1".to_owned();
    let content = json!({"metadata": {"labels": {"l": "1"}}, "status": {"n": 1}});
    for refused in write(&cluster, &resource, &late, content).await {
        let error = refused.unwrap_err();
        assert!(matches!(error, ClusterError::Conflict(_) | ClusterError::OtherObject(_)), "{error}");
    }
    let state = cluster.get(&resource, Some("default"), "a").await.unwrap();
    assert_eq!(state.facts(), first.facts());
}

#[tokio::test(start_paused = true)]
async fn two_watches_of_the_same_server_live_apart() {
    let (server, cluster, resource) = start().await;
    create(&cluster, &resource, "a").await;
    let fault = server.fault(Fault::answer(503).on(Verb::Watch).plural("namespaces").times(1000));
    let namespaces = Resource { version: "v1".into(), plural: "namespaces".into(), ..Resource::default() };
    let watched = |resource| Watched::new(Arc::new(resource), None, WatchPace::default());
    let (sick, well) = (watched(namespaces), watched(resource));
    let (mut told, mut picture) = (0, Picture::default());
    let mut note = |_| told += 1;
    let mut take = |event| picture.take(event);
    let both = futures_util::future::join(cluster.watch(&sick, &mut note), cluster.watch(&well, &mut take));
    let _ = timeout(Duration::from_secs(60), both).await;
    assert!(fault.hits() > 3);
    assert_eq!(told, 1, "the trouble, once");
    assert_eq!(picture.0.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn watches_are_back_within_seconds_of_a_long_outage() {
    let (server, cluster, resource) = start().await;
    create(&cluster, &resource, "a").await;
    let ends = Instant::now() + Duration::from_secs(300);
    let service = server.service();
    let client = service_fn(move |request| {
        let service = service.clone();
        async move {
            if Instant::now() < ends {
                return Err(BoxError::from("connection refused"));
            }
            service.oneshot(request).await.map_err(BoxError::from)
        }
    });
    let cluster = Cluster::new(Client::new(client, "default"));
    let watched = Watched::new(Arc::new(resource), None, WatchPace::default());
    let follow = |_| {
        let (cluster, watched) = (cluster.clone(), watched.clone());
        async move {
            let (tell, mut told) = tokio::sync::oneshot::channel();
            let mut tell = Some(tell);
            let mut sink = |event| {
                if matches!(event, WatchEvent::Resumed)
                    && let Some(tell) = tell.take()
                {
                    tell.send(Instant::now()).unwrap();
                }
            };
            tokio::select! {
                back = &mut told => back.unwrap(),
                never = cluster.watch(&watched, &mut sink) => match never {},
            }
        }
    };
    let back = futures_util::future::join_all((0..20).map(follow)).await;
    let latest = back.into_iter().max().unwrap().duration_since(ends);
    assert!(latest < Duration::from_secs(5), "{latest:?}");
}
