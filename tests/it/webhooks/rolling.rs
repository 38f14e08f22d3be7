//! Rolling updates and new certificates of an operator with several replicas, during requests that must be denied or changed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kopf_rs::{AdmissionServer, Context, Operator, Registry, Settings, handler, handler_with};
use kopf_rs_tests::{TestCluster, say, scenarios};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{MUTATING, VALIDATING, denying, managed, object, refusal, settings};
use crate::operating::{TestOperator, Working};

scenarios! {
    no_request_passes_unchecked_while_releases_replace_each_other [real];
    // The server in the process asks by a connection for each review. On a busy machine it was shown certificates that had ended; why is not known.
    no_request_passes_unchecked_while_three_instances_replace_their_certificate [real];
}

/// The number of requests of each kind per second.
const RATE: u64 = 20;
/// The maximum number of pending requests of each kind. If they piled up on a busy machine, the API server would delay the operator's own
/// requests, so that no certificate could be replaced in time.
const PENDING: usize = 10;
/// The time for which a Service continues to route to a Pod that is no longer ready.
const NEWS: Duration = Duration::from_millis(300);

/// Allows the API server more time than usual, because it may share two cores with all other tests.
fn allow_for_a_busy_machine(settings: &mut Settings) {
    settings.admission.propagation = Duration::from_secs(4);
    settings.admission.shutdown_grace = Duration::from_secs(4);
}

/// The equivalent of a Service: it routes each connection to one of the ready instances.
pub(super) struct Service {
    pub(super) port: u16,
    ready: Arc<Mutex<Vec<u16>>>,
    _leading: JoinSet<()>,
}

impl Service {
    pub(super) async fn start(test: &TestOperator) -> Self {
        let socket = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let at = socket.local_addr().expect("an address");
        let ready: Arc<Mutex<Vec<u16>>> = Arc::default();
        let mut leading = JoinSet::new();
        leading.spawn(lead(socket, ready.clone()));
        let namespace = test.cluster.namespace();
        if let Some(server) = test.cluster.in_process() {
            server.place_service(namespace, "hooks", at);
        } else {
            // The API server resolves this name itself, so it needs no Pod network.
            let spec = json!({"type": "ExternalName", "externalName": "localhost"});
            let service =
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hooks"}, "spec": spec});
            test.cluster.create(&service).await;
        }
        Self { port: at.port(), ready, _leading: leading }
    }

    fn ready(&self) -> MutexGuard<'_, Vec<u16>> {
        self.ready.lock().expect("nobody panics with it")
    }
}

async fn lead(socket: TcpListener, ready: Arc<Mutex<Vec<u16>>>) {
    let mut connections = JoinSet::new();
    for number in 0.. {
        let (mut from, _) = socket.accept().await.expect("somebody connects");
        let ready = ready.lock().expect("nobody panics with it").clone();
        if ready.is_empty() {
            continue;
        }
        let port = ready[number % ready.len()];
        connections.spawn(async move {
            if let Ok(mut to) = TcpStream::connect(("127.0.0.1", port)).await {
                let _ = copy_bidirectional(&mut from, &mut to).await;
            }
        });
    }
}

/// A Pod of the operator.
pub(super) struct Replica {
    working: Working,
    port: u16,
}

/// Returns the handlers of a release: one is common to all releases, another one changes its name.
pub(super) fn registry(test: &TestOperator, release: usize) -> Registry {
    let id = ["colour", "with_colour"][release % 2];
    let changing = handler(id, |context: Context| async move {
        context.patch(|patch| patch["spec"]["colour"] = "blue".into());
        Ok(())
    });
    // A machine that is busy with other tests may keep a review waiting for longer than usual.
    Registry::new()
        .on_validate(test.selector(), denying().timeout(30))
        .on_mutate(test.selector(), changing.timeout(30))
}

fn in_cluster(test: &TestOperator, service: &Service, port: u16) -> Settings {
    let mut settings = settings(test);
    settings.admission.server = Some(AdmissionServer::Service {
        namespace: test.cluster.namespace().to_owned(),
        name: "hooks".to_owned(),
        port: service.port,
    });
    settings.admission.listen = Some(format!("127.0.0.1:{port}"));
    settings.admission.shutdown_grace = Duration::from_secs(1);
    settings
}

impl Replica {
    /// Starts a replica with these settings, and adds it to the Service once it is ready.
    pub(super) async fn start(
        test: &TestOperator,
        service: &Service,
        registry: Registry,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let free = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let mut settings = in_cluster(test, service, port);
        change(&mut settings);
        // Policies are cluster-wide.
        let operator = test.operator(registry).name(test.cluster.namespace());
        let operator: Operator = operator.settings(settings);
        let working = Working::start(&test.cluster, operator);
        let served = format!("Admission webhooks are served at port {port},");
        test.line(&served).await;
        sleep(NEWS).await;
        service.ready().push(port);
        Self { working, port }
    }

    /// Stops the replica as SIGTERM does; the Service notices it with a delay.
    pub(super) async fn stop(self, service: &Service) {
        let Self { working, port } = self;
        let gone = async {
            sleep(NEWS).await;
            service.ready().retain(|it| *it != port);
        };
        tokio::join!(working.stop(), gone);
    }
}

/// The results of requests.
#[derive(Default)]
struct Tally {
    right: usize,
    wrong: Vec<String>,
    /// The requests that met only instances of a release without the handler until the API server gave up, as docs/settings.md describes.
    refused: usize,
}

impl Tally {
    fn add(&mut self, answer: &Result<Value, kube::Error>, is_right: bool) {
        if is_right {
            self.right += 1;
        } else if format!("{answer:?}").contains("an instance of another release may have one") {
            self.refused += 1;
        } else {
            self.wrong.push(format!("{answer:?}"));
        }
    }
}

/// Sends requests until `stop`, and counts the answers that satisfy `is_right`.
async fn send(
    (client, path, body): (kube::Client, String, String),
    stop: Arc<AtomicBool>,
    is_right: fn(&Result<Value, kube::Error>) -> bool,
) -> Tally {
    let mut clock = interval(Duration::from_secs(1) / u32::try_from(RATE).expect("a few"));
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sent = JoinSet::new();
    let mut tally = Tally::default();
    loop {
        let ends = stop.load(Ordering::Relaxed);
        while ends || sent.len() >= PENDING {
            let Some(answer) = sent.join_next().await else {
                return tally;
            };
            let answer = answer.expect("no request panics");
            tally.add(&answer, is_right(&answer));
        }
        clock.tick().await;
        let (client, path, body) = (client.clone(), path.clone(), body.clone());
        sent.spawn(async move {
            let request =
                http::Request::post(path).header("content-type", "application/json").body(body.into_bytes());
            client.request::<Value>(request.expect("it is a request")).await
        });
    }
}

/// Returns the number of rolling updates, and of certificate rotations.
fn rollouts() -> usize {
    let said = std::env::var("KOPF_RS_ROLLOUTS").ok();
    said.map_or(2, |it| it.parse().expect("KOPF_RS_ROLLOUTS is a number"))
}

/// Requests that go on until `stop`: those that have to be denied, and those that have to be changed.
fn send_both(test: &TestOperator, stop: &Arc<AtomicBool>) -> [JoinHandle<Tally>; 2] {
    [101, 1].map(|size| {
        let (path, body) = object(test, "one", &json!({"size": size}));
        let request = (test.cluster.client(), format!("{path}?dryRun=All"), body.to_string());
        let is_right: fn(&Result<Value, kube::Error>) -> bool = if size > 100 {
            |answer| matches!(answer, Err(kube::Error::Api(it)) if it.message.contains("must be at most 100"))
        } else {
            |answer| answer.as_ref().is_ok_and(|it| it["spec"]["colour"] == "blue")
        };
        tokio::spawn(send(request, stop.clone(), is_right))
    })
}

/// Each of them was denied or changed: so many of either at least.
async fn assert_checked(during: &str, [denied, changed]: [JoinHandle<Tally>; 2]) -> usize {
    let (denied, changed) = (denied.await.expect("it counts"), changed.await.expect("it counts"));
    say(&format!(
        "{during}: {} requests denied, {} otherwise; {} changed, {} otherwise; {} refused",
        denied.right,
        denied.wrong.len(),
        changed.right,
        changed.wrong.len(),
        denied.refused + changed.refused,
    ));
    assert_eq!(denied.wrong, [""; 0]);
    assert_eq!(changed.wrong, [""; 0]);
    // Only a machine that is busy with other tests lets a request miss the right instance for ten seconds.
    assert!((denied.refused + changed.refused) * 50 <= denied.right + changed.right);
    denied.right.min(changed.right)
}

async fn no_request_passes_unchecked_while_releases_replace_each_other(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let service = Service::start(&test).await;
    let start = |release| {
        let registry = registry(&test, release);
        Replica::start(&test, &service, registry, allow_for_a_busy_machine)
    };
    let mut replicas = vec![start(0).await, start(0).await];
    refusal(&test, &json!({"size": 101})).await;
    let stop = Arc::new(AtomicBool::new(false));
    let sending = send_both(&test, &stop);
    for update in 1..=rollouts() {
        let former = std::mem::take(&mut replicas);
        for old in former {
            replicas.push(start(update).await);
            old.stop(&service).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let during = format!("{} rolling updates", rollouts());
    let least = assert_checked(&during, sending).await;
    assert!(least > usize::try_from(RATE).expect("a few") * rollouts());
    end(&test, &service, replicas).await;
}

async fn end(test: &TestOperator, service: &Service, replicas: Vec<Replica>) {
    for replica in replicas {
        replica.stop(service).await;
    }
    for kind in [VALIDATING, MUTATING] {
        test.cluster.delete(kind, &managed(test)).await;
    }
}

/// They share a Lease, too: those that stand by answer as well.
async fn no_request_passes_unchecked_while_three_instances_replace_their_certificate(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let service = Service::start(&test).await;
    let answered: [Arc<AtomicUsize>; 3] = Default::default();
    let mut replicas = Vec::new();
    for count in &answered {
        // Several reviews are under way at any time.
        let slow = handler_with("slow", count.clone(), async |_, count| {
            sleep(Duration::from_millis(100)).await;
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        let registry = registry(&test, 0)
            .on_mutate(test.selector(), slow)
            .on_create(test.selector(), test.noting("create_fn"));
        let sharing = |settings: &mut Settings| {
            allow_for_a_busy_machine(settings);
            settings.admission.certificate_life = Duration::from_secs(45);
            settings.lease.enabled = true;
            settings.lease.namespace = Some(test.cluster.namespace().to_owned());
        };
        replicas.push(Replica::start(&test, &service, registry, sharing).await);
    }
    refusal(&test, &json!({"size": 101})).await;
    let stop = Arc::new(AtomicBool::new(false));
    let sending = send_both(&test, &stop);
    let served = format!("Certificate number {} is served", rollouts() + 1);
    let lines = test.cluster.lines();
    while lines.count(|it| it.contains(&served)) < replicas.len() {
        sleep(Duration::from_millis(100)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let during = format!("{} new certificates", rollouts());
    assert_checked(&during, sending).await;
    let answered = answered.map(|it| it.load(Ordering::Relaxed));
    assert!(answered.iter().all(|it| *it > 0), "{answered:?}");
    end(&test, &service, replicas).await;
}
